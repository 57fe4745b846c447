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
  Pack operator*(T factor) const {
    Pack out = *this;
    for (T& each : out.lane) each *= factor;
    return out;
  }
};

template <class T, int kN>
struct Raw {
  T lanes[kN] = {};

  static Raw load(const T* p) {
    Raw out;
    std::memcpy(out.lanes, p, sizeof out.lanes);
    return out;
  }
  static bool is_aligned(const T* p) {
    return reinterpret_cast<uintptr_t>(p) % (sizeof lanes < 16 ? sizeof lanes : 16) == 0;
  }
  void store(T* p) const { std::memcpy(p, lanes, sizeof lanes); }
  void scatter(T* p, int64_t stride, int count) const {
    for (int i = 0; i < count; ++i) p[i * stride] = lanes[i];
  }
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
