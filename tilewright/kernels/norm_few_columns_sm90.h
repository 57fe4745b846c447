// The second kernel of a norm's gradient on Hopper where rows are few: the sums over them. The
// first one (norm_rows_sm90.h) leaves the factors of each row and nothing else; this one reads the
// operands again, from L2, and writes the outputs, too. So they may be operands, and no float32
// goes through memory.
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

/// The outputs of several rows, and the sums over them: a fixed tree. A block has some columns of
/// all rows, its threads a span of one row each.
template <class Norm>
struct NormFewColumns {
  using T = typename Norm::Element;
  using Span = norm_sm90::Span<T>;
  using Build = NormFewBuild;
  static constexpr int kSums = Norm::kSums, kLanes = norm_sm90::kLanes<T>;
  static constexpr int kAhead = 2;  // rows whose loads are on their way together
  static constexpr int kRows = Build::kColumnThreads / Build::kAcross;
  static constexpr int kWarps = Build::kColumnThreads / 32, kColumns = Build::kAcross * kLanes;
  using Sums = norm_sm90::Sums<T, kAhead>[kSums];
  static_assert(sizeof(typename Norm::Factors) <= Build::kFactorBytes);
  const NormRowsArguments<T>& given;

  struct Shared {
    alignas(16) float sums[kSums][kWarps][kColumns];
  };

  TW_PTX void operator()(Shared& shared) const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int thread = int(threadIdx.x), first = int(blockIdx.x) * kColumns;
    const int across = thread % Build::kAcross * kLanes, column = first + across;
    Sums sums = {};
    if (column < given.cols)
      for (int r = thread / Build::kAcross; r < given.rows; r += kAhead * kRows)
        finish(r, column, sums);
    TW_UNROLL
    for (int i = 0; i < kSums; ++i) {
      auto total = sums[i][0];
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) {
        TW_UNROLL
        for (int a = 1; a < kAhead; ++a) total[e] += sums[i][a][e];
        TW_UNROLL
        for (int lane = 16; lane >= Build::kAcross; lane /= 2)
          total[e] += __shfl_xor_sync(0xffffffffu, total[e], lane);
        if (thread % 32 < Build::kAcross) shared.sums[i][thread / 32][across + e] = total[e];
      }
    }
    __syncthreads();
    const int which = thread / kColumns, c = thread % kColumns;
    if (which >= kSums || first + c >= given.cols || given.column_sums[which] == nullptr) return;
    float total = 0;
    TW_UNROLL
    for (int w = 0; w < kWarps; ++w) total += shared.sums[which][w][c];
    given.column_sums[which][first + c] = T(total);
  }

 private:
  /// A span of row r and of the rows kRows after each other.
  TW_PTX void finish(int r, int column, Sums& sums) const {
    norm_sm90::HeldRow<T, kAhead> held;
    Span rest[kAhead];
    typename Norm::Factors factors[kAhead] = {};
    const T* const more = Norm::kHasResidual ? given.residual_grad : nullptr;
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      const int64_t row = r + a * kRows;
      if (row >= given.rows) break;
      TW_UNROLL
      for (int i = 0; i < Norm::kInputs; ++i)
        held.inputs[i][a] = Span::load(given.inputs[i] + row * given.input_strides[i] + column);
      held.weights[a] =
          given.weight != nullptr ? Span::load(given.weight + column) : norm_sm90::ones<T>();
      rest[a] = more != nullptr ? Span::load(more + row * given.residual_stride + column) : Span{};
      factors[a] = static_cast<const typename Norm::Factors*>(given.factors)[row];
    }
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      const int64_t row = r + a * kRows;
      if (row >= given.rows) break;
      auto out = Norm::finish(held, factors[a], sums, a);
      if constexpr (Norm::kHasResidual) norm_sm90::add<T>(out, rest[a].template widen<float>());
      Span::narrow(out).store(given.outs[0] + row * given.out_strides[0] + column);
    }
  }
};

}  // namespace tw::kernels
