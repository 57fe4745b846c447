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
  static constexpr bool kHasAmx = false;  // one build has it and hides this
  static constexpr int kVectorBytes = kBytes;
  template <class C>
  using Vec = vec<C, kBytes / int(sizeof(C))>;
  template <class C = float>
  static constexpr int kLanes = kBytes / int(sizeof(C));

  /// As many rows as are a few tens of microseconds of work, fewer where threads would lack some.
  TW_INLINE static int64_t rows_per_program(int64_t rows, int64_t cols, const Machine& machine) {
    constexpr int64_t kElements = 128 << 10, kProgramsPerThread = 8;
    const int64_t by_work = cols > 0 ? kElements / cols : kElements;
    const int64_t by_balance = rows / (kProgramsPerThread * machine.threads);
    const int64_t count = by_work < by_balance ? by_work : by_balance;
    return count > 1 ? count : 1;
  }
  TW_INLINE static int64_t row_groups(int64_t rows, int64_t cols, const Machine& machine) {
    const int64_t count = rows_per_program(rows, cols, machine);
    return (rows + count - 1) / count;
  }
  template <class C, class T>
  TW_INLINE static constexpr int64_t kept_bytes(int64_t) {
    return 0;
  }
  template <class C, class T>
  static constexpr int kKeptColumns = 0;
  template <class C>
  TW_INLINE static constexpr int64_t memo_bytes(int64_t cols) {
    return cols * int64_t{sizeof(C)};
  }
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
