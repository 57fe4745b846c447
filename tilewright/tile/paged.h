// Rows of a sequence where they lie in memory: in one piece, or in pages found through a table.
// Freestanding.
#pragma once

#include "tilewright/core/view.h"

namespace tw::tile {

/// Consecutive rows that lie at one stride.
template <class T>
struct RowSegment {
  const T* data;  // row 0, dimension 0
  int64_t row_stride, dim_stride;
  int64_t count;     // rows
  int64_t readable;  // rows from data on that are memory of the same page, >= count
};

/// The rows that a sequence has of one head.
template <class T>
struct PagedRows {
  const T* data = nullptr;
  int64_t row_stride = 0, dim_stride = 0, head_stride = 0;
  int64_t page_size = 0;  // rows per page; of a sequence in one piece, its capacity
  int64_t page_stride = 0;
  const int32_t* table = nullptr;  // page of rows [i * page_size, ...); null: all in page 0
  int64_t table_stride = 0;

  TW_INLINE explicit operator bool() const { return data != nullptr; }
  TW_INLINE PagedRows head(int64_t h) const {
    PagedRows out = *this;
    if (out.data != nullptr) out.data += h * head_stride;
    return out;
  }
  /// Without the dimensions before `first`.
  TW_INLINE PagedRows from_dim(int64_t first) const {
    PagedRows out = *this;
    out.data += first * dim_stride;
    return out;
  }
  /// The rows from `first` on, at most up to `end` and the end of first's page.
  TW_INLINE RowSegment<T> at(int64_t first, int64_t end) const {
    int64_t page = 0, inside = first;
    if (table != nullptr) {
      const int64_t i = first / page_size;
      page = table[i * table_stride];
      inside = first - i * page_size;
    }
    const int64_t readable = page_size - inside, wanted = end - first;
    return {data + page * page_stride + inside * row_stride, row_stride, dim_stride,
            wanted < readable ? wanted : readable, readable};
  }
  /// Where the share of `row` begins in the memory of its page and head, whichever way the page is
  /// laid out, if its rows have `dims` elements each and lie close.
  TW_INLINE const T* share(int64_t row, int64_t dims) const {
    const RowSegment<T> segment = at(row, row + 1);
    const int64_t inside = page_size - segment.readable;
    return segment.data + inside * (dims - row_stride);
  }
  TW_INLINE bool is_close(int64_t dims) const {
    return (row_stride == 1 && dim_stride == page_size) || (dim_stride == 1 && row_stride == dims);
  }
};

/// Rows in one tensor, [L, H, D].
template <class T>
TW_INLINE PagedRows<T> paged_rows(const View<const T, 3>& x) {
  return {x.data, x.stride(0), x.stride(2), x.stride(1), x.size(0), 0, nullptr, 0};
}
/// Of one element each, [L, H]; no data gives none.
template <class T>
TW_INLINE PagedRows<T> paged_rows(const View<const T, 2>& x) {
  return {x.data, x.stride(0), 0, x.stride(1), x.size(0), 0, nullptr, 0};
}
/// Rows in pages, [pages, page_size, H, D], the i-th of which is table(i).
template <class T>
TW_INLINE PagedRows<T> paged_rows(const View<const T, 4>& x, const View<const int32_t, 1>& table) {
  return {x.data,    x.stride(1), x.stride(3), x.stride(2),
          x.size(1), x.stride(0), table.data,  table.stride(0)};
}
/// Of one element each, [pages, page_size, H].
template <class T>
TW_INLINE PagedRows<T> paged_rows(const View<const T, 3>& x, const View<const int32_t, 1>& table) {
  return {x.data, x.stride(1), 0, x.stride(2), x.size(1), x.stride(0), table.data, table.stride(0)};
}

/// Calls f(segment, offset) for the pieces of rows [first, end), none longer than `longest`; offset
/// counts from first.
template <class T, class F>
TW_INLINE void for_segments(const PagedRows<T>& rows, int64_t first, int64_t end, int64_t longest,
                            F&& f) {
  for (int64_t i = first; i < end;) {
    const RowSegment<T> segment = rows.at(i, end < i + longest ? end : i + longest);
    f(segment, i - first);
    i += segment.count;
  }
}

}  // namespace tw::tile
