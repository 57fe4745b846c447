// Dtypes as DLPack has them.
#pragma once

#include <optional>
#include <string>

#include "tilewright/c/tilewright.h"
#include "tilewright/core/dtype.h"

namespace tw::c {

constexpr tw_dtype dlpack_dtype(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * element_size(dtype));
  switch (dtype) {
    case DType::kBf16:
      return {4, bits, 1};
    case DType::kF8E4m3fn:
      return {10, bits, 1};
    case DType::kF8E5m2:
      return {12, bits, 1};
    case DType::kU8:
      return {1, bits, 1};
    case DType::kBool:
      return {6, bits, 1};
    default:
      return {static_cast<uint8_t>(info(dtype).kind == DTypeKind::kFloat ? 2 : 0), bits, 1};
  }
}

/// Nothing for a dtype that the library lacks.
std::optional<DType> from_dlpack(const tw_dtype& dtype);

/// What programs call a dtype that the library need not know: "uint16", "complex64".
std::string dlpack_name(const tw_dtype& dtype);

}  // namespace tw::c
