// What a GPU says of itself: clocks, power, temperature. NVML's functions are found in
// libnvidia-ml.so.1 at run time, as the driver's are; where there is none, nothing else misses it.
#pragma once

#include <optional>

#include "tilewright/core/error.h"

namespace tw::runtime::cuda {

/// 0: NVML does not tell.
struct GpuState {
  double sm_mhz = 0, memory_mhz = 0;      // now
  double power_w = 0, power_limit_w = 0;  // of the board, at an instant; where clocks are lowered
  double temperature_c = 0;
};

/// Fills `state` for the GPU that the driver numbers `device`, or says why it cannot. Takes up to
/// some milliseconds, and does not wait for the GPU's work.
TW_API Support read_gpu_state(int device, GpuState& state);

inline std::optional<GpuState> gpu_state(int device) {
  GpuState state;
  if (!read_gpu_state(device, state)) return std::nullopt;
  return state;
}

}  // namespace tw::runtime::cuda
