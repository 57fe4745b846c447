// The products of experts of a layer on Hopper, of scaled e4m3 operands with float32 sums of two
// levels (gemm_scaled_sm90.h): what scaled_product.h says, for rows that may be gathered, with the
// gate in the end, or into other rows of out, times their weights.
//
// The producer warpgroup brings the rows, by TMA or, gathered, by copies of its threads, and the
// scales by a copy of each thread; TMA brings b. A tile of a gated product has 64 columns of the
// gate and the 64 of what it is for, so a thread has both sums of an element of out. Consumers
// store from registers, eight bytes a thread: lanes next to each other swap halves of what they
// have, so that four of them fill a sector of 32 bytes, in whichever row of out.
#pragma once

#include "tilewright/kernels/gated_activation.h"
#include "tilewright/kernels/gemm_gaps_sm90.h"
#include "tilewright/kernels/gemm_grouped_gather_sm90.h"
#include "tilewright/kernels/gemm_scaled_experts_build_sm90.h"
#include "tilewright/kernels/gemm_scaled_products_sm90.h"
#include "tilewright/kernels/gemm_scaled_scales_sm90.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/ring.h"
#include "tilewright/tile/cuda/tma.h"

namespace tw::kernels {

template <class Q, class Out, ScaledExpertsBuild kBuild>
struct ScaledExpertsSm90 {
  static constexpr ScaledGemmBuild kTile = ScaledExpertsBuild::tile(kBuild.rows);
  static constexpr int kRows = kBuild.rows, kColumns = kTile.columns, kTileK = 128;
  static constexpr int kOutColumns = kBuild.out_columns(), kSpan = ScaledGemmBuild::kSpan;
  static constexpr int kConsumers = kTile.consumers(), kStages = kBuild.stages();
  static constexpr int kWarpgroup = 128, kWarps = 4, kHeight = 64;  // of a consumer
  static_assert(sizeof(Q) == 1 && sizeof(Out) == (kBuild.wide ? 4 : 2));
  using Products = ScaledProducts<Q, kTile, kStages, kBuild.gathered>;
  using Gather = GroupedGatherSm90<Q, kRows / 16>;
  using Position = typename Products::Position;
  using Sums = typename Products::Sums;
  using Cursor = GroupedTileCursor<kRows, 1>;
  const ScaledExpertsArguments<Q, Out>& given;

  struct alignas(1024) Shared {
    char a[kStages][kRows * 128];
    char b[kStages][kColumns * 128];
    StageScales<kTile> scales[kStages];
    tile::cuda::Mbarrier full[kStages], empty[kStages];
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes());

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    if (threadIdx.x == 0) {
      if constexpr (!kBuild.gathered) prefetch(given.a);
      prefetch(given.b);
      for (int i = 0; i < kStages; ++i) {
        shared.full[i].init(1 + kWarpgroup);
        shared.empty[i].init(kConsumers * kWarps);
      }
      fence_barrier_init();
    }
    __syncthreads();
    wait_for_grids_before();
    if (warpgroup == 0) {
      give_registers<kConsumers == 1 ? 72 : 56>();
      produce(shared);
    } else {
      take_registers<224>();
      consume(shared, warpgroup - 1);
    }
  }

 private:
  TW_PTX Cursor cursor() const { return {given.groups, given.scattered.count, given.column_tiles}; }

  TW_PTX void produce(Shared& shared) const {
    Position at;
    Cursor tiles = cursor();
    Gather gather{given.gathered, {}};
    for (int64_t t = blockIdx.x; tiles.seek(t); t += gridDim.x) {
      const GroupedGemmPlace place = tiles.place(t);
      const int units = (place.rows + Gather::kUnit - 1) / Gather::kUnit;
      if constexpr (kBuild.gathered) gather.open(place, units);
      const float *const row = row_scale(place), *const span = span_scale(place);
      for (int i = 0; i < given.k_blocks; ++i) {
        tile::cuda::Mbarrier& full = shared.full[at.index];
        shared.empty[at.index].wait(at.phase ^ 1);
        if (threadIdx.x == 0) load(shared, at.index, place, i * kTileK);
        if constexpr (kBuild.gathered) gather.copy(shared.a[at.index], units, i * kTileK);
        copy_scales(shared.scales[at.index], row, span, i / given.k_blocks_per_scale);
        full.arrive_after_copies();
        at.next();
      }
    }
    tile::cuda::launch_grids_after();  // not sooner: what the next kernel loads would delay these
    if (given.groups.ends)
      GroupGapsSm90<Out>{given.groups, given.out, given.scattered}.clear(int(threadIdx.x) / 32,
                                                                         kWarps);
  }
  TW_PTX void load(Shared& shared, int stage, const GroupedGemmPlace& place, int k) const {
    using namespace tile::cuda;
    Mbarrier& full = shared.full[stage];
    full.arrive_expect(((kBuild.gathered ? 0 : kRows) + kColumns) * 128);
    if constexpr (!kBuild.gathered) load_box(shared.a[stage], given.a, full, k, place.row, 0);
    const int column = place.column * kOutColumns;
    load_box(shared.b[stage], given.b, full, k, column, place.group);
    if constexpr (kBuild.gated)
      load_box(shared.b[stage] + kSpan * 128, given.b, full, k, int(given.out.size(1)) + column,
               place.group);
  }

  /// Where the scales of the thread's row of a tile begin. What is outside the group has others'.
  TW_PTX const float* row_scale(const GroupedGemmPlace& place) const {
    const int64_t last = given.scattered.count - 1, row = place.row + int(threadIdx.x) % kRows;
    int64_t number = row < last ? row : last;
    if constexpr (kBuild.gathered) {
      number = given.gathered.numbers(number);
      if (uint64_t(number) >= uint64_t(given.gathered.rows)) number = 0;  // Gather knows
    }
    return &given.a_scale(number, 0);
  }
  /// Of the thread's span of columns: those after the last have the scales of the last.
  TW_PTX const float* span_scale(const GroupedGemmPlace& place) const {
    const int64_t width = given.out.size(1), last = kBuild.gated ? 2 * width - 1 : width - 1;
    const int64_t column = int64_t{place.column} * kOutColumns +
                           int(threadIdx.x) % 2 * (kBuild.gated ? width : int64_t{kSpan});
    const int64_t block = (column < last ? column : last) / given.columns_per_scale;
    return &given.b_scale(place.group, block, 0);
  }
  TW_PTX void copy_scales(StageScales<kTile>& to, const float* row, const float* span,
                          int block) const {
    using tile::cuda::copy_async;
    const int thread = int(threadIdx.x);
    if (thread < kRows) copy_async<4>(&to.rows[thread], row + block * given.a_scale.stride(1));
    if (thread < kTile.spans())
      copy_async<4>(&to.spans[thread], span + block * given.b_scale.stride(2));
  }

  TW_PTX void consume(Shared& shared, int consumer) const {
    Position at;
    Cursor tiles = cursor();
    for (int64_t t = blockIdx.x; tiles.seek(t); t += gridDim.x) {
      const GroupedGemmPlace place = tiles.place(t);
      if (place.rows <= consumer * kHeight) {
        skip(shared, at);
        continue;
      }
      Sums sums;
      TW_UNROLL
      for (int i = 0; i < kColumns / 2; ++i) sums[i] = 0;
      Products::multiply(shared, at, consumer, given.k_blocks, sums);
      if constexpr (kBuild.gated) gate(sums);
      put(place, consumer, sums);
    }
  }
  /// This consumer's half of the tile is outside the group.
  TW_PTX void skip(Shared& shared, Position& at) const {
    for (int i = 0; i < given.k_blocks; ++i) {
      shared.full[at.index].wait(at.phase);
      Products::release(shared.empty[at.index]);
      at.next();
    }
  }
  /// The first span of columns becomes what leaves.
  TW_PTX void gate(Sums& sums) const {
    constexpr int kAtOnce = 8, kGate = kSpan / 2;  // sums of a thread
    using V = tile::Pack<float, kAtOnce>;
    with_activation(GatedActivation(given.activation), [&](auto f) {
      TW_UNROLL
      for (int first = 0; first < kGate; first += kAtOnce) {
        V gate;
        TW_UNROLL
        for (int i = 0; i < kAtOnce; ++i) gate[i] = sums[first + i];
        gate = f(gate);
        TW_UNROLL
        for (int i = 0; i < kAtOnce; ++i) sums[first + i] = gate[i] * sums[kGate + first + i];
      }
    });
  }

  /// A thread has two rows, eight apart, and pairs of columns in blocks of eight.
  TW_PTX void put(const GroupedGemmPlace& place, int consumer, const Sums& sums) const {
    const int thread = int(threadIdx.x) % kWarpgroup, lane = thread % 32;
    TW_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = consumer * kHeight + thread / 32 * 16 + half * 8 + lane / 4;
      const int64_t to =
          row < place.rows ? given.scattered.destination(place.row + row, given.out.size(0)) : -1;
      const float weight = given.scattered.weight(to);
      const int column = place.column * kOutColumns;
      TW_UNROLL
      for (int i = 0; i < kOutColumns / 8; i += 2) {
        const float *const left = sums + 4 * i + 2 * half, *const right = left + 4;
        if constexpr (kBuild.wide) {
          const int mine = column + 8 * i + lane % 4 * 2;
          store(to, mine, __float_as_uint(left[0] * weight), __float_as_uint(left[1] * weight));
          store(to, mine + 8, __float_as_uint(right[0] * weight),
                __float_as_uint(right[1] * weight));
        } else {
          const uint32_t first = tile::cuda::pack<Out>(left[0] * weight, left[1] * weight);
          const uint32_t second = tile::cuda::pack<Out>(right[0] * weight, right[1] * weight);
          const bool odd = lane % 2 == 1;  // has four columns of the second block
          const uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
          store(to, column + 8 * (i + odd) + lane % 4 / 2 * 4, odd ? other : first,
                odd ? second : other);
        }
      }
    }
  }
  /// Eight bytes of a row of out, or as much as it has.
  TW_PTX void store(int64_t to, int column, uint32_t first, uint32_t second) const {
    constexpr int kEach = 8 / int(sizeof(Out));
    const int64_t columns = given.out.size(1);
    if (to < 0 || column >= columns) return;
    Out* const at = given.out.data + to * given.out.stride(0) + column;
    if (given.stores_eights && column + kEach <= columns) {
      *reinterpret_cast<uint2*>(at) = {first, second};
    } else if constexpr (kBuild.wide) {
      at[0] = __uint_as_float(first);
      if (column + 1 < columns) at[1] = __uint_as_float(second);
    } else {
      auto* const halves = reinterpret_cast<uint16_t*>(at);
      TW_UNROLL
      for (int i = 0; i < kEach; ++i)
        if (column + i < columns) halves[i] = uint16_t((i < 2 ? first : second) >> i % 2 * 16);
    }
  }
};

}  // namespace tw::kernels
