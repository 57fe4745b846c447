#include "testing/guarded_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace tw::testing {
namespace {
constexpr size_t kPage = 4096;
constexpr size_t kHuge = size_t{4} << 20;  // from here on with huge pages, as core/tensor.cc does
constexpr std::byte kPattern{0xFF};        // NaN in every floating-point type
}  // namespace

GuardedBuffer::GuardedBuffer(int64_t bytes) : bytes_(bytes) {
  const size_t size = static_cast<size_t>(bytes);
  const size_t body = (size / kPage + 2) * kPage;  // at least a page of pattern in front
  map_bytes_ = body + kPage;
  void* map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  if (map_bytes_ >= kHuge) madvise(map, map_bytes_, MADV_HUGEPAGE);
  map_ = static_cast<std::byte*>(map);
  data_ = map_ + body - size;
  std::fill(map_, data_, kPattern);
  mprotect(map_ + body, kPage, PROT_NONE);
}

GuardedBuffer::~GuardedBuffer() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      map_bytes_(other.map_bytes_),
      data_(other.data_),
      bytes_(other.bytes_) {}

bool GuardedBuffer::front_intact() const {
  const auto size = static_cast<size_t>(data_ - map_);  // a page at least
  return map_[0] == kPattern && std::memcmp(map_, map_ + 1, size - 1) == 0;
}

}  // namespace tw::testing
