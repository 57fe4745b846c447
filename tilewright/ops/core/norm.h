// What the operators that divide by a norm or a sum share.
#pragma once

#include <cmath>
#include <string>

#include "tilewright/core/error.h"

namespace tw::ops {

/// What keeps a divisor from 0.
inline Support supports_eps(double eps) {
  if (eps >= 0 && std::isfinite(eps)) return Support::yes();
  return Support::no("eps = " + std::to_string(eps) + " must be finite and at least 0");
}

}  // namespace tw::ops
