// The CUDA stream that a call goes into, and where the memory of its kernels' temporaries comes
// from. They travel together: what allocates needs both, and nothing is kept between calls.
#pragma once

#include <cstddef>

namespace tw::runtime::cuda {

using StreamHandle = void*;  // CUstream

/// Memory of a GPU from the caller. Both functions are called by the thread that makes the call,
/// with the GPU's context current, also while the stream is captured; they must not wait for the
/// GPU, nor throw. Memory given back may still be in use by what was launched into the stream
/// before: it is for what follows there.
struct Allocator {
  /// At least `bytes` > 0, aligned to 256, for use in `stream`; null: there is no more.
  void* (*allocate)(void* user, size_t bytes, StreamHandle stream) = nullptr;
  /// With the bytes and the stream that `allocate` was given.
  void (*free)(void* user, void* memory, size_t bytes, StreamHandle stream) = nullptr;
  void* user = nullptr;
};

/// A stream, and the caller's allocator; null: the driver's pool.
struct Stream {
  StreamHandle handle = nullptr;
  const Allocator* allocator = nullptr;

  operator StreamHandle() const { return handle; }  // NOLINT: what the driver takes
};

}  // namespace tw::runtime::cuda
