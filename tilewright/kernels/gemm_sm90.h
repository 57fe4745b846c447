// Matrix multiplication on Hopper: out[i] = epilogue(a[i] b[i]), float32 sums, of bytes int32.
//
// A block is one producer warpgroup, one of whose threads keeps a ring of shared-memory stages full
// by TMA, and two consumer warpgroups that multiply from it. Blocks are persistent and walk the
// tiles in an order that keeps what runs at the same time inside L2. The consumers either halve
// every tile (cooperative) or take turns, one storing while the other multiplies (ping-pong).
//
// Operands lie in shared memory as TMA leaves them, in rows of 128 bytes: along k, or along m or n,
// which the instruction reads transposed. Sizes are arbitrary: what a box has outside its tensor
// reads as zero and is not written. The sums of an element are added in the same order whatever the
// grid, so repeats give the same bits. Where each batch has a part of one k (k_grouped_matmul),
// what the last block of it has beyond is cleared before it is multiplied.
#pragma once

#include "tilewright/kernels/gemm_build_sm90.h"
#include "tilewright/kernels/gemm_store_sm90.h"
#include "tilewright/tile/cuda/bulk.h"
#include "tilewright/tile/cuda/cluster.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/ring.h"
#include "tilewright/tile/cuda/tma.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_int8.h"

namespace tw::kernels {

template <class T, class Out, GemmBuild kBuild, GemmEpilogue Epilogue>
struct GemmSm90 {
  static constexpr int kTileM = kBuild.tile_m, kTileN = kBuild.tile_n, kTileK = 128 / sizeof(T);
  static constexpr int kConsumers = kBuild.consumers(), kWarpgroup = 128;
  static constexpr int kThreads = kBuild.threads();
  static constexpr int kStages = kBuild.stages, kCluster = kBuild.cluster();
  // Named barriers: one of each consumer, one for each one's turn, one of both.
  static constexpr int kSelf = 1, kTurn = kSelf + kConsumers, kBoth = kTurn + kConsumers;
  static constexpr int kStepBytes = 32;  // of k in one instruction
  static constexpr int kABytes = kTileM * 128, kBBytes = kTileN * 128;
  static constexpr int kSpanBytes = kTileK * 128;  // 128 bytes of m or n, all k of the tile
  static constexpr int kRows = kBuild.ping_pong ? kTileM : kTileM / kConsumers;  // of a consumer
  static constexpr int kRowBlocks = kRows / 64;
  /// Of columns, loaded at once by the epilogue: in ping-pong sums leave few registers, and time.
  static constexpr int kPairs = kBuild.ping_pong ? 2 : sizeof(Out) == 2 ? 8 : 4;
  static_assert(kRows % 64 == 0 && kTileN % 8 == 0, "wgmma has 64 rows and 8 i columns");
  static_assert(kBuild.split == 1 || (kBuild.transposed_out && kRowBlocks == 1), "see put_split");
  static constexpr bool kHasTerms = GemmHasTerms<Epilogue>;
  /// That a thread loads: its columns', or its part of its warpgroup's.
  static constexpr int kTerms = kBuild.transposed_out ? 2 : (kTileN + kWarpgroup - 1) / kWarpgroup;
  static_assert(!kBuild.grouped_k || (kBuild.transposed_a && kBuild.transposed_b && kRows == 64 &&
                                      !kBuild.ping_pong && kCluster == 1 && sizeof(T) == 2),
                "see clear_behind");

  using Arguments = GemmArguments<Out, Epilogue>;
  const Arguments& given;

  struct alignas(1024) Shared {
    char a[kStages][kABytes];
    char b[kStages][kBBytes];
    TileStore<Out, kBuild.staging> store[kConsumers];
    float terms[kConsumers][kTileN];
    tile::cuda::Mbarrier full[kStages], empty[kStages];
  };

  static_assert(sizeof(Shared) == kBuild.shared_bytes());

  using Position = tile::cuda::RingPosition<kStages>;
  using Sums = typename Epilogue::Sum[kRowBlocks][kTileN / 2];

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    prefetch_a();
    if (threadIdx.x == 0) {
      prefetch(given.a);
      prefetch(given.b);
      prefetch(given.out);
      for (int i = 0; i < kStages; ++i) {
        shared.full[i].init(1);
        shared.empty[i].init((kBuild.ping_pong ? 1 : kConsumers) * kBuild.multicast);
      }
      fence_barrier_init();
    }
    if constexpr (kBuild.multicast > 1)
      cluster_sync();  // the others arrive at these barriers
    else
      __syncthreads();
    wait_for_grids_before();
    if (warpgroup == 0) {
      give_registers<40>();
      if (threadIdx.x < 32 && elect_one()) produce(shared);
      if constexpr (kBuild.split > 1) cluster_sync();  // the one in put_split
    } else {
      take_registers<232>();
      consume(shared, warpgroup - 1);
    }
    if constexpr (kCluster > 1) cluster_sync();  // nobody leaves while others reach into it
  }

  TW_PTX static int rank() { return kCluster > 1 ? tile::cuda::cluster_rank() : 0; }
  /// This block's part of k, in blocks.
  TW_PTX int first_k() const {
    return kBuild.split > 1 ? rank() * given.k_blocks / kBuild.split : 0;
  }
  TW_PTX int last_k() const {
    return kBuild.split > 1 ? (rank() + 1) * given.k_blocks / kBuild.split : given.k_blocks;
  }
  /// What of k a tile multiplies.
  TW_PTX GemmDepth depth(const GemmPlace& place) const {
    if constexpr (!kBuild.grouped_k)
      return {first_k() * kTileK, last_k() - first_k(), kTileK};
    else {
      const RowGroups::Stretch part = given.k_groups.group_inside(place.batch, given.k);
      const int begin = int(part.begin), end = int(part.end);
      const int blocks = end > begin ? (end - begin + kTileK - 1) / kTileK : 0;
      return {begin, blocks, end - begin - (blocks - 1) * kTileK};
    }
  }
  TW_PTX static int first_row(const GemmPlace& place) {
    return (place.row * kBuild.multicast + (kBuild.multicast > 1 ? rank() : 0)) * kTileM;
  }

  /// Asks for the beginning of this block's part of a while the kernel before still runs: a is the
  /// weight of a product of few rows, which is bound by reading it.
  TW_PTX void prefetch_a() const {
    const GemmAhead& a = given.ahead;
    if (a.most == 0) return;
    const GemmPlace place = given.order.place(int(blockIdx.x) / kCluster);
    const int row = first_row(place) + int(threadIdx.x), first = first_k() * 128;
    const int left = (last_k() * 128 < a.row_bytes ? last_k() * 128 : a.row_bytes) - first;
    const int bytes = (left < a.most ? left : a.most) / 16 * 16;
    if (int(threadIdx.x) < kTileM && row < a.rows && bytes > 0)
      tile::cuda::prefetch_l2(a.data + place.batch * a.batch_stride + row * a.row_stride + first,
                              bytes);
  }

  TW_PTX void produce(Shared& shared) const {
    using namespace tile::cuda;
    const int share = kBuild.multicast > 1 ? rank() : 0;
    Position at;
    for (int t = int(blockIdx.x) / kCluster; t < given.order.tiles;
         t += int(gridDim.x) / kCluster) {
      const GemmPlace place = given.order.place(t);
      const int row = first_row(place), column = place.column * kTileN;
      const GemmDepth of = depth(place);
      for (int i = 0, k = of.begin; i < of.blocks; ++i, k += kTileK) {
        Mbarrier& full = shared.full[at.index];
        shared.empty[at.index].wait(at.phase ^ 1);
        full.arrive_expect(kABytes + kBBytes);
        load<kBuild.transposed_a, kTileM, 1>(shared.a[at.index], given.a, full, row, k,
                                             place.batch * given.a_batch, 0);
        load<kBuild.transposed_b, kTileN, kBuild.multicast>(
            shared.b[at.index], given.b, full, column, k, place.batch * given.b_batch, share);
        at.next();
      }
    }
    launch_grids_after();  // not sooner: what the next kernel asks for would delay these loads
  }

  /// kExtent rows of an operand, or this block's share of them, which all blocks receive.
  template <bool kTransposed, int kExtent, int kShares>
  TW_PTX static void load(char* smem, const tile::cuda::TensorMap& from, tile::cuda::Mbarrier& full,
                          int first, int k, int batch, int share) {
    constexpr int kBox = kTransposed ? 128 / int(sizeof(T)) : kExtent / kShares;
    constexpr int kBoxes = kExtent / kShares / kBox;
    TW_UNROLL
    for (int i = 0; i < kBoxes; ++i) {
      const int box = share * kBoxes + i, row = first + box * kBox;
      char* to = smem + box * (kTransposed ? kSpanBytes : kBox * 128);
      const int c0 = kTransposed ? row : k, c1 = kTransposed ? k : row;
      if constexpr (kShares > 1)
        load_box_multicast(to, from, full, c0, c1, batch, uint16_t((1 << kShares) - 1));
      else
        load_box(to, from, full, c0, c1, batch);
    }
  }

  TW_PTX void consume(Shared& shared, int consumer) const {
    using namespace tile::cuda;
    const int from = kBuild.ping_pong ? 0 : consumer * kRows;
    const int stride = int(gridDim.x) / kCluster;
    int t = int(blockIdx.x) / kCluster;
    Position at;
    if (kBuild.ping_pong && consumer == 1) {
      pass_turn(consumer);
      t += stride;
      at.skip(last_k() - first_k());
    }
    for (; t < given.order.tiles; t += kBuild.ping_pong ? 2 * stride : stride) {
      const GemmPlace place = given.order.place(t);
      const GemmDepth of = depth(place);
      Sums sums;
      float terms[kTerms];
      load_terms(terms, place, from);
      // In ping-pong sums leave no registers for them, and there is time until its turn.
      if constexpr (kBuild.ping_pong) share_terms(shared, consumer, terms);
      multiply(shared, at, from, consumer, of, sums);
      if (kBuild.ping_pong) at.skip(of.blocks);
      put(shared, place, from, consumer, sums, terms);
    }
    if (threadIdx.x % kWarpgroup == 0) wait_stores_read<0>();
  }

  /// What the epilogue adds to columns, which arrives while the tile is multiplied.
  TW_PTX void load_terms(float (&terms)[kTerms], const GemmPlace& place, int from) const {
    if constexpr (kHasTerms) {
      const int thread = int(threadIdx.x) % kWarpgroup;
      const int first = kBuild.transposed_out
                            ? first_row(place) + from + thread / 32 * 16 + thread % 32 / 4
                            : place.column * kTileN + thread;
      TW_UNROLL
      for (int i = 0; i < kTerms; ++i)
        terms[i] = given.epilogue.term(first + i * (kBuild.transposed_out ? 8 : kWarpgroup));
    }
  }
  /// To all threads of this warpgroup, which are done with those of the tile before.
  TW_PTX static void share_terms(Shared& shared, int consumer, const float (&terms)[kTerms]) {
    if constexpr (kHasTerms) {
      TW_UNROLL
      for (int i = 0; i < kTerms; ++i) {
        const int column = int(threadIdx.x) % kWarpgroup + i * kWarpgroup;
        if (column < kTileN) shared.terms[consumer][column] = terms[i];
      }
      tile::cuda::sync_named(kSelf + consumer, kWarpgroup);
    }
  }

  /// The sums of this consumer's rows over all stages of a tile.
  TW_PTX static void multiply(Shared& shared, Position& at, int from, int consumer,
                              const GemmDepth& of, Sums& sums) {
    using namespace tile::cuda;
    const int count = of.blocks;
    int previous = 0;
    if (kBuild.ping_pong) sync_named(kTurn + consumer, kConsumers * kWarpgroup);
    if (count == 0) clear(sums);
    for (int i = 0; i < count; ++i) {
      shared.full[at.index].wait(at.phase);
      if constexpr (kBuild.grouped_k)
        if (i + 1 == count && of.last < kTileK) clear_behind(shared, at.index, consumer, of.last);
      pin_all(sums);
      wgmma_fence();
      multiply_stage(shared.a[at.index] + from * 128, shared.b[at.index], sums, i > 0);
      wgmma_commit();
      pin_all(sums);
      if (i > 0) {  // the group before this one is done: its stage may be filled again
        wgmma_wait<1>();
        release(shared.empty[previous]);
      }
      previous = at.index;
      at.next();
    }
    if (kBuild.ping_pong) pass_turn(consumer);
    wgmma_wait<0>();
    pin_all(sums);
    if (count > 0) release(shared.empty[previous]);
  }

  /// Values of k behind the group's are another's: zeros in both operands, since zero times what is
  /// not finite is no zero. Each consumer has its rows of a and half of b's columns.
  TW_PTX static void clear_behind(Shared& shared, int stage, int consumer, int count) {
    constexpr int kSpans = kTileN / 64 / kConsumers;
    const auto clear_span = [&](char* span) {
      uint4* to = reinterpret_cast<uint4*>(span);
      for (int i = count * 8 + int(threadIdx.x) % kWarpgroup; i < kTileK * 8; i += kWarpgroup)
        to[i] = {};
    };
    clear_span(shared.a[stage] + consumer * kSpanBytes);
    TW_UNROLL
    for (int i = 0; i < kSpans; ++i)
      clear_span(shared.b[stage] + (consumer * kSpans + i) * kSpanBytes);
    tile::cuda::fence_async_shared();
    tile::cuda::sync_named(kBoth, kConsumers * kWarpgroup);
  }

  /// Adds one stage to the sums, or starts them.
  TW_PTX static void multiply_stage(const char* rows, const char* columns, Sums& sums, int keep) {
    using namespace tile::cuda;
    using Instruction = Wgmma<T, kTileN, kBuild.transposed_a, kBuild.transposed_b>;
    // A step of k is 32 bytes of a row, or 16 rows.
    constexpr int kStepA = kBuild.transposed_a ? 16 * 128 : kStepBytes;
    constexpr int kStepB = kBuild.transposed_b ? 16 * 128 : kStepBytes;
    const uint64_t b = operand(columns, kSpanBytes);
    TW_UNROLL
    for (int step = 0; step < 128 / kStepBytes; ++step) TW_UNROLL
    for (int r = 0; r < kRowBlocks; ++r)
      Instruction::mma(sums[r], advance(operand(rows + r * 64 * 128, kSpanBytes), step * kStepA),
                       advance(b, step * kStepB), step > 0 ? 1 : keep);
  }
  TW_PTX static void pin_all(Sums& sums) {
    TW_UNROLL
    for (int r = 0; r < kRowBlocks; ++r) tile::cuda::pin(sums[r]);
  }
  TW_PTX static void clear(Sums& sums) {
    TW_UNROLL
    for (int r = 0; r < kRowBlocks; ++r) TW_UNROLL
    for (int i = 0; i < kTileN / 2; ++i) sums[r][i] = 0;
  }

  /// In ping-pong, the other consumer may start on its tile. Without turns it could wait for a
  /// phase of the ring two ahead, whose parity is that of the one behind.
  TW_PTX static void pass_turn(int consumer) {
    tile::cuda::arrive_named(kTurn + 1 - consumer, kConsumers * kWarpgroup);
  }

  /// This warpgroup has read a stage; with multicast, all blocks must have.
  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    const int thread = int(threadIdx.x) % kWarpgroup;
    if constexpr (kBuild.multicast > 1) {
      if (thread < kBuild.multicast) empty.arrive_at(thread);
    } else {
      if (thread == 0) empty.arrive();
    }
  }

  TW_PTX void put(Shared& shared, const GemmPlace& place, int from, int consumer, Sums& sums,
                  const float (&terms)[kTerms]) const {
    const int row = first_row(place), column = place.column * kTileN, barrier = kSelf + consumer;
    if constexpr (kBuild.split > 1) {
      put_split(shared, {column, row + from, place.batch}, consumer, sums[0], terms_of(terms));
    } else {
      if constexpr (!kBuild.transposed_out && !kBuild.ping_pong)
        share_terms(shared, consumer, terms);
      TW_UNROLL
      for (int i = 0; i < kRowBlocks; ++i) {
        const int here = row + from + 64 * i;
        auto& store = shared.store[consumer];
        if constexpr (kBuild.transposed_out)
          store.template put_transposed<kTileN>(given, sums[i], {column, here, place.batch},
                                                barrier, terms_of(terms));
        else
          store.template put<kTileN, kPairs>(given, sums[i], {here, column, place.batch}, barrier,
                                             shared.terms[consumer]);
      }
    }
  }
  TW_PTX static GemmTerms terms_of(const float (&terms)[kTerms]) {
    if constexpr (kHasTerms)
      return {terms[0], terms[kTerms - 1]};
    else
      return {};
  }

  /// The blocks of the cluster leave their sums in the memory of the ring; each adds up and stores
  /// its share of the columns, in the order of the blocks.
  TW_PTX void put_split(Shared& shared, GemmCorner corner, int consumer,
                        const float (&sums)[kTileN / 2], const GemmTerms& terms) const {
    using namespace tile::cuda;
    constexpr int kBlocks = kTileN / 8, kShare = kBuild.share() / 8;
    static_assert(
        kConsumers * kBlocks * kWarpgroup * 16 <= int(sizeof(Shared::a) + sizeof(Shared::b)),
        "fits");
    float4* partial = reinterpret_cast<float4*>(shared.a) + consumer * kBlocks * kWarpgroup +
                      threadIdx.x % kWarpgroup;
    sync_named(kBoth, kConsumers * kWarpgroup);  // nobody multiplies from the ring any more
    TW_UNROLL
    for (int i = 0; i < kBlocks; ++i)
      partial[i * kWarpgroup] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
    cluster_sync();
    const int first = rank() * kShare;
    if (first >= kBlocks) return;
    constexpr int kChunk = kBuild.box() / 8;
    static_assert(kShare % kChunk == 0);
#pragma unroll 1
    for (int i = first; i < first + kShare; i += kChunk) {
      float total[kChunk * 4];
      add_up(total, partial + i * kWarpgroup);
      shared.store[consumer].template put_transposed<kChunk * 8>(
          given, total, {corner.row + i * 8, corner.column, corner.batch}, kSelf + consumer, terms);
    }
  }
  template <int kCount>
  TW_PTX static void add_up(float (&total)[kCount], const float4* partial) {
    TW_UNROLL
    for (int i = 0; i < kCount / 4; ++i) {
      TW_UNROLL
      for (int r = 0; r < kBuild.split; ++r) {
        float part[4];
        tile::cuda::load_cluster(part, partial + i * kWarpgroup, r);
        TW_UNROLL
        for (int j = 0; j < 4; ++j)
          total[4 * i + j] = r == 0 ? part[j] : total[4 * i + j] + part[j];
      }
    }
  }
};

}  // namespace tw::kernels
