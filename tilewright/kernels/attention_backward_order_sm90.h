// In which order attention's backward on Hopper works, so that equal calls give equal bits: which
// blocks of queries a block of keys passes by, and when it may add its share to their gradients.
//
// A ring of blocks of threads shares a head of keys. In a round each member takes a block of keys,
// or, under a causal mask, the i-th block and the i-th from the end. The blocks of queries of all
// heads that share the keys lie on a line, heads innermost. It is cut into chunks, and members are
// at the same chunk at the same time, so that what they read and add to is in L2: they begin at
// evenly spread places of it and go round. Under a causal mask a chunk that some members see in
// part is the last of theirs; they walk it upwards from their diagonals, at places where the others
// are not. The second blocks of keys go the same way backwards. If all steps took equally long, no
// two members would be at the same block of queries. The order of additions is that of those times.
// It is total and every member follows it, so nobody waits for ever, and mostly not at all.
#pragma once

#include "tilewright/kernels/attention_backward_build_sm90.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

/// [begin, end)
struct AttentionInterval {
  int begin, end;
};

/// Blocks of queries [first, end) that see a block of keys, for each head that shares the keys, and
/// the order in which they are passed by.
///
/// Block b of head h is slot b * group + h. Slots from that of `split` on, which all members see,
/// are cut into chunks of `size`, then those before into chunks of two for each member, each part
/// from its end. With a window, of which each member sees another part, heads follow each other.
struct AttentionBackwardTile {
  int first, split, end;
  int group;
  int steps, round;        // all, and those from `split` on
  int size, start;         // of chunks from `split` on: slots, and the first of them
  int lower, lower_start;  // of those before
  int time;                // when the first step would be
  bool backwards, slides;

  struct Step {
    int head, block;  // the head within the group
  };
  TW_PTX Step at(int step) const {
    if (slides) {
      const int head = step / (end - first);
      return {head, first + step - head * (end - first)};
    }
    if (backwards) step = steps - 1 - step;
    const bool below = step >= round;
    const int within = below ? step - round : step;
    const Chunk chunk = chunk_of(below, within);
    const int place = within - chunk.before + chunk.start;
    const int slot = chunk.first + (place < chunk.count ? place : place - chunk.count);
    const int block = group == 1 ? slot : slot / group;
    return {slot - block * group, block};
  }
  /// When it would be at a block: `time` and the inverse of at().
  TW_PTX int when(int head, int block) const {
    if (slides) return time + head * (end - first) + block - first;
    const bool below = block < split;
    const int slot = block * group + head, after = (below ? split : end) * group - 1 - slot;
    const Chunk chunk = chunk_of(below, after);
    const int place = slot - chunk.first - chunk.start;
    const int within = chunk.before + (place < 0 ? place + chunk.count : place);
    const int step = below ? round + within : within;
    return time + (backwards ? steps - 1 - step : step);
  }

 private:
  struct Chunk {
    int before;        // slots of its part that are passed by before
    int first, count;  // slots
    int start;         // which of them is the first
  };
  /// The one with the slot that `after` slots of its part follow. What all see of it is gone round.
  TW_PTX Chunk chunk_of(bool below, int after) const {
    const int most = below ? lower : size, all = below ? steps - round : round;
    const int before = after / most * most, count = min(most, all - before);
    const int first_slot = (below ? split : end) * group - before - count;
    if (below) return {before, first_slot, count, count < most ? 0 : lower_start};
    return {before, first_slot, count, start < count ? start : start % count};
  }
};

/// One sequence's blocks, of kQueries queries and kKeys keys.
template <int kQueries, int kKeys, class T>
struct AttentionBackwardOrder {
  const AttentionBackwardArguments<T>& given;
  AttentionBackwardSequence sequence;

  TW_PTX static AttentionBackwardOrder of(const AttentionBackwardArguments<T>& given, int index) {
    return {given, given.sequence(index, kQueries)};
  }

  TW_PTX int query_blocks() const { return (sequence.queries + kQueries - 1) / kQueries; }
  /// Also of keys that are not there.
  TW_PTX int all_key_blocks() const { return (sequence.key_rows + kKeys - 1) / kKeys; }
  /// Position of query 0 among the keys.
  TW_PTX int offset() const { return sequence.keys - sequence.queries; }
  /// Keys that any of queries [first, last] sees.
  TW_PTX AttentionInterval seen(int first, int last) const {
    const int begin = given.before < 0 ? 0 : max(0, first + offset() - given.before);
    const int end =
        given.after < 0 ? sequence.keys : min(sequence.keys, last + offset() + given.after + 1);
    return {begin, end};
  }
  /// Queries that see any of keys [first, last], which are there.
  TW_PTX AttentionInterval seeing(int first, int last) const {
    const int begin = given.after < 0 ? 0 : max(0, first - offset() - given.after);
    const int end = given.before < 0 ? sequence.queries
                                     : min(sequence.queries, last - offset() + given.before + 1);
    return {begin, end};
  }
  /// Blocks of queries all of which see all of keys [first, last].
  TW_PTX AttentionInterval all_seeing(int first, int last) const {
    if (last >= sequence.keys) return {0, 0};
    const int least = given.after < 0 ? 0 : max(0, last - offset() - given.after);
    const int end = given.before < 0 ? sequence.queries : first - offset() + given.before + 1;
    return {(least + kQueries - 1) / kQueries,
            end >= sequence.queries ? query_blocks() : max(0, end) / kQueries};
  }
  /// Blocks of keys that a block of queries sees.
  TW_PTX AttentionInterval key_blocks(int block) const {
    const int first = block * kQueries, last = min(first + kQueries, sequence.queries) - 1;
    const AttentionInterval range = seen(first, last);
    if (first > last || range.begin >= range.end) return {0, 0};
    return {range.begin / kKeys, (range.end + kKeys - 1) / kKeys};
  }
  /// The first block of queries that may see a block of keys.
  TW_PTX int first_block(int key_block) const {
    const int begin = seeing(key_block * kKeys, key_block * kKeys).begin;
    return min(begin, sequence.queries) / kQueries;
  }
  /// Blocks of keys of a round.
  TW_PTX int span() const { return sequence.ring * given.fold; }
  /// Which member of the ring has a block of keys, of those of a round.
  TW_PTX int member(int index) const {
    return index < sequence.ring ? index : 2 * sequence.ring - 1 - index;
  }

  TW_PTX AttentionBackwardTile tile(int key_block) const {
    const int first_key = key_block * kKeys, last = min(first_key + kKeys, sequence.keys) - 1;
    const AttentionInterval range = seeing(first_key, last);
    AttentionBackwardTile out{};
    if (first_key > last || range.begin >= range.end) return out;
    out.first = out.split = range.begin / kQueries;
    out.end = (range.end + kQueries - 1) / kQueries;
    out.group = given.group;
    out.steps = out.round = given.group * (out.end - out.first);
    out.slides = given.before >= 0;
    const int round = key_block / span() * span(), index = key_block - round;
    out.lower = 2 * sequence.ring, out.lower_start = 2 * member(index) + 1;
    if (index >= sequence.ring) {
      out.backwards = true;
      out.split = out.end, out.round = 0;
      out.time = given.group * (out.end - first_block(round + member(index)));
      return out;
    }
    if (given.fold > 1) {
      out.split = max(out.first, min(first_block(round + sequence.ring), out.end));
      out.round = given.group * (out.end - out.split);
    }
    const int chunks = max(1, out.round / (2 * sequence.ring));
    out.size = (out.round + chunks - 1) / chunks;
    out.start = out.size * index / sequence.ring;
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

}  // namespace tw::kernels
