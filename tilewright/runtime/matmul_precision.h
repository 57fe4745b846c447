// How precisely float32 matrices are multiplied on a GPU: the choice of
// torch.set_float32_matmul_precision.
#pragma once

#include <string_view>

#include "tilewright/core/macros.h"

namespace tw::runtime {

enum class MatmulPrecision {
  kHighest,  // float32 arithmetic
  kHigh,     // operands of 11 bits of mantissa (tf32) where tensor cores take them, float32 sums
};

/// Of the process: what was set last, or TILEWRIGHT_FLOAT32_MATMUL_PRECISION, or kHighest. Throws
/// Error{kInvalidArgument} if that variable is none of the names.
TW_API MatmulPrecision float32_matmul_precision();
TW_API void set_float32_matmul_precision(MatmulPrecision precision);

/// "highest", "high"; throws Error{kInvalidArgument} for another.
TW_API MatmulPrecision matmul_precision_of(std::string_view name);
TW_API std::string_view name(MatmulPrecision precision);

}  // namespace tw::runtime
