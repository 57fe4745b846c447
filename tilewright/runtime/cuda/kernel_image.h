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

/// Which of kCount kernels were prepared on which GPU.
template <size_t kCount>
class PreparedOnce {
 public:
  /// Calls prepare() the first time for the kernel and GPU. Threads that come together may all call
  /// it.
  template <class F>
  void operator()(size_t kernel, const Gpu& on, F&& prepare) {
    const uint64_t bit = uint64_t{1} << (on.id % 64);
    if ((done_[kernel].load() & bit) != 0) return;
    prepare();
    done_[kernel] |= bit;
  }

 private:
  std::array<std::atomic<uint64_t>, kCount> done_{};  // a bit for each GPU
};

}  // namespace tw::runtime::cuda
