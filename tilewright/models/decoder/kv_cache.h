// Keys and values of one sequence, for every layer, in the layout that decode reads at the speed of
// memory: pages in which a head's keys lie dimension by dimension and its values key by key.
//
//   keys    [page][head][dim][kPage]
//   values  [page][head][kPage][dim]
//
// Pages fill up in order. The cache grows by doubling; what is held keeps its bits, not its
// address.
#pragma once

#include <cstdint>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/core/view.h"
#include "tilewright/runtime/context.h"

namespace tw::models {

class KvCache {
 public:
  static constexpr int64_t kPage = 64;  // tokens

  KvCache(int64_t layers, int64_t heads, int64_t dim);

  /// Tokens held.
  int64_t length() const { return length_; }
  int64_t capacity() const { return pages_ * kPage; }
  DType dtype() const { return dtype_; }
  /// Forgets tokens from `length` on, so that a common prefix can be used again.
  void truncate(int64_t length);
  /// Makes room for `tokens` in all, keeping what is held. Only an empty cache changes its dtype:
  /// otherwise throws kInvalidArgument. Throws kOutOfMemory.
  void reserve(int64_t tokens, DType dtype);
  /// Writes a layer's keys and values, [tokens, heads, dim], after the tokens held; capacity() must
  /// suffice.
  void write(runtime::Context& context, int64_t layer, const View<const float, 3>& keys,
             const View<const float, 3>& values);
  /// Counts tokens as held, after every layer has written them.
  void advance(int64_t tokens) { length_ += tokens; }

  /// [pages, kPage, heads, dim] of T = dtype().
  template <class T>
  View<const T, 4> keys(int64_t layer) const {
    const T* data = static_cast<const T*>(keys_[size_t(layer)].ref().data);
    return {data, {pages_, kPage, heads_, dim_}, {heads_ * dim_ * kPage, 1, dim_ * kPage, kPage}};
  }
  template <class T>
  View<const T, 4> values(int64_t layer) const {
    const T* data = static_cast<const T*>(values_[size_t(layer)].ref().data);
    return {data, {pages_, kPage, heads_, dim_}, {heads_ * dim_ * kPage, dim_, dim_ * kPage, 1}};
  }
  /// [1, pages]: the pages in order.
  View<const int32_t, 2> block_table() const { return view(table_.data(), int64_t{1}, pages_); }

 private:
  int64_t heads_, dim_;
  DType dtype_ = DType::kF32;
  int64_t length_ = 0, pages_ = 0;
  std::vector<Tensor> keys_, values_;  // [layers]
  std::vector<int32_t> table_;
};

}  // namespace tw::models
