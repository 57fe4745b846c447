// What builds of the matrix multiplication by the matrix instruction of a warp there are, and how
// they read. For 16-bit elements on any GPU. Neutral host code.
#pragma once

#include "tilewright/kernels/gemm_strided_build.h"

namespace tw::kernels {

/// A block computes tile_m x tile_n elements of out, a warp warp_m x warp_n of them, from `stages`
/// panels of `depth` values of k.
struct GemmMmaBuild {
  int tile_m, tile_n, warp_m, warp_n, depth, stages;
  int resident;  // blocks that a multiprocessor is to hold at once

  /// Elements behind a row of a panel, so that the eight rows that the instruction reads together
  /// lie in different banks.
  static constexpr int kGap = 8;

  constexpr int threads() const { return tile_m / warp_m * (tile_n / warp_n) * 32; }
  /// Elements of a panel of `tile` rows of an operand, whichever way it lies.
  constexpr int panel(int tile) const {
    const int along = tile * (depth + kGap), across = depth * (tile + kGap);
    return max(along, across);
  }
  constexpr int stage_bytes() const { return 2 * (panel(tile_m) + panel(tile_n)); }
  /// A row of sums that waits to be stored, in floats.
  constexpr int staged_pitch() const { return tile_n + 8; }
  constexpr int most_shared_bytes() const {
    return max(stages * stage_bytes(), tile_m * staged_pitch() * 4);
  }
  /// Of a product of k: less is used where that is short, and more blocks then fit.
  constexpr int shared_bytes(int64_t k) const {
    const int64_t steps = (k + depth - 1) / depth;
    return max(int(steps < stages ? steps : stages) * stage_bytes(), tile_m * staged_pitch() * 4);
  }

 private:
  static constexpr int max(int a, int b) { return a > b ? a : b; }
};

/// How a kernel reads its operands: each with k along memory or rows (across), both in words of 16
/// bytes that are copied behind the threads' back; or any, by a kernel that looks when it runs.
struct GemmMmaWay {
  static constexpr int kCount = 5, kAny = 4;
  bool a_across, b_across, copies;

  static constexpr GemmMmaWay at(int index) {
    return {(index & 1) != 0, (index & 2) != 0, index != kAny};
  }
  constexpr int index() const { return copies ? a_across + 2 * b_across : kAny; }

  template <class T>
  TW_INLINE static GemmMmaWay of(const GemmStridedArguments<T>& given) {
    const bool copies = given.a.is_in_words() && given.b.is_in_words() && !given.k_groups.ends;
    return {given.a.lies_across(), given.b.lies_across(), copies};
  }
};

}  // namespace tw::kernels
