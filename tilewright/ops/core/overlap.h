// Where the outputs of a call may lie. Written in any order by any number of threads, elements must
// not be anybody else's as well.
#pragma once

#include <string>

#include "tilewright/ops/core/call.h"

namespace tw::ops {

/// The rule that the place of an output which is given breaks; empty where it steps forward and has
/// its memory to itself or, with `in_place`, is the very same view as an input of its type and
/// shape.
std::string misplaced(const Call& call, int output, bool in_place);

}  // namespace tw::ops
