// From an attention call to what its kernels on Hopper are given. Plain host code.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "tilewright/runtime/cuda/attention_problem.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {

/// How a kernel cuts the work.
struct AttentionCut {
  int64_t consumers, rows;  // of a consumer: queries, or queries times heads
  int64_t block_keys;
  kernels::AttentionChoice choice;

  /// Of a tile, with so many heads to a query.
  int64_t queries(int64_t pack) const { return consumers * (rows / pack); }
};

template <class T>
tile::cuda::TensorMap query_map(const AttentionTensor<const T>& q, int64_t pack,
                                int64_t rows = 64) {
  return tensor_map<T, 4>(q, {pack, q.rows, q.heads / pack, q.outer},
                          {q.head_stride, q.row_stride, pack * q.head_stride, q.outer_stride},
                          {uint32_t(pack), uint32_t(rows / pack), 1, 1});
}
/// A window of at least 2^29 sees everything.
inline int attention_window(int64_t keys) {
  return keys < 0 ? -1 : int(std::min<int64_t>(keys, int64_t{1} << 29));
}

/// How teams of blocks of threads share the tiles (kernels::AttentionLine).
template <class T, class U>
void set_line(const AttentionProblem<T, U>& p, const AttentionCut& cut, int multiprocessors,
              kernels::AttentionOrder& order) {
  const kernels::AttentionChoice& choice = cut.choice;
  order.team = choice.team, order.least = choice.least, order.slack = choice.slack;
  order.teams = std::min(multiprocessors, kernels::kAttentionMostBlocks) / order.team.size();
  order.units = order.heads / order.team.heads;
  order.groups = p.q_offsets ? 0 : order.tiles / order.team.tiles;
  // Steps are counted in 32 bits.
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t blocks = (p.keys + cut.block_keys - 1) / cut.block_keys;
  const int64_t all = order.items() / order.team.size() + 1;
  order.step = choice.step;
  while (all * (blocks / order.step + 2) >= kMost) order.step *= 2;
  // Of sequences as long as each other, all of whose keys are seen, the shares are known here.
  if (order.groups != 1 || p.kv_offsets || p.kv_lens || p.options.window_left >= 0) return;
  const auto steps = int((blocks + order.step - 1) / order.step);
  order.line.unit_steps = kernels::AttentionLineSize::kEnds + steps;
  order.line.steps = order.batches * order.units * order.line.unit_steps;
  order.share = order.line.share(order.teams, order.least, order.slack);
}

/// Everything but the maps of keys and values and the sums of parts.
template <class T, class U>
void set_arguments(const AttentionProblem<T, U>& p, const AttentionCut& cut, int multiprocessors,
                   kernels::AttentionArguments<T>& a) {
  constexpr float kLog2E = 1.4426950408889634f;
  const kernels::AttentionChoice& choice = cut.choice;
  a.q = query_map(p.q, choice.pack, cut.rows);
  const int64_t queries = cut.queries(choice.pack);
  // Every sequence may end in the middle of a tile, and of a pair of tiles.
  a.order.tiles = int((p.q.rows + queries - 1) / queries + (p.q_offsets ? 2 * p.sequences : 0));
  a.order.heads = int(p.q.heads / choice.pack);
  a.order.batches = p.q_offsets ? 1 : int(p.sequences);
  a.order.folded = choice.step == 0 && p.grows();
  if (choice.step > 0) set_line(p, cut, multiprocessors, a.order);
  a.q_heads = int(p.q.heads), a.value_dims = int(p.v.dims);
  a.pack = choice.pack, a.heads_per_kv = int(p.group()) / choice.pack;
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
  a.q_scale = p.q_scale, a.k_scale = p.k_scale, a.v_scale = p.v_scale;
  a.bias = p.bias, a.slopes = p.options.slopes;
  a.numbers = p.options.mods.numbers;
  a.rows = {p.out.data, p.out.outer_stride, p.out.row_stride, p.out.head_stride};
  a.lse = p.lse;
}

/// The blocks of threads of a launch; where they take parts of tiles, whatever the lengths are.
inline int64_t attention_blocks(const kernels::AttentionOrder& order, int multiprocessors) {
  if (order.teams == 0) return std::min<int64_t>(order.items(), multiprocessors);
  return order.teams * order.team.size();
}

inline void launch_attention(const std::string& op, Start start, Kernel kernel, const Gpu& on,
                             int64_t blocks, int threads, int shared_bytes, Stream stream,
                             void** pointers) {
  check(launch_kernel(start, kernel, on, unsigned(blocks), unsigned(threads), 1,
                      unsigned(shared_bytes), stream, pointers),
        op + ": launching");
}

/// Where the parts of tiles are kept until they are added up, if there may be any.
template <class T>
class AttentionPartials {
 public:
  template <class U>
  AttentionPartials(const AttentionProblem<T, U>& p, int64_t rows, int64_t blocks, Stream stream,
                    std::string_view op, kernels::AttentionArguments<T>& a)
      : blocks_(a.order.teams == 0 || is_whole(a.order) ? 0 : blocks),
        tile_rows_(a.pack *
                   (p.q_offsets ? rows / a.pack : std::min<int64_t>(rows / a.pack, a.queries))),
        memory_(bytes(p.v.dims), stream, op) {
    if (blocks_ == 0) return;
    a.part_rows = int(tile_rows_);
    a.partials = static_cast<float*>(memory_.data());
    a.partial_lse = a.partials + 2 * blocks_ * tile_rows_ * p.v.dims;
    a.parted =
        reinterpret_cast<kernels::AttentionParted*>(a.partial_lse + 2 * blocks_ * tile_rows_);
  }

  /// Launches the sum over parts.
  void add_up(Start start, Kernel kernel, const Gpu& on, const kernels::AttentionArguments<T>& a,
              Stream stream, const std::string& op, void** pointers) const {
    if (blocks_ == 0) return;
    constexpr int64_t kColumns = kernels::kAttentionCombineColumns;
    const int64_t items = blocks_ * tile_rows_ * ((a.value_dims + kColumns - 1) / kColumns);
    const int64_t blocks = std::min(items, blocks_ * kernels::kAttentionCombineResident);
    check(launch_kernel(start, kernel, on, unsigned(blocks), kernels::kAttentionCombineThreads, 1,
                        0, stream, pointers),
          op + ": launching the sum over parts");
  }

 private:
  static bool is_whole(const kernels::AttentionOrder& order) {
    return order.line.steps > 0 && order.share.parts == 1;
  }
  int64_t bytes(int64_t value_dims) const {
    return blocks_ * (2 * tile_rows_ * (value_dims + 1) * int64_t{sizeof(float)} +
                      int64_t{sizeof(kernels::AttentionParted)});
  }

  int64_t blocks_, tile_rows_;
  StreamMemory memory_;
};

/// supports_sm90 and launch_sm90 of kernels::K for all queries and keys that Hopper's kernels take.
#define TW_INSTANTIATE_SM90_ONE(K, T, U)                        \
  template Support supports_sm90(const kernels::K<T, U>&, int); \
  template void launch_sm90(const kernels::K<T, U>&, int, Stream);
#define TW_INSTANTIATE_SM90(K)               \
  TW_INSTANTIATE_SM90_ONE(K, f16, f16)       \
  TW_INSTANTIATE_SM90_ONE(K, f16, int8_t)    \
  TW_INSTANTIATE_SM90_ONE(K, f16, f8_e4m3fn) \
  TW_INSTANTIATE_SM90_ONE(K, bf16, bf16)     \
  TW_INSTANTIATE_SM90_ONE(K, bf16, int8_t)   \
  TW_INSTANTIATE_SM90_ONE(K, bf16, f8_e4m3fn)

}  // namespace tw::runtime::cuda
