// Which build of the Hopper matrix multiplication to run. Neutral host code: sizes in, choice out.
//
// Predicted time = waves of tiles x (k x measured clocks + what is not overlapped), or the time to
// read the operands if that is longer, and part of the other. Constants are fitted to measurements
// of all builds on an H100 SXM (docs/notes/gemm_sm90.md, "Which build").
#pragma once

#include "tilewright/kernels/gemm_build_sm90.h"
#include "tilewright/kernels/hopper_limits.h"

namespace tw::kernels {

/// A build without its layouts, and what it costs.
struct GemmShapeSm90 {
  GemmBuild build;
  double step_clocks;  // of a tile and 128 bytes of k, with its share of stalls
  double tile_us;  // of a wave of tiles, not overlapped with multiplication; in ping-pong, of all
  int ahead = 0;   // bytes of each row of a that are asked for before the kernel before has ended
  bool only_tf32 = false;  // 16-bit elements have better ones
};

inline constexpr GemmShapeSm90 kGemmShapes[] = {
    {{.tile_m = 128, .tile_n = 256, .stages = 4, .staging = 16384}, 850, 1.4},
    {{.tile_m = 128, .tile_n = 192, .stages = 4, .staging = 24576, .ping_pong = true}, 640, 1.6},
    // Few rows of out: the other operand's rows take wgmma's 64, those of out its columns.
    {{.tile_m = 64,
      .tile_n = 16,
      .stages = 20,
      .staging = 2048,
      .split = 2,
      .transposed_out = true},
     250,
     2.0,
     1536},
    {{.tile_m = 128, .tile_n = 16, .stages = 12, .staging = 2048, .transposed_out = true},
     300,
     0.1},
    {{.tile_m = 64,
      .tile_n = 64,
      .stages = 12,
      .staging = 8192,
      .split = 2,
      .transposed_out = true},
     320,
     1.7,
     2048},
    {{.tile_m = 64,
      .tile_n = 128,
      .stages = 8,
      .staging = 16384,
      .split = 2,
      .transposed_out = true},
     380,
     1.6},
    {{.tile_m = 64,
      .tile_n = 256,
      .stages = 5,
      .staging = 8192,
      .split = 2,
      .transposed_out = true},
     830,
     2.5},
    {{.tile_m = 64, .tile_n = 128, .stages = 8, .staging = 16384, .transposed_out = true},
     270,
     0.7},
    {{.tile_m = 128, .tile_n = 64, .stages = 8, .staging = 8192, .transposed_out = true}, 290, 0.5},
    {{.tile_m = 128, .tile_n = 96, .stages = 7, .staging = 12288, .transposed_out = true},
     360,
     0.7},
    {{.tile_m = 128, .tile_n = 128, .stages = 6, .staging = 16384, .transposed_out = true},
     470,
     0.9},
    {{.tile_m = 128, .tile_n = 192, .stages = 4, .staging = 24576, .transposed_out = true},
     640,
     1.1},
    {{.tile_m = 128, .tile_n = 128, .stages = 6, .staging = 16384}, 480, 1.1, 0, true},
    {{.tile_m = 64, .tile_n = 64, .stages = 12, .staging = 8192}, 240, 0.9, 0, true},
};
inline constexpr int kGemmShapeCount = int(sizeof(kGemmShapes) / sizeof(kGemmShapes[0]));

struct GemmSize {
  int64_t batch, m, n, k;
  int element_bytes;
  int out_bytes = element_bytes;  // of an element of out
  bool adjusts = false;           // its epilogue (gemm_epilogue.h)
  bool scatters = false;          // TMA cannot write out
};

struct GemmChoice {
  int shape;      // in kGemmShapes
  int64_t tiles;  // < 2^31 is the caller's business
  double us;      // predicted
};

namespace gemm_policy {
inline constexpr int64_t kKBytes = 128;          // of a stage
inline constexpr double kLaunchUs = 1.5;         // behind another kernel
inline constexpr double kScatteredPerUs = 5000;  // elements that threads of a block write
inline constexpr int kBand = 8;  // rows of tiles, measured best or equal for all large sizes

constexpr int64_t blocks(int64_t n, int64_t step) {
  return (n + step - 1) / step;
}
}  // namespace gemm_policy

/// The order in which a build walks out. With transposed_out its rows of tiles lie along n.
constexpr GemmOrder gemm_order(const GemmBuild& build, const GemmSize& size) {
  using namespace gemm_policy;
  const int64_t along_m = build.transposed_out ? size.n : size.m;
  const int64_t along_n = build.transposed_out ? size.m : size.n;
  const int64_t rows = blocks(along_m, int64_t(build.tile_m) * build.multicast);
  const int64_t columns = blocks(along_n, build.tile_n);
  return {int(rows), int(columns), kBand, int(rows * columns * size.batch)};
}

/// Predicted time of one build, in microseconds.
constexpr double gemm_time_us(const GemmShapeSm90& shape, const GemmSize& size,
                              int multiprocessors) {
  using namespace gemm_policy;
  const GemmBuild& build = shape.build;
  const GemmOrder order = gemm_order(build, size);
  const int64_t at_once = multiprocessors / build.cluster();
  const int64_t waves = blocks(order.tiles, at_once > 0 ? at_once : 1);
  const int64_t steps = blocks(blocks(size.k * size.element_bytes, kKBytes), build.split);
  const double scattering =
      size.scatters ? double(waves) * build.tile_m * build.tile_n / kScatteredPerUs : 0;
  const double working = double(waves) * double(steps) * shape.step_clocks / hopper::kTensorMhz +
                         (build.ping_pong ? 1.0 : double(waves)) * shape.tile_us + scattering;
  const double m = double(size.m), n = double(size.n), k = double(size.k);
  const double bytes =
      double(size.batch) * (size.element_bytes * (m * k + n * k) + size.out_bytes * m * n);
  const double reading = bytes / hopper::kReadBytesPerUs + shape.tile_us;
  // The shorter of the two is not hidden wholly: a tile starts by reading and ends by computing.
  constexpr double kExposed = 0.4;
  return kLaunchUs +
         (working > reading ? working + kExposed * reading : reading + kExposed * working);
}

/// float32 is multiplied as tf32, of which wgmma reads k innermost alone.
inline constexpr int kTf32Bytes = 4;

/// Whether elements of that size may be multiplied so: out is turned over in 16 bits alone.
constexpr bool gemm_takes(const GemmShapeSm90& shape, int element_bytes) {
  return element_bytes == kTf32Bytes ? !shape.build.transposed_out : !shape.only_tf32;
}
constexpr bool gemm_takes(const GemmShapeSm90& shape, const GemmSize& size) {
  return gemm_takes(shape, size.element_bytes) && (!size.adjusts || shape.build.may_adjust());
}

/// The build with the shortest predicted time, for sizes > 0; the first of equals.
constexpr GemmChoice choose_gemm_sm90(const GemmSize& size, int multiprocessors) {
  GemmChoice best{-1, 0, 0};
  for (int i = 0; i < kGemmShapeCount; ++i) {
    if (!gemm_takes(kGemmShapes[i], size)) continue;
    const double us = gemm_time_us(kGemmShapes[i], size, multiprocessors);
    if (best.shape < 0 || us < best.us)
      best = {i, gemm_order(kGemmShapes[i].build, size).tiles, us};
  }
  return best;
}

}  // namespace tw::kernels
