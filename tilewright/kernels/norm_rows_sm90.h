// Norms, softmax and their gradients on Hopper where a block holds a row: its threads have all of
// its loads on their way at once, tell each other what they find, and finish it.
//
// Where rows are few, what counts is how soon the last is done: the weight is on its way with them.
// Where they are many, a multiprocessor has as many blocks as registers allow, and while some wait
// for their rows others finish theirs; the weight, which is near by then, comes last. What
// registers do not hold of a row waits in shared memory.
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

template <class Norm, NormWay kWay>
struct NormRows {
  using T = typename Norm::Element;
  using Span = norm_sm90::Span<T>;
  static constexpr bool kIsMany = is_many(kWay);
  static constexpr int kHeld = NormRowsBuild::held(kWay, Norm::kKind);
  static constexpr int kNear = NormRowsBuild::near(kWay, Norm::kKind);
  static_assert((Norm::kSums > 0) == norm_has_sums(Norm::kKind));
  static constexpr int kSpans = kHeld + kNear;
  static constexpr int kLanes = norm_sm90::kLanes<T>, kStep = norm_sm90::kStep<T>;
  static constexpr int kWarpColumns = kSpans * kStep;
  using Row = norm_sm90::HeldRow<T, kHeld, 32, kNear>;
  using Sums = norm_sm90::Sums<T, kSpans>[Norm::kSums > 0 ? Norm::kSums : 1];
  const NormRowsArguments<T>& given;

  struct Shared {
    typename Norm::Part parts[NormBuild::kWarps];
    float columns[NormBuild::kWarps];  // that the parts are of
  };

  TW_PTX void operator()(Shared& shared, char* near) const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const Place at = place();
    if (kWay == NormWay::kMany && at.row >= given.rows) return;  // of the last block's
    Row row;
    row.near = reinterpret_cast<T*>(near);
    Span rest[Row::kWeights];
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      load(row, at, s);
      if constexpr (!kIsMany) load_more(row, rest, at, s);
    }
    tell(shared, at, row);
    meet();
    const int first = group() * warps();
    const auto factors = Norm::settle(&shared.parts[first], &shared.columns[first], warps(),
                                      1.0f / float(given.cols), given.eps);
    if (Norm::kSums > 0 && given.factors != nullptr) {
      if (threadIdx.x == 0) static_cast<typename Norm::Factors*>(given.factors)[at.row] = factors;
      return;
    }
    finish(row, rest, at, factors);
  }

 private:
  struct Place {
    int64_t row;
    int columns;  // of the warp
    int first;    // column of the thread
    int spans;    // of the thread that have columns
  };
  /// Of the block's rows.
  TW_PTX static int group() { return kWay == NormWay::kMany ? int(threadIdx.y) : 0; }
  TW_PTX static int warps() { return int(blockDim.x) / 32; }

  TW_PTX Place place() const {
    Place at;
    const int before = int(threadIdx.x) / 32 * kWarpColumns, first = norm_sm90::lane() * kLanes;
    at.columns = max(0, min(kWarpColumns, given.cols - before));
    at.first = before + first;
    at.spans = max(0, at.columns - first + kStep - kLanes) / kStep;
    at.row = kWay == NormWay::kMany ? int64_t{blockIdx.x} * int(blockDim.y) + group() : blockIdx.x;
    return at;
  }

  TW_PTX void load(Row& row, const Place& at, int s) const {
    const bool has = s < at.spans;
    TW_UNROLL
    for (int i = 0; i < Norm::kInputs; ++i) {
      const T* const from =
          given.inputs[i] + at.row * given.input_strides[i] + at.first + s * kStep;
      if (s < kHeld)
        row.inputs[i][s] = has ? Span::load(from) : Span{};
      else
        tile::cuda::copy_async_or_zero<16>(row.near_span(i, s), has ? from : given.inputs[i],
                                           has ? 16 : 0);
    }
  }
  /// What the row is not found by. Where rows are many, one like those before: it is near.
  TW_PTX void load_more(Row& row, Span (&rest)[Row::kWeights], const Place& at, int s) const {
    const T* const more = Norm::kHasResidual ? given.residual_grad : nullptr;
    const int c = at.first + s * kStep;
    const bool has = s < at.spans;
    row.weights[Row::slot(s)] = given.weight == nullptr ? norm_sm90::ones<T>()
                                : has                   ? Span::load(given.weight + c)
                                                        : Span{};
    rest[Row::slot(s)] =
        has && more != nullptr ? Span::load(more + at.row * given.residual_stride + c) : Span{};
  }

  /// Tells all warps of the row what this one finds.
  TW_PTX void tell(Shared& shared, const Place& at, const Row& row) const {
    const float inverse = at.columns > 0 ? 1 / float(at.columns) : 0;
    if constexpr (kNear > 0) tile::cuda::wait_copies();  // a thread's are its own
    const typename Norm::Part part = Norm::look(row, at.spans, inverse);
    if (norm_sm90::lane() > 0) return;
    const int place = group() * warps() + int(threadIdx.x) / 32;
    shared.parts[place] = part;
    shared.columns[place] = float(at.columns);
  }
  /// The threads of a row, which are a warp or all of the block.
  TW_PTX void meet() const {
    if (kWay == NormWay::kMany && blockDim.x == 32)
      __syncwarp();
    else
      __syncthreads();
  }

  TW_PTX void finish(Row& row, Span (&rest)[Row::kWeights], const Place& at,
                     const typename Norm::Factors& by) const {
    Sums sums = {};
    Row::for_spans([&](int s) {
      if (s >= at.spans) return;
      const int c = at.first + s * kStep;
      if constexpr (kIsMany) load_more(row, rest, at, s);
      auto out = Norm::finish(row, by, sums, s);
      if constexpr (Norm::kHasResidual)
        norm_sm90::add<T>(out, rest[Row::slot(s)].template widen<float>());
      Span::narrow(out).store(given.outs[0] + at.row * given.out_strides[0] + c);
      if constexpr (Norm::kOuts > 1)
        Norm::second_out(row, s).store(given.outs[1] + at.row * given.out_strides[1] + c);
      TW_UNROLL
      for (int i = 0; i < Norm::kSums; ++i)
        if (given.column_sums[i] != nullptr)
          Span::narrow(sums[i][s]).store(given.column_sums[i] + c);
    });
  }
};

}  // namespace tw::kernels
