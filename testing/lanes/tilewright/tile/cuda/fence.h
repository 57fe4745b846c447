// Stands in for tile/cuda/fence.h: the named barriers of each block.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

inline void sync_named(int id, int threads) {
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, int>, std::unique_ptr<std::barrier<>>> all;
  std::barrier<>* barrier = nullptr;
  {
    const std::lock_guard lock(mutex);
    auto& found = all[{this_block, id, threads}];
    if (found == nullptr) found = std::make_unique<std::barrier<>>(threads);
    barrier = found.get();
  }
  barrier->arrive_and_wait();
}

inline void fence_async_shared() {}

}  // namespace tw::tile::cuda
