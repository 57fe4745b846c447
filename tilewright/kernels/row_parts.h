// Long rows of which there are few, cut into parts that programs have each: as many as fill a GPU.
#pragma once

#include "tilewright/core/view.h"

namespace tw::kernels {

struct RowParts {
  int64_t count = 1, columns = 0;  // of a row; of each but the last

  /// About `programs` parts in all, each of a multiple of `whole` columns.
  TW_INLINE static RowParts of(int64_t rows, int64_t cols, int64_t programs, int64_t whole) {
    const int64_t most = rows > 0 ? index_quotient(programs, rows) : 0;
    if (most < 2 || cols <= whole) return one(cols);
    const int64_t even = index_quotient(cols + most - 1, most);
    const int64_t columns = index_quotient(even + whole - 1, whole) * whole;
    return {index_quotient(cols + columns - 1, columns), columns};
  }
  TW_INLINE static RowParts one(int64_t cols) { return {1, cols}; }

  struct Part {
    int64_t row, index, begin, size;
  };
  /// Number `i` of all rows' of `cols` columns.
  TW_INLINE Part part(int64_t i, int64_t cols) const {
    const int64_t row = index_quotient(i, count), index = i - row * count;
    const int64_t begin = index * columns, left = cols - begin;
    return {row, index, begin, left < columns ? left : columns};
  }
};

/// What a GPU runs of a kernel whose run() is given the parts: the host has cut the rows.
template <class Kernel>
struct CutRows {
  Kernel kernel;
  RowParts parts;

  template <class F>
  TW_INLINE auto row_operands(F&& f) const
    requires requires { kernel.row_operands(f); }
  {
    return kernel.row_operands(f);
  }
  template <class P>
  TW_DEVICE void operator()(P p) const {
    kernel.run(p, parts);
  }
};

}  // namespace tw::kernels
