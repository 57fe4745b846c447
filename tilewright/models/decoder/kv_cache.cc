#include "tilewright/models/decoder/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace tw::models {
namespace {

constexpr int64_t kSmallest = 256;  // tokens; below this, growing costs more than it saves

}  // namespace

KvCache::KvCache(int64_t layers, int64_t heads, int64_t dim)
    : heads_(heads), dim_(dim), keys_(size_t(layers)), values_(size_t(layers)) {}

void KvCache::truncate(int64_t length) {
  length_ = std::clamp<int64_t>(length, 0, length_);
}

void KvCache::reserve(int64_t tokens) {
  if (tokens <= capacity_) return;
  const int64_t grown = std::max({tokens, kSmallest, 2 * capacity_});
  const size_t held = size_t(length_ * heads_ * dim_) * sizeof(float);
  const auto regrow = [&](Tensor& tensor) {
    Tensor larger = Tensor::empty({grown, heads_, dim_}, DType::kF32);
    if (held > 0) std::memcpy(larger.ref().data, tensor.ref().data, held);
    tensor = std::move(larger);
  };
  for (Tensor& tensor : keys_) regrow(tensor);
  for (Tensor& tensor : values_) regrow(tensor);
  capacity_ = grown;
}

}  // namespace tw::models
