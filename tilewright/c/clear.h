// Rows of new outputs that a call does not write.
#pragma once

#include <span>

#include "tilewright/runtime/operators.h"

namespace tw::c {

/// Fills `outputs`, which are new and contiguous, with zeros if the call's sequences
/// (OperatorInfo::sequences) may leave some of their rows out. On a GPU the offsets are unknown
/// here: it is then done for all, in `stream`.
void clear_left_out(const runtime::OperatorInfo& op, const ops::Call& call,
                    std::span<const TensorRef> outputs, void* stream);

}  // namespace tw::c
