// Which build of the Hopper multiplication of scaled 8-bit operands to run. Neutral host code:
// sizes in, choice out; the model is that of gemm_policy_sm90.h, with constants measured on an H100
// SXM (docs/notes/gemm_sm90.md).
#pragma once

#include "tilewright/kernels/gemm_policy_sm90.h"
#include "tilewright/kernels/gemm_scaled_build_sm90.h"
#include "tilewright/kernels/hopper_limits.h"

namespace tw::kernels {

/// What the build of the same number costs.
struct ScaledGemmCost {
  double step_clocks;  // of a tile and 128 values of k
  double tile_us;      // of a tile, not overlapped with multiplication
};

inline constexpr ScaledGemmCost kScaledGemmCosts[kScaledGemmBuildCount] = {
    {1000, 1.5}, {800, 1.2}, {430, 0.8}, {430, 2.0}, {360, 1.0}, {280, 0.8}, {280, 2.0}};

struct ScaledGemmSize {
  int64_t groups, m, n, k;  // m of all groups
  bool is_grouped;          // by sizes that the host does not know
};

constexpr int64_t scaled_gemm_tiles(const ScaledGemmBuild& build, const ScaledGemmSize& size) {
  using gemm_policy::blocks;
  const int64_t rows = blocks(size.m, size.groups);  // of a group, on average
  return size.groups * blocks(rows, build.rows) * blocks(size.n, build.columns);
}

/// The tiles of the last round, whose k blocks share: none unless that saves more of it than it
/// costs. Not of groups, whose tiles the host does not know.
constexpr ScaledGemmCut scaled_gemm_cut(int build, const ScaledGemmSize& size,
                                        int multiprocessors) {
  using namespace gemm_policy;
  constexpr double kCostUs = 5;  // sums that pass through memory, and clearing what tells of them
  constexpr int64_t kMostParts = 8;
  const ScaledGemmBuild& of = kScaledGemmBuilds[build];
  const int64_t tiles = scaled_gemm_tiles(of, size), steps = blocks(size.k, kKBytes);
  const int64_t rest = tiles % multiprocessors;
  if (size.is_grouped || of.split > 1 || rest == 0 || tiles < multiprocessors) return {};
  const int64_t fit = multiprocessors / rest, most = fit < steps ? fit : steps;
  const int64_t parts = most < kMostParts ? most : kMostParts;
  const double round_us = double(steps) * kScaledGemmCosts[build].step_clocks / hopper::kTensorMhz;
  if (round_us * double(parts - 1) / double(parts) <= kCostUs) return {};
  return {tiles - rest, int(rest), int(parts)};
}

/// Predicted time of one build, in microseconds.
constexpr double scaled_gemm_us(int build, const ScaledGemmSize& size, int multiprocessors) {
  using namespace gemm_policy;
  const ScaledGemmBuild& of = kScaledGemmBuilds[build];
  const ScaledGemmCost& cost = kScaledGemmCosts[build];
  const int64_t tiles = scaled_gemm_tiles(of, size), steps = blocks(size.k, kKBytes);
  const ScaledGemmCut cut = scaled_gemm_cut(build, size, multiprocessors);
  const double waves = cut.tiles > 0 ? double(cut.first / multiprocessors) + 1.0 / cut.parts
                                     : double(blocks(tiles * of.split, multiprocessors));
  const double multiplying =
      waves *
      (double(blocks(steps, of.split)) * cost.step_clocks / hopper::kTensorMhz + cost.tile_us);
  const double loading =
      double(tiles * steps) * (of.rows + of.columns) * kKBytes / hopper::kL2BytesPerUs;
  const double working = multiplying > loading ? multiplying : loading;
  const double k = double(size.k), n = double(size.n), m = double(size.m);
  const double bytes = m * k + double(size.groups) * n * k + 4 * m * n;
  const double reading = bytes / hopper::kReadBytesPerUs + cost.tile_us;
  constexpr double kExposed = 0.25;  // of the shorter
  return hopper::kLaunchUs +
         (working > reading ? working + kExposed * reading : reading + kExposed * working);
}

/// The build with the shortest predicted time, for sizes > 0; the first of equals.
constexpr int choose_scaled_gemm_sm90(const ScaledGemmSize& size, int multiprocessors) {
  int best = -1;
  double least = 0;
  for (int i = 0; i < kScaledGemmBuildCount; ++i) {
    if (size.is_grouped && kScaledGemmBuilds[i].split > 1) continue;
    const double us = scaled_gemm_us(i, size, multiprocessors);
    if (best < 0 || us < least) best = i, least = us;
  }
  return best;
}

}  // namespace tw::kernels
