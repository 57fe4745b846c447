// Loops that run into one limit of a core each: what an instruction or a level of memory can give.
//
// Each is compiled for its instruction set by a function attribute, so this file is part of the
// baseline build; calling one on a processor that lacks the set raises SIGILL. All sizes in bytes.
#pragma once

#include "tilewright/core/machine.h"
#include "tilewright/core/types.h"

namespace tw::tile {

/// Multiply-accumulates in registers only, on enough accumulators to hide the latency.
struct ArithmeticProbe {
  double ops_per_iteration = 0;  // a multiply-add is two
  void (*run)(int64_t iterations) = nullptr;
};

/// What is measured for Machine's rates; run is null where the build has no such instruction.
ArithmeticProbe f32_fma_probe(Isa isa);    // vfmadd
ArithmeticProbe bf16_dot_probe(Isa isa);   // vdpbf16ps
ArithmeticProbe f16_fma_probe(Isa isa);    // vfmaddph
ArithmeticProbe int8_dot_probe(Isa isa);   // vpdpbusd, below avx512_vnni vpmaddubsw + vpmaddwd
ArithmeticProbe bf16_tile_probe(Isa isa);  // tdpbf16ps
ArithmeticProbe int8_tile_probe(Isa isa);  // tdpbssd

/// Streams of memory. Pointers are aligned to 64, `bytes` is a multiple of 512.
struct MemoryProbe {
  void (*read)(const void* from, int64_t bytes);
  void (*write)(void* to, int64_t bytes);         // through the caches
  void (*write_around)(void* to, int64_t bytes);  // non-temporal stores
  void (*copy)(void* to, const void* from, int64_t bytes);
  void (*copy_around)(void* to, const void* from, int64_t bytes);
};
MemoryProbe memory_probe(Isa isa);

/// A chain of `cycles` dependent one-cycle operations: its time gives the clock.
void spin_cycles(int64_t cycles);

}  // namespace tw::tile
