// The sum over the parts of tiles: out = sum of exp(lse_i - lse) out_i. An item is a row, or a part
// of its columns, four for each lane of a warp. Of few parts a warp adds up an item, of many a
// block does, each warp some of the parts. Short code: a launch reads it from memory.
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"
#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

template <class T>
struct AttentionCombine {
  static constexpr int kItemColumns = kAttentionCombineColumns, kColumns = kItemColumns / 32;
  static constexpr int kWarps = kAttentionCombineThreads / 32, kAtOnce = 4;  // parts
  static constexpr int kFew = 8;                                             // parts
  struct alignas(16) Four {
    float at[kColumns];
  };
  struct Shared {
    Four sums[kWarps][32];
    int tiles[kAttentionMostBlocks];  // of those that begin one, which
    unsigned begun[kAttentionMostBlocks / 32];
  };
  const AttentionArguments<T>& given;

  TW_PTX void operator()(Shared& shared) const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int pieces = (given.value_dims + kItemColumns - 1) / kItemColumns;
    const int rows = find_tiles(shared) * given.part_rows, blocks = int(gridDim.x);
    // Of few rows a block has a piece of one, of many each warp has one.
    const int split = rows * pieces <= blocks ? pieces : 1;
    const int items = rows * split, of_block = items > blocks ? kWarps : 1;
    for (int first = int(blockIdx.x) * of_block; first < items; first += blocks * of_block) {
      TW_NO_UNROLL
      for (int i = 0; i < of_block && first + i < items; ++i) {
        const int at = (first + i) / split, tile = at / given.part_rows;
        const int row = at - tile * given.part_rows, piece = first + i - at * split;
        add_row(shared, {shared.tiles[tile], row, piece, split, pieces}, i);
      }
    }
  }

 private:
  TW_PTX static int lane() { return int(threadIdx.x) % 32; }
  TW_PTX static int warp() { return int(threadIdx.x) / 32; }

  /// Lists the tiles that are in parts; returns how many there are.
  TW_PTX int find_tiles(Shared& shared) const {
    constexpr int kWords = kAttentionMostBlocks / 32;
    const int blocks = given.order.teams * given.order.team.size();
    unsigned begun[kWords / kWarps];
    TW_UNROLL
    for (int i = 0; i < kWords / kWarps; ++i) {
      const int block = (i * kWarps + warp()) * 32 + lane();
      begun[i] = __ballot_sync(~0u, block < blocks && given.parted[block].parts > 0);
      if (lane() == 0) shared.begun[i * kWarps + warp()] = begun[i];
    }
    __syncthreads();
    int count = 0;
    TW_UNROLL
    for (int word = 0; word < kWords; ++word) {
      const unsigned bits = shared.begun[word], before = bits & ((1u << lane()) - 1);
      if (word % kWarps == warp() && (bits >> lane() & 1) != 0)
        shared.tiles[count + __popc(before)] = word * 32 + lane();
      count += __popc(bits);
    }
    __syncthreads();
    return count;
  }

  /// Of a row, pieces `piece`, `piece` + `step` and so on.
  struct Item {
    int block, row, piece, step, pieces;
  };
  TW_PTX void add_row(Shared& shared, const Item& item, int my_warp) const {
    const AttentionParted tile = given.parted[item.block];
    const int query = item.row / given.pack, inside = tile.first_query + query;
    const int head = tile.head * given.pack + item.row - query * given.pack;
    const bool many = tile.parts > kFew;
    if (inside >= tile.q_len || (!many && warp() != my_warp)) return;
    const int slots = 2 * given.part_rows;  // of a block of threads
    const Parts parts{tile.parts, item.block * slots + item.row, given.order.team.size() * slots,
                      given.part_rows};
    const Total total = add_up(parts, head);
    T* const to = given.rows.at(tile.q_outer, tile.q_base + inside, head);
    TW_NO_UNROLL
    for (int piece = item.piece; piece < item.pieces; piece += item.step) {
      const int first = piece * kItemColumns + lane() * kColumns;
      Four sums{};
      if (given.value_dims % kColumns == 0)
        add<kAtOnce, true>(parts, total, first, many, sums);
      else
        add<1, false>(parts, total, first, many, sums);
      if (many) add_over_warps(shared, sums);
      if (many && warp() != 0) continue;
      TW_UNROLL
      for (int c = 0; c < kColumns; ++c)
        if (first + c < given.value_dims) to[first + c] = T(sums.at[c]);
      if (given.lse && first == 0)
        *given.lse.at(tile.q_outer, tile.q_base + inside, head) = total.lse;
    }
  }
  TW_PTX void add_over_warps(Shared& shared, Four& sums) const {
    shared.sums[warp()][lane()] = sums;
    __syncthreads();
    sums = {};
    TW_UNROLL
    for (int i = 0; i < kWarps; ++i) TW_UNROLL
    for (int c = 0; c < kColumns; ++c) sums.at[c] += shared.sums[i][lane()].at[c];
    __syncthreads();
  }

  /// Where the parts of a row are.
  struct Parts {
    int count, first, step, begun;  // the first part is `begun` rows further on

    TW_PTX int at(int part) const { return first + part * step + (part == 0 ? begun : 0); }
  };
  TW_PTX float log_of(const Parts& parts, int part) const {
    return part < parts.count ? given.partial_lse[parts.at(part)] : attention_sm90::kLow;
  }

  /// exp(lse - base) factor is the share of a part.
  struct Total {
    float base, factor, lse;
  };
  /// Of all parts and the sink.
  TW_PTX Total add_up(const Parts& parts, int head) const {
    using attention_sm90::kLow;
    constexpr int kLoads = 2;  // at a time
    const float sink = given.sinks ? given.sinks(head) : kLow;
    float top = kLow, sum = 0;
    TW_NO_UNROLL
    for (int first = lane(); first < parts.count; first += 32 * kLoads) {
      float logs[kLoads], high = top;
      TW_UNROLL
      for (int i = 0; i < kLoads; ++i) {
        logs[i] = log_of(parts, first + 32 * i);
        high = fmaxf(high, logs[i]);
      }
      sum *= __expf(top - base_of(high));
      TW_UNROLL
      for (int i = 0; i < kLoads; ++i) sum += __expf(logs[i] - base_of(high));
      top = high;
    }
    float high = fmaxf(top, sink);
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) high = fmaxf(high, __shfl_xor_sync(~0u, high, step));
    const float base = base_of(high);
    sum *= __expf(top - base);
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
    sum += __expf(sink - base);
    return {base, sum == 0 ? 0 : 1 / sum, sum == 0 ? kLow : base + __logf(sum)};
  }
  /// -inf - -inf is NaN, but these weigh nothing.
  TW_PTX static float base_of(float high) { return high == attention_sm90::kLow ? 0 : high; }

  /// What a part that weighs nothing has left is any memory, NaN too, and not looked at.
  template <int kParts, bool kWhole>
  TW_PTX void add(const Parts& parts, const Total& total, int first, bool many, Four& sums) const {
    const int step = many ? kWarps : 1;
    TW_NO_UNROLL
    for (int base = many ? warp() : 0; base < parts.count; base += kParts * step) {
      Four read[kParts];
      float shares[kParts];
      TW_UNROLL
      for (int j = 0; j < kParts; ++j) {
        const int part = base + j * step;
        shares[j] = log_of(parts, part);
        read[j] = {};
        if (part < parts.count)
          load<kWhole>(given.partials + parts.at(part) * given.value_dims + first, first, read[j]);
      }
      TW_UNROLL
      for (int j = 0; j < kParts; ++j) {
        const bool weighs = shares[j] != attention_sm90::kLow;
        const float share = __expf(shares[j] - total.base) * total.factor;
        TW_UNROLL
        for (int c = 0; c < kColumns; ++c) sums.at[c] += weighs ? share * read[j].at[c] : 0;
      }
    }
  }
  template <bool kWhole>
  TW_PTX void load(const float* from, int first, Four& out) const {
    if constexpr (kWhole) {
      if (first < given.value_dims) out = *reinterpret_cast<const Four*>(from);
    } else {
      TW_UNROLL
      for (int c = 0; c < kColumns; ++c)
        if (first + c < given.value_dims) out.at[c] = from[c];
    }
  }
};

}  // namespace tw::kernels
