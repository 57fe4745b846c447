// Gradients of attention. The scores are computed again from q and k, block by block, and their
// weights from lse (FlashAttention, arXiv:2205.14135, section 3.1):
//
//   w[i, j]  = exp(s[i, j] - lse[i])          s: scaled, and capped
//   d[i, j]  = w[i, j] (grad[i] · v[j] - grad[i] · output[i])   [* (1 - tanh^2) where capped]
//   q_grad   = scale d k,   k_grad = scale dᵀ q,   v_grad = wᵀ grad
#pragma once

#include "tilewright/kernels/attention_backward_neutral.h"
#include "tilewright/kernels/attention_backward_tiles_gpu.h"
#if defined(__CUDACC__)
#include "tilewright/kernels/attention_backward_tile_gpu.h"
#else
#include "tilewright/kernels/attention_backward_cpu.h"
#endif

namespace tw::kernels {

template <class T>
struct AttentionBackward {
  using Element = T;
  static constexpr int kGpuRegisters = 128;

  View<const T, 4> grad;           // [B, S, Hq, Dv]
  View<const T, 4> q;              // [B, S, Hq, D]
  View<const T, 4> k;              // [B, L, H, D]
  View<const T, 4> v;              // [B, L, H, Dv]
  View<const T, 4> output;         // [B, S, Hq, Dv]
  View<const float, 3> lse;        // [B, Hq, S]
  View<const int32_t, 1> kv_lens;  // [B], keys of k and v that are there; or no data: L
  tile::compute_t<T> scale;        // 0: 1 / sqrt(D)
  bool causal;
  int64_t window_left, window_right;  // < 0: unlimited
  tile::compute_t<T> softcap;         // 0: none
  View<T, 4> q_grad;                  // as q
  View<T, 4> k_grad;                  // as k; 0 for keys that are not there
  View<T, 4> v_grad;                  // as v; 0 for values that are not there

  TW_INLINE AttentionShape shape() const { return {q.size(2), k.size(2), q.size(3), v.size(3)}; }
  TW_INLINE AttentionOptions options() const {
    return {{}, float(scale), causal, window_left, window_right, float(softcap)};
  }
  TW_INLINE int64_t kv_len(int64_t b) const { return kv_lens ? kv_lens(b) : k.size(1); }
  TW_INLINE AttentionMask mask(int64_t b) const { return options().mask(q.size(1), kv_len(b)); }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
#if !defined(__CUDACC__)
    if constexpr (!P::kOnGpu) return attention_backward::plan<T, P>(*this, machine);
#endif
    if (const AttentionBackwardTiles tiles(*this); tiles.pay(machine.l1d_bytes))
      return tiles.plan();
    return attention_backward_neutral::make_plan(shape(), q.size(0) * q.size(1),
                                                 k.size(0) * k.size(1));
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    attention_backward::run<T>(p, *this);
#else
    if (const AttentionBackwardTiles tiles(*this); tiles.pay(p.shared_scratch()))
      return run_attention_backward_tile(p, *this, tiles,
                                         attention_backward_neutral::scale_of(*this));
    attention_backward_neutral::run<T>(p, *this);
#endif
  }
};

}  // namespace tw::kernels
