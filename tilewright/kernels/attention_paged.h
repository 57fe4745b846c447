// Attention (kernels/attention.h) over a cache in pages, found through a table per sequence
// (PagedAttention, arXiv:2309.06180). Sequences may be at any stage: a prompt, a piece of one, or a
// single query.
//
// Decode reads the cache where it lies when keys are contiguous along the page (stride 1 over
// page_size, a multiple of 16) and values along Dv; other layouts are copied block by block.
#pragma once

#include "tilewright/kernels/attention.h"

namespace tw::kernels {

template <class T, class U>
struct AttentionPaged {
  static constexpr int kGpuRegisters = 128;

  View<const T, 3> q;                   // [N, Hq, D]
  View<const U, 4> k_pages;             // [pages, page_size, H, D]
  View<const U, 4> v_pages;             // [pages, page_size, H, Dv]
  View<const int32_t, 2> block_table;   // [B, W], page of keys [i * page_size, ...) of a sequence
  View<const int32_t, 1> kv_lens;       // [B]
  View<const int32_t, 1> cu_seqlens_q;  // [B + 1], or no data: N / B queries each
  View<const float, 1> sinks;           // [Hq], or no data
  View<const float, 3> k_scale;         // [pages, page_size, H], or no data: 1
  View<const float, 3> v_scale;         // [pages, page_size, H], or no data: 1
  View<const float, 1> alibi_slopes;    // [Hq], or no data: 0
  float scale;                          // 0: 1 / sqrt(D)
  bool causal;
  int64_t window_left, window_right;  // < 0: unlimited
  float softcap;                      // 0: none
  ScoreMod score_mod;                 // or empty
  MaskMod mask_mod;                   // or empty
  View<const float, 1> mod_f32;       // [F], what they read, or no data
  View<const int32_t, 1> mod_i32;     // [I], or no data
  View<T, 3> out;                     // [N, Hq, Dv]
  View<float, 2> lse;                 // [Hq, N], or no data

  TW_INLINE AttentionShape shape() const {
    return {q.size(1), k_pages.size(2), q.size(2), v_pages.size(3)};
  }
  TW_INLINE AttentionOptions options() const {
    return {sinks,        scale,   causal,       window_left,
            window_right, softcap, alibi_slopes, {score_mod, mask_mod, mod_f32, mod_i32}};
  }
  TW_INLINE SequenceLengths lengths() const {
    const int64_t sequences = kv_lens.size(0);
    return {sequences, sequences > 0 ? q.size(0) / sequences : 0, 0, cu_seqlens_q, {}, kv_lens};
  }

  TW_INLINE AttentionSequence<T, U> sequence(int64_t b) const {
    auto here = packed_sequence<T, U>(*this, b);
    const View<const int32_t, 1> table = block_table[b];
    here.k = key_source(k_pages, table);
    here.v = key_source(v_pages, table);
    if (k_scale) here.k_scale = key_source(k_scale, table);
    if (v_scale) here.v_scale = key_source(v_scale, table);
    return here;
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return plan_attention<T, U, P>(*this, machine);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    run_attention<T, U>(p, *this);
  }
};

}  // namespace tw::kernels
