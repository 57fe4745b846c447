// From tw_tensor, which a caller may fill with anything, to TensorRef, whose addresses exist.
#pragma once

#include "tilewright/c/tilewright.h"
#include "tilewright/core/tensor.h"
#include "tilewright/ops/core/call.h"

namespace tw::c {

/// Throws kInvalidArgument or kUnsupported, naming the operator, the argument and the rule. Sizes
/// may be negative: binding refuses them.
TensorRef read_tensor(const tw_tensor* tensor, const ops::Call& call, const ops::Arg& arg);

}  // namespace tw::c
