#include "tilewright/runtime/cuda/gemm_int8.h"

#include <string_view>

#include "tilewright/kernels/gemm_int8_policy_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_int8_image.h"
#include "tilewright/runtime/cuda/gemm_launch_sm90.h"
#include "tilewright/runtime/cuda/gemm_reading.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

using kernels::GemmBuild;
using kernels::kGemmInt8ShapeCount;
using kernels::kGemmInt8Shapes;
using Call = kernels::IntMatmul;

constexpr const char* kName = "int_matmul";

struct Int8Module {
  LargeKernel realign;  // a block of bytes that is turned over is one of 256 x 256
  KernelBuilds<kGemmInt8ShapeCount> builds;

  Int8Module() {
    load_kernels(kName, "this GPU", gemm_int8_image(),
                 [this](std::string_view name, Kernel kernel) {  // gemm_int8_kernels.cu
                   builds.place(name, "10cuda_entry9gemm_int8ILi", kernel);
                   if (name.find("gemm_int8_realign") != std::string_view::npos)
                     realign.set(kernel);
                 });
  }
};

Int8Module& module() {
  static Int8Module loaded;
  return loaded;
}

/// Copies an operand that does not lie as TMA reads it.
void realign(GemmReading<int8_t>& operand, void* memory, const Gpu& on, Stream stream) {
  constexpr auto kBytes = int(kernels::GemmRealignArguments<sizeof(int8_t)>::Turned::kBytes);
  if (operand.copies)
    operand.copy_to(memory, module().realign.with_shared_bytes(kName, kBytes, on), on, stream);
}

using Problem = GemmProblem<int8_t, int32_t>;

Problem problem_of(const Call& call) {
  return Problem::product(call.a, call.b, call.out);
}

}  // namespace

Support supports_sm90(const Call& call, int device) {
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  const Problem p = problem_of(call);
  if (p.batch == 0 || p.m == 0 || p.n == 0 || p.k == 0) return Support::no("an empty operand");
  if (!p.fits_sm90()) return Support::no("a size beyond 2^31");
  return Support::yes();
}

void launch_sm90(const Call& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const Problem p = problem_of(call);
  const int shape = kernels::choose_gemm_int8_sm90(p.size(), on.multiprocessors);
  const GemmBuild& build = kGemmInt8Shapes[shape].build;
  GemmReading<int8_t> a(p.left, false), b(p.right, false);
  const StreamMemory a_copy(a.bytes(), stream, kName), b_copy(b.bytes(), stream, kName);
  realign(a, a_copy.data(), on, stream);
  realign(b, b_copy.data(), on, stream);
  auto arguments = gemm_arguments<kernels::GemmExact>(kName, p, build, a, b);
  const Kernel kernel =
      module().builds.with_shared_bytes(kName, size_t(shape), build.shared_bytes(), on);
  launch_gemm_sm90(kName, kernel, build, arguments, on, stream);
  wait_if_asked(kName, on, stream);
}

}  // namespace tw::runtime::cuda
