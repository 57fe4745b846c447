// Typed, trivially copyable views of memory that kernels take by value. Freestanding.
// Sizes and strides count elements. Bounds are the binder's business (ops/core/bind.h): a view that
// reaches a kernel is valid.
#pragma once

#include "tilewright/core/types.h"

namespace tw {

/// A strided array of fixed rank.
template <class T, int kRank>
struct View {
  static_assert(kRank >= 1);
  T* data = nullptr;
  int64_t sizes[kRank] = {};
  int64_t strides[kRank] = {};

  TW_INLINE int64_t size(int d) const { return sizes[d]; }
  TW_INLINE int64_t stride(int d) const { return strides[d]; }
  TW_INLINE explicit operator bool() const { return data != nullptr; }

  template <class... Index>
  TW_INLINE T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == kRank, "one index per dimension");
    int64_t offset = 0;
    int d = 0;
    ((offset += int64_t(index) * strides[d++]), ...);
    return data[offset];
  }

  /// [begin, begin + count) of the first dimension.
  TW_INLINE View part(int64_t begin, int64_t count) const {
    View out = *this;
    out.data += begin * strides[0];
    out.sizes[0] = count;
    return out;
  }

  /// The sub-view at index i of the first dimension.
  TW_INLINE View<T, kRank - 1> operator[](int64_t i) const
    requires(kRank > 1)
  {
    View<T, kRank - 1> out;
    out.data = data + i * strides[0];
    for (int d = 1; d < kRank; ++d) {
      out.sizes[d - 1] = sizes[d];
      out.strides[d - 1] = strides[d];
    }
    return out;
  }
};

/// A contiguous View over `data`, row-major.
template <class T, class... Size>
TW_INLINE View<T, int(sizeof...(Size))> view(T* data, Size... size) {
  View<T, int(sizeof...(Size))> out{data, {int64_t(size)...}, {}};
  int64_t stride = 1;
  for (int d = int(sizeof...(Size)) - 1; d >= 0; --d) {
    out.strides[d] = stride;
    stride *= out.sizes[d];
  }
  return out;
}

/// i / n of indices. GPUs have no division of 64-bit integers, but most indices have 32 bits.
TW_INLINE int64_t index_quotient(int64_t i, int64_t n) {
#if defined(__CUDA_ARCH__)
  if ((uint64_t(i) | uint64_t(n)) >> 32 == 0) return int64_t(uint32_t(i) / uint32_t(n));
#endif
  return i / n;
}

/// Any number of leading dimensions, seen as rows of one strided last dimension. Rows are numbered
/// in row-major order, so that two Rows of equal leading shape agree on what row i is, however
/// each is laid out.
template <class T>
struct Rows {
  static constexpr int kMaxLead = 7;
  T* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t col_stride = 1;
  int lead = 1;                         // leading dimensions left after merging, >= 1
  int64_t lead_strides[kMaxLead] = {};  // [0 .. lead); a kernel that asks for one has it near
  int64_t lead_sizes[kMaxLead] = {};

  TW_INLINE explicit operator bool() const { return data != nullptr; }
  TW_INLINE int64_t size(int d) const { return d == 0 ? rows : cols; }

  TW_INLINE View<T, 1> row(int64_t i) const {
    int64_t offset = 0;
#if defined(__CUDACC__)
    // The rule; the compiler would compute the reciprocals of all sizes before the first load.
    if (lead == 1) return {data + i * lead_strides[0], {cols}, {col_stride}};
    TW_UNROLL  // an array that is indexed by constants can stay in registers
        for (int d = kMaxLead - 1; d > 0; --d) {
      if (d >= lead) continue;
#else
    for (int d = lead - 1; d > 0; --d) {
#endif
      const int64_t next = index_quotient(i, lead_sizes[d]);
      offset += (i - next * lead_sizes[d]) * lead_strides[d];
      i = next;
    }
    offset += i * lead_strides[0];
    return {data + offset, {cols}, {col_stride}};
  }
  TW_INLINE T& operator()(int64_t r, int64_t c) const { return row(r).data[c * col_stride]; }
};

/// Those of a matrix.
template <class T>
TW_INLINE Rows<T> rows(const View<T, 2>& matrix) {
  Rows<T> out;
  out.data = matrix.data;
  out.rows = out.lead_sizes[0] = matrix.size(0);
  out.cols = matrix.size(1);
  out.col_stride = matrix.stride(1);
  out.lead_strides[0] = matrix.stride(0);
  return out;
}
/// Contiguous rows.
template <class T>
TW_INLINE Rows<T> rows(T* data, int64_t count, int64_t cols) {
  Rows<T> out;
  out.data = data;
  out.rows = count;
  out.cols = cols;
  out.lead_sizes[0] = count;
  out.lead_strides[0] = cols;
  return out;
}

}  // namespace tw
