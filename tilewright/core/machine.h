// What kernels need to know of the machine to choose a schedule. Freestanding.
#pragma once

#include "tilewright/core/types.h"

namespace tw {

/// Builds of the CPU kernels, weakest first; each contains the ones before it.
///
///   avx2         AVX2 FMA F16C BMI1 BMI2
///   avx512       + F BW DQ VL CD                                      (Skylake-X)
///   avx512_vnni  + VNNI VBMI VBMI2 BITALG VPOPCNTDQ IFMA GFNI         (Ice Lake)
///   avx512_bf16  + BF16                                               (Zen 4)
///   avx512_fp16  + FP16                                               (Sapphire Rapids)
///   amx          + AMX TILE, BF16 and INT8                  (the same, where they are granted)
enum class Isa : uint8_t { avx2, avx512, avx512_vnni, avx512_bf16, avx512_fp16, amx };
inline constexpr int kIsaCount = 6;

/// "avx2", "avx512", ...: the spelling of TILEWRIGHT_ISA.
TW_DEVICE constexpr const char* name(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_vnni:
      return "avx512_vnni";
    case Isa::avx512_bf16:
      return "avx512_bf16";
    case Isa::avx512_fp16:
      return "avx512_fp16";
    case Isa::amx:
      return "amx";
  }
  return "?";
}

/// Sizes in bytes, rates per core (of the build `isa`) unless they say otherwise. A multiply-add is
/// two operations. Filled in by runtime/machine.h from a table and, where it was run, from
/// calibration: never from a measurement made on the fly, so that schedules are reproducible.
struct Machine {
  Isa isa = Isa::avx2;
  int threads = 1;
  int64_t l1d_bytes = 32 << 10;  // of a GPU what a block of threads may have
  int64_t l2_bytes = 512 << 10;  // per core
  int64_t l3_bytes = 16 << 20;   // shared; 0 when there is none
  double f32_fma_gflops = 100;
  double bf16_dot_gflops = 0;     // vdpbf16ps; 0 when the build has none
  double f16_fma_gflops = 0;      // vfmaddph; 0 when the build has none
  double int8_dot_gops = 200;     // vpdpbusd, or vpmaddubsw + vpmaddwd + vpaddd
  double bf16_tile_gflops = 0;    // tdpbf16ps; 0 when the build has none
  double int8_tile_gops = 0;      // tdpbssd; 0 when the build has none
  double dram_read_gbs = 15;      // one thread
  double dram_read_all_gbs = 25;  // all threads
  double dram_copy_gbs = 20;      // all threads, bytes read + bytes written, the better store kind

  /// Whether bf16 is multiplied faster by tiles than float32 is by vectors.
  TW_INLINE constexpr bool prefers_bf16_tiles() const { return bf16_tile_gflops > f32_fma_gflops; }
  /// The same of pairs (vdpbf16ps) in attention, whose weights are rounded and joined first.
  TW_INLINE constexpr bool prefers_bf16_pairs() const {
    return bf16_dot_gflops > 1.2 * f32_fma_gflops;
  }
};

}  // namespace tw
