// Kernels for Hopper that the library does not carry, compiled when they are first launched. Plain
// host code.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"

namespace tw::runtime::cuda {

/// The variants of one kernel, by number.
template <size_t kCount>
class CompiledBuilds {
 public:
  /// The one kernel of program(), which may have so many bytes of shared memory.
  template <class F>
  Kernel get(const std::string& op, size_t number, int shared_bytes, const Gpu& on, F&& program) {
    return get(op, number, {}, shared_bytes, on, program);
  }
  /// The same of a variant with programs of scores, which `key` tells apart.
  template <class F>
  Kernel get(const std::string& op, size_t number, const std::string& key, int shared_bytes,
             const Gpu& on, F&& program) {
    const std::lock_guard lock(compiling_);
    LargeKernel& kernel = key.empty() ? builds_[number] : modified_[{number, key}];
    if (kernel.get() == nullptr) {
      const CompiledKernel code = compile_kernel(op, program(), "sm_90a");
      kernel.set(load_kernel(op, described(on), code.cubin.data()));
    }
    return kernel.with_shared_bytes(op, shared_bytes, on);
  }

 private:
  std::mutex compiling_;
  std::array<LargeKernel, kCount> builds_;
  std::map<std::pair<size_t, std::string>, LargeKernel> modified_;
};

}  // namespace tw::runtime::cuda
