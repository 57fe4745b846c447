// The tile language: what a kernel author includes. Primitives are written once against a Program;
// the target is chosen by which Program the kernel is instantiated with.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/paged.h"
#include "tilewright/tile/program.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/primitives.h"
#include "tilewright/tile/cuda/transpose.h"
#else
#include "tilewright/tile/cpu/primitives.h"
#include "tilewright/tile/cpu/transpose.h"
#endif

namespace tw::tile {

// What plans ask, which are made on the host for every target.

/// The programs that walk `rows` in groups (row_group).
template <class P>
TW_INLINE int64_t row_groups(int64_t rows, int64_t cols, const Machine& machine) {
  return P::row_groups(rows, cols, machine);
}
/// Scratch that keep_row or new_row needs for a row of T of so many columns.
template <class P, class C, class T>
TW_INLINE constexpr int64_t kept_bytes(int64_t cols) {
  return P::template kept_bytes<C, T>(cols);
}
/// Columns of it that a thread of a GPU then keeps in registers.
template <class P, class C, class T>
inline constexpr int kKeptColumns = P::template kKeptColumns<C, T>;
/// Scratch for memos of so many columns.
template <class P, class C>
TW_INLINE constexpr int64_t memo_bytes(int64_t cols) {
  return P::template memo_bytes<C>(cols);
}

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
