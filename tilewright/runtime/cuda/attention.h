// Attention on Hopper: which build runs and what it is given.
#pragma once

#include <type_traits>

#include "tilewright/core/error.h"
#include "tilewright/kernels/attention.h"
#include "tilewright/kernels/attention_paged.h"
#include "tilewright/kernels/attention_varlen.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Kernels whose queries have 16 bits, and keys and values the same type or one of 8 bits, have a
/// build for Hopper.
template <class T, class U>
inline constexpr bool kHasAttentionBuild =
    sizeof(T) == 2 &&
    (std::is_same_v<T, U> || std::is_same_v<U, int8_t> || std::is_same_v<U, f8_e4m3fn>);
template <class K>
inline constexpr bool kHasAttentionSm90 = false;
template <class T, class U>
inline constexpr bool kHasAttentionSm90<kernels::Attention<T, U>> = kHasAttentionBuild<T, U>;
template <class T, class U>
inline constexpr bool kHasAttentionSm90<kernels::AttentionPaged<T, U>> = kHasAttentionBuild<T, U>;
template <class T, class U>
inline constexpr bool kHasAttentionSm90<kernels::AttentionVarlen<T, U>> = kHasAttentionBuild<T, U>;

/// Whether it takes this call on that device, or why the neutral kernel must.
template <class K>
  requires kHasAttentionSm90<K>
TW_API Support supports_sm90(const K& call, int device);

/// Launches it into `stream`; the call must be supported.
template <class K>
  requires kHasAttentionSm90<K>
TW_API void launch_sm90(const K& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
