// The ring of shared-memory stages between a producer and the consumers of a matrix multiplication.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

/// Where in the ring a warpgroup is.
template <int kStages>
struct GemmRingPosition {
  int stage = 0;
  uint32_t phase = 0;

  TW_PTX void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  TW_PTX int previous() const { return stage > 0 ? stage - 1 : kStages - 1; }
  TW_PTX void skip(int count) {
    const int to = stage + count;
    phase ^= uint32_t(to / kStages) & 1;
    stage = to % kStages;
  }
};

}  // namespace tw::kernels
