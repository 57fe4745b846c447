// Multi-head latent attention on Hopper: whether it takes a call, and launching it.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/kernels/mla.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

template <class K>
inline constexpr bool kHasMlaSm90 = false;
template <class T, class U>
inline constexpr bool kHasMlaSm90<kernels::Mla<T, U>> = sizeof(T) == 2;
template <class T, class U>
inline constexpr bool kHasMlaSm90<kernels::MlaPaged<T, U>> = sizeof(T) == 2;

/// Whether it takes this call on that device, or why the neutral kernel must.
template <class K>
  requires kHasMlaSm90<K>
TW_API Support supports_sm90(const K& call, int device);

/// Launches it into `stream`; the call must be supported.
template <class K>
  requires kHasMlaSm90<K>
TW_API void launch_sm90(const K& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
