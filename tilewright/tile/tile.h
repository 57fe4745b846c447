// The tile language: what a kernel author includes. Primitives are written once against a Program;
// the target is chosen by which Program the kernel is instantiated with.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/program.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/primitives.h"
#include "tilewright/tile/cuda/transpose.h"
#else
#include "tilewright/tile/cpu/primitives.h"
#include "tilewright/tile/cpu/transpose.h"
#endif

namespace tw::tile {

/// What a kernel may ask of the program that runs it.
template <class P>
concept Program = requires(const P p) {
  p.index();
  p.phase();
  p.streaming();
  typename P::template Vec<float>;
  P::template kLanes<float>;
};

}  // namespace tw::tile
