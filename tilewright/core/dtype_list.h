// The list of every element type. Freestanding: also read by NVRTC.
#pragma once

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

inline constexpr DType kFirstBlockDType = DType::kQ4_0;  // the formats follow, to the last dtype

}  // namespace tw
