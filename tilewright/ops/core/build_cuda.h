// The CUDA build of an operator: what the generated translation units define and the launcher looks
// up. The device code is a fatbin, made by nvcc from the same kernels and embedded as bytes; the
// plans are host code.
#pragma once

#include <cstring>
#include <type_traits>

#include "tilewright/core/machine.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/tile/cuda/program.h"

namespace tw::ops {

/// What is launched: the kernel, or what it prepares on the host for every thread to use.
template <class Kernel>
auto device_kernel(const Kernel& kernel) {
  if constexpr (requires { kernel.template prepared<tile::cuda::Program>(); })
    return kernel.template prepared<tile::cuda::Program>();
  else
    return kernel;
}

/// A kernel ready to be launched; the bytes are its device_kernel.
struct CudaLaunch {
  static constexpr size_t kMaxBytes = 2048;
  tile::Plan plan;
  alignas(16) char kernel[kMaxBytes];
};

struct CudaEntry {
  void (*prepare)(const void* kernel, const Machine& machine, CudaLaunch& launch) = nullptr;
};

template <class Kernel>
void prepare_cuda(const void* kernel, const Machine& machine, CudaLaunch& launch) {
  const auto& host = *static_cast<const Kernel*>(kernel);
  launch.plan = host.template plan<tile::cuda::Program>(machine);
  const auto device = device_kernel(host);
  static_assert(std::is_trivially_copyable_v<decltype(device)>);
  static_assert(sizeof(device) <= CudaLaunch::kMaxBytes);
  std::memcpy(launch.kernel, &device, sizeof(device));
}

struct CudaBuild {
  const char* image = nullptr;         // the fatbin; null: the operator has no kernel for CUDA
  const CudaEntry* entries = nullptr;  // in the order of Op::Types
};

template <class Op>
CudaBuild cuda_build();

template <class Op, class... Cs>
CudaBuild make_cuda_build(const char* image, Combos<Cs...>) {
  static constexpr CudaEntry kEntries[] = {{&prepare_cuda<kernel_for_t<Op, Cs>>}...};
  return {image, kEntries};
}

}  // namespace tw::ops

// The assembler puts the bytes of a file into the object.
#define TW_EMBED(symbol, path)                                                               \
  asm(".pushsection .rodata\n.balign 64\n.global " #symbol "\n.hidden " #symbol "\n" #symbol \
      ":\n.incbin \"" path "\"\n.popsection\n");                                             \
  extern "C" const char symbol[];
