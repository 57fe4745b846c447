// The avx512_fp16 build of the tile language; its flags are in cmake/isas.cmake.
#pragma once

#include "tilewright/tile/cpu/program.h"

namespace tw::tile::avx512_fp16 {

struct Program : CpuProgram<Program, 64> {
  static constexpr Isa kIsa = Isa::avx512_fp16;
  static constexpr int kRegisters = 32;
  static constexpr bool kHasVnni = true;  // vpdpbusd
  static constexpr bool kHasBf16 = true;  // vdpbf16ps
};

}  // namespace tw::tile::avx512_fp16
