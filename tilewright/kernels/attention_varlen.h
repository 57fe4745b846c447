// Attention (kernels/attention.h) over sequences of different lengths, one after the other in one
// tensor without padding.
#pragma once

#include "tilewright/kernels/attention.h"

namespace tw::kernels {

template <class T, class U>
struct AttentionVarlen {
  static constexpr int kGpuRegisters = 128;

  View<const T, 3> q;                    // [N, Hq, D]
  View<const U, 3> k;                    // [M, H, D]
  View<const U, 3> v;                    // [M, H, Dv]
  View<const int32_t, 1> cu_seqlens_q;   // [B + 1], sequence b is q[cu[b] .. cu[b + 1])
  View<const int32_t, 1> cu_seqlens_kv;  // [B + 1]
  View<const float, 1> sinks;            // [Hq], or no data
  View<const float, 2> k_scale;          // [M, H], or no data: 1
  View<const float, 2> v_scale;          // [M, H], or no data: 1
  View<const float, 1> alibi_slopes;     // [Hq], or no data: 0
  tile::compute_t<T> scale;              // 0: 1 / sqrt(D)
  bool causal;
  int64_t window_left, window_right;  // < 0: unlimited
  tile::compute_t<T> softcap;         // 0: none
  ScoreMod score_mod;                 // or empty
  MaskMod mask_mod;                   // or empty
  View<const float, 1> mod_f32;       // [F], what they read, or no data
  View<const int32_t, 1> mod_i32;     // [I], or no data
  View<T, 3> out;                     // [N, Hq, Dv]
  View<float, 2> lse;                 // [Hq, N], or no data

  TW_INLINE AttentionShape shape() const { return {q.size(1), k.size(1), q.size(2), v.size(2)}; }
  TW_INLINE AttentionOptions options() const {
    return {sinks,        float(scale),   causal,       window_left,
            window_right, float(softcap), alibi_slopes, {score_mod, mask_mod, mod_f32, mod_i32}};
  }
  TW_INLINE SequenceLengths lengths() const {
    return {cu_seqlens_q.size(0) - 1, 0, 0, cu_seqlens_q, cu_seqlens_kv, {}};
  }

  TW_INLINE AttentionSequence<T, U> sequence(int64_t b) const {
    auto here = packed_sequence<T, U>(*this, b);
    const int64_t first_key = cu_seqlens_kv(b), keys = here.kv_len;
    here.k = key_source(rows_from(k, first_key, keys));
    here.v = key_source(rows_from(v, first_key, keys));
    if (k_scale) here.k_scale = key_source(rows_from(k_scale, first_key, keys));
    if (v_scale) here.v_scale = key_source(rows_from(v_scale, first_key, keys));
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
