// The operators whose kernels on a GPU have a schedule of their own (ops::GpuKernels::kOwn): an
// overload of launch_own each, of the operator's kernel aggregate.
#pragma once

#include "tilewright/runtime/cuda/gemm.h"
