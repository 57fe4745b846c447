// What gemm_cpu.h multiplies for matmul and its relatives: a batch of strided matrices, or groups
// of the rows or of the inner dimension of one.
#pragma once

#include "tilewright/kernels/gemm_cpu.h"
#include "tilewright/kernels/matmul_scale.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/cpu/epilogue.h"

namespace tw::kernels {

template <class T, class Out = T>
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
    MatmulScale scale;  // not of integers
    Rows<Out> out;
    Rows<const Out> addend;  // or absent; may be out
    bool few_products;       // for each element of out

    /// Whether what is written goes around the caches: it is most of the work.
    template <class P>
    TW_INLINE bool streams(P p) const {
      return few_products && p.streaming();
    }
    template <class P>
    TW_INLINE void prefetch(P p, int64_t row, int rows, int64_t column, int64_t columns) const {
      if (!streams(p)) tile::prefetch_tile(row, rows, column, columns, out);
    }
    template <class P, class Sum>
    __attribute__((noinline)) void operator()(P p, const Sum* tile, int64_t row, int rows,
                                              int64_t column, int64_t columns) const {
      const auto store = [&](auto f) {
        tile::store_tile(p, tile, row, rows, column, columns, out, f, streams(p));
      };
      if constexpr (!tile::same_type<Sum, float>)
        store([](auto v, auto, int64_t) { return v; });
      else if (addend)
        store([&](auto v, auto at, int64_t r) { return scale(v, tile::load(addend.row(r), at)); });
      else
        store([&](auto v, auto, int64_t) { return scale(v); });
    }
  };

  enum class Grouped { kNone, kRows, kDepth };

  int64_t batch, m, n, k;        // m or k: of the largest group
  Operand<const T> left, right;  // [m, k], [n, k]
  Operand<Out> result;           // [m, n]
  MatmulScale scale{};
  Operand<const Out> addend{};  // [m, n], or absent
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
    constexpr int64_t kFew = 32;
    return {scale, result.at(is(Grouped::kRows) ? 0 : i, first_row(i), 0), addend.at(i), k <= kFew};
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

/// Whether to compute the transpose: its rows are contiguous and those of out are not, or n is so
/// small that the columns of out had better be the rows of a register tile.
template <class Out>
TW_INLINE bool matmul_by_columns(const View<Out, 3>& out) {
  const bool rows_fit = out.stride(2) == 1 || out.size(2) == 1;
  const bool columns_fit = out.stride(1) == 1 || out.size(1) == 1;
  if (columns_fit != rows_fit) return columns_fit;
  return out.size(2) <= 8 && out.size(1) >= 4 * out.size(2);
}

/// out = alpha a b + beta addend of batches of matrices: a [batch, m, k], b [batch, k, n].
template <class T, class Out>
TW_INLINE MatmulProblem<T, Out> matmul_problem(const View<const T, 3>& a, const View<const T, 3>& b,
                                               const View<Out, 3>& out, MatmulScale scale = {},
                                               const View<const Out, 3>& addend = {}) {
  using Problem = MatmulProblem<T, Out>;
  const int64_t m = out.size(1), n = out.size(2), k = a.size(2);
  const typename Problem::template Operand<const T> rows{a.data,      m,           k,
                                                         a.stride(0), a.stride(1), a.stride(2)};
  const typename Problem::template Operand<const T> columns{b.data,      n,           k,
                                                            b.stride(0), b.stride(2), b.stride(1)};
  const auto by_rows = []<class E>(const View<E, 3>& x) {
    return typename Problem::template Operand<E>{x.data,      x.size(1),   x.size(2),
                                                 x.stride(0), x.stride(1), x.stride(2)};
  };
  const auto by_columns = []<class E>(const View<E, 3>& x) {
    return typename Problem::template Operand<E>{x.data,      x.size(2),   x.size(1),
                                                 x.stride(0), x.stride(2), x.stride(1)};
  };
  if (matmul_by_columns(out))
    return {out.size(0), n, m, k, columns, rows, by_columns(out), scale, by_columns(addend)};
  Problem whole{out.size(0), m, n, k, rows, columns, by_rows(out), scale, by_rows(addend)};
  // One right matrix for a batch of stacked left ones is a single, taller multiplication.
  const auto is_stacked = [m](const auto& x) { return x.stride(0) == m * x.stride(1); };
  if (b.stride(0) == 0 && is_stacked(a) && is_stacked(out) && is_stacked(addend)) {
    whole.m *= whole.batch;
    whole.left.rows = whole.result.rows = whole.addend.rows = whole.m;
    whole.batch = 1;
  }
  return whole;
}

}  // namespace tw::kernels
