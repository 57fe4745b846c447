// Attention's backward on Hopper: whether it takes a call, and launching it.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/kernels/attention_backward.h"
#include "tilewright/kernels/attention_varlen_backward.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Kernels of 16-bit types have a build for Hopper.
template <class K>
inline constexpr bool kHasAttentionBackwardSm90 = false;
template <class T>
inline constexpr bool kHasAttentionBackwardSm90<kernels::AttentionBackward<T>> = sizeof(T) == 2;
template <class T>
inline constexpr bool kHasAttentionBackwardSm90<kernels::AttentionVarlenBackward<T>> =
    sizeof(T) == 2;

/// Whether it takes this call on that device, or why the neutral kernel must.
template <class K>
  requires kHasAttentionBackwardSm90<K>
TW_API Support supports_sm90(const K& call, int device);

/// Launches it into `stream`; the call must be supported.
template <class K>
  requires kHasAttentionBackwardSm90<K>
TW_API void launch_sm90(const K& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
