// The sums of all clusters' rows, which the gradients of norms left, added up: a fixed tree. Each
// block has 32 columns of a sum; its threads have four of them and each 32nd cluster.
#pragma once

#include "tilewright/kernels/norm_build_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

template <class T>
struct NormFold {
  using Arguments = NormFoldArguments<T>;
  static constexpr int kFour = 4, kColumns = Arguments::kColumns;
  static constexpr int kWarps = Arguments::kThreads / 32, kThreadsOfRow = kColumns / kFour;
  static constexpr int kRows = Arguments::kThreads / kThreadsOfRow;
  using Span = tile::Raw<float, kFour>;
  struct Shared {
    alignas(16) float sums[kWarps][kColumns];
  };
  const Arguments& given;

  TW_PTX void operator()(Shared& shared) const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int thread = int(threadIdx.x), warp = thread / 32;
    const int pieces = (given.cols + kColumns - 1) / kColumns;
    const int which = int(blockIdx.x) / pieces;
    const int first = (int(blockIdx.x) - which * pieces) * kColumns;
    const int column = first + thread % kThreadsOfRow * kFour;
    tile::Pack<float, kFour> total;
    TW_UNROLL
    for (int e = 0; e < kFour; ++e) total[e] = 0;
    if (column < given.cols) {
      const int64_t stride = int64_t{given.sums} * given.cols;
      const float* const from = given.partials + int64_t{which} * given.cols + column;
      TW_UNROLL_LOADS
      for (int i = thread / kThreadsOfRow; i < given.clusters; i += kRows) {
        const auto more = Span::load(from + i * stride).template widen<float>();
        TW_UNROLL
        for (int e = 0; e < kFour; ++e) total[e] += more[e];
      }
    }
    TW_UNROLL
    for (int lane = 16; lane >= kThreadsOfRow; lane /= 2) TW_UNROLL
    for (int e = 0; e < kFour; ++e) total[e] += __shfl_xor_sync(0xffffffffu, total[e], lane);
    if (thread % 32 < kThreadsOfRow)
      Span::narrow(total).store(&shared.sums[warp][thread % 32 * kFour]);
    __syncthreads();
    if (thread >= kColumns || first + thread >= given.cols) return;
    float sum = 0;
    TW_UNROLL
    for (int w = 0; w < kWarps; ++w) sum += shared.sums[w][thread];
    given.outs[which](first + thread) = T(sum);
  }
};

}  // namespace tw::kernels
