// The elements of a tensor whose dtype is known only at run time, read and written in row-major
// order, however they are laid out.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tilewright/core/error.h"
#include "tilewright/core/tensor.h"

namespace tw::testing {

/// Calls f with a typed null pointer of the dtype's element type.
template <class F>
auto visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define TW_CASE(id, name, kind, type) \
  case DType::id:                     \
    return f(static_cast<type*>(nullptr));
    TW_FOR_EACH_SCALAR_DTYPE(TW_CASE)
#undef TW_CASE
    default:
      throw Error(ErrorKind::kInternal, "not a scalar dtype");
  }
}

/// Goes from row to row along the last dimension: one step for many elements. A tensor of rank 0 is
/// a row of one.
class RowWalk {
 public:
  explicit RowWalk(const TensorRef& tensor)
      : tensor_(&tensor),
        columns_(tensor.rank > 0 ? tensor.sizes[size_t(tensor.rank) - 1] : 1),
        stride_(tensor.rank > 0 ? tensor.strides[size_t(tensor.rank) - 1] : 1) {}

  int64_t columns() const { return columns_; }
  /// From one element of a row to the next.
  int64_t stride() const { return stride_; }
  /// Of the row's first element.
  int64_t offset() const { return offset_; }
  void next() {
    for (int last = tensor_->rank - 2; last >= 0; --last) {
      const auto d = static_cast<size_t>(last);
      offset_ += tensor_->strides[d];
      if (++at_[d] < tensor_->sizes[d]) return;
      offset_ -= tensor_->sizes[d] * tensor_->strides[d];
      at_[d] = 0;
    }
  }

 private:
  const TensorRef* tensor_;
  int64_t columns_, stride_, offset_ = 0;
  std::array<int64_t, kMaxRank> at_{};
};

/// Calls f with where each element begins, in bytes from the first one.
template <class F>
void for_each_place(const TensorRef& tensor, F&& f) {
  const int64_t size = element_size(tensor.dtype);
  RowWalk row(tensor);
  for (int64_t left = tensor.count(); left > 0; left -= row.columns(), row.next())
    for (int64_t i = 0; i < row.columns(); ++i) f((row.offset() + i * row.stride()) * size);
}

/// The elements become, in order, `period` results of draw(), over and over.
template <class F>
void fill(const TensorRef& tensor, int64_t period, F&& draw) {
  visit_dtype(tensor.dtype, [&]<class T>(T*) {
    const int64_t count = tensor.count(), drawn = std::min(count, period);
    const auto values = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(drawn));
    for (T& value : std::span(values.get(), static_cast<size_t>(drawn))) {
      if constexpr (std::is_integral_v<T>)  // integers wrap; a double out of range is undefined
        value = static_cast<T>(static_cast<int64_t>(draw()));
      else
        value = static_cast<T>(draw());
    }
    RowWalk row(tensor);
    int64_t next = 0;
    for (int64_t left = count; left > 0; left -= row.columns(), row.next()) {
      T* element = static_cast<T*>(tensor.data) + row.offset();
      for (int64_t i = 0; i < row.columns(); ++i, element += row.stride()) {
        *element = values[size_t(next)];
        next = next + 1 == drawn ? 0 : next + 1;
      }
    }
  });
}

/// Fills the memory with what no test expects: NaN, or a large integer.
void poison(void* data, int64_t bytes, DType dtype);

struct Comparison {
  bool ok = true;
  double worst = 0;     // largest |got - want| in units of the allowance
  std::string message;  // names the first element outside it
};
/// |got - want| <= tolerance * (|want| + rms), NaN equal to NaN, where rms is that of all of `want`
/// or of the element's row of it, if that is larger: a row is rounded by what its own sums are
/// like, so that rows of few large numbers among many of small ones err by more. Numbers below the
/// dtype's normal ones may be one of its steps off. `besides` is added for every element. Integers
/// must be equal. Both have one dtype and one shape.
Comparison compare(const TensorRef& got, const TensorRef& want, double tolerance,
                   double besides = 0);

/// The root mean square of what is finite.
double rms(const TensorRef& tensor);

/// The tolerance documented for a dtype: f32 1e-5, f16 1e-3, bf16 1.6e-2.
double tolerance_of(DType dtype);

}  // namespace tw::testing
