// An attention call as the Hopper launcher sees it: sizes, strides, and whether TMA can read them.
// Plain host code.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "tilewright/core/error.h"
#include "tilewright/kernels/attention.h"
#include "tilewright/kernels/attention_fp8.h"
#include "tilewright/kernels/attention_paged.h"
#include "tilewright/kernels/attention_policy_sm90.h"
#include "tilewright/kernels/attention_varlen.h"
#include "tilewright/runtime/cuda/attention_tensor.h"

namespace tw::runtime::cuda {

/// The element type of a kernel aggregate, and that of its keys where they may have another.
template <class K>
struct ElementOf;
template <template <class> class K, class T>
struct ElementOf<K<T>> {
  using type = T;
};
template <template <class, class> class K, class T, class U>
struct ElementOf<K<T, U>> {
  using type = T;
  using keys = U;
};
inline kernels::AttentionScales scales_of(const View<const float, 3>& x) {
  return {x.data, x.stride(0), x.stride(1), x.stride(2)};
}
inline kernels::AttentionScales scales_of(const View<const float, 2>& x) {
  return {x.data, 0, x.stride(0), x.stride(1)};
}
/// Of all keys of a sequence.
inline kernels::AttentionScales scales_of_sequences(const View<const float, 2>& x) {
  return {x.data, x.stride(0), 0, x.stride(1)};
}

/// A kernel's queries of T over keys and values of U.
template <class T, class U = T>
struct AttentionProblem {
  AttentionTensor<const T> q;
  AttentionTensor<const U> k, v;
  AttentionTensor<kernels::attention_output_t<T>> out;
  kernels::AttentionRows<float> lse{};
  kernels::AttentionOptions options;
  View<const int32_t, 1> q_offsets, kv_offsets, kv_lens;
  View<const int32_t, 2> table;
  int64_t sequences = 0;
  int64_t keys = 0;  // of a sequence, at most
  kernels::AttentionScales q_scale{}, k_scale{}, v_scale{};
  View<const T, 4> bias{};  // [sequences, Hq, queries, keys]

  static constexpr bool kFp8 = sizeof(T) == 1;                      // queries have 8 bits
  static constexpr bool kNarrow = sizeof(U) == 1 && sizeof(T) > 1;  // keys and values alone have

  explicit AttentionProblem(const kernels::Attention<T, U>& call)
      : q(call.q), k(call.k), v(call.v), out(call.out), options(call.options()) {
    if (call.lse) lse = {call.lse.data, call.lse.stride(0), call.lse.stride(2), call.lse.stride(1)};
    kv_lens = call.kv_lens, bias = call.attn_bias;
    sequences = q.outer, keys = k.rows;
    k_scale = scales_of(call.k_scale), v_scale = scales_of(call.v_scale);
  }
  explicit AttentionProblem(const kernels::AttentionVarlen<T, U>& call)
      : q(call.q), k(call.k), v(call.v), out(call.out), options(call.options()) {
    if (call.lse) lse = {call.lse.data, 0, call.lse.stride(1), call.lse.stride(0)};
    q_offsets = call.cu_seqlens_q, kv_offsets = call.cu_seqlens_kv;
    sequences = q_offsets.size(0) - 1, keys = k.rows;
    k_scale = scales_of(call.k_scale), v_scale = scales_of(call.v_scale);
  }
  explicit AttentionProblem(const kernels::AttentionFp8& call)
      : q(call.q), k(call.k), v(call.v), out(call.out), options(call.options()) {
    if (call.lse) lse = {call.lse.data, 0, call.lse.stride(1), call.lse.stride(0)};
    q_offsets = call.cu_seqlens_q, kv_offsets = call.cu_seqlens_kv;
    sequences = q_offsets.size(0) - 1, keys = k.rows;
    q_scale = scales_of_sequences(call.q_scale), k_scale = scales_of_sequences(call.k_scale);
    v_scale = scales_of_sequences(call.v_scale);
  }
  explicit AttentionProblem(const kernels::AttentionPaged<T, U>& call)
      : k(call.k_pages), v(call.v_pages), options(call.options()) {
    sequences = call.kv_lens.size(0);
    const int64_t count = call.cu_seqlens_q ? 1 : std::max<int64_t>(sequences, 1);
    q = AttentionTensor<const T>(call.q, count);
    out = AttentionTensor<T>(call.out, count);
    if (call.lse)
      lse = {call.lse.data, q.rows * call.lse.stride(1), call.lse.stride(1), call.lse.stride(0)};
    q_offsets = call.cu_seqlens_q, kv_lens = call.kv_lens, table = call.block_table;
    keys = table.size(1) * k.rows;
    k_scale = scales_of(call.k_scale), v_scale = scales_of(call.v_scale);
  }

  int64_t group() const { return q.heads / k.heads; }
  bool changes_scores() const { return bias || options.slopes; }
  const kernels::ScoreMods& mods() const { return options.mods; }
  /// Whether its kernel is none that the library carries (jit.h).
  bool is_compiled() const { return kFp8 || kNarrow || changes_scores() || mods(); }
  int64_t after() const { return options.causal ? 0 : options.window_right; }
  /// Whether later queries see more keys, or may: of a mask nothing is known.
  bool grows() const { return (after() == 0 && options.window_left < 0) || mods().mask; }
  /// Queries of a sequence; on average, where they vary.
  int64_t typical_queries() const {
    return q_offsets ? (q.rows + sequences - 1) / std::max<int64_t>(sequences, 1) : q.rows;
  }
  int64_t typical_keys() const {
    return kv_offsets ? (k.rows + sequences - 1) / std::max<int64_t>(sequences, 1) : keys;
  }
  kernels::AttentionSize size() const {
    int64_t seen = typical_keys();  // by one query
    if (options.window_left >= 0 && after() >= 0)
      seen = std::min(seen, std::min(options.window_left, keys) + std::min(after(), keys) + 1);
    return {.dims = q.dims,
            .value_dims = v.dims,
            .sequences = sequences,
            .queries = typical_queries(),
            .keys = seen,
            .group = group(),
            .kv_heads = k.heads,
            .page_keys = table ? k.rows : 0,
            .masked = after() >= 0 || options.window_left >= 0,
            .varies = bool(q_offsets),
            .biased = changes_scores() || mods(),
            .narrow = kNarrow,
            .fp8 = kFp8};
  }

  Support support() const {
    if (Support s = supports_tensors(); !s) return s;
    if (kernels::choose_attention_sm90(size(), 1).build < 0)
      return Support::no("heads of more than 256 elements, or pages of an odd size");
    return Support::yes();
  }
  /// Whatever the build.
  Support supports_tensors() const {
    if (!kFp8 && !kNarrow && (k_scale.data != nullptr || v_scale.data != nullptr))
      return Support::no("scales of keys or values of 16 bits");
    if (options.scale < 0) return Support::no("negative scale");
    if (q.is_empty() || k.is_empty() || v.is_empty() || sequences == 0)
      return Support::no("empty tensors");
    if (!q.is_aligned() || !k.is_aligned() || !v.is_aligned() || !out.is_writable())
      return Support::no("rows that do not begin at multiples of 16 bytes");
    constexpr int64_t kMost = int64_t{1} << 29;
    const double items = double(q.outer) * double(q.heads) * double(q.rows + sequences);
    if (!q.counts_in_32_bits() || !k.counts_in_32_bits() || keys > kMost || items > double(kMost))
      return Support::no("sizes beyond 2^29");
    constexpr int64_t kMostMasked = int64_t{1} << 24;  // a grid has 2^16 parts (AttentionFindSeen)
    if (mods().mask && keys > kMostMasked) return Support::no("a mask of more than 2^24 keys");
    return Support::yes();
  }
};

}  // namespace tw::runtime::cuda
