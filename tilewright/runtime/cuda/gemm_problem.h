// A matrix multiplication as the launcher sees it: sizes, strides, and what a tensor map can say of
// them. Plain host code.
#pragma once

#include <type_traits>
#include <utility>

#include "tilewright/core/view.h"
#include "tilewright/kernels/gemm_epilogue.h"
#include "tilewright/kernels/gemm_policy_sm90.h"
#include "tilewright/kernels/matmul_scale.h"
#include "tilewright/runtime/cuda/tensor_map.h"

namespace tw::runtime::cuda {

/// Rows of k elements; strides count elements.
template <class T>
struct GemmOperand {
  T* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 0, batch_stride = 0;
  int64_t batch = 1;  // 1 where one matrix serves the whole batch

  GemmOperand transposed() const {
    return {data, columns, rows, column_stride, row_stride, batch_stride, batch};
  }
  /// TMA reads it along its columns: 16 bytes is what its addresses and strides are multiples of.
  bool is_tma_legal() const {
    return reinterpret_cast<uintptr_t>(data) % kTmaUnit == 0 &&
           (column_stride == 1 || columns == 1) && is_tma_stride<T>(rows, row_stride) &&
           is_tma_stride<T>(batch, batch_stride);
  }
  /// TMA writes it. Of 16 bytes that the last columns share with what is behind them, it writes
  /// all.
  bool is_tma_writable() const {
    return is_tma_legal() && columns * int64_t{sizeof(T)} % int64_t{kTmaUnit} == 0;
  }
};

/// Rows whose leading dimensions merge into one stride.
template <class T>
GemmOperand<T> as_operand(const Rows<T>& rows) {
  return {rows.data, rows.rows, rows.cols, rows.lead_strides[0], rows.col_stride, 0, 1};
}
template <class T>
GemmOperand<T> as_operand(const View<T, 2>& matrix) {
  return {matrix.data, matrix.size(0), matrix.size(1), matrix.stride(0), matrix.stride(1), 0, 1};
}

template <class T>
Rows<T> as_rows(const GemmOperand<T>& matrix) {
  Rows<T> out;
  out.data = matrix.data;
  out.rows = out.lead_sizes[0] = matrix.rows;
  out.cols = matrix.columns;
  out.lead_strides[0] = matrix.row_stride;
  out.col_stride = matrix.column_stride;
  return out;
}

/// What tells TMA of an operand: boxes of box_rows rows and 128 bytes of columns.
template <class T>
tile::cuda::TensorMap operand_map(const char* op, const GemmOperand<T>& of, int64_t box_rows) {
  return encode_tensor_map<std::remove_const_t<T>, 3>(
      op, of.data, {of.columns, of.rows, of.batch}, {of.row_stride, of.batch_stride},
      {uint32_t(128 / sizeof(T)), uint32_t(box_rows), 1});
}

template <class T, class Out = T>
struct GemmProblem {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  GemmOperand<const T> left, right;  // [m, k], [n, k]
  GemmOperand<Out> out;              // [m, n]
  kernels::MatmulScale scale;
  GemmOperand<const Out> addend;  // [m, n], or absent
  bool linear = false;
  View<const T, 1> bias;
  View<const T, 2> residual;
  kernels::GemmScales scales;
  int activation = 0;
  bool adds = false;  // to what out has

  /// out = a b + addend of batches of matrices: a [batch, m, k], b [batch, k, n].
  static GemmProblem product(const View<const T, 3>& a, const View<const T, 3>& b,
                             const View<Out, 3>& out, const View<const Out, 3>& addend = {}) {
    GemmProblem p;
    p.batch = out.size(0), p.m = out.size(1), p.n = out.size(2), p.k = a.size(2);
    const auto batch_of = [&](const auto& x) { return x.stride(0) == 0 ? 1 : p.batch; };
    p.left = {a.data, p.m, p.k, a.stride(1), a.stride(2), a.stride(0), batch_of(a)};
    p.right = {b.data, p.n, p.k, b.stride(2), b.stride(1), b.stride(0), batch_of(b)};
    p.out = {out.data, p.m, p.n, out.stride(1), out.stride(2), out.stride(0), p.batch};
    p.addend = {addend.data,      p.m,    p.n, addend.stride(1), addend.stride(2),
                addend.stride(0), p.batch};
    p.orient();
    return p;
  }

  /// A linear layer that adds nothing is a multiplication, whose operands may lie either way; so is
  /// one that adds to out, if its operands do not lie as its own kernel reads them.
  void simplify() {
    const bool to_out = residual && residual.data == out.data &&
                        residual.stride(0) == out.row_stride &&
                        residual.stride(1) == out.column_stride;
    const auto lies_across = [](const GemmOperand<const T>& x) {
      return !x.is_tma_legal() && x.transposed().is_tma_legal();
    };
    if (bias || activation != 0 || scales.rows || scales.columns || (residual && !to_out)) return;
    if (residual && !lies_across(left) && !lies_across(right)) return;
    linear = false;
    adds = to_out;
    orient();
  }
  /// The transposed product, if out's columns are contiguous and its rows are not.
  void orient() {
    if (linear || out.column_stride == 1 || out.row_stride != 1) return;
    std::swap(m, n);
    std::swap(left, right);
    out = out.transposed();
    addend = addend.transposed();
  }
  /// Whether its sizes are among those that the Hopper kernels count in 32 bits.
  bool fits_sm90() const {
    constexpr int64_t kMost = (int64_t{1} << 31) - 512;  // coordinates reach a tile beyond
    if (m > kMost || n > kMost || k > kMost || batch > kMost) return false;
    constexpr int64_t kSmallest = 64 * 16;  // elements of the smallest tile
    return double(batch) * double(m + 128) * double(n + 256) / kSmallest < double(kMost);
  }
  kernels::GemmSize size() const {
    return {batch,
            m,
            n,
            k,
            int(sizeof(T)),
            int(sizeof(Out)),
            addend.data || scales.rows || scales.columns,
            !out.is_tma_writable()};
  }
};

}  // namespace tw::runtime::cuda
