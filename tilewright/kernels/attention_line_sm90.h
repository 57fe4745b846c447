// Which parts of which tiles a block of threads works on where keys are many and tiles few, or
// sequences of very different lengths: in decoding.
//
// The blocks of keys of all tiles lie end to end on a line, and every team of blocks of threads
// takes an equal part of it, wherever that begins and ends. The lengths are read on the device, so
// that the grid does not depend on them. A team's members work side by side on tiles that see the
// same keys, or keys of neighbouring heads, which lie next to each other in memory.
#pragma once

#include "tilewright/kernels/attention_tiles_sm90.h"

namespace tw::kernels {

/// Walked by whole warps. Short code: a launch reads it from memory before anything is loaded.
class AttentionLine {
 public:
  static constexpr int kEnds = AttentionLineSize::kEnds;

  template <class Arguments>
  TW_PTX AttentionLine(const Arguments& given, int queries, int keys) {
    const AttentionOrder& order = given.order;
    team_ = int(blockIdx.x) / order.team.size();
    member_ = int(blockIdx.x) - team_ * order.team.size();
    if (order.line.steps > 0) {
      share_ = order.share;
      const int begin = take(order.line.steps), of_sequence = order.line.unit_steps * order.units;
      batch_ = begin / of_sequence;
      offset_ = begin - batch_ * of_sequence;
    } else {
      find(given, queries, keys);
    }
  }

  template <class Arguments>
  TW_PTX bool next(const Arguments& given, int queries, int keys, AttentionTile& tile) {
    const AttentionOrder& order = given.order;
    const int of_group = queries * order.team.tiles;
    while (left_ > 0) {
      tile.batch = batch_;
      tile.find_sequence(given);
      const int groups = groups_of(order, tile, of_group);
      tile.first_query = group_ * of_group;
      const int cost = cost_of(given, tile, of_group, keys), unit = offset_ / cost;
      if (groups == 0 || unit >= order.units) {
        if (groups > 0) offset_ -= order.units * cost;
        const bool last = ++group_ >= groups;
        if (last) group_ = 0;
        batch_ += int(last);
        continue;
      }
      const int from = offset_ - unit * cost, to = min(from + left_, cost);
      offset_ += to - from;
      left_ -= to - from;
      if (to <= kEnds) continue;  // the next team begins with the first of its keys
      const int tile_of_group = member_ / order.team.heads;
      tile.head = unit * order.team.heads + member_ - tile_of_group * order.team.heads;
      tile.first_query += tile_of_group * queries;
      tile.last_block = min(tile.last_block, tile.first_block + (to - kEnds) * order.step);
      tile.first_block += max(from - kEnds, 0) * order.step;
      tile.leads = member_ == 0 && order.team.size() > 1;
      place(tile, from <= kEnds, cost - to);
      tile.ends = false;
      return true;
    }
    return tile.end();
  }

  /// What the sum over parts is told: which tile others go on with, or that there is none.
  template <class Arguments>
  TW_PTX void leave(const Arguments& given, const AttentionTile& tile) {
    if (tile.parts == 0 && (!tile.ends || left_one_)) return;
    left_one_ = true;
    if (lane() != 0 || given.parted == nullptr) return;
    AttentionParted& out = given.parted[blockIdx.x];
    out.parts = tile.parts;
    if (tile.parts == 0) return;
    out.first_query = tile.first_query, out.head = tile.head;
    out.q_base = tile.q_base, out.q_len = tile.q_len, out.q_outer = tile.q_outer;
  }

 private:
  TW_PTX static int lane() { return int(threadIdx.x) % 32; }

  // A sequence has groups of tiles of queries, in each of which all heads cost the same.

  TW_PTX static int groups_of(const AttentionOrder& order, const AttentionTile& sequence,
                              int of_group) {
    return order.groups > 0 ? order.groups : (sequence.q_len + of_group - 1) / of_group;
  }
  /// The steps of a unit of the group whose first query is the tile's; the tile then has the blocks
  /// of keys that any of them sees.
  template <class Arguments>
  TW_PTX static int cost_of(const Arguments& given, AttentionTile& tile, int of_group, int keys) {
    tile.find_blocks(given, of_group, keys);
    const int shift = __ffs(given.order.step) - 1;
    return kEnds + max((tile.last_block - tile.first_block + given.order.step - 1) >> shift, 1);
  }

  /// Measures the line, of which a lane has some sequences that follow each other, and goes to the
  /// first that the share may begin in.
  template <class Arguments>
  TW_PTX void find(const Arguments& given, int queries, int keys) {
    constexpr int kFar = 1 << 30;
    const int of_group = queries * given.order.team.tiles;
    const int each = (given.sequences + 31) / 32, first = lane() * each;
    int mine = 0, most = 0, least = kFar;
    AttentionTile tile;
    TW_NO_UNROLL
    for (tile.batch = first; tile.batch < min(first + each, given.sequences); ++tile.batch) {
      tile.find_sequence(given);
      const int groups = groups_of(given.order, tile, of_group);
      TW_NO_UNROLL
      for (int i = 0; i < groups; ++i) {
        tile.first_query = i * of_group;
        const int cost = cost_of(given, tile, of_group, keys);
        mine += cost * given.order.units;
        most = max(most, cost);
        least = min(least, cost);
      }
    }
    __syncwarp();
    const int sum = sum_up_to_lane(mine);
    most = max_over_lanes(most);
    least = -max_over_lanes(-least);
    const AttentionLineSize line{__shfl_sync(0xffffffffu, sum, 31), most == least ? most : 0};
    share_ = line.share(given.order.teams, given.order.least, given.order.slack);
    const int begin = take(line.steps);
    const unsigned found = __ballot_sync(0xffffffffu, begin < sum);
    const int winner = found != 0 ? __ffs(int(found)) - 1 : 0;
    batch_ = winner * each;
    offset_ = begin - __shfl_sync(0xffffffffu, sum - mine, winner);
  }
  /// Where the share begins; nobody has what is beyond the line.
  TW_PTX int take(int steps) {
    const int begin = min(share_.begin(team_), steps);
    left_ = min(share_.begin(team_ + 1), steps) - begin;
    return begin;
  }
  TW_PTX static int max_over_lanes(int x) {
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
  }

  /// Where the tile's sums go: `rest` steps of it are other teams'.
  TW_PTX void place(AttentionTile& tile, bool begins, int rest) const {
    const bool whole = begins && rest == 0;
    tile.slot = whole ? -1 : 2 * int(blockIdx.x) + int(begins);
    tile.parts = 0;
    if (whole || !begins) return;
    tile.parts = share_.team_at(share_.begin(team_ + 1) + rest - 1) - team_ + 1;
  }

  AttentionShare share_;
  int team_, member_;
  int batch_ = 0, group_ = 0;
  int offset_ = 0;  // steps of the group that are behind
  int left_;        // steps of the share
  bool left_one_ = false;
};

}  // namespace tw::kernels
