// Gradients of norms on Hopper where rows are many and short: a group of lanes has a row in its
// registers, and several rows on their way together. A lane adds up the sums of its columns over
// all rows of its group; blocks leave theirs to the fold (norm_fold_sm90.h).
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

template <class Norm, NormShortShape kShape>
struct NormShort {
  using T = typename Norm::Element;
  using Span = norm_sm90::Span<T>;
  using Row = norm_sm90::HeldRow<T, kShape.spans, kShape.lanes>;
  static constexpr int kSpans = kShape.spans, kGroup = kShape.lanes, kSums = Norm::kSums;
  static constexpr int kLanes = norm_sm90::kLanes<T>, kStep = kGroup * kLanes;
  static constexpr int kAhead = kSpans > 1 ? 1 : 2;  // rows of a group on their way together
  static constexpr int kWarps = NormShortBuild::kThreads / 32, kColumns = kSpans * kStep;
  using Sums = norm_sm90::Sums<T, kSpans>[kSums];
  const NormShortArguments<T>& given;

  struct Shared {
    float sums[kWarps][kColumns];
  };

  TW_PTX void operator()(Shared& shared) const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    constexpr int kOfWarp = 32 / kGroup;  // groups
    const int lane = norm_sm90::lane(), warp = int(threadIdx.x) / 32;
    const int first = int(blockIdx.x) * kWarps + warp, step = int(gridDim.x) * kWarps;
    const int column = lane % kGroup * kLanes;
    Span weights[kSpans];
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s)
      weights[s] = given.weight == nullptr           ? norm_sm90::ones<T>()
                   : column + s * kStep < given.cols ? Span::load(given.weight + column + s * kStep)
                                                     : Span{};
    Sums sums = {};
    // All lanes of a warp exchange what they have: those of rows that are not there, zeros.
    const int64_t apart = int64_t{step} * kOfWarp;
    int64_t row = int64_t{first} * kOfWarp + lane / kGroup;
    Held held;
    load(held, row, apart, column);
    for (int64_t at = int64_t{first} * kOfWarp; at < given.rows; at += apart * kAhead) {
      Held next;
      load(next, row + apart * kAhead, apart, column);
      finish(held, row, apart, column, weights, sums);
      held = next, row += apart * kAhead;
    }
    if (given.sums > 0) leave(sums, shared);
  }

 private:
  /// kAhead rows.
  struct Held {
    Span inputs[kAhead][Norm::kInputs][kSpans], rest[kAhead][kSpans];
  };

  /// Where a row is.
  TW_PTX int64_t place(int64_t row, int64_t stride, int64_t outer_stride) const {
    if (given.inner == given.rows) return row * stride;
    const uint32_t outer = uint32_t(row) / uint32_t(given.inner);
    return outer * outer_stride + (row - int64_t{outer} * given.inner) * stride;
  }

  /// `apart` from each other.
  TW_PTX void load(Held& held, int64_t first, int64_t apart, int column) const {
    const T* const more = Norm::kHasResidual ? given.residual_grad : nullptr;
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      const int64_t r = first + a * apart;
      TW_UNROLL
      for (int s = 0; s < kSpans; ++s) {
        const int c = column + s * kStep;
        const bool has = r < given.rows && c < given.cols;
        TW_UNROLL
        for (int i = 0; i < Norm::kInputs; ++i)
          held.inputs[a][i][s] =
              has ? Span::load(given.inputs[i] +
                               place(r, given.input_strides[i], given.outer_inputs[i]) + c)
                  : Span{};
        if constexpr (Norm::kHasResidual)
          held.rest[a][s] =
              has && more != nullptr
                  ? Span::load(more + place(r, given.residual_stride, given.outer_residual) + c)
                  : Span{};
      }
    }
  }

  TW_PTX void finish(const Held& held, int64_t first, int64_t apart, int column,
                     const Span (&weights)[kSpans], Sums& sums) const {
    const float inverse = 1 / float(given.cols);
    int spans = 0;  // of the lane that have columns
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) spans += column + s * kStep < given.cols;
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      Row row;
      TW_UNROLL
      for (int s = 0; s < kSpans; ++s) {
        TW_UNROLL
        for (int i = 0; i < Norm::kInputs; ++i) row.inputs[i][s] = held.inputs[a][i][s];
        row.weights[s] = weights[s];
      }
      const auto part = Norm::look(row, spans, inverse);
      const int64_t r = first + a * apart;
      if (r >= given.rows) continue;
      const auto factors = Norm::settle(part, inverse, given.eps);
      T* const to = given.outs[0] + place(r, given.out_strides[0], given.outer_out);
      TW_UNROLL
      for (int s = 0; s < kSpans; ++s) {
        const int c = column + s * kStep;
        if (c >= given.cols) continue;
        auto out = Norm::finish(row, factors, sums, s);
        if constexpr (Norm::kHasResidual)
          norm_sm90::add<T>(out, held.rest[a][s].template widen<float>());
        Span::narrow(out).store(to + c);
      }
    }
  }

  /// The sums of the block's rows: a fixed tree.
  TW_PTX void leave(Sums& sums, Shared& shared) const {
    const int lane = norm_sm90::lane(), warp = int(threadIdx.x) / 32;
    TW_UNROLL
    for (int i = 0; i < kSums; ++i) {
      if (given.place[i] < 0) continue;
      __syncthreads();
      TW_UNROLL
      for (int s = 0; s < kSpans; ++s) TW_UNROLL
      for (int e = 0; e < kLanes; ++e) {
        float total = sums[i][s][e];
        TW_UNROLL
        for (int apart = 16; apart >= kGroup; apart /= 2)
          total += __shfl_xor_sync(0xffffffffu, total, apart);
        if (lane < kGroup) shared.sums[warp][lane * kLanes + s * kStep + e] = total;
      }
      __syncthreads();
      for (int c = int(threadIdx.x); c < given.cols; c += NormShortBuild::kThreads) {
        float total = 0;
        TW_UNROLL
        for (int w = 0; w < kWarps; ++w) total += shared.sums[w][c];
        const int64_t row = int64_t{blockIdx.x} * given.sums + given.place[i];
        given.partials[row * given.cols + c] = total;
      }
    }
  }
};

}  // namespace tw::kernels
