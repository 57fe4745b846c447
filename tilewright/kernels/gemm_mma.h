// Matrix multiplication of 16-bit elements on any GPU, for any strides and sizes: out =
// activation(alpha a b^T * scales + bias) + beta residual, float32 sums. By the matrix instruction
// of a warp (tile/cuda/mma.h), as CUTLASS's multistage kernels for Ampere have it.
//
// Panels of both operands come into a ring of stages in shared memory, as they lie, while warps
// multiply earlier ones; k may be dealt to several blocks, whose sums are added in order by another
// kernel (gemm_strided.h).
#pragma once

#include "tilewright/kernels/gemm_mma_load.h"
#include "tilewright/kernels/gemm_strided_tile.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/mma.h"

namespace tw::kernels {

/// kWay: a GemmMmaWay.
template <class T, GemmMmaBuild kBuild, int kWay>
struct GemmMma {
  static constexpr int kM = kBuild.tile_m, kN = kBuild.tile_n, kDepth = kBuild.depth;
  static constexpr int kStages = kBuild.stages, kThreads = kBuild.threads();
  static constexpr int kRows = kBuild.warp_m / 16, kColumns = kBuild.warp_n / 8;  // of a warp
  static constexpr int kPitch = kBuild.staged_pitch();
  static constexpr GemmMmaWay kOf = GemmMmaWay::at(kWay);
  static constexpr bool kCopies = kOf.copies;
  static_assert(kDepth % 16 == 0 && kStages >= 2 && kColumns % 2 == 0);

  using LoaderA = GemmMmaLoader<T, kBuild, kM, kCopies>;
  using LoaderB = GemmMmaLoader<T, kBuild, kN, kCopies>;
  using Sums = float[kRows][kColumns][4];
  struct Stage {
    typename LoaderA::Panel a;
    typename LoaderB::Panel b;
  };
  static_assert(sizeof(Stage) == kBuild.stage_bytes());

  const GemmStridedArguments<T>& given;
  Stage* stages;  // as many as k fills
  float* staged;  // in the same memory
  int lane, warp_row, warp_column;

  __device__ GemmMma(const GemmStridedArguments<T>& arguments, void* memory)
      : given(arguments), stages(static_cast<Stage*>(memory)), staged(static_cast<float*>(memory)) {
    const int warp = int(threadIdx.x) / 32;
    constexpr int kAcross = kN / kBuild.warp_n;
    lane = int(threadIdx.x) % 32;
    warp_row = warp / kAcross * kBuild.warp_m, warp_column = warp % kAcross * kBuild.warp_n;
  }

  __device__ void operator()() const {
    const auto tile = GemmStridedOrder(given.out.rows, given.out.cols, kM, kN).tile(blockIdx.x);
    const int64_t row = int64_t{tile.row} * kM, column = int64_t{tile.column} * kN;
    for (int64_t batch = blockIdx.y; batch < given.batch; batch += gridDim.y) {
      const RowGroups::Stretch part = given.part(batch, blockIdx.z);
      LoaderA a(given.a, a_across(), batch, row, part.begin);
      LoaderB b(given.b, b_across(), batch, column, part.begin);
      Sums sums = {};
      multiply(a, b, part.end - part.begin, sums);
      store(sums, {blockIdx.z, batch, row, column});
      __syncthreads();
    }
  }

 private:
  __device__ __forceinline__ bool a_across() const {
    return kCopies ? kOf.a_across : given.a.lies_across();
  }
  __device__ __forceinline__ bool b_across() const {
    return kCopies ? kOf.b_across : given.b.lies_across();
  }

  /// A stage is free once all threads have come to the barrier before the next one's products.
  __device__ __forceinline__ void multiply(LoaderA& a, LoaderB& b, int64_t depth,
                                           Sums& sums) const {
    int64_t ahead = depth;  // values of k that no panel has been asked for
    const auto left = [&] { return ahead < kDepth ? int(ahead) : kDepth; };
    const auto begin = [&](int slot) {
      if (ahead > 0) a.begin(stages[slot].a, left()), b.begin(stages[slot].b, left());
      tile::cuda::commit_copies();
    };
    const auto finish = [&](int slot) {
      if (ahead > 0) a.finish(stages[slot].a, left()), b.finish(stages[slot].b, left());
      ahead -= kDepth;
    };
    TW_UNROLL
    for (int slot = 0; slot < kStages - 1; ++slot) {
      begin(slot);
      finish(slot);
    }
    int slot = 0, free = kStages - 1;
    for (int64_t k = 0; k < depth; k += kDepth) {
      tile::cuda::wait_copy_groups<kStages - 2>();
      __syncthreads();
      begin(free);
      TW_UNROLL
      for (int i = 0; i < kDepth; i += 16) add(sums, stages[slot], i);
      finish(free);
      free = slot;
      slot = slot + 1 == kStages ? 0 : slot + 1;
    }
    tile::cuda::wait_copies();
  }

  __device__ __forceinline__ static void load(uint32_t (&to)[4], const T* from, bool across) {
    if (across)
      tile::cuda::load_matrices_transposed(to, from);
    else
      tile::cuda::load_matrices(to, from);
  }

  /// The products of 16 values of k.
  __device__ __forceinline__ void add(Sums& sums, const Stage& stage, int k) const {
    uint32_t left[kRows][4], right[kColumns / 2][4];
    TW_UNROLL
    for (int i = 0; i < kRows; ++i)
      load(left[i],
           stage.a + LoaderA::template matrix<false>(a_across(), lane, warp_row + i * 16, k),
           a_across());
    TW_UNROLL
    for (int j = 0; j < kColumns / 2; ++j)
      load(right[j],
           stage.b + LoaderB::template matrix<true>(b_across(), lane, warp_column + j * 16, k),
           b_across());
    TW_UNROLL
    for (int i = 0; i < kRows; ++i) TW_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const auto& b = right[j / 2];
      tile::cuda::mma(sums[i][j], left[i], {b[j % 2 * 2], b[j % 2 * 2 + 1]}, T{});
    }
  }

  /// Through shared memory, so that a warp writes whole rows.
  __device__ void store(const Sums& sums, const GemmStridedPlace& place) const {
    __syncthreads();
    TW_UNROLL
    for (int i = 0; i < kRows; ++i) TW_UNROLL
    for (int j = 0; j < kColumns; ++j) TW_UNROLL
    for (int high = 0; high < 2; ++high) {
      const int r = warp_row + i * 16 + high * 8 + lane / 4;
      const int c = warp_column + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(staged + r * kPitch + c) = {sums[i][j][2 * high],
                                                             sums[i][j][2 * high + 1]};
    }
    __syncthreads();
    // A thread has four columns of every so many rows.
    constexpr int kInRow = kN / 4;
    static_assert(kThreads % kInRow == 0);
    const int first = int(threadIdx.x) % kInRow * 4;
    const GemmStridedEpilogue<T> epilogue{given};
    const auto columns = epilogue.columns(place.column + first);
    if (columns.count <= 0) return;
    const int64_t below = given.out.rows - place.row;
    const int height = below < kM ? int(below) : kM;
#pragma unroll 1
    for (int i = int(threadIdx.x) / kInRow; i < height; i += kThreads / kInRow) {
      const float4 four = *reinterpret_cast<const float4*>(staged + i * kPitch + first);
      if (given.parts != nullptr)
        *epilogue.part(place.part, place.batch, place.row + i, columns.first) = four;
      else
        epilogue.store({{four.x, four.y, four.z, four.w}}, place.batch, place.row + i, columns);
    }
  }
};

}  // namespace tw::kernels
