// Rows whose elements are adjacent, or need not be, by their type: what is known before a loop need
// not be asked for each of its vectors.
#pragma once

#include <type_traits>

#include "tilewright/core/view.h"
#include "tilewright/tile/cpu/program.h"

namespace tw::tile {

/// A row of `count` adjacent elements.
template <class T>
struct AdjacentRow {
  T* data = nullptr;
  int64_t count = 0;
  bool streaming = false;  // by the program
  bool around = false;     // stored around the caches: the program streams, `data` is aligned
  T* next = nullptr;       // what is read after it

  TW_INLINE AdjacentRow(T* first, int64_t n, bool streams = false)
      : AdjacentRow(first, n, streams, first + n) {}
  TW_INLINE AdjacentRow(T* first, int64_t n, bool streams, T* after)
      : data(first),
        count(n),
        streaming(streams),
        around(streams && uint64_t(first) % kLineBytes == 0),
        next(after) {}

  TW_INLINE int64_t size(int) const { return count; }
  TW_INLINE static constexpr int64_t stride(int) { return 1; }
  TW_INLINE T& operator()(int64_t i) const { return data[i]; }
  TW_INLINE AdjacentRow part(int64_t begin, int64_t n) const {
    return {data + begin, n, streaming, begin + n == count ? next : data + begin + n};
  }
};

/// Rows of adjacent elements.
template <class T>
struct AdjacentRows {
  const Rows<T>& base;
  bool streaming;

  TW_INLINE AdjacentRow<T> row(int64_t i) const {
    T* const data = base.row(i).data;
    if (!streaming || i + 1 >= base.rows) return {data, base.cols, streaming};
    return {data, base.cols, streaming, base.row(i + 1).data};
  }
};

/// A row whose elements need not be adjacent. It is walked vector by vector, in loops of little
/// code: most of a kernel would otherwise be for rows that few calls have.
template <class T>
struct LooseRow : View<T, 1> {
  static constexpr bool kLoose = true;
  TW_INLINE LooseRow part(int64_t begin, int64_t n) const { return {View<T, 1>::part(begin, n)}; }
};
template <class T>
struct LooseRows {
  const Rows<T>& base;
  TW_INLINE LooseRow<T> row(int64_t i) const { return {base.row(i)}; }
};

namespace detail {
template <class T>
TW_INLINE bool is_adjacent(const View<T, 1>& row) {
  return row.strides[0] == 1;
}
template <class T>
TW_INLINE bool is_adjacent(const Rows<T>& rows) {
  return rows.col_stride == 1;
}
template <class P, class T>
TW_INLINE AdjacentRow<T> adjacent(P p, const View<T, 1>& row) {
  return {row.data, row.sizes[0], p.streaming()};
}
template <class P, class T>
TW_INLINE AdjacentRows<T> adjacent(P p, const Rows<T>& rows) {
  return {rows, p.streaming()};
}
template <class T>
TW_INLINE LooseRow<T> loose(const View<T, 1>& row) {
  return {row};
}
template <class T>
TW_INLINE LooseRows<T> loose(const Rows<T>& rows) {
  return {rows};
}
}  // namespace detail

/// How many columns to write first, so that the rest of a row can go around the caches: those up to
/// a cache line's beginning. All of them where that changes nothing.
template <class T>
TW_INLINE int64_t first_part(const AdjacentRow<T>& row) {
  const auto skipped = int64_t(-uint64_t(row.data) % kLineBytes);
  const bool helps = row.streaming && skipped > 0 && skipped % int64_t{sizeof(T)} == 0 &&
                     row.count * int64_t{sizeof(T)} >= 16 * kLineBytes;
  return helps ? skipped / int64_t{sizeof(T)} : row.count;
}

/// Calls f with the operands, each a View of rank 1 or Rows: as AdjacentRow or AdjacentRows where
/// the elements of every operand's rows are adjacent, else as LooseRow or LooseRows.
template <class C = float, class P, class F, class... Operand>
TW_INLINE void with_rows(P p, F&& f, const Operand&... operands) {
  if ((detail::is_adjacent(operands) && ...)) [[likely]]
    f(detail::adjacent(p, operands)...);
  else
    f(detail::loose(operands)...);
}
/// The same of the kernel's row_operands.
template <class P, class Kernel, class F>
TW_INLINE void run_rows(P p, const Kernel& kernel, F&& f) {
  kernel.row_operands([&]<class T>(const Rows<const T>& first, const auto&... rest)
                          TW_INLINED { with_rows<compute_t<T>>(p, f, first, rest...); });
}
/// Of a row of the only one, or of a part of it.
template <class C, class P, class F, class T>
TW_INLINE void run_row(P p, F&& f, const View<T, 1>& row) {
  with_rows<C>(p, f, row);
}

/// Elements that StagedRows takes at a time.
inline constexpr int64_t kStaged = 256;

/// Any rows as parts whose elements are adjacent: at most kStaged elements that are not go through
/// a buffer. For skeletons that may cut a row anywhere, so that a kernel has one loop for all.
template <class T>
struct StagedRows {
  using Element = std::remove_const_t<T>;

  const Rows<T>& base;
  bool streaming;
  alignas(64) Element buffer[kStaged];

  TW_INLINE StagedRows(const Rows<T>& rows, bool streams) : base(rows), streaming(streams) {}
  TW_INLINE bool is_adjacent() const { return base.col_stride == 1; }
  /// n columns of row i from c on, where they lie or in the buffer.
  TW_INLINE AdjacentRow<T> place(int64_t i, int64_t c, int64_t n) {
    if (is_adjacent()) [[likely]]
      return AdjacentRows<T>{base, streaming}.row(i).part(c, n);
    return {buffer, n};
  }
  /// The same with the elements. `first`: of the row's parts, which may all be one element.
  TW_INLINE AdjacentRow<T> read(int64_t i, int64_t c, int64_t n, bool first) {
    if (!is_adjacent() && (first || base.col_stride != 0))
      pack_apart(buffer, base.row(i).part(c, n).data, base.col_stride, n);
    return place(i, c, n);
  }
  /// Puts what was written to place(i, c, n) there.
  TW_INLINE void write(int64_t i, int64_t c, int64_t n) {
    if (!is_adjacent()) unpack_apart(base.row(i).part(c, n).data, base.col_stride, buffer, n);
  }
};

/// The group of rows of the program p.
template <class P>
TW_INLINE RowGroup row_group(P p, int64_t rows, int64_t cols) {
  const int64_t count = P::rows_per_program(rows, cols, p.machine());
  const int64_t first = p.index() * count;
  return {first, first + count < rows ? first + count : rows};
}

}  // namespace tw::tile
