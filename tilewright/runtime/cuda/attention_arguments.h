// From an attention call to what its kernels on Hopper are given. Plain host code.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "tilewright/runtime/cuda/attention_problem.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {

/// How a kernel cuts the work.
struct AttentionCut {
  int64_t tile_rows;  // queries, or queries times heads
  int64_t block_keys;
  int pack, splits;  // as kernels::AttentionChoice
};

template <class T>
tile::cuda::TensorMap query_map(const AttentionTensor<const T>& q, int64_t pack) {
  return tensor_map<T, 4>(q, {pack, q.rows, q.heads / pack, q.outer},
                          {q.head_stride, q.row_stride, pack * q.head_stride, q.outer_stride},
                          {uint32_t(pack), uint32_t(64 / pack), 1, 1});
}
/// A window of at least 2^29 sees everything.
inline int attention_window(int64_t keys) {
  return keys < 0 ? -1 : int(std::min<int64_t>(keys, int64_t{1} << 29));
}

/// Everything but the maps and the sums of splits.
template <class T>
void set_arguments(const AttentionProblem<T>& p, const AttentionCut& cut,
                   kernels::AttentionArguments<T>& a) {
  constexpr float kLog2E = 1.4426950408889634f;
  const int64_t queries = cut.tile_rows / 64 * (64 / cut.pack);
  // Every sequence may end in the middle of a tile, and of a pair of tiles.
  a.order.tiles = int((p.q.rows + queries - 1) / queries + (p.q_offsets ? 2 * p.sequences : 0));
  a.order.heads = int(p.q.heads / cut.pack);
  a.order.batches = p.q_offsets ? 1 : int(p.sequences);
  a.order.splits = cut.splits;
  a.order.folded = p.after() == 0 && p.options.window_left < 0;
  a.q_heads = int(p.q.heads), a.value_dims = int(p.v.dims);
  a.pack = cut.pack, a.heads_per_kv = int(p.group()) / cut.pack;
  a.sequences = int(p.sequences);
  a.queries = int(p.q.rows), a.keys = int(p.keys);
  a.box_keys = int(p.table ? std::min<int64_t>(p.k.rows, cut.block_keys) : cut.block_keys);
  a.page_keys = p.table ? int(p.k.rows) : 1;
  const float scale = p.options.scale == 0 ? 1 / std::sqrt(float(p.q.dims)) : p.options.scale;
  const float cap = p.options.softcap;
  a.score_scale = cap > 0 ? scale / cap : 0;
  a.exponent_scale = (cap > 0 ? cap : scale) * kLog2E;
  a.before = attention_window(p.options.window_left), a.after = attention_window(p.after());
  a.q_offsets = p.q_offsets, a.kv_offsets = p.kv_offsets, a.kv_lens = p.kv_lens;
  a.table = p.table, a.sinks = p.options.sinks;
  a.rows = {p.out.data, p.out.outer_stride, p.out.row_stride, p.out.head_stride};
  a.lse = p.lse;
}

/// The kernels of the sum over splits, as kAttentionCombineWays has them.
struct AttentionCombineKernels {
  std::array<Kernel, std::size(kernels::kAttentionCombineWays)> kernels{};

  /// By the mangled name.
  void place(std::string_view name, Kernel kernel) {
    const int index = number_after(name, "attention_combineILi");
    if (index >= 0) kernels.at(size_t(index)) = kernel;
  }
};

/// Where the parts of a call whose keys are split are kept until they are added up.
template <class T>
class AttentionPartials {
 public:
  AttentionPartials(const AttentionProblem<T>& p, Stream stream, std::string_view op,
                    kernels::AttentionArguments<T>& a)
      : rows_(p.q.outer * p.q.rows * p.q.heads),
        parts_(a.order.splits > 1 ? a.order.splits * rows_ : 0),
        memory_(parts_ * (p.v.dims + 1) * int64_t{sizeof(float)}, stream, op) {
    if (parts_ == 0) return;
    auto* const sums = static_cast<float*>(memory_.data());
    a.partials = {sums, rows_ * p.v.dims, p.q.heads * p.v.dims, p.v.dims};
    a.partial_lse = {sums + parts_ * p.v.dims, rows_, p.q.heads, 1};
  }

  /// Launches the sum over splits, if there are any.
  void add_up(const AttentionCombineKernels& from, const kernels::AttentionArguments<T>& a,
              Stream stream, const std::string& op, void** pointers) const {
    if (parts_ == 0) return;
    const auto build = size_t(kernels::attention_combine_build(a.order.splits));
    const int64_t blocks = rows_ * kernels::attention_combine_blocks(
                                       a.value_dims, kernels::kAttentionCombineWays[build]);
    check(driver().launch_kernel(from.kernels[build], unsigned(blocks), 1, 1,
                                 kernels::kAttentionCombineThreads, 1, 1, 0, stream, pointers,
                                 nullptr),
          op + ": launching the sum over splits");
  }

 private:
  int64_t rows_, parts_;
  StreamMemory memory_;
};

}  // namespace tw::runtime::cuda
