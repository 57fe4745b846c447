// Stands in for tile/cuda/memory.h.
#pragma once

#include <cstring>

#include "tilewright/core/view.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile {

template <class T, int kN>
struct Pack {
  T lane[kN];
  T& operator[](int i) { return lane[i]; }
  const T& operator[](int i) const { return lane[i]; }
};

template <class T, int kN>
struct Raw {
  T lanes[kN];

  static Raw load(const T* p) {
    Raw out;
    std::memcpy(out.lanes, p, sizeof out.lanes);
    return out;
  }
  void store(T* p) const { std::memcpy(p, lanes, sizeof lanes); }
  template <class C>
  Pack<C, kN> widen() const {
    Pack<C, kN> out;
    for (int i = 0; i < kN; ++i) out[i] = C(lanes[i]);
    return out;
  }
  template <class C>
  static Raw narrow(const Pack<C, kN>& v) {
    Raw out;
    for (int i = 0; i < kN; ++i) out.lanes[i] = T(v[i]);
    return out;
  }
};

}  // namespace tw::tile
