// Scaled dot-product attention over keys in one tensor. Vaswani et al., arXiv:1706.03762, eq. 1.
//
//   s[i, j] = scale * q[i] · k[j], capped:  softcap * tanh(s / softcap); then
//             + attn_bias[i, j] - alibi_slope * |i + L - S - j|, then what score_mod makes of it
//   sum[i]  = exp(sink) + sum over j of exp(s[i, j]),   lse[i] = log sum[i]
//   out[i]  = sum over j of exp(s[i, j]) v[j] / sum[i],   j visible, to mask_mod, too
//
// Blocks of keys with a running maximum (FlashAttention, arXiv:2205.14135), in float32; but the
// tiles of AMX multiply bf16, weights rounded to it (attention_amx.h), and on GPUs tiles multiply
// 16-bit operands (attention_products_gpu.h).
#pragma once

#include "tilewright/kernels/attention_neutral.h"
#include "tilewright/kernels/attention_tiles_gpu.h"
#if defined(__CUDACC__)
#include "tilewright/kernels/attention_tile_gpu.h"
#else
#include "tilewright/kernels/attention_run_cpu.h"
#endif

namespace tw::kernels {

/// The plan and the work of the target's own schedule, if it has one.
template <class T, class U, class P, class K>
TW_INLINE tile::Plan plan_attention(const K& kernel, const Machine& machine) {
#if !defined(__CUDACC__)
  if constexpr (!P::kOnGpu) return attention_detail::make_plan<T, U, P>(kernel, machine);
#endif
  const auto tiles = attention_tiles<T, U>(kernel, machine.l1d_bytes);
  return tiles.pay() ? tiles.plan() : attention_neutral::make_plan(kernel);
}
template <class T, class U, class P, class K>
TW_INLINE void run_attention(P p, const K& kernel) {
#if !defined(__CUDACC__)
  attention_detail::run<T, U>(p, kernel);
#else
  if (const auto tiles = attention_tiles<T, U>(kernel, p.shared_scratch()); tiles.pay())
    return run_attention_tile<T, U>(p, kernel, tiles);
  attention_neutral::run<T, U>(p, kernel);
#endif
}

template <class T, class U>
struct Attention {
  static constexpr int kGpuRegisters = 128;

  View<const T, 4> q;                 // [B, S, Hq, D]
  View<const U, 4> k;                 // [B, L, H, D]
  View<const U, 4> v;                 // [B, L, H, Dv]
  View<const int32_t, 1> kv_lens;     // [B], keys of k and v that are there; or no data: L
  View<const float, 1> sinks;         // [Hq], or no data
  View<const float, 3> k_scale;       // [B, L, H], or no data: 1
  View<const float, 3> v_scale;       // [B, L, H], or no data: 1
  View<const T, 4> attn_bias;         // [B, Hq, S, L], or no data: 0
  View<const float, 1> alibi_slopes;  // [Hq], or no data: 0
  tile::compute_t<T> scale;           // 0: 1 / sqrt(D)
  bool causal;
  int64_t window_left, window_right;  // < 0: unlimited
  tile::compute_t<T> softcap;         // 0: none
  ScoreMod score_mod;                 // or empty
  MaskMod mask_mod;                   // or empty
  View<const float, 1> mod_f32;       // [F], what they read, or no data
  View<const int32_t, 1> mod_i32;     // [I], or no data
  View<T, 4> out;                     // [B, S, Hq, Dv]
  View<float, 3> lse;                 // [B, Hq, S], or no data

  TW_INLINE AttentionShape shape() const { return {q.size(2), k.size(2), q.size(3), v.size(3)}; }
  TW_INLINE AttentionOptions options() const {
    return {sinks,        float(scale),   causal,       window_left,
            window_right, float(softcap), alibi_slopes, {score_mod, mask_mod, mod_f32, mod_i32}};
  }
  TW_INLINE SequenceLengths lengths() const {
    return {q.size(0), q.size(1), k.size(1), {}, {}, kv_lens};
  }

  TW_INLINE AttentionSequence<T, U> sequence(int64_t b) const {
    AttentionSequence<T, U> here;
    here.q = q[b];
    here.out = out[b];
    if (lse) here.lse = lse[b];
    here.index = b;
    here.kv_len = lengths().kv_len(b);
    here.k = key_source(k[b]);
    here.v = key_source(v[b]);
    if (k_scale) here.k_scale = key_source(k_scale[b]);
    if (v_scale) here.v_scale = key_source(v_scale[b]);
    if (attn_bias) here.bias = attn_bias[b];
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
