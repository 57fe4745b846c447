// Which tile of queries a block of threads works on next, and which keys that tile sees.
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

/// Columns [begin, end) that a row sees, counted from the thread's first one of a block.
struct AttentionSpan {
  int begin, end;
};

/// A block of keys that warps tell each other of.
struct AttentionMark {
  int block;
  bool cut;  // whether a mask may hide any of it
};

/// The sum of x over this lane and those before. Whole warps call it.
TW_PTX int sum_up_to_lane(int x) {
  TW_UNROLL
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, x, step);
    if (int(threadIdx.x) % 32 >= step) x += before;
  }
  return x;
}

struct AttentionTile {
  int first_query;             // within the sequence
  int head, batch;             // heads are counted in packs
  int q_base, q_len, q_outer;  // the sequence begins at query q_base of batch entry q_outer
  int kv_base, kv_len, kv_outer;
  int first_block, last_block;  // of keys, [first, last)
  int inner_begin, inner_end;   // keys that all rows see
  int slot = -1;                // of its sums, if it is a part of a tile
  int parts = 0;                // of the tile that it is the first part of
  bool leads = false;           // of the tiles of a team, one; of one alone, none
  bool ends;                    // there is no tile, and none after it

  TW_PTX bool empty() const { return first_block >= last_block; }
  /// Becomes what follows the last tile; false, as there is none.
  TW_PTX bool end() {
    ends = true;
    first_block = last_block = 0;
    return false;
  }
  TW_PTX AttentionSpan inner() const { return {inner_begin, inner_end}; }

  /// Keys of a query as AttentionMask has them, in 32 bits.
  template <class Arguments>
  TW_PTX AttentionSpan seen(const Arguments& given, int query) const {
    const int at = query + kv_len - q_len;
    AttentionSpan out{0, kv_len};
    if (given.before >= 0) out.begin = max(0, at - given.before);
    if (given.after >= 0) out.end = min(kv_len, at + given.after + 1);
    return out;
  }

  /// The blocks that any of `queries` rows sees.
  template <class Arguments>
  TW_PTX void find_blocks(const Arguments& given, int queries, int keys) {
    const AttentionSpan first = seen(given, first_query);
    const AttentionSpan last = seen(given, min(first_query + queries, q_len) - 1);
    inner_begin = last.begin;
    inner_end = first.end;
    first_block = last_block = 0;
    if (first.begin >= last.end) return;
    first_block = first.begin / keys;
    last_block = (last.end + keys - 1) / keys;
  }

  template <class Arguments>
  TW_PTX void find_sequence(const Arguments& given) {
    q_base = given.q_offsets ? given.q_offsets(batch) : 0;
    q_len = given.q_offsets ? given.q_offsets(batch + 1) - q_base : given.queries;
    q_outer = given.q_offsets ? 0 : batch;
    kv_base = given.kv_offsets ? given.kv_offsets(batch) : 0;
    kv_outer = given.kv_offsets ? 0 : batch;
    kv_len = given.kv_offsets ? given.kv_offsets(batch + 1) - kv_base
             : given.kv_lens  ? given.kv_lens(batch)
                              : given.keys;
  }
};

/// The tiles of a block of threads, one after the other: an item of every round, of which every
/// other one runs backwards, so that nobody has the longest of each. Whole warps walk.
class AttentionWalk {
 public:
  TW_PTX explicit AttentionWalk(const AttentionOrder& order)
      : item_(int(blockIdx.x)), items_(int(order.items())) {}

  template <class Arguments>
  TW_PTX bool next(const Arguments& given, int queries, int keys, AttentionTile& tile) {
    for (; item_ < items_; second_ ? advance() : again()) {
      if (!place(given, queries, tile)) continue;
      tile.find_sequence(given);
      tile.find_blocks(given, queries, keys);
      second_ ? advance() : again();
      tile.ends = false;
      return true;
    }
    return tile.end();
  }
  /// Tiles are whole.
  template <class Arguments>
  TW_PTX static void leave(const Arguments&, const AttentionTile&) {}

 private:
  TW_PTX void advance() {
    const int blocks = int(gridDim.x), within = int(blockIdx.x);
    backwards_ = !backwards_;
    item_ += backwards_ ? 2 * (blocks - within) - 1 : 2 * within + 1;
    second_ = false;
  }
  TW_PTX void again() { second_ = true; }

  /// Whether there is such a tile.
  template <class Arguments>
  TW_PTX bool place(const Arguments& given, int queries, AttentionTile& tile) const {
    const AttentionOrder& order = given.order;
    const int items = order.folded_tiles(), rest = item_ / items;
    int at = item_ - rest * items, tiles = order.tiles;
    tile.head = rest % order.heads;
    tile.batch = rest / order.heads;
    if (given.q_offsets && !search(given, queries, at, tile.batch, tiles)) return false;
    const int opposite = tiles - 1 - at;
    if (second_ && (!order.folded || at == opposite)) return false;
    if (!second_ && order.folded) at = opposite;
    tile.first_query = at * queries;
    return true;
  }

  /// The sequence that item `at` of all falls into, and its tiles; `at` is then counted from its
  /// first item.
  template <class Arguments>
  TW_PTX static bool search(const Arguments& given, int queries, int& at, int& batch, int& tiles) {
    const int lane = int(threadIdx.x) % 32;
    for (int first = 0; first < given.sequences; first += 32) {
      const int b = first + lane;
      const int mine = b < given.sequences
                           ? (given.q_offsets(b + 1) - given.q_offsets(b) + queries - 1) / queries
                           : 0;
      const int items = given.order.folded ? (mine + 1) / 2 : mine;
      const int sum = sum_up_to_lane(items);
      const unsigned found = __ballot_sync(0xffffffffu, at < sum);
      if (found != 0) {
        const int winner = __ffs(int(found)) - 1;
        batch = first + winner;
        at -= __shfl_sync(0xffffffffu, sum - items, winner);
        tiles = __shfl_sync(0xffffffffu, mine, winner);
        return true;
      }
      at -= __shfl_sync(0xffffffffu, sum, 31);
    }
    return false;
  }

  int item_, items_;
  bool second_ = false;  // of a folded item
  bool backwards_ = false;
};

}  // namespace tw::kernels
