// Sums that a program adds to, row after row: in the registers of a GPU, in the cache of a CPU.
#pragma once

#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/sums.h"
#else
#include "tilewright/tile/cpu/sums.h"
#endif
