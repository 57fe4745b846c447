// Matrix multiplication of scaled e4m3 or int8 operands on Hopper, in groups of rows or in one,
// float32 out:
//
//   out[r, n] = sum over k of a[r, k] a_scale[r, k / block_k] b[g, n, k] b_scale[g, n / block_n, k
//   / block_k]
//
// Sums have two levels, as in DeepSeek-V3, arXiv:2412.19437, section 3.3: the tensor cores, whose
// sums of e4m3 products keep some 14 bits and those of int8 all, add up 128 values of k; the
// product with the scales is added to float32 sums in registers. Meanwhile the tensor cores work
// for the other consumer, which has the other rows of the tile and may start when half of this
// one's products are done; in tiles that leave registers for it, for the same one, on the next
// block of k. Where scales hold for more of k, the tensor cores add up 512 values.
//
// One warp of the producer warpgroup issues TMA, two bring the scales of each stage, one zeros the
// rows of no group. Which rows are a group's is read from memory by every warp as it walks the
// tiles: the host knows none of it. What a tile has beyond its group is multiplied and not stored.
#pragma once

#include "tilewright/kernels/gemm_epilogue.h"
#include "tilewright/kernels/gemm_gaps_sm90.h"
#include "tilewright/kernels/gemm_scaled_build_sm90.h"
#include "tilewright/kernels/gemm_scaled_products_sm90.h"
#include "tilewright/kernels/gemm_scaled_scales_sm90.h"
#include "tilewright/kernels/gemm_scaled_turn_sm90.h"
#include "tilewright/kernels/gemm_store_sm90.h"
#include "tilewright/tile/cuda/bulk.h"
#include "tilewright/tile/cuda/cluster.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/ring.h"
#include "tilewright/tile/cuda/wgmma.h"

namespace tw::kernels {

template <class Q, ScaledGemmBuild kBuild>
struct ScaledGemmSm90 {
  static constexpr int kRows = kBuild.rows, kColumns = kBuild.columns, kTileK = 128;
  static constexpr int kConsumers = kBuild.consumers(), kThreads = kBuild.threads();
  static constexpr int kStages = kBuild.stages(), kSplit = kBuild.split, kSpans = kBuild.spans();
  static constexpr int kWarpgroup = 128, kWarps = 4, kHeight = 64;  // of a consumer
  using Scales = StageScales<kBuild>;
  static constexpr int kScaleWarps = Scales::kWarps;
  static constexpr bool kInTurns = kColumns > 128;  // or twice the registers for products
  // Named barriers: one of each consumer, one for each one's turn, one of both.
  static constexpr int kSelf = 1, kTurn = kSelf + kConsumers, kBoth = kTurn + kConsumers;
  static_assert(!kInTurns || kConsumers == 2);
  const ScaledGemmArguments& given;
  struct alignas(1024) Shared {
    char a[kStages][kRows * 128];
    char b[kStages][kColumns * 128];
    TileStore<float, kBuild.staging()> store[kConsumers];
    Scales scales[kStages];
    tile::cuda::Mbarrier full[kStages], empty[kStages];
    ScaledGemmPiece cut;  // of this block
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes() && kSpans <= 4);
  using Position = tile::cuda::RingPosition<kStages>;
  using Cursor = GroupedTileCursor<kRows, 1>;
  using Products = ScaledProducts<Q, kBuild, kStages, false>;
  using Operands = typename Products::Operands;
  using Sums = typename Products::Sums;
  using Part = typename Products::Part;
  using Factors = typename Scales::Factors;

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    prefetch_b();
    if (threadIdx.x == 0) {
      prefetch(given.a);
      prefetch(given.b);
      prefetch(given.out);
      shared.cut = given.cut.piece(int(blockIdx.x), given.k_blocks);
      for (int i = 0; i < kStages; ++i) {
        shared.full[i].init(1 + 32 * kScaleWarps);
        shared.empty[i].init(kConsumers * kWarps);
      }
      fence_barrier_init();
    }
    __syncthreads();
    wait_for_grids_before();
    if (warpgroup == 0) {
      give_registers<kConsumers == 1 ? 72 : 56>();
      produce(shared);
      if constexpr (kSplit > 1) {  // the two in put_split
        cluster_sync();
        cluster_sync();
      }
    } else {
      take_registers<224>();
      consume(shared, warpgroup - 1);
    }
  }

 private:
  TW_PTX static int rank() { return kSplit > 1 ? tile::cuda::cluster_rank() : 0; }
  TW_PTX ScaledGemmPiece whole() const {
    return {0, rank() * given.k_blocks / kSplit, (rank() + 1) * given.k_blocks / kSplit};
  }
  /// This block's next piece.
  TW_PTX ScaledGemmPiece next(const Shared& shared, ScaledGemmWalk& walk) const {
    return walk.next(given.cut.first, shared.cut, whole(), int(blockIdx.x / kSplit),
                     int(gridDim.x / kSplit));
  }
  /// Asks for the beginning of this block's part of b while the kernel before still runs: b is the
  /// weight of a product of few rows, which is bound by reading it.
  TW_PTX void prefetch_b() const {
    if (given.ahead == 0) return;
    Cursor tiles = cursor();
    const int64_t tile = blockIdx.x / kSplit;
    if (!tiles.seek(tile)) return;
    const int64_t first = int64_t{whole().first} * kTileK, most = given.b_row_bytes - first;
    const int64_t row = int64_t{tiles.place(tile).column} * kColumns + int(threadIdx.x);
    const int bytes = int(most < given.ahead ? most : given.ahead) / 16 * 16;
    if (int(threadIdx.x) < kColumns && row < given.rows.size(1) && bytes > 0)
      tile::cuda::prefetch_l2(given.b_data + row * given.b_row_stride + first, bytes);
  }
  TW_PTX Cursor cursor() const { return {given.groups, given.rows.size(0), given.column_tiles}; }

  TW_PTX void produce(Shared& shared) const {
    const int warp = tile::cuda::uniform(int(threadIdx.x) / 32);
    if (warp == 0) {
      if (tile::cuda::elect_one()) load_tiles(shared);
    } else if (warp <= kScaleWarps) {
      load_scales(shared, warp - 1);
    } else if (given.groups.ends) {
      GroupGapsSm90<float>{given.groups, given.rows, {given.rows.size(0)}}.clear(0, 1);
    }
  }
  TW_PTX void load_tiles(Shared& shared) const {
    using namespace tile::cuda;
    Position at;
    Cursor tiles = cursor();
    ScaledGemmWalk walk;
    for (auto piece = next(shared, walk); tiles.seek(piece.tile); piece = next(shared, walk)) {
      const GroupedGemmPlace place = tiles.place(piece.tile);
      for (int i = piece.first; i < piece.last; ++i) {
        Mbarrier& full = shared.full[at.index];
        shared.empty[at.index].wait(at.phase ^ 1);
        full.arrive_expect((kRows + kColumns) * 128);
        load_box(shared.a[at.index], given.a, full, i * kTileK, place.row, 0);
        load_box(shared.b[at.index], given.b, full, i * kTileK, place.column * kColumns,
                 place.group);
        at.next();
      }
    }
    launch_grids_after();  // not sooner: what the next kernel loads would delay these
  }
  /// A stage's scales are on their way before it is free.
  TW_PTX void load_scales(Shared& shared, int warp) const {
    constexpr int kFetched = Scales::kFetched;
    const int lane = warp * 32 + int(threadIdx.x) % 32;
    Position at;
    Cursor tiles = cursor();
    ScaledGemmWalk walk;
    for (auto piece = next(shared, walk); tiles.seek(piece.tile); piece = next(shared, walk)) {
      const int first = piece.first, last = piece.last;
      const ScaleReader<kBuild> reader(given, tiles.place(piece.tile), lane, last);
      int base = first / kFetched * kFetched;
      typename ScaleReader<kBuild>::Fetched next = {};
      if (base < last) reader.fetch(base, next);
      for (; base < last; base += kFetched) {
        const auto now = next;
        if (base + kFetched < last) reader.fetch(base + kFetched, next);
        TW_UNROLL
        for (int e = 0; e < kFetched; ++e) {
          if (base + e < first || base + e >= last) continue;
          shared.empty[at.index].wait(at.phase ^ 1);
          reader.put(shared.scales[at.index], now, e);
          shared.full[at.index].arrive();
          at.next();
        }
      }
    }
  }

  TW_PTX void consume(Shared& shared, int consumer) const {
    Position at;
    Cursor tiles = cursor();
    if (kInTurns && consumer == 1) pass_turn(consumer);
    ScaledGemmWalk walk;
    for (auto piece = next(shared, walk); tiles.seek(piece.tile); piece = next(shared, walk)) {
      const GroupedGemmPlace place = tiles.place(piece.tile);
      Sums sums;
      TW_UNROLL
      for (int i = 0; i < kColumns / 2; ++i) sums[i] = 0;
      if (place.rows <= consumer * kHeight)
        skip(shared, at, consumer, piece);
      else if constexpr (kInTurns)
        multiply_in_turns(shared, at, consumer, piece, sums);
      else
        Products::multiply(shared, at, consumer, piece.last - piece.first, sums);
      if constexpr (kSplit > 1)
        put_split(shared, place, consumer, sums);
      else
        put(shared, place, consumer, piece, sums);
    }
    if (threadIdx.x % kWarpgroup == 0) tile::cuda::wait_stores_read<0>();
  }

  /// Half of the products of a block of k are done when the other consumer starts on its own; by
  /// the time that these are promoted, the tensor cores have been at those for a while.
  TW_PTX void multiply_in_turns(Shared& shared, Position& at, int consumer,
                                const ScaledGemmPiece& piece, Sums& sums) const {
    using namespace tile::cuda;
    const int first = piece.first, last = piece.last;
    Part part;
    bool keeps = false;
    if (first < last) shared.full[at.index].wait(at.phase);
    const Operands origin = Products::operands(shared, consumer);
    Operands of = Products::in_stage(origin, at.index);
    for (int i = first; i < last; ++i) {
      sync_named(kTurn + consumer, kConsumers * kWarpgroup);
      pin(part);
      wgmma_fence();
      TW_UNROLL
      for (int step = 0; step < 4; ++step) {
        Products::multiply_step(of, step, part, step > 0 || keeps);
        if (step % 2 == 1) wgmma_commit();
      }
      pin(part);
      const int stage = at.index;
      const Factors factors = shared.scales[stage].of_thread(consumer);
      wgmma_wait<1>();
      pass_turn(consumer);
      at.next();
      if (i + 1 < last) shared.full[at.index].wait(at.phase);
      of = Products::in_stage(origin, at.index);
      wgmma_wait<0>();
      pin(part);
      Products::release(shared.empty[stage]);
      keeps = given.is_long && (i + 1) % Scales::kFetched != 0 && i + 1 < last;
      if (!keeps) Products::promote(sums, part, factors);
    }
  }
  TW_PTX static void pass_turn(int consumer) {
    tile::cuda::arrive_named(kTurn + 1 - consumer, kConsumers * kWarpgroup);
  }
  /// This consumer's half of the tile is outside the group.
  TW_PTX static void skip(Shared& shared, Position& at, int consumer,
                          const ScaledGemmPiece& piece) {
    for (int i = piece.first; i < piece.last; ++i) {
      if constexpr (kInTurns) {
        tile::cuda::sync_named(kTurn + consumer, kConsumers * kWarpgroup);
        pass_turn(consumer);
      }
      shared.full[at.index].wait(at.phase);
      Products::release(shared.empty[at.index]);
      at.next();
    }
  }

  /// What TileStore stores to.
  struct Destination {
    const tile::cuda::TensorMap& out;
    GemmScatter<float> scatter;
    GemmScale epilogue;
    bool adds;  // to what other blocks have stored
  };
  /// The end of a group within out is no end of a box: its rows leave by the threads.
  TW_PTX void put(Shared& shared, const GroupedGemmPlace& place, int consumer,
                  const ScaledGemmPiece& piece, Sums& sums) const {
    const int row = place.row + consumer * kHeight, end = place.row + place.rows;
    if (row >= end) return;
    const bool boxes = given.stores_boxes && (row + kHeight <= end || end == given.rows.size(0));
    float* const threads = boxes ? nullptr : given.rows.data;
    const GemmScatter<float> scatter = {threads, end, given.rows.size(1), given.rows.stride(0),
                                        1,       0};
    const bool is_cut = piece.tile >= given.cut.first;
    const ScaledGemmTurn turn{
        given.arrived + (piece.tile - given.cut.first) * kConsumers + consumer, kSelf + consumer};
    if (is_cut) turn.wait(given.cut.part(int(blockIdx.x)));
    shared.store[consumer].template put<kColumns, 4>(
        Destination{given.out, scatter, {1.0f}, piece.first > 0}, sums,
        {row, place.column * kColumns, 0}, kSelf + consumer);
    if (is_cut) turn.pass();
  }

  /// The blocks of the cluster leave their sums in the memory of the ring; each adds up and stores
  /// its share of the columns, in the order of the blocks.
  TW_PTX void put_split(Shared& shared, const GroupedGemmPlace& place, int consumer,
                        const Sums& sums) const {
    using namespace tile::cuda;
    constexpr int kBlocks = kColumns / 8, kShare = kBlocks / kSplit;
    static_assert(kBlocks % kSplit == 0 &&
                  kConsumers * kColumns * kHeight * 4 <= sizeof(Shared::a));
    const int thread = int(threadIdx.x) % kWarpgroup;
    float4* const partial =
        reinterpret_cast<float4*>(shared.a) + consumer * kBlocks * kWarpgroup + thread;
    sync_named(kBoth, kConsumers * kWarpgroup);  // nobody multiplies from the ring any more
    TW_UNROLL
    for (int i = 0; i < kBlocks; ++i)
      partial[i * kWarpgroup] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
    cluster_sync();
    const int row = consumer * kHeight + thread / 32 * 16 + thread % 32 / 4;
    TW_UNROLL
    for (int j = 0; j < kShare; ++j) {
      const int i = rank() * kShare + j, column = place.column * kColumns + 8 * i + thread % 4 * 2;
      float total[4] = {};
      TW_UNROLL
      for (int r = 0; r < kSplit; ++r) {
        float of_block[4];
        load_cluster(of_block, partial + i * kWarpgroup, r);
        TW_UNROLL
        for (int e = 0; e < 4; ++e) total[e] += of_block[e];
      }
      if (row < place.rows) store_pair(place.row + row, column, total[0], total[1]);
      if (row + 8 < place.rows) store_pair(place.row + row + 8, column, total[2], total[3]);
    }
    cluster_sync();  // nobody leaves while others read its sums
  }
  TW_PTX void store_pair(int row, int column, float left, float right) const {
    float* const to = given.rows.data + row * given.rows.stride(0) + column;
    if (given.stores_boxes && column + 1 < given.rows.size(1)) {  // rows start at 16 i bytes
      *reinterpret_cast<float2*>(to) = {left, right};
    } else {
      if (column < given.rows.size(1)) to[0] = left;
      if (column + 1 < given.rows.size(1)) to[1] = right;
    }
  }
};

}  // namespace tw::kernels
