// A call for attention's gradients as the Hopper launcher sees it: sizes, strides, and whether TMA
// can read them. Plain host code.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "tilewright/core/error.h"
#include "tilewright/kernels/attention_backward.h"
#include "tilewright/kernels/attention_backward_build_sm90.h"
#include "tilewright/kernels/attention_varlen_backward.h"
#include "tilewright/runtime/cuda/attention_arguments.h"
#include "tilewright/runtime/cuda/attention_tensor.h"

namespace tw::runtime::cuda {

template <class T>
struct AttentionBackwardProblem {
  using Build = kernels::AttentionBackwardBuild;
  using Arguments = kernels::AttentionBackwardArguments<T>;

  AttentionTensor<const T> grad, q, k, v, output;
  AttentionTensor<T> q_grad, k_grad, v_grad;
  View<const float, 3> lse;  // [B, Hq, S]
  kernels::AttentionOptions options;
  View<const int32_t, 1> q_offsets, kv_offsets, kv_lens;
  int64_t sequences = 0;

  explicit AttentionBackwardProblem(const kernels::AttentionBackward<T>& call)
      : AttentionBackwardProblem(call, call.lse) {
    kv_lens = call.kv_lens;
    sequences = q.outer;
  }
  explicit AttentionBackwardProblem(const kernels::AttentionVarlenBackward<T>& call)
      : AttentionBackwardProblem(call, {call.lse.data,
                                        {1, call.lse.size(0), call.lse.size(1)},
                                        {0, call.lse.stride(0), call.lse.stride(1)}}) {
    q_offsets = call.cu_seqlens_q, kv_offsets = call.cu_seqlens_kv;
    sequences = call.sequences();
  }

  int64_t after() const { return options.causal ? 0 : options.window_right; }
  /// In kernels::kAttentionBackwardBuilds; -1: none takes it.
  int build() const {
    for (int i = 0; i < kernels::kAttentionBackwardBuildCount; ++i)
      if (kernels::kAttentionBackwardBuilds[i].dims >= std::max(q.dims, v.dims)) return i;
    return -1;
  }

  Support support() const {
    if (options.scale < 0) return Support::no("negative scale");
    if (q.is_empty() || k.is_empty() || v.is_empty() || sequences == 0)
      return Support::no("empty tensors");
    if (build() < 0) return Support::no("heads of more than 256 elements");
    for (const AttentionTensor<const T>* x : {&q, &k, &v, &grad, &output})
      if (!x->is_aligned() || !x->counts_in_32_bits() || (q_offsets && !x->may_be_cut()))
        return Support::no("rows that do not begin at multiples of 16 bytes, or sizes beyond 2^29");
    for (const AttentionTensor<T>* x : {&q_grad, &k_grad, &v_grad})
      if (!x->is_writable())
        return Support::no("gradients whose rows do not begin and end at multiples of 16 bytes");
    constexpr int64_t kMost = int64_t{1} << 29;
    const int64_t q_rows = q.outer * q.rows + sequences * 64, k_rows = k.outer * k.rows + sequences;
    if (q_rows * q.heads > kMost || k_rows * k.heads > kMost)
      return Support::no("sizes beyond 2^29");
    return Support::yes();
  }

  /// Everything but the ring and the workspace.
  Arguments arguments(const Build& build) const {
    Arguments a{};
    set_sizes(build, a);
    set_options(a);
    a.q = map(q), a.grad = map(grad), a.k = map(k), a.v = map(v);
    a.q_offsets = q_offsets, a.kv_offsets = kv_offsets, a.kv_lens = kv_lens;
    a.grad_rows = rows(grad), a.out_rows = rows(output);
    a.q_grad = rows(q_grad), a.k_grad = rows(k_grad), a.v_grad = rows(v_grad);
    a.lse = lse;
    return a;
  }

 private:
  template <class K>
  AttentionBackwardProblem(const K& call, const View<const float, 3>& its_lse)
      : grad(call.grad),
        q(call.q),
        k(call.k),
        v(call.v),
        output(call.output),
        q_grad(call.q_grad),
        k_grad(call.k_grad),
        v_grad(call.v_grad),
        lse(its_lse),
        options(call.options()) {}

  /// Boxes of 64 rows.
  tile::cuda::TensorMap map(const AttentionTensor<const T>& x) const {
    return q_offsets ? cut_map(x, 64) : uncut_map(x, 64);
  }
  template <class U>
  static kernels::AttentionRows<U> rows(const AttentionTensor<U>& x) {
    return {x.data, x.outer_stride, x.row_stride, x.head_stride};
  }

  void set_sizes(const Build& build, Arguments& a) const {
    const auto blocks = [](int64_t count, int64_t of) { return int((count + of - 1) / of); };
    a.sequences = int(sequences);
    a.q_heads = int(q.heads), a.kv_heads = int(k.heads), a.group = a.q_heads / a.kv_heads;
    a.queries = int(q.rows), a.keys = int(k.rows);
    a.query_blocks = blocks(a.queries, build.queries);
    // Every sequence may end in the middle of a block.
    a.blocks = q_offsets ? a.queries / build.queries + a.sequences : a.query_blocks * a.sequences;
    a.key_blocks = blocks(a.keys, build.keys());
    a.dims = int(q.dims), a.value_dims = int(v.dims);
  }
  void set_options(Arguments& a) const {
    constexpr float kLog2E = 1.4426950408889634f;
    const float scale = options.scale == 0 ? 1 / std::sqrt(float(q.dims)) : options.scale;
    const float cap = options.softcap;
    a.scale = scale;
    a.score_scale = cap > 0 ? scale / cap : 0;
    a.exponent_scale = (cap > 0 ? cap : scale) * kLog2E;
    a.before = attention_window(options.window_left), a.after = attention_window(after());
    a.fold = a.after >= 0 && a.before < 0 ? 2 : 1;
  }
};

}  // namespace tw::runtime::cuda
