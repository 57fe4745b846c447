// Norms, softmax and their gradients on Hopper where rows are few: what counts is how soon the last
// is done. A row has a block, whose threads have all of its loads, and the weight's, on their way
// before the first is used.
//
// The sums over rows are the work of a second kernel. Where rows are several, the first one leaves
// the factors of each and nothing else; the second reads the operands again, from L2, and writes
// the outputs, too. So they may be operands, and no float32 goes through memory.
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

template <class Norm, bool kIsShort>
struct NormFew {
  using T = typename Norm::Element;
  using Span = norm_sm90::Span<T>;
  static constexpr int kSpans = kIsShort ? 1 : NormBuild::kSpans;
  static constexpr int kLanes = norm_sm90::kLanes<T>, kStep = norm_sm90::kStep<T>;
  static constexpr int kWarpColumns = kSpans * kStep;
  using Sums = norm_sm90::Sums<T, kSpans>[Norm::kSums > 0 ? Norm::kSums : 1];
  const NormFewArguments<T>& given;

  struct Shared {
    typename Norm::Part parts[NormBuild::kWarps];
    float columns[NormBuild::kWarps];  // that the parts are of
  };

  TW_PTX void operator()(Shared& shared) const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int warp = int(threadIdx.x) / 32, warps = int(blockDim.x) / 32;
    const int columns = max(0, min(kWarpColumns, given.cols - warp * kWarpColumns));
    const int first = norm_sm90::lane() * kLanes, left = columns - first;
    const Place at{int64_t{blockIdx.x}, warp * kWarpColumns + first,
                   max(0, left + kStep - kLanes) / kStep};
    norm_sm90::HeldRow<T, kSpans> row;
    Span rest[kSpans];
    load(row, rest, at);
    const float inverse = columns > 0 ? 1 / float(columns) : 0;
    const typename Norm::Part part = Norm::look(row, at.spans, inverse);
    if (norm_sm90::lane() == 0) {
      shared.parts[warp] = part;
      shared.columns[warp] = float(columns);
    }
    __syncthreads();
    const auto factors =
        Norm::settle(shared.parts, shared.columns, warps, 1.0f / float(given.cols), given.eps);
    if (Norm::kSums > 0 && given.factors != nullptr) {
      if (threadIdx.x == 0) static_cast<typename Norm::Factors*>(given.factors)[at.row] = factors;
      return;
    }
    finish(row, rest, at, factors);
  }

 private:
  struct Place {
    int64_t row;
    int first;  // column of the thread
    int spans;  // of the thread that have columns
  };

  TW_PTX void load(norm_sm90::HeldRow<T, kSpans>& row, Span (&rest)[kSpans],
                   const Place& at) const {
    const T* const more = Norm::kHasResidual ? given.residual_grad : nullptr;
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      const int c = at.first + s * kStep;
      const bool has = s < at.spans;
      TW_UNROLL
      for (int i = 0; i < Norm::kInputs; ++i)
        row.inputs[i][s] =
            has ? Span::load(given.inputs[i] + at.row * given.input_strides[i] + c) : Span{};
      row.weights[s] = given.weight == nullptr ? norm_sm90::ones<T>()
                       : has                   ? Span::load(given.weight + c)
                                               : Span{};
      rest[s] =
          has && more != nullptr ? Span::load(more + at.row * given.residual_stride + c) : Span{};
    }
  }

  TW_PTX void finish(const norm_sm90::HeldRow<T, kSpans>& row, const Span (&rest)[kSpans],
                     const Place& at, const typename Norm::Factors& by) const {
    Sums sums = {};
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      if (s >= at.spans) continue;
      const int c = at.first + s * kStep;
      auto out = Norm::finish(row, by, sums, s);
      if constexpr (Norm::kHasResidual) norm_sm90::add<T>(out, rest[s].template widen<float>());
      Span::narrow(out).store(given.outs[0] + at.row * given.out_strides[0] + c);
      if constexpr (Norm::kOuts > 1)
        Norm::second_out(row, s).store(given.outs[1] + at.row * given.out_strides[1] + c);
      TW_UNROLL
      for (int i = 0; i < Norm::kSums; ++i)
        if (given.column_sums[i] != nullptr)
          Span::narrow(sums[i][s]).store(given.column_sums[i] + c);
    }
  }
};

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
  const NormFewArguments<T>& given;

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
