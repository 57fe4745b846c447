// Where the outputs of a call may lie. Written in any order by any number of threads, elements must
// not be anybody else's as well.
#pragma once

#include <string>

#include "tilewright/core/tensor.h"
#include "tilewright/ops/core/call.h"

namespace tw::ops {

/// Whether two elements of a tensor may share an address.
bool may_overlap(const TensorRef& tensor);

/// Whether two tensors share an address. Exact where their strides are equal, or one is dense; of
/// others, which few programs have, it is not known and false.
bool share_memory(const TensorRef& a, const TensorRef& b);

/// The rule that the place of an output which is given breaks; empty where it steps forward and has
/// its memory to itself or, with `in_place`, is the very same view as an input of its type and
/// shape.
std::string misplaced(const Call& call, int output, bool in_place);

}  // namespace tw::ops
