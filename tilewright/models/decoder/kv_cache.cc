#include "tilewright/models/decoder/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "tilewright/core/checked.h"
#include "tilewright/ops/copy.h"
#include "tilewright/ops/type_as.h"
#include "tilewright/runtime/launch.h"

namespace tw::models {
namespace {

constexpr int64_t kSmallest = 4;  // pages; below this, growing costs more than it saves

/// All elements of x as rows of its last dimension.
template <class T>
Rows<T> rows_of(const View<T, 4>& x) {
  Rows<T> out = rows(x.data, x.size(0) * x.size(1) * x.size(2), x.size(3));
  out.col_stride = x.stride(3);
  out.lead = 3;
  std::copy_n(x.sizes, 3, out.lead_sizes);
  std::copy_n(x.strides, 3, out.lead_strides);
  return out;
}

template <class T>
void store(runtime::Context& context, const View<const float, 4>& from, const View<T, 4>& to) {
  if constexpr (std::is_same_v<T, float>) {
    using Bits = bits_of<T>;
    runtime::launch<ops::Copy>(context,
                               ops::Copy::Kernel<T>{kernels::rows_as<const Bits>(rows_of(from)),
                                                    kernels::rows_as<Bits>(rows_of(to))});
  } else {
    runtime::launch<ops::TypeAs>(context,
                                 kernels::TypeAs<float, T>{rows_of(from), {}, rows_of(to)});
  }
}

/// Tokens of `from`, [tokens, heads, dim], to positions first, first + 1, ... of the pages: of a
/// page at a time, or of as many whole pages as there are.
template <class T>
void store_paged(runtime::Context& context, const View<const float, 3>& from, int64_t first,
                 const View<const T, 4>& pages) {
  for (int64_t done = 0, all = from.size(0), taken = 0; done < all; done += taken) {
    const int64_t page = (first + done) / KvCache::kPage, inside = (first + done) % KvCache::kPage;
    const int64_t whole = inside > 0 ? 0 : (all - done) / KvCache::kPage;
    const int64_t count = whole > 0 ? whole : 1;
    const int64_t tokens =
        whole > 0 ? KvCache::kPage : std::min(all - done, KvCache::kPage - inside);
    const View<const float, 4> source{
        from.data + done * from.stride(0),
        {count, tokens, from.size(1), from.size(2)},
        {tokens * from.stride(0), from.stride(0), from.stride(1), from.stride(2)}};
    const View<T, 4> to{
        const_cast<T*>(pages.data) + page * pages.stride(0) + inside * pages.stride(1),
        {count, tokens, from.size(1), from.size(2)},
        {pages.stride(0), pages.stride(1), pages.stride(2), pages.stride(3)}};
    store(context, source, to);
    taken = count * tokens;
  }
}

}  // namespace

KvCache::KvCache(int64_t layers, int64_t heads, int64_t dim)
    : heads_(heads), dim_(dim), keys_(size_t(layers)), values_(size_t(layers)) {}

void KvCache::truncate(int64_t length) {
  length_ = std::clamp<int64_t>(length, 0, length_);
}

void KvCache::reserve(int64_t tokens, DType dtype) {
  if (dtype != dtype_) {
    if (length_ > 0)
      throw Error(ErrorKind::kInvalidArgument, "KvCache: " + std::to_string(length_) +
                                                   " tokens are held as " +
                                                   std::string(name(dtype_)) + ", so that no " +
                                                   std::string(name(dtype)) + " token can follow");
    dtype_ = dtype;
    pages_ = 0;
  }
  const int64_t needed = ceil_div(tokens, kPage);
  if (needed <= pages_) return;
  const int64_t grown = std::max({needed, kSmallest, 2 * pages_});
  const int64_t held = ceil_div(length_, kPage);
  const auto regrow = [&](Tensor& tensor) {
    Tensor larger = Tensor::empty({grown, heads_, kPage, dim_}, dtype_);
    if (held > 0)
      std::memcpy(larger.ref().data, tensor.ref().data, size_t(held * (larger.bytes() / grown)));
    tensor = std::move(larger);
  };
  for (Tensor& tensor : keys_) regrow(tensor);
  for (Tensor& tensor : values_) regrow(tensor);
  pages_ = grown;
  table_.resize(size_t(grown));
  std::iota(table_.begin(), table_.end(), 0);
}

void KvCache::write(runtime::Context& context, int64_t layer, const View<const float, 3>& keys,
                    const View<const float, 3>& values) {
  const auto store_as = [&]<class T>() {
    store_paged<T>(context, keys, length_, this->keys<T>(layer));
    store_paged<T>(context, values, length_, this->values<T>(layer));
  };
  if (dtype_ == DType::kF32)
    store_as.template operator()<float>();
  else if (dtype_ == DType::kF16)
    store_as.template operator()<f16>();
  else
    store_as.template operator()<bf16>();
}

}  // namespace tw::models
