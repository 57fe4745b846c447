// Tensor owns memory, TensorRef borrows it. Both carry their dtype at run time.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "tilewright/core/checked.h"
#include "tilewright/core/device.h"
#include "tilewright/core/dtype.h"
#include "tilewright/core/macros.h"
#include "tilewright/core/view.h"

namespace tw {

inline constexpr int kMaxRank = 8;

/// Borrowed memory: pointer, dtype, sizes and strides in elements, device. Scalar dtypes only.
struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, kMaxRank> sizes{};
  std::array<int64_t, kMaxRank> strides{};
  Device device;

  std::span<const int64_t> shape() const { return {sizes.data(), static_cast<size_t>(rank)}; }
  /// Number of elements; 1 for rank 0.
  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n = checked_mul(n, sizes[static_cast<size_t>(d)], "tensor size");
    return n;
  }
  /// Whether the addresses of all elements, and the steps between them, fit 64 bits.
  bool is_addressable() const;
  /// "bf16[2, 4096]@cpu"
  std::string describe() const;
};

/// "[2, 3]"
std::string shape_to_string(std::span<const int64_t> shape);

class Arena;

/// Owns a contiguous, 64-byte aligned buffer, shared between copies.
class Tensor {
 public:
  Tensor() = default;
  /// Uninitialised, in memory from `arena` if there is one. Throws kInvalidArgument for a negative
  /// size, a rank above kMaxRank or a size beyond 64 bits, kOutOfMemory when the allocation fails.
  static Tensor empty(std::span<const int64_t> shape, DType dtype, Arena* arena = nullptr);
  static Tensor empty(std::initializer_list<int64_t> shape, DType dtype, Arena* arena = nullptr) {
    return empty(std::span<const int64_t>(shape.begin(), shape.size()), dtype, arena);
  }
  static Tensor zeros(std::span<const int64_t> shape, DType dtype);
  static Tensor zeros(std::initializer_list<int64_t> shape, DType dtype) {
    return zeros(std::span<const int64_t>(shape.begin(), shape.size()), dtype);
  }

  const TensorRef& ref() const { return ref_; }
  DType dtype() const { return ref_.dtype; }
  int64_t bytes() const { return ref_.count() * element_size(ref_.dtype); }
  explicit operator bool() const { return buffer_ != nullptr; }

  /// The elements as T. Throws kInvalidArgument when T is not the tensor's dtype.
  template <class T>
  std::span<T> span() const {
    if (dtype_of<T> != ref_.dtype)
      throw Error(ErrorKind::kInvalidArgument, "tensor holds " + std::string(name(ref_.dtype)) +
                                                   ", not " + std::string(name(dtype_of<T>)));
    return {static_cast<T*>(ref_.data), static_cast<size_t>(ref_.count())};
  }

 private:
  TensorRef ref_;
  std::shared_ptr<void> buffer_;
};

/// Uninitialised memory, 64-byte aligned; large blocks ask for huge pages. Never null: zero bytes
/// give a valid pointer. Throws kOutOfMemory.
std::shared_ptr<void> allocate(int64_t bytes);

/// Cuts tensors from large blocks, so that many small ones share huge pages: memory that is used
/// once costs a page fault per 2 MiB instead of one per 4 KiB, and reading it few TLB misses. A
/// block lives as long as any of its tensors.
class TW_API Arena {
 public:
  /// Uninitialised, 64-byte aligned. Throws kOutOfMemory.
  std::shared_ptr<void> allocate(int64_t bytes);

 private:
  std::shared_ptr<void> block_;
  int64_t used_ = 0, size_ = 0;  // bytes of block_
};

}  // namespace tw
