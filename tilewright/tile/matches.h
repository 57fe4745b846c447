// The elements that match: who looks for them, and how many are before each.
#pragma once

#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/matches.h"
#else
#include "tilewright/tile/cpu/matches.h"
#endif
