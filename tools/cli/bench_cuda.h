// Measuring operators on a GPU.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tilewright/runtime/operators.h"

namespace tw::cli {

/// The GPU and the rate of its own copy engine, which fractions are taken of: device memory to
/// device memory, bytes read and written.
nlohmann::json gpu_limits(int device);

/// One row of `tilewright bench`: calls with different operands, recorded in a CUDA graph.
nlohmann::json bench_on_gpu(const runtime::OperatorInfo& op, const std::vector<DType>& combo,
                            const ops::Case& workload, int device, double seconds, double copy_gbs);

}  // namespace tw::cli
