// The avx2 build of the tile language; its flags are in cmake/isas.cmake.
#pragma once

#include "tilewright/tile/cpu/program.h"

namespace tw::tile::avx2 {

struct Program : CpuProgram<Program, 32> {
  static constexpr Isa kIsa = Isa::avx2;
  static constexpr int kRegisters = 16;
  static constexpr bool kHasVnni = false;  // vpdpbusd
  static constexpr bool kHasBf16 = false;  // vdpbf16ps
};

}  // namespace tw::tile::avx2
