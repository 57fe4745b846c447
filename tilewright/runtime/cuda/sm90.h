// The operators that have kernels for Hopper beside the neutral ones.
#pragma once

#include "tilewright/runtime/cuda/attention.h"
#include "tilewright/runtime/cuda/attention_backward.h"
#include "tilewright/runtime/cuda/attention_fp8.h"
#include "tilewright/runtime/cuda/gemm_grouped.h"
#include "tilewright/runtime/cuda/gemm_int8.h"
#include "tilewright/runtime/cuda/gemm_scaled.h"
#include "tilewright/runtime/cuda/gemm_scaled_experts.h"
#include "tilewright/runtime/cuda/linear_int.h"
#include "tilewright/runtime/cuda/mla.h"
#include "tilewright/runtime/cuda/norm.h"

namespace tw::runtime::cuda {

/// Kernel aggregates that one of the headers above has overloads for: supports_sm90() says whether
/// they take a call, launch_sm90() then launches it.
template <class K>
concept HasSm90 = requires(const K& call, Stream stream) {
  supports_sm90(call, 0);
  launch_sm90(call, 0, stream);
};

}  // namespace tw::runtime::cuda
