// setmaxnreg: registers move from the warpgroups that only issue copies to those that compute. The
// kernel needs __launch_bounds__(threads, 1), and each role its own branch.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

template <int kRegisters>
TW_PTX void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
TW_PTX void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace tw::tile::cuda
