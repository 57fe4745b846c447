// The first warpgroup of a block of attention's backward on Hopper: warp 0 loads, 1 and 2 add what
// a consumer each has of the queries' gradients, and 3 works out for them where and when.
#pragma once

#include "tilewright/kernels/attention_backward_block_sm90.h"
#include "tilewright/tile/cuda/bulk.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/tma.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardFeed : AttentionBackwardBlock<T, kBuild> {
  using Block = AttentionBackwardBlock<T, kBuild>;
  using Block::kChunk, Block::kChunks, Block::kConsumers, Block::kKeyBuffers;
  using Block::kKeyChunk, Block::kKeys, Block::kPart, Block::kParts, Block::kPieces;
  using Block::kQueries, Block::kQueryChunk, Block::kRowBytes, Block::kRows;
  using Block::kSlots, Block::kSumBuffers;
  using typename Block::Addition;
  using typename Block::GradPosition;
  using typename Block::Order;
  using typename Block::QueryPosition;
  using typename Block::Shared;
  using typename Block::Walk;
  const typename Block::Arguments& given;

  TW_PTX void operator()(Shared& shared, int warp) const {
    if (warp == 0) produce(shared);
    if (warp >= 1 && warp <= kConsumers && tile::cuda::elect_one()) add(shared, warp - 1);
    if (warp > kConsumers && tile::cuda::elect_one()) plan(shared);
  }

  // ---- the producer: one warp, of which one thread issues

  TW_PTX void produce(Shared& shared) const {
    QueryPosition q;
    GradPosition grad;
    int tiles = 0;
    uint32_t tail_phase = 0;
    for (Walk walk(given); walk.more(); walk.next()) {
      const Order order = walk.order();
      const AttentionBackwardTile tile = order.tile(walk.key_block());
      if (tile.steps == 0) continue;
      load_keys(shared, walk, order.sequence, tiles++, tail_phase);
      const AttentionOrigin origin = given.q_origin(order.sequence);
      for (int step = 0; step < tile.steps; ++step) {
        const auto [within, block] = tile.at(step);
        const int head = walk.kv_head() * given.group + within;
        const float* const rows =
            given.rows + given.place(order.sequence, head, block) * 2 * kQueries;
        load_block(shared.q[q.index], given.q, shared.q_full[q.index], shared.q_empty[q.index], q,
                   origin, head, block, &shared.blocks[q.index], shared.rows[q.index][0], rows);
        load_block(shared.grad[grad.index], given.grad, shared.grad_full[grad.index],
                   shared.grad_empty[grad.index], grad, origin, head, block);
      }
    }
  }

  /// A block of queries, with its name and two numbers for each, or of their gradients.
  template <class Position>
  TW_PTX static void load_block(char* smem, const tile::cuda::TensorMap& map,
                                tile::cuda::Mbarrier& full, tile::cuda::Mbarrier& empty,
                                Position& at, const AttentionOrigin& origin, int head, int block,
                                int* name = nullptr, float* rows = nullptr,
                                const float* from = nullptr) {
    using namespace tile::cuda;
    if (elect_one()) {
      empty.wait(at.phase ^ 1);
      full.arrive_expect(kBuild.query_bytes() + (rows == nullptr ? 0 : kBuild.row_bytes()));
      TW_UNROLL
      for (int c = 0; c < kChunks; ++c) TW_UNROLL
      for (int i = 0; i < kQueries; i += kRows)
        load_box(smem + c * kQueryChunk + i * kRowBytes, map, full, c * kChunk,
                 origin.row + block * kQueries + i, head, origin.outer, origin.wrap);
      if (rows != nullptr) {
        *name = block;
        load_bulk(rows, from, kBuild.row_bytes(), full);
      }
    }
    __syncwarp();
    at.next();
  }

  TW_PTX void load_keys(Shared& shared, const Walk& walk, const AttentionBackwardSequence& of,
                        int tiles, uint32_t& tail_phase) const {
    using namespace tile::cuda;
    const int buffer = tiles % kKeyBuffers;
    char* const k = shared.k[buffer];
    Mbarrier& k_full = shared.k_full[buffer];
    const AttentionOrigin origin = given.k_origin(of);
    const int there = of.keys - walk.key_block() * kKeys;
    const bool tail = given.kv_lens && there < kKeys;
    if (elect_one()) {
      shared.k_empty[buffer].wait((uint32_t(tiles / kKeyBuffers) & 1) ^ 1);
      shared.v_empty.wait((uint32_t(tiles) & 1) ^ 1);
      if (tail) {
        shared.tail_full.arrive_expect(2 * kBuild.key_bytes());
      } else {
        k_full.arrive_expect(kBuild.key_bytes());
        shared.v_full.arrive_expect(kBuild.key_bytes());
      }
      load_key_block(k, given.k, tail ? shared.tail_full : k_full, walk, origin);
      load_key_block(shared.v, given.v, tail ? shared.tail_full : shared.v_full, walk, origin);
    }
    __syncwarp();
    if (!tail) return;
    // What follows the last key is not the sequence's: zero times what lies there may be NaN.
    shared.tail_full.wait(tail_phase);
    tail_phase ^= 1;
    clear_rows(k, there);
    clear_rows(shared.v, there);
    fence_async_shared();
    __syncwarp();
    if (elect_one()) {
      k_full.arrive();
      shared.v_full.arrive();
    }
    __syncwarp();
  }
  TW_PTX static void load_key_block(char* smem, const tile::cuda::TensorMap& map,
                                    tile::cuda::Mbarrier& full, const Walk& walk,
                                    const AttentionOrigin& origin) {
    TW_UNROLL
    for (int c = 0; c < kChunks; ++c) TW_UNROLL
    for (int i = 0; i < kKeys; i += kRows)
      tile::cuda::load_box(smem + c * kKeyChunk + i * kRowBytes, map, full, c * kChunk,
                           origin.row + walk.key_block() * kKeys + i, walk.kv_head(), origin.outer,
                           origin.wrap);
  }

  TW_PTX static void clear_rows(char* smem, int first) {
    const int count = (kKeys - first) * (kRowBytes / 16);
    for (int c = 0; c < kChunks; ++c)
      for (int i = int(threadIdx.x) % 32; i < count; i += 32)
        reinterpret_cast<uint4*>(smem + c * kKeyChunk + first * kRowBytes)[i] = {0, 0, 0, 0};
  }

  // ---- the warps that add to the queries' gradients

  /// One thread, ahead of those that add: it waits for memory, but a step later than it asks.
  TW_PTX void plan(Shared& shared) const {
    int turn = -1;  // of all steps
    Addition asked{};
    for (Walk walk(given); walk.more(); walk.next()) {
      const Order order = walk.order();
      const AttentionBackwardTile tile = order.tile(walk.key_block());
      for (int step = 0; step < tile.steps; ++step) {
        const auto [within, block] = tile.at(step);
        const int head = walk.kv_head() * given.group + within;
        const int64_t at = given.rank_place(order.sequence, within, block) + walk.key_block();
        const Addition next{given.place(order.sequence, head, block), given.ranks[at]};
        if (turn >= 0) hand_over(shared, turn, asked);
        asked = next;
        ++turn;
      }
    }
    if (turn >= 0) hand_over(shared, turn, asked);
    hand_over(shared, turn + 1, {0, -1});
  }
  TW_PTX static void hand_over(Shared& shared, int turn, const Addition& addition) {
    const int slot = turn % kSlots;
    shared.unplanned[slot].wait((uint32_t(turn / kSlots) & 1) ^ 1);
    shared.additions[slot] = addition;
    shared.planned[slot].arrive();
  }

  /// One thread: a consumer's pieces of a step, when those before have been added to.
  TW_PTX void add(Shared& shared, int consumer) const {
    using namespace tile::cuda;
    int count = 0;
    for (int turn = 0;; ++turn) {
      const int slot = turn % kSlots;
      shared.planned[slot].wait(uint32_t(turn / kSlots) & 1);
      const Addition addition = shared.additions[slot];
      shared.unplanned[slot].arrive();
      if (addition.rank < 0) return;
      int* const counter = given.added + addition.place * kConsumers + consumer;
      while (load_acquire(counter) != addition.rank) {
      }
      fence_async_global();
      for (int i = 0; i < kPieces; ++i, ++count) {
        const int buffer = count % kSumBuffers;
        shared.sums_full[consumer][buffer].wait(uint32_t(count / kSumBuffers) & 1);
        const int64_t part = addition.place * kParts + consumer * kPieces + i;
        add_piece(shared.sums[consumer][buffer], part, addition.rank);
        wait_stores_read<0>();
        shared.sums_empty[consumer][buffer].arrive();
      }
      wait_stores_done<0>();
      fence_async_global();
      add_release(counter, 1);
    }
  }
  TW_PTX void add_piece(const float* from, int64_t part, int rank) const {
    using namespace tile::cuda;
    constexpr int kBytes = kPart * int(sizeof(float));
    float* const to = given.q_sums + part * kPart;
    if (rank == 0)
      store_bulk(to, from, kBytes);
    else
      add_bulk(to, from, kBytes);
    commit_stores();
  }
};

}  // namespace tw::kernels
