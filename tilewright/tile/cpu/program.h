// The CPU program: one thread working through instances, lanes are SIMD lanes.
#pragma once

#include "tilewright/tile/cpu/arith.h"
#include "tilewright/tile/cpu/memory.h"
#include "tilewright/tile/program.h"

namespace tw::tile {

/// What the builds of all instruction sets share. `Self` is the build's own Program, so that every
/// function templated on it carries the instruction set in its symbol.
template <class Self, int kBytes>
struct CpuProgram {
  static constexpr bool kOnGpu = false;
  static constexpr int kVectorBytes = kBytes;
  template <class C>
  using Vec = vec<C, kBytes / int(sizeof(C))>;
  template <class C = float>
  static constexpr int kLanes = kBytes / int(sizeof(C));
  using f32 = Vec<float>;
  using i32 = Vec<int32_t>;

  ProgramState* state;

  TW_INLINE int64_t index() const { return state->index; }
  TW_INLINE int phase() const { return state->phase; }
  TW_INLINE bool streaming() const { return state->streaming; }
  TW_INLINE const Machine& machine() const { return *state->machine; }
  template <class T>
  TW_INLINE T* workspace() const {
    return static_cast<T*>(state->workspace);
  }
  template <class T>
  TW_INLINE T* scratch() const {
    return static_cast<T*>(state->scratch);
  }
};

}  // namespace tw::tile
