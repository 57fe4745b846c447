// What gemm_cpu.h multiplies for matmul and its relatives: a batch of strided matrices, or groups
// of the rows or of the inner dimension of one.
#pragma once

#include "tilewright/kernels/gemm_cpu.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/cpu/epilogue.h"

namespace tw::kernels {

template <class T>
struct MatmulProblem {
  using Panels = StridedPanels<T>;

  /// A matrix of the batch as rows: sizes and strides of one operand.
  template <class E>
  struct Operand {
    E* data;
    int64_t rows, cols, batch_stride, row_stride, col_stride;

    TW_INLINE Rows<E> at(int64_t index) const {
      Rows<E> matrix;
      matrix.data = data + index * batch_stride;
      matrix.rows = matrix.lead_sizes[0] = rows;
      matrix.cols = cols;
      matrix.lead_strides[0] = row_stride;
      matrix.col_stride = col_stride;
      return matrix;
    }
    /// Without the rows before, and the columns before.
    TW_INLINE Rows<E> at(int64_t index, int64_t row, int64_t col) const {
      Rows<E> matrix = at(index);
      matrix.data += row * row_stride + col * col_stride;
      return matrix;
    }
  };

  struct Epilogue {
    float alpha;
    Rows<T> out;

    TW_INLINE void prefetch(int64_t row, int rows, int64_t column, int64_t columns) const {
      tile::prefetch_tile(row, rows, column, columns, out);
    }
    template <class P>
    __attribute__((noinline)) void operator()(P p, const float* tile, int64_t row, int rows,
                                              int64_t column, int64_t columns) const {
      tile::store_tile(p, tile, row, rows, column, columns, out,
                       [&](auto v, auto, int64_t) { return v * alpha; });
    }
  };

  enum class Grouped { kNone, kRows, kDepth };

  int64_t batch, m, n, k;        // m or k: of the largest group
  Operand<const T> left, right;  // [m, k], [n, k]
  Operand<T> result;             // [m, n]
  float alpha = 1;
  Grouped grouped = Grouped::kNone;
  RowGroups groups{};

  TW_INLINE int64_t first_row(int64_t i) const { return is(Grouped::kRows) ? groups.begin(i) : 0; }
  TW_INLINE int64_t first_k(int64_t i) const { return is(Grouped::kDepth) ? groups.begin(i) : 0; }
  TW_INLINE Rows<const T> a(int64_t i) const {
    return left.at(is(Grouped::kNone) ? i : 0, first_row(i), first_k(i));
  }
  TW_INLINE Panels b(int64_t i) const {
    return {right.at(is(Grouped::kDepth) ? 0 : i, 0, first_k(i))};
  }
  TW_INLINE Epilogue epilogue(int64_t i) const {
    return {alpha, result.at(is(Grouped::kRows) ? 0 : i, first_row(i), 0)};
  }

  // What differs from group to group.
  TW_INLINE bool differ() const { return !is(Grouped::kNone); }
  TW_INLINE int64_t rows(int64_t i) const { return is(Grouped::kRows) ? groups.size(i) : m; }
  TW_INLINE int64_t depth(int64_t i) const { return is(Grouped::kDepth) ? groups.size(i) : k; }
  /// Rows of a that those before have, and all of them.
  TW_INLINE int64_t rows_before(int64_t i) const {
    return is(Grouped::kRows) ? groups.begin(i) : i * m;
  }
  TW_INLINE int64_t all_rows() const { return is(Grouped::kRows) ? left.rows : batch * m; }
  TW_INLINE int64_t occupied() const { return is(Grouped::kRows) ? groups.occupied() : batch; }

 private:
  TW_INLINE bool is(Grouped kind) const { return grouped == kind; }
};

}  // namespace tw::kernels
