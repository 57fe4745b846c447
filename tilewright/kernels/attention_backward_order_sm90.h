// In which order attention's backward on Hopper works, so that equal calls give equal bits: which
// blocks of queries a block of keys passes by, and when it may add its share to their gradients.
//
// A ring of blocks of threads takes the blocks of keys of a head in rounds, one each. Within a
// round the members begin at evenly spread blocks of queries and go round, so that they rarely
// meet; the order of additions to a block of queries is that of the visits if all steps took
// equally long. Every member follows this total order, so nobody waits for ever, and mostly not at
// all.
#pragma once

#include "tilewright/kernels/attention_backward_build_sm90.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

/// [begin, end)
struct AttentionInterval {
  int begin, end;
};

/// Blocks of queries that see a block of keys, for each head that shares the keys.
struct AttentionBackwardTile {
  int first, count;  // blocks of queries of a head
  int steps, start;  // of all heads; where the walk begins

  struct Step {
    int head, block;  // the head within the group
  };
  TW_PTX Step at(int step) const {
    int place = start + step;
    if (place >= steps) place -= steps;
    const int head = place / count;
    return {head, first + place - head * count};
  }
  /// The inverse of at().
  TW_PTX int when(int head, int block) const {
    const int step = head * count + block - first - start;
    return step < 0 ? step + steps : step;
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
  /// Blocks of keys that a block of queries sees.
  TW_PTX AttentionInterval key_blocks(int block) const {
    const int first = block * kQueries, last = min(first + kQueries, given.queries) - 1;
    const AttentionInterval range = seen(first, last);
    if (first > last || range.begin >= range.end) return {0, 0};
    return {range.begin / kKeys, (range.end + kKeys - 1) / kKeys};
  }
  /// The member of the ring that has block `index` of a round, and the reverse: rounds run forwards
  /// and backwards in turn, since under a causal mask the first blocks are seen by most.
  TW_PTX int member(int round, int index) const {
    return round % 2 == 0 ? index : given.ring - 1 - index;
  }

  TW_PTX AttentionBackwardTile tile(int key_block) const {
    const int first = key_block * kKeys, last = min(first + kKeys, keys) - 1;
    const AttentionInterval range = seeing(first, last);
    if (first > last || range.begin >= range.end) return {0, 0, 0, 0};
    AttentionBackwardTile out;
    out.first = range.begin / kQueries;
    out.count = (range.end + kQueries - 1) / kQueries - out.first;
    out.steps = given.group * out.count;
    const int round = key_block / given.ring;
    out.start =
        int(int64_t{out.steps} * member(round, key_block - round * given.ring) / given.ring);
    return out;
  }

  /// How many are added to a block of queries before block `key_block` of keys is. A warp counts.
  TW_PTX int rank(int key_block, const AttentionBackwardTile& tile,
                  const AttentionBackwardTile::Step& at) const {
    const int round = key_block / given.ring, first = round * given.ring;
    const AttentionInterval all = key_blocks(at.block);
    const int step = tile.when(at.head, at.block), self = member(round, key_block - first);
    int count = 0;
    for (int i = int(threadIdx.x) % 32; i < given.ring; i += 32) {
      const int other = first + i;
      if (other < all.begin || other >= all.end || other == key_block) continue;
      const int its = this->tile(other).when(at.head, at.block);
      if (its < step || (its == step && member(round, i) < self)) ++count;
    }
    TW_UNROLL
    for (int i = 1; i < 32; i *= 2) count += __shfl_xor_sync(~0u, count, i);
    return max(0, min(all.end, first) - all.begin) + count;
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
      if (++round_ * given_.ring >= given_.key_blocks) {
        round_ = 0;
        item_ += int(gridDim.x) / given_.ring;
      }
    } while (more() && key_block() >= given_.key_blocks);
  }
  TW_PTX int batch() const { return item_ / given_.kv_heads; }
  TW_PTX int kv_head() const { return item_ % given_.kv_heads; }
  TW_PTX int key_block() const {
    return round_ * given_.ring + (round_ % 2 == 0 ? member_ : given_.ring - 1 - member_);
  }

 private:
  const AttentionBackwardArguments<T>& given_;
  int item_, member_, round_ = 0;
};

}  // namespace tw::kernels
