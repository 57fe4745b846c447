// Which build of the matrix multiplication for any GPU to run, and into how many parts to divide k.
// Neutral host code: sizes in, choice out.
//
// Predicted time = the multiply-adds of the multiprocessor with most tiles, or the time to read the
// operands if that is longer, and what parts of k cost.
#pragma once

#include "tilewright/kernels/gemm_strided_build.h"
#include "tilewright/kernels/hopper_limits.h"

namespace tw::kernels {

/// A build and what it reaches.
struct GemmStridedShape {
  GemmStridedBuild build;
  double full, alone;  // of a multiprocessor's multiply-adds: with all blocks it holds, with one
};

inline constexpr GemmStridedShape kGemmStridedShapes[] = {
    {{256, 128, 16, 8, 16, 3, 1}, 0.72, 0.72}, {{128, 64, 8, 8, 16, 3, 3}, 0.65, 0.48},
    {{64, 64, 4, 8, 16, 4, 4}, 0.62, 0.40},    {{32, 128, 4, 8, 16, 4, 4}, 0.58, 0.40},
    {{16, 128, 4, 4, 32, 3, 3}, 0.34, 0.32},
};
inline constexpr int kGemmStridedShapeCount =
    int(sizeof(kGemmStridedShapes) / sizeof(kGemmStridedShapes[0]));
/// The one build for 16-bit elements, which come here where nothing else takes them.
inline constexpr int kGemmStridedNarrowShape = 1;

struct GemmStridedSize {
  int64_t batch, m, n, k;
};

struct GemmStridedChoice {
  int shape;       // in kGemmStridedShapes
  int64_t k_part;  // values of k of a block
  int64_t parts;   // of k
  double us;       // predicted
};

namespace gemm_strided_policy {
inline constexpr double kBytesPerUs = 2.2e6;        // that its loads reach
inline constexpr double kTileUs = 4, kSumUs = 0.3;  // before and after a tile; another launch

constexpr int64_t blocks(int64_t n, int64_t step) {
  return (n + step - 1) / step;
}

constexpr int64_t tiles(const GemmStridedBuild& build, const GemmStridedSize& size) {
  return size.batch * blocks(size.m, build.tile_m) * blocks(size.n, build.tile_n);
}

/// The choice of a shape whose k is divided into at most `parts`.
constexpr GemmStridedChoice predict(int index, int64_t parts, const GemmStridedSize& size,
                                    int multiprocessors) {
  const GemmStridedShape& shape = kGemmStridedShapes[index];
  const GemmStridedBuild& build = shape.build;
  const int64_t steps = blocks(size.k, build.depth);
  const int64_t part_steps = steps > parts ? blocks(steps, parts) : 1;
  parts = steps > 0 ? blocks(steps, part_steps) : 1;
  const int64_t most = blocks(tiles(build, size) * parts, multiprocessors);  // of one of them
  const double filled = most >= build.resident ? 1 : double(most) / build.resident;
  const double first = 1.0 / build.resident;
  const double reached = build.resident == 1 ? shape.full
                                             : shape.alone + (shape.full - shape.alone) *
                                                                 (filled - first) / (1 - first);
  const double products = double(build.tile_m) * build.tile_n * double(part_steps * build.depth);
  const double working = double(most) * products / (hopper::kF32Lanes * reached * hopper::kF32Mhz);
  const double sums = double(size.batch) * double(size.m) * double(size.n);
  const double bytes = 4 * (double(size.batch) * double(size.k) * double(size.m + size.n) + sums);
  const double reading = bytes / kBytesPerUs;
  const double adding = parts > 1 ? kSumUs + 8 * sums * double(parts) / kBytesPerUs : 0;
  const double tiles_us = kTileUs * double(blocks(most, build.resident));
  const double us = tiles_us + (working > reading ? working : reading) + adding;
  return {index, part_steps * build.depth, parts, us};
}
}  // namespace gemm_strided_policy

/// Of a large float32 product, whether operands that lie along k are turned over before: their
/// panels are then copied 16 bytes at a time, not 4.
struct GemmStridedTurns {
  bool a, b;

  constexpr GemmStridedTurns(const GemmStridedChoice& choice, const GemmStridedSize& size)
      : a(pays(0.10, choice, size, size.m)), b(pays(0.05, choice, size, size.n)) {}

 private:
  /// `share` of the time of a product is what copies of 4 bytes take.
  static constexpr bool pays(double share, const GemmStridedChoice& choice,
                             const GemmStridedSize& size, int64_t rows) {
    constexpr double kMostBytes = 256 << 20, kAnotherLaunchUs = 5;
    const double bytes = 4 * double(size.batch) * double(rows) * double(size.k);
    const double turning = kAnotherLaunchUs + 2 * bytes / gemm_strided_policy::kBytesPerUs;
    return choice.shape == 0 && bytes <= kMostBytes && turning < share * choice.us;
  }
};

/// The build and parts with the shortest predicted time, for elements of T and sizes > 0 (k >= 0);
/// the first of equals.
template <class T>
constexpr GemmStridedChoice choose_gemm_strided(const GemmStridedSize& size, int multiprocessors) {
  using gemm_strided_policy::predict, gemm_strided_policy::tiles;
  constexpr int64_t kMostParts = 32, kEnough = 8;  // tiles of a multiprocessor
  GemmStridedChoice best{};
  for (int shape = 0; shape < kGemmStridedShapeCount; ++shape) {
    if (sizeof(T) != 4 && shape != kGemmStridedNarrowShape) continue;
    const int64_t whole = tiles(kGemmStridedShapes[shape].build, size);
    for (int64_t parts = 1; parts <= kMostParts; ++parts) {
      const GemmStridedChoice one = predict(shape, parts, size, multiprocessors);
      if (best.parts == 0 || one.us < best.us) best = one;
      if (whole * parts >= kEnough * multiprocessors) break;
    }
  }
  return best;
}

}  // namespace tw::kernels
