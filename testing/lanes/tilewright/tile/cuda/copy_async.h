// Stands in for tile/cuda/copy_async.h: copies are done when the thread waits for them, the latest
// moment that a GPU may choose; until then nothing is what lies there.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace tw::tile::cuda {

struct PendingCopy {
  void* to;
  const void* from;
  size_t bytes, all;
};
inline thread_local std::vector<PendingCopy> pending_copies;

template <int kBytes>
void copy_async_or_zero(void* shared, const void* global, int bytes) {
  std::memset(shared, 0x7f, kBytes);
  pending_copies.push_back({shared, global, size_t(bytes), size_t{kBytes}});
}
inline void wait_copies() {
  for (const PendingCopy& copy : pending_copies) {
    std::memset(copy.to, 0, copy.all);
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
  }
  pending_copies.clear();
}

inline void prefetch_l2(const void*, int) {}

}  // namespace tw::tile::cuda
