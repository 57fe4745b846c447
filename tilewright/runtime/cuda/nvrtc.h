// NVIDIA's run-time compiler, found in libnvrtc at run time as the driver is. It needs no GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/error.h"
#include "tilewright/runtime/cuda/device_text.h"

namespace tw::runtime::cuda {

/// Where libnvrtc is looked for, in this order: the file $TILEWRIGHT_NVRTC and nothing else, if
/// that is set; else the loader's path, the CUDA toolkit's folder, and the packages
/// nvidia-cuda-nvrtc of the Python environment that this library, or $VIRTUAL_ENV, is in.
TW_API std::vector<std::string> nvrtc_candidates();

/// Whether this machine has NVRTC, or what was looked for.
TW_API const Support& nvrtc_availability();

struct NvrtcInfo {
  int major = 0, minor = 0;
  std::string path;
  std::vector<int> architectures;  // that it compiles for: 80 is sm_80
};
/// Throws kUnsupported where nvrtc_availability() says no.
TW_API const NvrtcInfo& nvrtc();

/// Compiles `program` to a cubin for `architecture` ("sm_80"). Throws kUnsupported, naming `op`,
/// where there is no NVRTC or it does not know the architecture; kInternal, with the compiler's
/// messages, where the program does not compile.
TW_API std::string compile_cubin(std::string_view op, const DeviceProgram& program,
                                 std::string_view architecture,
                                 const std::vector<std::string>& options);

}  // namespace tw::runtime::cuda
