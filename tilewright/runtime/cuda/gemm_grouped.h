// Grouped matrix multiplication on Hopper: whether it takes a call, and what it is given.
#pragma once

#include <concepts>

#include "tilewright/core/error.h"
#include "tilewright/kernels/grouped_gated_matmul.h"
#include "tilewright/kernels/grouped_matmul.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// The products with and without a gate, of 16-bit elements.
template <class K>
concept GroupedProduct =
    std::same_as<K, kernels::GroupedMatmul<f16>> || std::same_as<K, kernels::GroupedMatmul<bf16>> ||
    std::same_as<K, kernels::GroupedGatedMatmul<f16>> ||
    std::same_as<K, kernels::GroupedGatedMatmul<bf16>>;

/// Whether it takes this call on that device, or why the neutral kernel must.
template <GroupedProduct K>
TW_API Support supports_sm90(const K& call, int device);

/// Launches it into `stream`; the call must be supported. The groups are read when it runs.
template <GroupedProduct K>
TW_API void launch_sm90(const K& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
