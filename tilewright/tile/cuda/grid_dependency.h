// griddepcontrol: programmatic dependent launch, in which a kernel's prologue overlaps the end of
// the kernel before it on the stream.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

/// Waits until the kernels before have finished and their stores are visible. Nothing that an
/// earlier kernel may write is read, and nothing it may read is written, before this.
TW_PTX void wait_for_grids_before() {
#if __CUDA_ARCH__ >= 900  // before, launches do not overlap
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// The next kernel may start its prologue.
TW_PTX void launch_grids_after() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace tw::tile::cuda
