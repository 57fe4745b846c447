// What a GPU can do: memory, arithmetic, launches.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tilewright/runtime/cuda/nvml.h"
#include "tilewright/runtime/thread_pool.h"

namespace tw::bench {

struct GpuRow {
  std::string name, unit;
  double value;
  std::optional<runtime::cuda::GpuState> state;  // of the GPU meanwhile
};

/// How many blocks of a kernel a multiprocessor has at once.
struct GpuResident {
  int threads, registers, shared_bytes, blocks;
};

struct GpuLimits {
  std::string name;
  int multiprocessors;
  std::vector<GpuRow> rows;
  std::vector<GpuResident> resident;
};

/// The first GPU's. Some rows are of Hopper alone, whose kernels are compiled into this program.
/// Throws kUnsupported without a GPU, or where this build has no kernels for any.
GpuLimits measure_gpu(runtime::ThreadPool& one);
/// Whether measure_gpu() can.
Support gpu_support();

void print_gpu(const GpuLimits& limits);
nlohmann::json to_json(const GpuLimits& limits);

/// The image of gpu_kernels.cu (cmake/benchmarks.cmake); null in a build without CUDA.
const char* gpu_image();

}  // namespace tw::bench
