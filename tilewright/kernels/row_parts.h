// Long rows of which there are few, cut into parts that programs have each: as many as fill a GPU.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/program.h"

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
  /// The same where rows of `shortest` columns or more are few: parts of `least` at least. Unless
  /// the caller says otherwise, a GPU's.
  TW_INLINE static RowParts of_few(int64_t rows, int64_t cols, int64_t shortest = 1 << 16,
                                   int64_t least = 4096) {
    constexpr int64_t kPrograms = 1024, kWhole = 4096;
    if (rows == 0 || 2 * rows > kPrograms || cols < shortest) return one(cols);
    return of(rows, cols, tile::lesser(kPrograms, cols / least * rows), kWhole);
  }

  /// Of programs that find what one number or state tells of each part, and others that put the
  /// parts of a row together.
  TW_INLINE tile::Plan plan(int64_t rows, int64_t cols, int64_t state_bytes) const {
    const int64_t programs = rows * count;
    tile::Plan plan =
        tile::plan_of(programs).over_row(tile::lesser(cols, tile::columns_read_once(programs)));
    if (count == 1) return plan;
    plan.phases = 2;
    plan.grid[1] = rows;
    plan.workspace_bytes = programs * state_bytes;
    return plan;
  }

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
