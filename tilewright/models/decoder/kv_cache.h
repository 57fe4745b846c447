// Keys and values of one sequence, for every layer. Grows by doubling up to a limit; what is there
// stays where it was in value, not in address.
#pragma once

#include <cstdint>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/core/view.h"

namespace tw::models {

class KvCache {
 public:
  /// For `layers` layers of [capacity, heads, dim] float32 keys and values.
  KvCache(int64_t layers, int64_t heads, int64_t dim);

  /// Tokens held.
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  /// Forgets tokens from `length` on, so that a common prefix can be used again.
  void truncate(int64_t length);
  /// Makes room for `tokens` in all, keeping what is held. Throws kOutOfMemory.
  void reserve(int64_t tokens);
  /// Counts tokens as held, after every layer has written them.
  void advance(int64_t tokens) { length_ += tokens; }

  /// [1, capacity, heads, dim].
  View<float, 4> keys(int64_t layer) const { return view_of(keys_[size_t(layer)]); }
  View<float, 4> values(int64_t layer) const { return view_of(values_[size_t(layer)]); }

 private:
  View<float, 4> view_of(const Tensor& tensor) const {
    return view(tensor.span<float>().data(), int64_t{1}, capacity_, heads_, dim_);
  }

  int64_t heads_, dim_;
  int64_t length_ = 0, capacity_ = 0;
  std::vector<Tensor> keys_, values_;
};

}  // namespace tw::models
