// Every element type tilewright knows, from one table.
#pragma once

#include <cstdint>
#include <string_view>

#include "tilewright/core/types.h"

// X(enumerator, name, kind, C++ element type)
#define TW_FOR_EACH_SCALAR_DTYPE(X)                  \
  X(kF64, "f64", kFloat, double)                     \
  X(kF32, "f32", kFloat, float)                      \
  X(kF16, "f16", kFloat, ::tw::f16)                  \
  X(kBf16, "bf16", kFloat, ::tw::bf16)               \
  X(kF8E4m3fn, "f8_e4m3fn", kFloat, ::tw::f8_e4m3fn) \
  X(kF8E5m2, "f8_e5m2", kFloat, ::tw::f8_e5m2)       \
  X(kI64, "i64", kInt, int64_t)                      \
  X(kI32, "i32", kInt, int32_t)                      \
  X(kI16, "i16", kInt, int16_t)                      \
  X(kI8, "i8", kInt, int8_t)                         \
  X(kU8, "u8", kInt, uint8_t)                        \
  X(kBool, "bool", kBool, bool)

// X(enumerator, name, elements per block, bytes per block). The formats of GGUF; their layouts are
// in core/block_formats.h.
#define TW_FOR_EACH_BLOCK_DTYPE(X) \
  X(kQ4_0, "q4_0", 32, 18)         \
  X(kQ4_1, "q4_1", 32, 20)         \
  X(kQ5_0, "q5_0", 32, 22)         \
  X(kQ5_1, "q5_1", 32, 24)         \
  X(kQ8_0, "q8_0", 32, 34)         \
  X(kQ2K, "q2_k", 256, 84)         \
  X(kQ3K, "q3_k", 256, 110)        \
  X(kQ4K, "q4_k", 256, 144)        \
  X(kQ5K, "q5_k", 256, 176)        \
  X(kQ6K, "q6_k", 256, 210)        \
  X(kIq4Nl, "iq4_nl", 32, 18)      \
  X(kIq4Xs, "iq4_xs", 256, 136)    \
  X(kMxfp4, "mxfp4", 32, 17)

namespace tw {

enum class DTypeKind : uint8_t { kFloat, kInt, kBool, kBlock };

enum class DType : uint8_t {
#define TW_ENUMERATOR(id, name, ...) id,
  TW_FOR_EACH_SCALAR_DTYPE(TW_ENUMERATOR) TW_FOR_EACH_BLOCK_DTYPE(TW_ENUMERATOR)
#undef TW_ENUMERATOR
};

struct DTypeInfo {
  std::string_view name;
  DTypeKind kind;
  int32_t block_elements;  // 1 for scalar types
  int32_t block_bytes;
};

inline constexpr DTypeInfo kDTypes[] = {
#define TW_ROW(id, name, kind, type) {name, DTypeKind::kind, 1, sizeof(type)},
    TW_FOR_EACH_SCALAR_DTYPE(TW_ROW)
#undef TW_ROW
#define TW_ROW(id, name, elements, bytes) {name, DTypeKind::kBlock, elements, bytes},
        TW_FOR_EACH_BLOCK_DTYPE(TW_ROW)
#undef TW_ROW
};
inline constexpr DType kFirstBlockDType = DType::kQ4_0;  // the formats follow, to the last dtype
inline constexpr int kDTypeCount = int(sizeof(kDTypes) / sizeof(kDTypes[0]));

constexpr const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<int>(dtype)];
}
constexpr std::string_view name(DType dtype) {
  return info(dtype).name;
}
constexpr bool is_block(DType dtype) {
  return info(dtype).kind == DTypeKind::kBlock;
}

/// Bytes of one element of a scalar dtype; bytes of one block of a block format.
constexpr int64_t element_size(DType dtype) {
  return info(dtype).block_bytes;
}

/// The dtype of a C++ element type: dtype_of<float> == DType::kF32.
template <class T>
inline constexpr DType dtype_of = T::no_such_dtype;
#define TW_DTYPE_OF(id, name, kind, type) \
  template <>                             \
  inline constexpr DType dtype_of<type> = DType::id;
TW_FOR_EACH_SCALAR_DTYPE(TW_DTYPE_OF)
#undef TW_DTYPE_OF

/// Looks a dtype up by its name ("bf16", "q4_k"). Returns false when there is none.
constexpr bool find_dtype(std::string_view text, DType& out) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kDTypes[i].name == text) {
      out = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

}  // namespace tw
