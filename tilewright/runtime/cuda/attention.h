// Attention on Hopper: which build runs and what it is given.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/kernels/attention.h"
#include "tilewright/kernels/attention_paged.h"
#include "tilewright/kernels/attention_varlen.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Kernels whose queries, keys and values are of one 16-bit type have a build for Hopper.
template <class K>
inline constexpr bool kHasAttentionSm90 = false;
template <class T>
inline constexpr bool kHasAttentionSm90<kernels::Attention<T, T>> = sizeof(T) == 2;
template <class T>
inline constexpr bool kHasAttentionSm90<kernels::AttentionPaged<T, T>> = sizeof(T) == 2;
template <class T>
inline constexpr bool kHasAttentionSm90<kernels::AttentionVarlen<T, T>> = sizeof(T) == 2;

/// Whether it takes this call on that device, or why the neutral kernel must.
template <class K>
  requires kHasAttentionSm90<K>
TW_API Support supports_sm90(const K& call, int device);

/// Launches it into `stream`; the call must be supported.
template <class K>
  requires kHasAttentionSm90<K>
TW_API void launch_sm90(const K& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
