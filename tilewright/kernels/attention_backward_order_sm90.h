// In which order attention's backward on Hopper works, so that equal calls give equal bits: which
// blocks of queries a block of keys passes by, and when it may add its share to their gradients.
//
// A ring of blocks of threads shares a head of keys. In a round each member takes a block of keys,
// or, under a causal mask, the i-th block and the i-th from the end. If all steps took equally
// long, no two members would be at the same block of queries: without a mask they begin at evenly
// spread places and go round; under a causal mask they do so where all see the queries, then walk
// down from their diagonals, then pass by what sees their second block from the last on. The order
// of additions is that of those times. It is total and every member follows it, so nobody waits for
// ever, and mostly not at all.
#pragma once

#include "tilewright/kernels/attention_backward_build_sm90.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

/// [begin, end)
struct AttentionInterval {
  int begin, end;
};

/// Blocks of queries [first, end) that see a block of keys, for each head that shares the keys, and
/// the order in which they are passed by: of all heads those from `split` on, round from `start`,
/// then those before; or backwards.
struct AttentionBackwardTile {
  int first, split, end;
  int steps, round;  // all, and those that go round
  int start;
  int time;  // when the first step would be
  bool backwards;

  struct Step {
    int head, block;  // the head within the group
  };
  TW_PTX Step at(int step) const {
    if (backwards) {
      const int head = step / (end - first);
      return {head, end - 1 - (step - head * (end - first))};
    }
    if (step < round) {
      int place = start + step;
      if (place >= round) place -= round;
      const int head = place / (end - split);
      return {head, split + place - head * (end - split)};
    }
    const int head = (step - round) / (split - first);
    return {head, first + step - round - head * (split - first)};
  }
  /// When it would be at a block: `time` and the inverse of at().
  TW_PTX int when(int head, int block) const {
    if (backwards) return time + head * (end - first) + end - 1 - block;
    if (block < split) return time + round + head * (split - first) + block - first;
    const int step = head * (end - split) + block - split - start;
    return time + (step < 0 ? step + round : step);
  }
};

/// One sequence's blocks, of kQueries queries and kKeys keys.
template <int kQueries, int kKeys, class T>
struct AttentionBackwardOrder {
  const AttentionBackwardArguments<T>& given;
  int keys;  // that are there

  /// Position of query 0 among the keys.
  TW_PTX int offset() const { return keys - given.queries; }
  /// Keys that any of queries [first, last] sees.
  TW_PTX AttentionInterval seen(int first, int last) const {
    const int begin = given.before < 0 ? 0 : max(0, first + offset() - given.before);
    const int end = given.after < 0 ? keys : min(keys, last + offset() + given.after + 1);
    return {begin, end};
  }
  /// Queries that see any of keys [first, last], which are there.
  TW_PTX AttentionInterval seeing(int first, int last) const {
    const int begin = given.after < 0 ? 0 : max(0, first - offset() - given.after);
    const int end =
        given.before < 0 ? given.queries : min(given.queries, last - offset() + given.before + 1);
    return {begin, end};
  }
  /// Blocks of queries all of which see all of keys [first, last].
  TW_PTX AttentionInterval all_seeing(int first, int last) const {
    if (last >= keys) return {0, 0};
    const int least = given.after < 0 ? 0 : max(0, last - offset() - given.after);
    const int end = given.before < 0 ? given.queries : first - offset() + given.before + 1;
    return {(least + kQueries - 1) / kQueries,
            end >= given.queries ? given.query_blocks : max(0, end) / kQueries};
  }
  /// Blocks of keys that a block of queries sees.
  TW_PTX AttentionInterval key_blocks(int block) const {
    const int first = block * kQueries, last = min(first + kQueries, given.queries) - 1;
    const AttentionInterval range = seen(first, last);
    if (first > last || range.begin >= range.end) return {0, 0};
    return {range.begin / kKeys, (range.end + kKeys - 1) / kKeys};
  }
  /// The first block of queries that may see a block of keys.
  TW_PTX int first_block(int key_block) const {
    const int begin = seeing(key_block * kKeys, key_block * kKeys).begin;
    return min(begin, given.queries) / kQueries;
  }
  /// Blocks of keys of a round.
  TW_PTX int span() const { return given.ring * given.fold; }
  /// Which member of the ring has a block of keys, of those of a round.
  TW_PTX int member(int index) const {
    return index < given.ring ? index : 2 * given.ring - 1 - index;
  }

  TW_PTX AttentionBackwardTile tile(int key_block) const {
    const int first_key = key_block * kKeys, last = min(first_key + kKeys, keys) - 1;
    const AttentionInterval range = seeing(first_key, last);
    AttentionBackwardTile out{};
    if (first_key > last || range.begin >= range.end) return out;
    out.first = out.split = range.begin / kQueries;
    out.end = (range.end + kQueries - 1) / kQueries;
    out.steps = out.round = given.group * (out.end - out.first);
    const int round = key_block / span() * span(), index = key_block - round;
    if (index >= given.ring) {
      out.backwards = true;
      out.time = given.group * (out.end - first_block(round + member(index)));
      return out;
    }
    if (given.fold > 1) {
      out.split = max(out.first, min(first_block(round + given.ring), out.end));
      out.round = given.group * (out.end - out.split);
    }
    if (given.before < 0) out.start = int(index_quotient(int64_t{out.round} * index, given.ring));
    return out;
  }

  /// When a block of keys would be at a block of queries that sees it.
  TW_PTX int time(int key_block, const AttentionBackwardTile::Step& at) const {
    return tile(key_block).when(at.head, at.block);
  }
  /// How many are added to a block of queries before block `key_block` of keys, which it sees, is.
  /// `times` of the blocks of the same round.
  TW_PTX int rank(int key_block, int block, const int* times) const {
    const int round = key_block / span() * span(), self = key_block - round;
    const AttentionInterval all = key_blocks(block);
    int count = max(0, min(all.end, round) - all.begin);
    for (int i = max(all.begin - round, 0); i < min(all.end - round, span()); ++i)
      if (times[i] < times[self] || (times[i] == times[self] && member(i) < member(self))) ++count;
    return count;
  }
};

/// The blocks of keys of a block of threads, one after the other.
template <class T>
class AttentionBackwardWalk {
 public:
  TW_PTX explicit AttentionBackwardWalk(const AttentionBackwardArguments<T>& given)
      : given_(given),
        item_(int(blockIdx.x) / given.ring),
        member_(int(blockIdx.x) - item_ * given.ring) {
    if (more() && key_block() >= given_.key_blocks) next();
  }

  TW_PTX bool more() const { return item_ < given_.batches * given_.kv_heads; }
  TW_PTX void next() {
    do {
      if (++turn_ / given_.fold * given_.ring * given_.fold >= given_.key_blocks) {
        turn_ = 0;
        item_ += int(gridDim.x) / given_.ring;
      }
    } while (more() && key_block() >= given_.key_blocks);
  }
  TW_PTX int batch() const { return item_ / given_.kv_heads; }
  TW_PTX int kv_head() const { return item_ % given_.kv_heads; }
  TW_PTX int key_block() const {
    if (given_.fold == 1) return turn_ * given_.ring + member_;
    const int first = turn_ / 2 * 2 * given_.ring;
    return first + (turn_ % 2 == 0 ? member_ : 2 * given_.ring - 1 - member_);
  }

 private:
  const AttentionBackwardArguments<T>& given_;
  int item_, member_, turn_ = 0;
};

}  // namespace tw::kernels
