// Grouped matrix multiplication on Hopper: whether it takes a call, and what it is given.
#pragma once

#include <concepts>

#include "tilewright/core/error.h"
#include "tilewright/kernels/gated_linear.h"
#include "tilewright/kernels/grouped_gated_matmul.h"
#include "tilewright/kernels/grouped_matmul.h"
#include "tilewright/kernels/grouped_matmul_unpermute.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Of 16-bit elements, one of these.
template <class K, template <class> class... Kernels>
concept OneOf16Bits =
    (std::same_as<K, Kernels<f16>> || ...) || (std::same_as<K, Kernels<bf16>> || ...);

/// The products with and without a gate, and those that go to other rows of out; a gated layer is
/// one group.
template <class K>
concept GroupedProduct = OneOf16Bits<K, kernels::GatedLinear, kernels::GroupedMatmul,
                                     kernels::GroupedGatedMatmul, kernels::GroupedMatmulUnpermute>;

/// Whether it takes this call on that device, or why the neutral kernel must.
template <GroupedProduct K>
TW_API Support supports_sm90(const K& call, int device);

/// Launches it into `stream`; the call must be supported. The groups are read when it runs.
template <GroupedProduct K>
TW_API void launch_sm90(const K& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
