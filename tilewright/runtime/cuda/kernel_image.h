// The kernels of a fatbin or cubin, found by their mangled names. Plain host code.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// "NVIDIA A100 (compute capability 8.0)".
std::string described(const Gpu& gpu);

/// Loads `image` and calls place(mangled name, kernel) for each kernel in it. Throws, naming `op`
/// and `gpu`, when the image has no code for the GPU.
void load_kernels(const std::string& op, const std::string& gpu, const void* image,
                  const std::function<void(std::string_view, Kernel)>& place);

/// The one kernel of an image that was compiled for it (jit.h).
Kernel load_kernel(const std::string& op, const std::string& gpu, const void* image);

/// The number behind `text` in a mangled name, which a template was instantiated with; -1: the name
/// has no such text.
int number_after(std::string_view name, std::string_view text);

/// Lets `kernel` have so many bytes of dynamic shared memory on this GPU.
void allow_shared_bytes(std::string_view op, Kernel kernel, int bytes, const Gpu& on);

/// A kernel whose launches have the same dynamic shared memory, or less: more than any has unasked.
class LargeKernel {
 public:
  void set(Kernel kernel) { kernel_ = kernel; }
  Kernel get() const { return kernel_; }
  /// The kernel, which may have so many bytes on this GPU. Threads that come first together all
  /// allow it.
  Kernel with_shared_bytes(std::string_view op, int bytes, const Gpu& on) {
    const uint64_t bit = uint64_t{1} << (on.id % 64);
    if ((allowed_.load() & bit) == 0) {
      allow_shared_bytes(op, kernel_, bytes, on);
      allowed_ |= bit;
    }
    return kernel_;
  }

 private:
  Kernel kernel_ = nullptr;
  std::atomic<uint64_t> allowed_{};  // a bit for each GPU
};

/// The instances of a kernel's template, by the number that it was instantiated with.
template <size_t kCount>
class KernelBuilds {
 public:
  /// Takes the kernel if its mangled name has `text` and then such a number.
  void place(std::string_view name, std::string_view text, Kernel kernel) {
    const int build = number_after(name, text);
    if (build >= 0) builds_.at(size_t(build)).set(kernel);
  }
  Kernel operator[](size_t build) const { return builds_[build].get(); }
  Kernel with_shared_bytes(std::string_view op, size_t build, int bytes, const Gpu& on) {
    return builds_[build].with_shared_bytes(op, bytes, on);
  }

 private:
  std::array<LargeKernel, kCount> builds_;
};

}  // namespace tw::runtime::cuda
