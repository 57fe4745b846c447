// The products of experts of scaled e4m3 operands on Hopper, whose rows are gathered, gated or
// un-permuted: whether it takes a call, and what it is given.
#pragma once

#include <concepts>

#include "tilewright/core/error.h"
#include "tilewright/core/types.h"
#include "tilewright/kernels/scaled_grouped_gated_matmul.h"
#include "tilewright/kernels/scaled_grouped_matmul.h"
#include "tilewright/kernels/scaled_grouped_matmul_unpermute.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Products that no other schedule takes.
template <class K>
concept ScaledExpertsProduct = std::same_as<K, kernels::ScaledGroupedGatedMatmul> ||
                               std::same_as<K, kernels::ScaledGroupedMatmulUnpermute>;
/// And what becomes one if its rows are gathered.
template <class K>
concept ScaledExpertsCall =
    ScaledExpertsProduct<K> || std::same_as<K, kernels::ScaledGroupedMatmul<f8_e4m3fn>>;

template <ScaledExpertsCall K>
Support supports_scaled_experts(const K& call, int device);
template <ScaledExpertsCall K>
void launch_scaled_experts(const K& call, int device, Stream stream);

/// Whether it takes this call on that device, or why the neutral kernel must.
template <ScaledExpertsProduct K>
TW_API Support supports_sm90(const K& call, int device);

/// Launches it into `stream`; the call must be supported. The groups are read when it runs.
template <ScaledExpertsProduct K>
TW_API void launch_sm90(const K& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
