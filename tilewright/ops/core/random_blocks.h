// Weights for tests and benchmarks of quantised operators.
#pragma once

#include <cstdint>
#include <vector>

#include "tilewright/core/dtype.h"
#include "tilewright/core/error.h"

namespace tw::ops {

/// `elements` weights of a block format, about in [-1, 1]: random codes and scales, the same for
/// the same seed. `elements` must be a whole number of blocks.
TW_API std::vector<uint8_t> random_blocks(DType dtype, int64_t elements, uint64_t seed);

}  // namespace tw::ops
