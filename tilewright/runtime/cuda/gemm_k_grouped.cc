// Products of parts of one inner dimension on a GPU: a batch of matrix multiplications, each of
// which has its part of k. Which parts is read when it runs: the host knows none of it, and a
// captured launch may be replayed with others.
#include <algorithm>
#include <string_view>

#include "tilewright/kernels/gemm_variants_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm.h"
#include "tilewright/runtime/cuda/gemm_launch_sm90.h"
#include "tilewright/runtime/cuda/gemm_module.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

constexpr const char* kName = "k_grouped_matmul";

/// Both operands are one matrix for all groups.
template <class T>
GemmProblem<T> problem_of(const kernels::KGroupedMatmul<T>& call) {
  const View<T, 3>& out = call.out;
  GemmProblem<T> p;
  p.batch = out.size(0), p.m = out.size(1), p.n = out.size(2), p.k = call.a.size(1);
  p.left = as_operand(call.a);
  p.right = as_operand(call.b).transposed();
  p.out = {out.data, p.m, p.n, out.stride(1), out.stride(2), out.stride(0), p.batch};
  return p;
}

/// Operands of Hopper's kernel have m, or n, along memory.
template <class T>
struct Across {
  GemmReading<T> reading;
  StreamMemory memory;

  Across(const GemmOperand<const T>& operand, Kernel realign, const Gpu& on, Stream stream)
      : reading(operand.transposed(), false), memory(reading.bytes(), stream, kName) {
    reading.transposed = true;
    if (reading.copies) reading.copy_to(memory.data(), realign, on, stream);
  }
};

template <class T>
void launch_hopper(const GemmProblem<T>& p, const kernels::RowGroups& groups, const Gpu& on,
                   Stream stream) {
  constexpr kernels::GemmBuild kBuild = kernels::kGemmKGrouped;
  const KGroupedKernels with = k_grouped_kernels<T>(on);
  const Across<T> a(p.left, with.realign, on, stream), b(p.right, with.realign, on, stream);
  using Epilogue = kernels::GemmProduct<T, false>;
  auto arguments = gemm_arguments<Epilogue>(kName, p, kBuild, a.reading, b.reading);
  arguments.epilogue = Epilogue{{1.0f}, 0.0f, {}};
  arguments.ahead = {};
  arguments.k_groups = groups;
  arguments.k = int(p.k);
  launch_gemm_sm90(kName, with.product, kBuild, arguments, on, stream);
}

template <class T>
void launch_portable(const GemmProblem<T>& p, const kernels::RowGroups& groups, const Gpu& on,
                     Stream stream) {
  kernels::GemmStridedArguments<T> arguments{};
  arguments.a = {as_rows(p.left), 0}, arguments.b = {as_rows(p.right), 0};
  arguments.out = as_rows(p.out), arguments.out_batch = p.out.batch_stride;
  arguments.batch = p.batch, arguments.k = p.k;
  arguments.k_groups = groups;
  // Groups are unequal, and so are parts of them: none is divided.
  auto choice =
      kernels::choose_gemm_strided<T>({p.batch, p.m, p.n, p.k / p.batch}, on.multiprocessors);
  choice.parts = 1;
  launch_strided(arguments, choice, on, stream);
}

}  // namespace

template <class T>
std::string_view launch_own(const kernels::KGroupedMatmul<T>& call, int device, Stream stream) {
  const GemmProblem<T> p = problem_of(call);
  if (p.batch == 0 || p.m == 0 || p.n == 0) return kPortable;
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  if constexpr (sizeof(T) == 2)
    if (supports_hopper(on) && p.k > 0 && p.fits_sm90() &&
        asked_gemm_build() < kernels::kGemmShapeCount) {
      launch_hopper(p, call.groups(), on, stream);
      wait_if_asked(kName, on, stream);
      return "sm_90a";
    }
  launch_portable(p, call.groups(), on, stream);
  wait_if_asked(kName, on, stream);
  return kPortable;
}

template std::string_view launch_own(const kernels::KGroupedMatmul<float>&, int, Stream);
template std::string_view launch_own(const kernels::KGroupedMatmul<f16>&, int, Stream);
template std::string_view launch_own(const kernels::KGroupedMatmul<bf16>&, int, Stream);

}  // namespace tw::runtime::cuda
