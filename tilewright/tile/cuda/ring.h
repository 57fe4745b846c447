// A ring of places in shared memory between those that fill them and those that use them.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

/// Where in the ring someone is, and the phase of the place's barriers.
template <int kPlaces>
struct RingPosition {
  int index = 0;
  uint32_t phase = 0;

  TW_PTX void next() {
    if (++index == kPlaces) {
      index = 0;
      phase ^= 1;
    }
  }
  TW_PTX int previous() const { return index > 0 ? index - 1 : kPlaces - 1; }
  TW_PTX void skip(int count) {
    const int to = index + count;
    phase ^= uint32_t(to / kPlaces) & 1;
    index = to % kPlaces;
  }
};

}  // namespace tw::tile::cuda
