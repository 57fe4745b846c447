// Which blocks of keys each block of threads of attention's backward on Hopper takes.
//
// An item of work is the share of a member of a ring: some blocks of keys of a head. A block of
// threads takes every gridDim.x-th item. Items of a ring follow each other, and it has at most
// gridDim.x members, which are therefore different blocks of threads. Nobody waits for ever: the
// first ring that is not done has all its members, since whatever they did before is. Sequences of
// different lengths have rings of their own, and the longest come first, so that what a block of
// threads takes at the same turn is about as long as what the others take.
#pragma once

#include "tilewright/kernels/attention_backward_order_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

/// One block of threads: rings and turns of sequences of different lengths.
template <int kQueries, int kKeys, int kThreads, class T>
struct AttentionBackwardSchedule {
  const AttentionBackwardArguments<T>& given;

  TW_PTX void operator()() const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    float all = 0;
    for (int i = 0; i < given.sequences; ++i) all += pairs(i);
    for (int i = int(threadIdx.x); i < given.sequences; i += kThreads) choose(i, all);
    __syncthreads();
    for (int i = int(threadIdx.x); i < given.sequences; i += kThreads) put_turn(i);
  }

 private:
  TW_PTX int query_blocks(int i) const {
    return (given.q_offsets(i + 1) - given.q_offsets(i) + kQueries - 1) / kQueries;
  }
  TW_PTX int key_blocks(int i) const {
    return (given.kv_offsets(i + 1) - given.kv_offsets(i) + kKeys - 1) / kKeys;
  }
  TW_PTX float pairs(int i) const { return float(query_blocks(i)) * float(key_blocks(i)); }

  /// Of rings that take nearly the least time the largest: its items are the shortest. Where a
  /// sequence has few heads beside all of the work, its last rings leave others waiting; otherwise
  /// the next sequence fills the gap.
  TW_PTX void choose(int i, float all) const {
    constexpr float kNearly = 0.92f, kFew = 3;
    const float own = pairs(i), heads = own > 0 ? all / own * float(given.kv_heads) : 1;
    const int shares = (key_blocks(i) + given.fold - 1) / given.fold;
    int ring = 1;
    float least = __builtin_inff();
    for (int size = min(shares, min(given.workers, kMostAttentionRing)); size >= 1; --size) {
      const float turns = heads / float(given.workers / size);
      const float time =
          float((shares + size - 1) / size) * (turns > kFew ? turns : __builtin_ceilf(turns));
      if (time >= kNearly * least) continue;
      least = time;
      ring = size;
    }
    given.rings[i] = ring;
    given.item_steps[i] = (shares + ring - 1) / ring * given.fold * (query_blocks(i) + 1);
  }
  TW_PTX void put_turn(int i) const {
    int first = 0, turn = 0;
    for (int n = 0; n < given.sequences; ++n) {
      const bool before = given.item_steps[n] > given.item_steps[i] ||
                          (given.item_steps[n] == given.item_steps[i] && n < i);
      turn += before;
      first += before ? items(n) : 0;
    }
    given.turns[turn] = {first, i};
    if (turn == given.sequences - 1) given.turns[turn + 1] = {first + items(i), given.sequences};
  }
  TW_PTX int items(int i) const {
    return given.item_steps[i] > 0 ? given.rings[i] * given.kv_heads : 0;
  }
};

/// The blocks of keys of a block of threads, one after the other.
template <int kQueries, int kKeys, class T>
class AttentionBackwardWalk {
 public:
  using Order = AttentionBackwardOrder<kQueries, kKeys, T>;

  TW_PTX explicit AttentionBackwardWalk(const AttentionBackwardArguments<T>& given)
      : given_(given), item_(int(blockIdx.x)) {
    find();
    if (more() && key_block() >= key_blocks_) next();
  }

  TW_PTX bool more() const { return item_ < items(); }
  TW_PTX void next() {
    do {
      if (++turn_ / given_.fold * ring_ * given_.fold >= key_blocks_) {
        turn_ = 0;
        item_ += int(gridDim.x);
        find();
      }
    } while (more() && key_block() >= key_blocks_);
  }
  TW_PTX Order order() const { return Order::of(given_, sequence_); }
  TW_PTX int kv_head() const { return kv_head_; }
  TW_PTX int key_block() const {
    if (given_.fold == 1) return turn_ * ring_ + member_;
    const int first = turn_ / 2 * 2 * ring_;
    return first + (turn_ % 2 == 0 ? member_ : 2 * ring_ - 1 - member_);
  }

 private:
  TW_PTX int items() const {
    return given_.q_offsets ? given_.turns[given_.sequences].first_item
                            : given_.sequences * given_.kv_heads * given_.ring;
  }
  /// Whose item it is.
  TW_PTX void find() {
    if (!more()) return;
    int within = item_;
    if (given_.q_offsets) {
      const AttentionBackwardTurn turn = search();
      sequence_ = turn.sequence;
      within -= turn.first_item;
    }
    ring_ = given_.q_offsets ? given_.rings[sequence_] : given_.ring;
    const int head = within / ring_;
    member_ = within - head * ring_;
    kv_head_ = given_.q_offsets ? head : head % given_.kv_heads;
    if (!given_.q_offsets) sequence_ = head / given_.kv_heads;
    key_blocks_ = order().all_key_blocks();
  }
  /// The last turn that begins at the item or before.
  TW_PTX AttentionBackwardTurn search() const {
    int low = 0, high = given_.sequences;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (given_.turns[middle].first_item <= item_ ? low : high) = middle;
    }
    return given_.turns[low];
  }

  const AttentionBackwardArguments<T>& given_;
  int item_, turn_ = 0;
  int sequence_ = 0, kv_head_ = 0, member_ = 0, ring_ = 1, key_blocks_ = 0;
};

}  // namespace tw::kernels
