// Typed launching: a kernel aggregate goes straight to the build for the context's instruction set.
// No validation happens here; calls with arguments from outside go through ops::Call first.
#pragma once

#include "tilewright/built_cuda.h"
#include "tilewright/built_isas.h"
#include "tilewright/ops/core/bind.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/own_kernels.h"
#include "tilewright/runtime/cuda/sm90.h"

namespace tw::runtime {

struct CpuBuild {
  const ops::KernelEntry* entry = nullptr;  // null when the library carries none
  Isa isa = Isa::avx2;
};

/// The best build not above `isa` of Op's kernel of the combination at `index` of its types.
template <class Op>
CpuBuild cpu_build_of([[maybe_unused]] int index, [[maybe_unused]] Isa isa) {
  CpuBuild best;
#define TW_CONSIDER(built)                                                   \
  if constexpr (ops::is_built_for<Op>(Isa::built))                           \
    if (const ops::KernelEntry* all = ops::kernel_entries<Op, Isa::built>(); \
        Isa::built <= isa && all != nullptr && all[index].run != nullptr)    \
      best = {&all[index], Isa::built};
  TW_FOR_EACH_BUILT_ISA(TW_CONSIDER)
#undef TW_CONSIDER
  return best;
}

/// Op's CUDA build; without image when the library carries none.
template <class Op>
ops::CudaBuild cuda_build_of() {
  if constexpr (kHasCuda && ops::gpu_kernels<Op>() == ops::GpuKernels::kNeutral)
    return ops::cuda_build<Op>();
  else
    return {};
}

/// Whether Op's kernels on a GPU are its own.
template <class Op>
inline constexpr bool kHasOwnKernels = kHasCuda && ops::gpu_kernels<Op>() == ops::GpuKernels::kOwn;

template <class Op>
bool runs_on_cuda() {
  return kHasOwnKernels<Op> || cuda_build_of<Op>().image != nullptr;
}

/// Throws kUnsupported, with each candidate and its reason, unless Op has a kernel for the device.
template <class Op>
void require_build(Device device) {
  if (!device.is_cuda() || runs_on_cuda<Op>()) return;
  throw Error(ErrorKind::kUnsupported, std::string(Op::kSchema.name()) +
                                           ": no kernel takes tensors on " + device.describe() +
                                           "\n  cuda: this library has none for this operator" +
                                           "\n  cpu: takes tensors on the cpu");
}

/// Runs a kernel of operator Op where its views are. They must satisfy Op's schema.
template <class Op, class Kernel>
void launch(Context& context, const Kernel& kernel, Device device = {}) {
  constexpr int kIndex = ops::combo_index<Op, Kernel>();
  static_assert(kIndex >= 0, "the operator is not built for this kernel type");
  if (device.is_cuda()) {
    require_build<Op>(device);
    if constexpr (kHasOwnKernels<Op>)
      return context.set_answered_by(cuda::launch_own(kernel, device.index, context.cuda_stream()));
    if constexpr (kHasCuda && cuda::HasSm90<Kernel>)
      if (cuda::supports_sm90(kernel, device.index)) {
        context.set_answered_by("sm_90a");
        return cuda::launch_sm90(kernel, device.index, context.cuda_stream());
      }
    context.set_answered_by("cuda");
    static cuda::Module module(std::string(Op::kSchema.name()), cuda_build_of<Op>());
    module.launch(kIndex, &kernel, device.index, context.cuda_stream());
    return;
  }
  const CpuBuild build = cpu_build_of<Op>(kIndex, context.isa());
  if (build.entry == nullptr)
    throw Error(ErrorKind::kUnsupported,
                std::string(Op::kSchema.name()) + ": this library has no build for the machine");
  context.set_answered_by(name(build.isa));
  context.launch(*build.entry, &kernel, Op::cost(kernel));
}

}  // namespace tw::runtime
