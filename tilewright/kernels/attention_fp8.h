// Attention (kernels/attention.h) over packed sequences whose queries, keys and values are e4m3
// with a scale for each sequence and head of keys, as FlashAttention-3 (arXiv:2407.08608,
// section 3.3) has it. The scales of queries and keys are factors of the scores.
#pragma once

#include "tilewright/kernels/attention.h"

namespace tw::kernels {

struct AttentionFp8 {
  static constexpr int kGpuRegisters = 128;
  using T = f8_e4m3fn;

  View<const T, 3> q;                    // [N, Hq, D]
  View<const T, 3> k;                    // [M, H, D]
  View<const T, 3> v;                    // [M, H, Dv]
  View<const int32_t, 1> cu_seqlens_q;   // [B + 1], sequence b is q[cu[b] .. cu[b + 1])
  View<const int32_t, 1> cu_seqlens_kv;  // [B + 1]
  View<const float, 2> q_scale;          // [B, H], or no data: 1
  View<const float, 2> k_scale;          // [B, H], or no data: 1
  View<const float, 2> v_scale;          // [B, H], or no data: 1
  View<const float, 1> sinks;            // [Hq], or no data
  float scale;                           // 0: 1 / sqrt(D)
  bool causal;
  int64_t window_left, window_right;   // < 0: unlimited
  float softcap;                       // 0: none
  View<attention_output_t<T>, 3> out;  // [N, Hq, Dv]
  View<float, 2> lse;                  // [Hq, N], or no data

  TW_INLINE AttentionShape shape() const { return {q.size(1), k.size(1), q.size(2), v.size(2)}; }
  TW_INLINE AttentionOptions options() const {
    return {sinks, scale, causal, window_left, window_right, softcap};
  }
  TW_INLINE SequenceLengths lengths() const {
    return {cu_seqlens_q.size(0) - 1, 0, 0, cu_seqlens_q, cu_seqlens_kv, {}};
  }

  TW_INLINE AttentionSequence<T, T> sequence(int64_t b) const {
    auto here = packed_sequence<T, T>(*this, b);
    const int64_t first_key = cu_seqlens_kv(b), keys = here.kv_len;
    here.k = key_source(rows_from(k, first_key, keys));
    here.v = key_source(rows_from(v, first_key, keys));
    if (q_scale) here.q_scale = q_scale[b];
    if (k_scale) here.k_scale = same_for_all(k_scale[b], keys);
    if (v_scale) here.v_scale = same_for_all(v_scale[b], keys);
    return here;
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return plan_attention<T, T, P>(*this, machine);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    run_attention<T, T>(p, *this);
  }

 private:
  /// The scales of `keys` keys, which have those of their heads.
  TW_INLINE static KeySource<float> same_for_all(const View<const float, 1>& of_heads,
                                                 int64_t keys) {
    return key_source(
        View<const float, 2>{of_heads.data, {keys, of_heads.size(0)}, {0, of_heads.stride(0)}});
  }
};

}  // namespace tw::kernels
