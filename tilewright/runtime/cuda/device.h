// GPUs and their memory.
#pragma once

#include <cstdint>
#include <string>

#include "tilewright/core/macros.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// What launching needs to know of a GPU. Its primary context is retained for the process's life.
struct Gpu {
  DeviceId id = 0;
  DriverContext context = nullptr;
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  int64_t shared_bytes = 0;  // that a block may ask for
  int64_t l2_bytes = 0;

  bool has_clusters() const { return compute_major >= 9; }
};

/// Throws kUnsupported where there is no driver, kInvalidArgument for an index beyond the GPUs.
TW_API const Gpu& gpu(int index);

/// Makes a GPU's context current while it lives.
class TW_API CurrentContext {
 public:
  explicit CurrentContext(const Gpu& gpu);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  bool pushed_ = false;
};

/// Memory of a GPU, uninitialised.
class TW_API Buffer {
 public:
  Buffer(const Gpu& gpu, int64_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return reinterpret_cast<void*>(pointer_); }
  int64_t bytes() const { return bytes_; }
  /// Wait for all work of the device that was issued before.
  void copy_from_host(const void* from, int64_t bytes, int64_t offset = 0) const;
  void copy_to_host(void* to, int64_t bytes, int64_t offset = 0) const;

 private:
  const Gpu& gpu_;
  DevicePointer pointer_ = 0;
  int64_t bytes_;
};

}  // namespace tw::runtime::cuda
