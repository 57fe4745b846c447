// What a consumer of scaled matrix multiplication on Hopper does with the stages of the ring:
// products of 128 values of k by the tensor cores, which it adds to its sums times their scales.
#pragma once

#include "tilewright/kernels/gemm_scaled_build_sm90.h"
#include "tilewright/kernels/gemm_scaled_scales_sm90.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/mbarrier.h"
#include "tilewright/tile/cuda/ring.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_int8.h"

namespace tw::kernels {

/// kStored: rows of a are stored to shared memory, as opposed to brought by TMA. Shared has a, b,
/// scales and the barriers full and empty of kStages stages.
template <class Q, ScaledGemmBuild kBuild, int kStages, bool kStored>
struct ScaledProducts {
  static constexpr int kRows = kBuild.rows, kColumns = kBuild.columns, kSpans = kBuild.spans();
  static constexpr int kHeight = 64;                            // of a consumer
  static constexpr int kStepBytes = 32;                         // of k in one instruction
  static constexpr int kSpanSums = ScaledGemmBuild::kSpan / 2;  // of a thread
  using Position = tile::cuda::RingPosition<kStages>;
  using Sums = float[kColumns / 2];
  using Part = typename tile::cuda::WgmmaSum<Q>::type[kColumns / 2];
  using Factors = typename StageScales<kBuild>::Factors;

  struct Operands {
    uint64_t a, b;
  };
  /// Of this consumer, in the first stage.
  template <class Shared>
  TW_PTX static Operands operands(const Shared& shared, int consumer) {
    return {tile::cuda::operand(shared.a[0] + consumer * kHeight * 128),
            tile::cuda::operand(shared.b[0])};
  }
  TW_PTX static Operands in_stage(const Operands& first, int stage) {
    return {tile::cuda::advance(first.a, stage * kRows * 128),
            tile::cuda::advance(first.b, stage * kColumns * 128)};
  }

  /// Of `count` stages. The products of a block of k are promoted while those of the next are made.
  template <class Shared>
  TW_PTX static void multiply(Shared& shared, Position& at, int consumer, int count, Sums& sums) {
    if (count == 0) return;
    const Operands origin = operands(shared, consumer);
    Part even, odd;
    begin(shared, at, origin, even);
    for (int i = 1; i < count; i += 2) {
      begin(shared, at, origin, odd);
      finish<1>(shared, before(at, 2), consumer, even, sums);
      if (i + 1 == count) return finish<0>(shared, before(at, 1), consumer, odd, sums);
      begin(shared, at, origin, even);
      finish<1>(shared, before(at, 2), consumer, odd, sums);
    }
    finish<0>(shared, before(at, 1), consumer, even, sums);
  }
  TW_PTX static void multiply_step(const Operands& of, int step, Part& part, int keep) {
    using namespace tile::cuda;
    Wgmma<Q, kColumns>::mma(part, advance(of.a, step * kStepBytes),
                            advance(of.b, step * kStepBytes), keep);
  }
  TW_PTX static void promote(Sums& sums, const Part& part, const Factors& factors) {
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      const float top = factors.top * factors.spans[s], bottom = factors.bottom * factors.spans[s];
      TW_UNROLL
      for (int i = s * kSpanSums; i < (s + 1) * kSpanSums; ++i)
        sums[i] = __builtin_fmaf(float(part[i]), i % 4 < 2 ? top : bottom, sums[i]);
    }
  }
  /// A warp has read a stage, operands and scales.
  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    __syncwarp();
    if (tile::cuda::elect_one()) empty.arrive();
  }

 private:
  TW_PTX static int before(const Position& at, int count) {
    return at.index >= count ? at.index - count : at.index - count + kStages;
  }
  template <class Shared>
  TW_PTX static void begin(Shared& shared, Position& at, const Operands& origin, Part& part) {
    using namespace tile::cuda;
    shared.full[at.index].wait(at.phase);
    if constexpr (kStored) fence_async_shared();
    const Operands of = in_stage(origin, at.index);
    pin(part);
    wgmma_fence();
    TW_UNROLL
    for (int step = 0; step < 4; ++step) multiply_step(of, step, part, step > 0);
    wgmma_commit();
    pin(part);
    at.next();
  }
  template <int kPending, class Shared>
  TW_PTX static void finish(Shared& shared, int stage, int consumer, Part& part, Sums& sums) {
    const Factors factors = shared.scales[stage].of_thread(consumer);
    tile::cuda::wgmma_wait<kPending>();
    tile::cuda::pin(part);
    release(shared.empty[stage]);
    promote(sums, part, factors);
  }
};

}  // namespace tw::kernels
