// Rows of attention's tensors as TMA sees them. Plain host code.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tilewright/core/view.h"
#include "tilewright/kernels/attention_backward_build_sm90.h"
#include "tilewright/runtime/cuda/tensor_map.h"

namespace tw::runtime::cuda {

/// Rows of a tensor, [outer, rows, heads, dims]; strides count elements.
template <class T>
struct AttentionTensor {
  T* data = nullptr;
  int64_t outer = 1, rows = 0, heads = 0, dims = 0;
  int64_t outer_stride = 0, row_stride = 0, head_stride = 0, dim_stride = 0;

  AttentionTensor() = default;
  explicit AttentionTensor(const View<T, 4>& x)
      : data(x.data),
        outer(x.size(0)),
        rows(x.size(1)),
        heads(x.size(2)),
        dims(x.size(3)),
        outer_stride(x.stride(0)),
        row_stride(x.stride(1)),
        head_stride(x.stride(2)),
        dim_stride(x.stride(3)) {}
  /// `count` sequences of the same length after each other.
  explicit AttentionTensor(const View<T, 3>& x, int64_t count = 1)
      : data(x.data),
        outer(count),
        rows(x.size(0) / count),
        heads(x.size(1)),
        dims(x.size(2)),
        outer_stride(rows * x.stride(0)),
        row_stride(x.stride(0)),
        head_stride(x.stride(1)),
        dim_stride(x.stride(2)) {}

  bool is_empty() const { return outer == 0 || rows == 0 || heads == 0 || dims == 0; }
  /// Rows begin at multiples of 16 bytes and are contiguous, which TMA and wide stores need.
  bool is_aligned() const {
    return reinterpret_cast<uintptr_t>(data) % kTmaUnit == 0 && (dim_stride == 1 || dims == 1) &&
           is_tma_stride<T>(outer, outer_stride) && is_tma_stride<T>(rows, row_stride) &&
           is_tma_stride<T>(heads, head_stride);
  }
  /// Of 16 bytes that a row's end shares with what is behind it, TMA writes all.
  bool is_writable() const {
    return is_aligned() && dims * int64_t{sizeof(T)} % int64_t{kTmaUnit} == 0;
  }
  /// Whether cut_map() can have rows this far apart.
  bool may_be_cut() const { return row_stride * int64_t{sizeof(T)} < int64_t{1} << 33; }
  bool counts_in_32_bits() const {
    constexpr int64_t kMost = int64_t{1} << 29;
    return outer <= kMost && rows <= kMost && heads <= kMost;
  }
};

/// Boxes of 128 bytes of `box`; sizes and strides of the dimensions after the innermost.
template <class T, size_t kRank>
tile::cuda::TensorMap tensor_map(const AttentionTensor<const T>& of,
                                 const std::array<int64_t, kRank>& sizes,
                                 const std::array<int64_t, kRank>& strides,
                                 const std::array<uint32_t, kRank>& box) {
  std::array<int64_t, kRank + 1> all_sizes{of.dims};
  std::array<uint32_t, kRank + 1> whole_box{128 / sizeof(T)};
  std::copy(sizes.begin(), sizes.end(), all_sizes.begin() + 1);
  std::copy(box.begin(), box.end(), whole_box.begin() + 1);
  return encode_tensor_map<T, kRank + 1>("attention", of.data, all_sizes, strides, whole_box);
}

/// Boxes of rows of one head.
template <class T>
tile::cuda::TensorMap row_map(const AttentionTensor<const T>& x, int64_t box_rows) {
  return tensor_map<T, 3>(x, {x.rows, x.heads, x.outer},
                          {x.row_stride, x.head_stride, x.outer_stride},
                          {uint32_t(box_rows), 1, 1});
}

/// The same of whole rows of `dims` numbers of 8 bits, which are to be widened.
template <class U>
tile::cuda::TensorMap narrow_map(const AttentionTensor<const U>& x, int64_t box_rows,
                                 int64_t dims) {
  return encode_tensor_map<U, 4>("attention", x.data, {x.dims, x.rows, x.heads, x.outer},
                                 {x.row_stride, x.head_stride, x.outer_stride},
                                 {uint32_t(dims), uint32_t(box_rows), 1, 1}, BoxLayout::kPlain);
}

/// As row_map, where kernels::AttentionOrigin says where a sequence begins that is a batch entry.
template <class T>
tile::cuda::TensorMap uncut_map(const AttentionTensor<const T>& x, int64_t box_rows) {
  return tensor_map<T, 4>(x, {x.rows, x.heads, x.outer, 1},
                          {x.row_stride, x.head_stride, x.outer_stride, 0},
                          {uint32_t(box_rows), 1, 1, 1});
}
/// The same for one that is some of the rows.
template <class T>
tile::cuda::TensorMap cut_map(const AttentionTensor<const T>& x, int64_t box_rows) {
  constexpr int64_t kFar = kernels::AttentionOrigin::kFar;
  constexpr int64_t kStep = (int64_t{1} << 34) / int64_t{sizeof(T)};  // kFar of these are none
  // The stride of a single row may be any.
  const int64_t row = x.rows == 1 ? int64_t{kTmaUnit} : x.row_stride;
  return tensor_map<T, 4>(x, {kFar, x.heads, 2 * kFar, 2 * kFar},
                          {row, x.head_stride, row, kStep - row}, {uint32_t(box_rows), 1, 1, 1});
}

}  // namespace tw::runtime::cuda
