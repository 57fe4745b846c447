// Which tensors of a call share memory. Written in any order by any number of threads, elements
// must not be anybody else's as well.
#pragma once

#include "tilewright/core/tensor.h"
#include "tilewright/ops/core/call.h"

namespace tw::c {

/// Whether two elements of a tensor may share an address.
bool may_overlap(const TensorRef& tensor);

/// Whether two tensors share an address. Exact where their strides are equal, or one is dense; of
/// others, which few programs have, it is not known and false.
bool share_memory(const TensorRef& a, const TensorRef& b);

/// Throws kInvalidArgument unless each output that is given has its memory to itself, or is the
/// very same view as an input that the operator may be run in place of.
void check_outputs_apart(const ops::Call& call);

}  // namespace tw::c
