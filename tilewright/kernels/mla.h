// Multi-head latent attention with the projections of keys and values absorbed into queries and
// outputs (DeepSeek-V2, arXiv:2405.04434, section 2.1): all heads share keys of D latent dims,
// which are the values, too, and of R rotated ones.
//
//   s[i, j] = scale * (q_nope[i] · ckv[j] + q_pe[i] · kpe[j]), out[i] = softmax(s[i]) ckv
//
// Latents of 8 bits have a scale for each key, or for each of equal parts of its dims, as in
// DeepSeek-V3.2 (arXiv:2512.02556), whose rotated dims keep their 16 bits.
//
// On a CPU, the tiles of attention (attention_tile_cpu.h), for which keys have rotated dims after
// their own. The text for any GPU: a program for each query and head (attention_neutral.h). Hopper
// has a schedule of its own (mla_sm90.h).
#pragma once

#include "tilewright/kernels/attention.h"
#include "tilewright/kernels/attention_paged.h"

namespace tw::kernels {

namespace mla {

/// 0: what D + R dims ask for.
TW_INLINE float scale_of(float scale, int64_t dims) {
  return scale == 0 ? tile::rsqrt(static_cast<float>(dims)) : scale;
}

/// The latents are keys and values.
template <class T, class U>
TW_INLINE void put_scales(const KeySource<float>& scales, int64_t parts,
                          AttentionSequence<T, U>& to) {
  to.k_scale = scales, to.v_scale = scales, to.scale_parts = parts;
}

template <class T, class U, class P, class K>
TW_INLINE tile::Plan make_plan(const K& kernel, const Machine& machine) {
#if !defined(__CUDACC__)
  if constexpr (!P::kOnGpu) return attention_detail::make_plan<T, U, P>(kernel, machine);
#endif
  return attention_neutral::make_plan(kernel.latent());
}
template <class T, class U, class P, class K>
TW_INLINE void run(P p, const K& kernel) {
#if !defined(__CUDACC__)
  attention_detail::run<T, U>(p, kernel);
#else
  attention_neutral::run<T, U>(p, kernel);
#endif
}

}  // namespace mla

template <class T, class U>
struct Mla {
  static constexpr int kGpuRegisters = 128;

  View<const T, 4> q_nope;         // [B, S, Hq, D]
  View<const T, 4> q_pe;           // [B, S, Hq, R]
  View<const U, 4> ckv;            // [B, L, H, D]
  View<const T, 4> kpe;            // [B, L, H, R]
  View<const int32_t, 1> kv_lens;  // [B], keys that are there; or no data: L
  View<const float, 4> ckv_scale;  // [B, L, H, G], of D / G dims each; or no data: 1
  float scale;                     // 0: 1 / sqrt(D + R)
  bool causal;
  View<T, 4> out;      // [B, S, Hq, D]
  View<float, 3> lse;  // [B, Hq, S], or no data

  /// Without the rotated dims and the scales.
  TW_INLINE Attention<T, U> latent() const {
    const float factor = mla::scale_of(scale, q_nope.size(3) + q_pe.size(3));
    return {q_nope, ckv, ckv, kv_lens, {}, {}, {}, {}, {},  factor,
            causal, -1,  -1,  0,       {}, {}, {}, {}, out, lse};
  }
  TW_INLINE AttentionShape shape() const {
    return {q_nope.size(2), ckv.size(2), q_nope.size(3), ckv.size(3), q_pe.size(3)};
  }
  TW_INLINE AttentionOptions options() const { return latent().options(); }
  TW_INLINE SequenceLengths lengths() const { return latent().lengths(); }
  TW_INLINE AttentionSequence<T, U> sequence(int64_t b) const {
    AttentionSequence<T, U> here = latent().sequence(b);
    here.q_pe = q_pe[b];
    if (q_pe.size(3) > 0) here.k_pe = key_source(kpe[b]);
    if (ckv_scale) mla::put_scales(key_source(ckv_scale[b]), ckv_scale.size(3), here);
    return here;
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return mla::make_plan<T, U, P>(*this, machine);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    mla::run<T, U>(p, *this);
  }
};

/// Over a cache in pages, as AttentionPaged.
template <class T, class U>
struct MlaPaged {
  static constexpr int kGpuRegisters = 128;

  View<const T, 3> q_nope;              // [N, Hq, D]
  View<const T, 3> q_pe;                // [N, Hq, R]
  View<const U, 4> ckv_pages;           // [pages, page_size, H, D]
  View<const T, 4> kpe_pages;           // [pages, page_size, H, R]
  View<const int32_t, 2> block_table;   // [B, W]
  View<const int32_t, 1> kv_lens;       // [B]
  View<const int32_t, 1> cu_seqlens_q;  // [B + 1], or no data: N / B queries each
  View<const float, 4> ckv_scale;  // [pages, page_size, H, G], of D / G dims each, or no data: 1
  float scale;                     // 0: 1 / sqrt(D + R)
  bool causal;
  View<T, 3> out;      // [N, Hq, D]
  View<float, 2> lse;  // [Hq, N], or no data

  /// Without the rotated dims and the scales.
  TW_INLINE AttentionPaged<T, U> latent() const {
    const float factor = mla::scale_of(scale, q_nope.size(2) + q_pe.size(2));
    return {q_nope, ckv_pages, ckv_pages, block_table, kv_lens, cu_seqlens_q, {},
            {},     {},        {},        factor,      causal,  -1,           -1,
            0,      {},        {},        {},          {},      out,          lse};
  }
  TW_INLINE AttentionShape shape() const {
    return {q_nope.size(1), ckv_pages.size(2), q_nope.size(2), ckv_pages.size(3), q_pe.size(2)};
  }
  TW_INLINE AttentionOptions options() const { return latent().options(); }
  TW_INLINE SequenceLengths lengths() const { return latent().lengths(); }
  TW_INLINE AttentionSequence<T, U> sequence(int64_t b) const {
    const SequenceLengths all = lengths();
    AttentionSequence<T, U> here = latent().sequence(b);
    here.q_pe = rows_from(q_pe, all.first_query(b), all.q_len(b));
    if (q_pe.size(2) > 0) here.k_pe = key_source(kpe_pages, block_table[b]);
    if (ckv_scale) mla::put_scales(key_source(ckv_scale, block_table[b]), ckv_scale.size(3), here);
    return here;
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return mla::make_plan<T, U, P>(*this, machine);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    mla::run<T, U>(p, *this);
  }
};

}  // namespace tw::kernels
