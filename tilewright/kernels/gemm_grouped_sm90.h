// Grouped matrix multiplication on Hopper: out[r, :] = a[r, :] weight[group of r], float32 sums.
//
// The schedule is the ping-pong one of gemm_sm90.h, on the transposed product: a producer
// warpgroup keeps a ring of stages full by TMA, two consumers take turns, one storing its tile
// while the other multiplies. Which rows are a group's is read from memory by every warpgroup as it
// walks the tiles: the host knows none of it, and a captured launch may be replayed with other
// groups.
//
// What a box of rows has beyond the group is multiplied and not stored: whole units of 16 rows
// leave by TMA, the rest of a group by the threads.
//
// Rows that go to others of out all leave by the threads, eight of them 128 bytes of one.
//
// Gated, the two blocks of 64 columns of a tile are those of a gate and of what it is for: one of
// them leaves, the gate activated times the other.
#pragma once

#include "tilewright/kernels/gemm_gaps_sm90.h"
#include "tilewright/kernels/gemm_grouped_build_sm90.h"
#include "tilewright/kernels/gemm_grouped_gather_sm90.h"
#include "tilewright/kernels/grouped_gated_matmul.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/ring.h"
#include "tilewright/tile/cuda/tma.h"
#include "tilewright/tile/cuda/wgmma.h"

namespace tw::kernels {

/// kTransposed: the weights' n runs along memory, [group, k, n].
/// kGathered: a row of out has the row of a whose number is given, not its own.
/// kScattered: a row of the product goes to the row of out whose number is given, times its weight.
template <class T, bool kTransposed, bool kGated, bool kGathered, bool kScattered>
struct GroupedGemmSm90 {
  using Build = GroupedGemmBuild;
  using Position = tile::cuda::RingPosition<Build::kStages>;
  static_assert(sizeof(T) == 2);
  static constexpr int kTileK = 128 / int(sizeof(T)), kWarpgroup = 128;
  static constexpr int kSelf = 1, kTurn = kSelf + Build::kConsumers;  // named barriers
  static constexpr int kWeightBytes = Build::kColumns * 128, kSpanBytes = kTileK * 128;
  static constexpr int kBoxBytes = Build::kRowBox * 128;
  static constexpr int kRowBlocks = Build::kColumns / 64;
  static constexpr int kOutColumns = kGated ? Build::kGatedColumns : Build::kColumns;
  const GroupedGemmArguments<T>& given;

  struct alignas(1024) Shared {
    char weight[Build::kStages][kWeightBytes];
    char rows[Build::kStages][Build::kMostRows * 128];
    char staged[Build::kConsumers][Build::kStaging];
    tile::cuda::Mbarrier full[Build::kStages], empty[Build::kStages];
  };
  static_assert(sizeof(Shared) == Build::kSharedBytes);

  using Sums = float[kRowBlocks][Build::kMostRows / 2];

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    if (threadIdx.x == 0) {
      prefetch(given.weight);
      prefetch(given.a);
      if constexpr (!kScattered) prefetch(given.out);
      for (int i = 0; i < Build::kStages; ++i) {
        shared.full[i].init(kGathered ? 1 + kWarpgroup : 1);
        shared.empty[i].init(1);
      }
      fence_barrier_init();
    }
    __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    if (warpgroup == 0) {
      give_registers<kGathered ? 56 : 24>();
      if constexpr (kGathered)
        produce_gathered(shared);
      else if (threadIdx.x < 32 && elect_one())
        produce(shared);
    } else {
      take_registers<kGathered ? 224 : 240>();
      consume(shared, warpgroup - 1);
    }
  }

 private:
  TW_PTX GroupedGemmCursor cursor() const {
    return {given.groups, scattered().count, given.column_tiles};
  }

  TW_PTX ScatteredRows scattered() const {
    if constexpr (kScattered) return given.scattered;
    return {given.rows.size(0)};
  }

  TW_PTX void produce(Shared& shared) const {
    Position at;
    GroupedGemmCursor tiles = cursor();
    for (int64_t t = blockIdx.x; tiles.seek(t); t += gridDim.x) {
      const GroupedGemmPlace place = tiles.place(t);
      const int boxes = (place.units * Build::kUnit + Build::kRowBox - 1) / Build::kRowBox;
      for (int i = 0; i < given.k_blocks; ++i) {
        shared.empty[at.index].wait(at.phase ^ 1);
        shared.full[at.index].arrive_expect(kWeightBytes + boxes * kBoxBytes);
        load_weight(shared, at.index, place, i * kTileK);
        for (int box = 0; box < boxes; ++box)
          tile::cuda::load_box(shared.rows[at.index] + box * kBoxBytes, given.a,
                               shared.full[at.index], i * kTileK, place.row + box * Build::kRowBox,
                               0);
        at.next();
      }
    }
  }
  TW_PTX void produce_gathered(Shared& shared) const {
    Position at;
    GroupedGemmCursor tiles = cursor();
    GroupedGatherSm90<T, Build::kMostUnits> gather{given.gathered, {}};
    for (int64_t t = blockIdx.x; tiles.seek(t); t += gridDim.x) {
      const GroupedGemmPlace place = tiles.place(t);
      gather.open(place, place.units);
      for (int i = 0; i < given.k_blocks; ++i) {
        shared.empty[at.index].wait(at.phase ^ 1);
        if (threadIdx.x == 0) {
          shared.full[at.index].arrive_expect(kWeightBytes);
          load_weight(shared, at.index, place, i * kTileK);
        }
        gather.copy(shared.rows[at.index], place.units, i * kTileK);
        shared.full[at.index].arrive_after_copies();
        at.next();
      }
    }
  }
  TW_PTX void load_weight(Shared& shared, int stage, const GroupedGemmPlace& place, int k) const {
    using namespace tile::cuda;
    Mbarrier& full = shared.full[stage];
    const int column = place.column * kOutColumns;
    if constexpr (kTransposed || kGated) {
      const int apart = kGated ? int(given.rows.size(1)) : kTileK;
      TW_UNROLL
      for (int i = 0; i < kRowBlocks; ++i) {
        const int here = column + i * apart;
        load_box(shared.weight[stage] + i * kSpanBytes, given.weight, full, kTransposed ? here : k,
                 kTransposed ? k : here, place.group);
      }
    } else {
      load_box(shared.weight[stage], given.weight, full, k, column, place.group);
    }
  }

  TW_PTX void consume(Shared& shared, int consumer) const {
    int64_t t = blockIdx.x;
    Position at;
    GroupedGemmCursor tiles = cursor();
    if (consumer == 1) {
      pass_turn(consumer);
      if (given.groups.ends)
        GroupGapsSm90<T>{given.groups, given.rows, scattered()}.clear(
            int(threadIdx.x) % kWarpgroup / 32, 4);
      t += gridDim.x;
      at.skip(given.k_blocks);
    }
    for (; tiles.seek(t); t += 2 * gridDim.x) {
      const GroupedGemmPlace place = tiles.place(t);
      Sums sums;
      tile::cuda::sync_named(kTurn + consumer, Build::kConsumers * kWarpgroup);
      multiply<Build::kMostUnits>(shared, at, place.units, sums);
      pass_turn(consumer);
      tile::cuda::wgmma_wait<0>();
      pin_all(sums);
      release(shared.empty[at.previous()]);
      at.skip(given.k_blocks);
      if constexpr (kGated) {
        if (given.bias) add_bias(sums, place);
        gate(sums, place.units);
      }
      put_tile(shared.staged[consumer], sums, place, kSelf + consumer);
    }
    if (threadIdx.x % kWarpgroup == 0) tile::cuda::wait_stores_read<0>();
  }

  /// The sums of a tile of `units`: one loop for each number of them, which the instruction names.
  template <int kUnits>
  TW_PTX void multiply(Shared& shared, Position& at, int units, Sums& sums) const {
    if (units == kUnits)
      multiply_tile<kUnits * Build::kUnit>(shared, at, sums);
    else if constexpr (kUnits > 1)
      multiply<kUnits - 1>(shared, at, units, sums);
  }
  template <int kN>
  TW_PTX void multiply_tile(Shared& shared, Position& at, Sums& sums) const {
    using namespace tile::cuda;
    for (int i = 0; i < given.k_blocks; ++i) {
      shared.full[at.index].wait(at.phase);
      if constexpr (kGathered) fence_async_shared();
      pin_all(sums);
      wgmma_fence();
      multiply_stage<kN>(shared.weight[at.index], shared.rows[at.index], sums, i > 0);
      wgmma_commit();
      pin_all(sums);
      if (i > 0) {  // the group before this one is done: its stage may be filled again
        wgmma_wait<1>();
        release(shared.empty[at.previous()]);
      }
      at.next();
    }
  }
  template <int kN>
  TW_PTX static void multiply_stage(const char* weight, const char* rows, Sums& sums, int keep) {
    using namespace tile::cuda;
    constexpr int kStep = 32, kStepWeight = kTransposed ? 16 * 128 : kStep;  // bytes of 16 k
    const uint64_t b = operand(rows);
    TW_UNROLL
    for (int step = 0; step < 128 / kStep; ++step) TW_UNROLL
    for (int r = 0; r < kRowBlocks; ++r) {
      const uint64_t a = operand(weight + r * 64 * 128, kSpanBytes);
      Wgmma<T, kN, kTransposed>::mma(*reinterpret_cast<float(*)[kN / 2]>(sums[r]),
                                     advance(a, step * kStepWeight), advance(b, step * kStep),
                                     step > 0 ? 1 : keep);
    }
  }
  TW_PTX static void pin_all(Sums& sums) {
    TW_UNROLL
    for (int r = 0; r < kRowBlocks; ++r) tile::cuda::pin(sums[r]);
  }
  TW_PTX static void pass_turn(int consumer) {
    tile::cuda::arrive_named(kTurn + 1 - consumer, Build::kConsumers * kWarpgroup);
  }
  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    if (threadIdx.x % kWarpgroup == 0) empty.arrive();
  }

  /// To the two columns that a thread has of each block.
  TW_PTX void add_bias(Sums& sums, const GroupedGemmPlace& place) const {
    const int thread = int(threadIdx.x) % kWarpgroup, columns = int(given.rows.size(1));
    const int column = place.column * kOutColumns + thread / 32 * 16 + thread % 32 / 4;
    TW_UNROLL
    for (int r = 0; r < kRowBlocks; ++r) TW_UNROLL
    for (int which = 0; which < 2; ++which) {
      const int at = column + 8 * which;
      if (at >= columns) continue;
      const float more = float(given.bias(r * columns + at));
      TW_UNROLL
      for (int i = 0; i < Build::kMostRows / 8; ++i) {
        sums[r][4 * i + 2 * which] += more;
        sums[r][4 * i + 2 * which + 1] += more;
      }
    }
  }

  /// The first block of columns becomes what leaves.
  TW_PTX void gate(Sums& sums, int units) const {
    constexpr int kAtOnce = Build::kUnit / 2;  // of a thread, the sums of a unit
    using V = tile::Pack<float, kAtOnce>;
    with_activation(GatedActivation(given.activation), [&](auto f) {
      TW_UNROLL
      for (int u = 0; u < Build::kMostUnits; ++u) {
        if (u >= units) break;
        V gate;
        TW_UNROLL
        for (int i = 0; i < kAtOnce; ++i) gate[i] = sums[0][u * kAtOnce + i];
        gate = f(gate);
        TW_UNROLL
        for (int i = 0; i < kAtOnce; ++i)
          sums[0][u * kAtOnce + i] = gate[i] * sums[1][u * kAtOnce + i];
      }
    });
  }

  /// A tile, as much of it at once as the staging memory takes.
  TW_PTX void put_tile(char* staged, const Sums& sums, const GroupedGemmPlace& place,
                       int barrier) const {
    constexpr int kMost = Build::kStagedRows;
    TW_UNROLL
    for (int r = 0; r < kOutColumns / 64; ++r) TW_UNROLL
    for (int first = 0; first < Build::kMostRows; first += kMost) {
      const int left = place.rows - first;
      if (left > 0)
        put(staged, sums[r] + first / 2, place.row + first, left < kMost ? left : kMost,
            place.column * kOutColumns + 64 * r, barrier);
    }
  }
  /// 64 columns and up to kStagedRows rows: staged in TMA's swizzle, 128 bytes for each row.
  TW_PTX void put(char* staged, const float* sums, int first, int rows, int column,
                  int barrier) const {
    using namespace tile::cuda;
    const int thread = int(threadIdx.x) % kWarpgroup, warp = thread / 32, lane = thread % 32;
    if (thread == 0) wait_stores_read<0>();
    sync_named(barrier, kWarpgroup);
    const auto weights = weights_of(first);
    TW_UNROLL
    for (int i = 0; i < Build::kStagedRows / 8; ++i) {
      if (i * 8 >= rows) break;
      const float* s = sums + 4 * i;
      const int row = 8 * i + lane % 8, chunk = 2 * warp + lane / 8 % 2;
      const float left = weights.of(i, 0), right = weights.of(i, 1);
      store_two_matrices_transposed(staged + row * 128 + (chunk ^ lane % 8) * 16,
                                    pack<T>(s[0] * left, s[1] * right),
                                    pack<T>(s[2] * left, s[3] * right));
    }
    fence_async_shared();
    sync_named(barrier, kWarpgroup);
    const int units = kScattered ? 0 : rows / Build::kUnit;
    if (thread == 0) {
      for (int i = 0; i < units; ++i)
        store_box(given.out, staged + i * Build::kUnit * 128, column, first + i * Build::kUnit, 0);
      commit_stores();
    }
    const int chunk = thread % 8;
    for (int row = units * Build::kUnit + thread / 8; row < rows; row += Build::kUnit) {
      const int64_t to = scattered().destination(first + row, given.rows.size(0));
      if (to >= 0) store_chunk(staged + row * 128 + (chunk ^ row % 8) * 16, to, column + chunk * 8);
    }
  }
  /// Of the rows of out that kStagedRows rows go to: a lane has those of every 32nd.
  struct Weights {
    static constexpr int kEach = kScattered ? Build::kStagedRows / 32 : 1;
    float mine[kEach];

    /// That of the thread's first or second row of eight, a column of the transposed product.
    TW_PTX float of(int eight, int which) const {
      if constexpr (!kScattered) return 1.0f;
      const int row = 8 * (eight % 4) + int(threadIdx.x) % 4 * 2 + which;
      return __shfl_sync(0xffffffffu, mine[kScattered ? eight / 4 : 0], row);
    }
  };
  TW_PTX Weights weights_of(int first) const {
    Weights out{};
    if constexpr (kScattered) {
      TW_UNROLL
      for (int i = 0; i < Weights::kEach; ++i) {
        const int64_t row = first + 32 * i + int(threadIdx.x) % 32;
        const int64_t to =
            row < given.scattered.count ? given.scattered.destination(row, given.rows.size(0)) : -1;
        out.mine[i] = given.scattered.weight(to);
      }
    }
    return out;
  }
  /// Eight elements of a row, or as many as it has.
  TW_PTX void store_chunk(const char* staged, int64_t row, int column) const {
    const int64_t columns = given.rows.size(1);
    T* to = given.rows.data + row * given.rows.stride(0) + column;
    if (column + 8 <= columns) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(staged);
    } else {
      for (int i = 0; column + i < columns; ++i) to[i] = reinterpret_cast<const T*>(staged)[i];
    }
  }
};

}  // namespace tw::kernels
