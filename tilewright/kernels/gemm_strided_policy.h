// Which build of the matrix multiplication for any GPU to run, and into how many parts to divide k.
// Neutral host code: sizes in, choice out.
//
// Predicted time = the multiply-adds of the multiprocessor with most tiles, or the time to read the
// operands if that is longer, and what parts of k cost.
#pragma once

#include "tilewright/kernels/gemm_mma_build.h"
#include "tilewright/kernels/gemm_strided_build.h"
#include "tilewright/kernels/hopper_limits.h"

namespace tw::kernels {

/// A build and what it reaches.
template <class Build>
struct GemmStridedShape {
  Build build;
  double full, alone;  // of a multiprocessor's multiply-adds: with all blocks it holds, with one
};

inline constexpr GemmStridedShape<GemmStridedBuild> kGemmStridedShapes[] = {
    {{256, 128, 16, 8, 16, 3, 1}, 0.72, 0.72}, {{128, 64, 8, 8, 16, 3, 3}, 0.65, 0.48},
    {{64, 64, 4, 8, 16, 4, 4}, 0.62, 0.40},    {{32, 128, 4, 8, 16, 4, 4}, 0.58, 0.40},
    {{16, 128, 4, 4, 32, 3, 3}, 0.34, 0.32},
};
inline constexpr int kGemmStridedShapeCount =
    int(sizeof(kGemmStridedShapes) / sizeof(kGemmStridedShapes[0]));

/// The same of 16-bit elements, by the matrix instruction.
inline constexpr GemmStridedShape<GemmMmaBuild> kGemmMmaShapes[] = {
    {{128, 128, 64, 64, 32, 3, 2}, 0.73, 0.6},
    {{64, 64, 32, 32, 32, 3, 5}, 0.55, 0.37},
    {{16, 128, 16, 32, 64, 3, 4}, 0.21, 0.21},
};
inline constexpr int kGemmMmaShapeCount = int(sizeof(kGemmMmaShapes) / sizeof(kGemmMmaShapes[0]));

struct GemmStridedSize {
  int64_t batch, m, n, k;
  // Of 16-bit elements: whether operands come by any other way than copies of words (GemmMmaWay),
  // and whether four neighbours of out are none.
  bool gathers = false, scatters = false;
};

struct GemmStridedChoice {
  int shape;       // in kGemmStridedShapes, or in kGemmMmaShapes
  int64_t k_part;  // values of k of a block
  int64_t parts;   // of k
  double us;       // predicted
};

namespace gemm_strided_policy {
inline constexpr double kBytesPerUs = 2.2e6;  // that its loads reach

/// What differs between elements.
template <class T>
struct Limits {  // float32
  static constexpr auto& kShapes = kGemmStridedShapes;
  static constexpr int kCount = kGemmStridedShapeCount;
  static constexpr double kProductsPerUs = hopper::kF32Lanes * hopper::kF32Mhz;
  static constexpr double kTileUs = 4, kSumUs = 0.3;  // before and after a tile; another launch
  /// What else a block's share of the call takes: nothing that counts beside products.
  static constexpr double moving(const GemmStridedSize&, double, double) { return 0; }
};
template <class T>
  requires(sizeof(T) == 2)
struct Limits<T> {
  static constexpr auto& kShapes = kGemmMmaShapes;
  static constexpr int kCount = kGemmMmaShapeCount;
  static constexpr double kProductsPerUs = hopper::kMmaLanes * hopper::kTensorMhz;
  static constexpr double kTileUs = 2.5, kSumUs = 2;
  /// For panels of so many bytes, which come from L2, and a multiprocessor's elements of out.
  static constexpr double moving(const GemmStridedSize& size, double panels, double sums) {
    return panels / (size.gathers ? 1.1e6 : 5.4e6) + (size.scatters ? sums / 7500 : 0);
  }
};

constexpr int64_t blocks(int64_t n, int64_t step) {
  return (n + step - 1) / step;
}

template <class Build>
constexpr int64_t tiles(const Build& build, const GemmStridedSize& size) {
  return size.batch * blocks(size.m, build.tile_m) * blocks(size.n, build.tile_n);
}

/// The choice of a shape whose k is divided into at most `parts`.
template <class T>
constexpr GemmStridedChoice predict(int index, int64_t parts, const GemmStridedSize& size,
                                    int multiprocessors) {
  const auto& shape = Limits<T>::kShapes[index];
  const auto& build = shape.build;
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
  const double working = double(most) * products / (Limits<T>::kProductsPerUs * reached);
  const double sums = double(size.batch) * double(size.m) * double(size.n);
  const double bytes =
      sizeof(T) * (double(size.batch) * double(size.k) * double(size.m + size.n) + sums);
  const double panels =
      double(tiles(build, size)) * double(build.tile_m + build.tile_n) * double(size.k) * sizeof(T);
  const double moving = Limits<T>::moving(size, panels, sums / multiprocessors);
  const double reading = bytes / kBytesPerUs > moving ? bytes / kBytesPerUs : moving;
  const double adding = parts > 1 ? Limits<T>::kSumUs + 8 * sums * double(parts) / kBytesPerUs : 0;
  const double tiles_us = Limits<T>::kTileUs * double(blocks(most, build.resident));
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

/// The build, any or `only` one, and parts with the shortest predicted time, for elements of T and
/// sizes > 0 (k >= 0); the first of equals.
template <class T>
constexpr GemmStridedChoice choose_gemm_strided(const GemmStridedSize& size, int multiprocessors,
                                                int only = -1) {
  using Limits = gemm_strided_policy::Limits<T>;
  constexpr int64_t kMostParts = 32, kEnough = 8;  // tiles of a multiprocessor
  GemmStridedChoice best{};
  for (int shape = 0; shape < Limits::kCount; ++shape) {
    if (only >= 0 && shape != only) continue;
    const int64_t whole = gemm_strided_policy::tiles(Limits::kShapes[shape].build, size);
    for (int64_t parts = 1; parts <= kMostParts; ++parts) {
      const GemmStridedChoice one =
          gemm_strided_policy::predict<T>(shape, parts, size, multiprocessors);
      if (best.parts == 0 || one.us < best.us) best = one;
      if (whole * parts >= kEnough * multiprocessors) break;
    }
  }
  return best;
}

}  // namespace tw::kernels
