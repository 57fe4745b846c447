#include "tilewright/core/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

namespace tw {
namespace {

constexpr int64_t kAlignment = 64;           // a cache line, and the widest vector
constexpr int64_t kHugePage = 2 << 20;       // x86-64
constexpr int64_t kHugeThreshold = 4 << 20;  // below this the rounding costs more than it saves
constexpr int64_t kArenaBlock = 32 << 20;    // untouched memory costs nothing

}  // namespace

std::shared_ptr<void> allocate(int64_t bytes) {
  const bool huge = bytes >= kHugeThreshold;
  const int64_t alignment = huge ? kHugePage : kAlignment;
  const int64_t size = round_up(bytes > 0 ? bytes : 1, alignment);
  void* data = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
  if (data == nullptr)
    throw Error(ErrorKind::kOutOfMemory, "cannot allocate " + std::to_string(bytes) + " bytes");
  if (huge) madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);
  return {data, std::free};
}

std::shared_ptr<void> Arena::allocate(int64_t bytes) {
  if (bytes > kArenaBlock / 2) return tw::allocate(bytes);  // spares what is left of the block
  const int64_t needed = round_up(bytes, kAlignment);
  if (needed > size_ - used_) {
    block_ = tw::allocate(kArenaBlock);
    used_ = 0;
    size_ = kArenaBlock;
  }
  std::shared_ptr<void> out(block_, static_cast<std::byte*>(block_.get()) + used_);
  used_ += needed;
  return out;
}

std::string shape_to_string(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) out += ", ";
    out += std::to_string(shape[d]);
  }
  return out + "]";
}

bool TensorRef::is_addressable() const {
  const std::span<const int64_t> all = shape();
  if (std::any_of(all.begin(), all.end(), [](int64_t size) { return size <= 0; })) return true;
  const auto base = static_cast<int64_t>(reinterpret_cast<intptr_t>(data));
  int64_t low = base, high = base;
  for (size_t d = 0; d < all.size(); ++d) {
    if (all[d] == 1) continue;  // is never stepped over
    int64_t& end = strides[d] < 0 ? low : high;
    int64_t bytes = 0;
    if (!try_mul(strides[d], element_size(dtype), bytes) || !try_mul(bytes, all[d], bytes) ||
        !try_add(end, bytes, end))
      return false;
  }
  return low >= 0 && high >= 0;
}

std::string TensorRef::describe() const {
  return std::string(name(dtype)) + shape_to_string(shape()) + "@" + device.describe();
}

Tensor Tensor::empty(std::span<const int64_t> shape, DType dtype, Arena* arena) {
  if (shape.size() > static_cast<size_t>(kMaxRank))
    throw Error(ErrorKind::kInvalidArgument, "tensor of rank " + std::to_string(shape.size()) +
                                                 ", but at most " + std::to_string(kMaxRank) +
                                                 " dimensions are supported");
  if (is_block(dtype))
    throw Error(ErrorKind::kInvalidArgument,
                "a tensor holds scalars, not blocks of " + std::string(name(dtype)));
  Tensor out;
  out.ref_.dtype = dtype;
  out.ref_.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] < 0)
      throw Error(ErrorKind::kInvalidArgument,
                  "tensor shape " + shape_to_string(shape) + " has a negative size");
    out.ref_.sizes[d] = shape[d];
    out.ref_.strides[d] = stride;
    stride = checked_mul(stride, shape[d], "tensor size");
  }
  const int64_t bytes = checked_mul(stride, element_size(dtype), "tensor bytes");
  out.buffer_ = arena ? arena->allocate(bytes) : allocate(bytes);
  out.ref_.data = out.buffer_.get();
  return out;
}

Tensor Tensor::zeros(std::span<const int64_t> shape, DType dtype) {
  Tensor out = empty(shape, dtype);
  std::memset(out.ref_.data, 0, static_cast<size_t>(out.bytes()));
  return out;
}

}  // namespace tw
