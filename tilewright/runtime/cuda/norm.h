// Norms, softmax and their gradients on Hopper: whether they take a call, and launching them.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/kernels/fused_add_rms_norm.h"
#include "tilewright/kernels/layer_norm_backward.h"
#include "tilewright/kernels/log_softmax.h"
#include "tilewright/kernels/rms_norm.h"
#include "tilewright/kernels/rms_norm_backward.h"
#include "tilewright/kernels/softmax.h"
#include "tilewright/kernels/softmax_backward.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

template <class K>
inline constexpr bool kHasNormSm90 = false;
template <class T>
inline constexpr bool kHasNormSm90<kernels::RmsNormBackward<T>> = true;
template <class T>
inline constexpr bool kHasNormSm90<kernels::LayerNormBackward<T>> = true;
template <class T>
inline constexpr bool kHasNormSm90<kernels::FusedAddRmsNorm<T>> = true;
template <class T>
inline constexpr bool kHasNormSm90<kernels::RmsNorm<T>> = true;
template <class T>
inline constexpr bool kHasNormSm90<kernels::LayerNorm<T>> = true;
template <class T>
inline constexpr bool kHasNormSm90<kernels::Softmax<T>> = sizeof(T) <= sizeof(float);
template <class T>
inline constexpr bool kHasNormSm90<kernels::LogSoftmax<T>> = sizeof(T) <= sizeof(float);
template <class T, class F>
inline constexpr bool kHasNormSm90<kernels::SoftmaxGradient<T, F>> = sizeof(T) <= sizeof(float);

/// Whether they take this call on that device, or why the neutral kernel must.
template <class K>
  requires kHasNormSm90<K>
TW_API Support supports_sm90(const K& call, int device);

/// Launches it into `stream`; the call must be supported.
template <class K>
  requires kHasNormSm90<K>
TW_API void launch_sm90(const K& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
