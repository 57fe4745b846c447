// What TMA can read, and the maps that tell it. Plain host code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tilewright/core/types.h"
#include "tilewright/runtime/cuda/driver.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::runtime::cuda {

inline constexpr uint64_t kTmaUnit = 16;  // bytes that addresses and strides are multiples of

/// Whether a dimension may have this stride, in elements of T.
template <class T>
bool is_tma_stride(int64_t size, int64_t stride) {
  constexpr int64_t kUnit = int64_t{kTmaUnit} / int64_t{sizeof(T)};
  constexpr int64_t kMost = int64_t{1} << 39;  // bytes < 2^40
  return size == 1 || (stride > 0 && stride % kUnit == 0 && stride * int64_t{sizeof(T)} < kMost);
}

/// CUtensorMapDataType, from the driver's reference manual; TMA asks only for the width of 8 bits.
template <class T>
inline constexpr int kTensorMapType = -1;
template <>
inline constexpr int kTensorMapType<f8_e4m3fn> = 0;
template <>
inline constexpr int kTensorMapType<int8_t> = 0;
template <>
inline constexpr int kTensorMapType<int32_t> = 3;
template <>
inline constexpr int kTensorMapType<f16> = 6;
template <>
inline constexpr int kTensorMapType<float> = 7;
template <>
inline constexpr int kTensorMapType<bf16> = 9;

/// How a box lies in shared memory, CUtensorMapSwizzle: its rows one after the other, or rows of
/// 128 bytes as wgmma reads them.
enum class BoxLayout { kPlain = 0, kSwizzled = 3 };

/// A map of boxes. Sizes begin with the contiguous dimension; strides, in elements, with the one
/// after it.
template <class T, size_t kRank>
tile::cuda::TensorMap encode_tensor_map(const std::string& op, const T* data,
                                        const std::array<int64_t, kRank>& sizes,
                                        const std::array<int64_t, kRank - 1>& strides,
                                        const std::array<uint32_t, kRank>& box,
                                        BoxLayout layout = BoxLayout::kSwizzled) {
  // L2 reads from memory what a box's row has, one line; the one beside it is often of another box,
  // asked for at another time.
  constexpr int kType = kTensorMapType<T>, kPromote128 = 2;
  static_assert(kType >= 0);
  uint64_t counts[kRank], bytes[kRank - 1];
  uint32_t steps[kRank];
  for (size_t i = 0; i < kRank; ++i) {
    counts[i] = uint64_t(sizes[i]);
    steps[i] = 1;
  }
  for (size_t i = 0; i + 1 < kRank; ++i)
    bytes[i] = sizes[i + 1] == 1 ? kTmaUnit : uint64_t(strides[i]) * sizeof(T);
  tile::cuda::TensorMap map;
  check(driver().encode_tensor_map(&map, kType, unsigned(kRank), const_cast<T*>(data), counts,
                                   bytes, box.data(), steps, 0, int(layout), kPromote128, 0),
        op + ": cuTensorMapEncodeTiled");
  return map;
}

}  // namespace tw::runtime::cuda
