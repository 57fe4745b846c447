// Where a row's largest element is.
#pragma once

#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/largest.h"
#else
#include "tilewright/tile/cpu/largest.h"
#endif
