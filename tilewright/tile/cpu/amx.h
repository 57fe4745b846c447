// The amx build of the tile language; its flags are in cmake/isas.cmake.
#pragma once

#include "tilewright/tile/cpu/program.h"

namespace tw::tile::amx {

struct Program : CpuProgram<Program, 64> {
  static constexpr Isa kIsa = Isa::amx;
  static constexpr int kRegisters = 32;
  static constexpr bool kHasVnni = true;  // vpdpbusd
  static constexpr bool kHasBf16 = true;  // vdpbf16ps
  static constexpr bool kHasAmx = true;   // tdpbf16ps, tdpbssd
};

}  // namespace tw::tile::amx
