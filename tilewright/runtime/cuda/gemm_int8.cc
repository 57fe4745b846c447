#include "tilewright/runtime/cuda/gemm_int8.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tilewright/kernels/gemm_int8_policy_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_int8_image.h"
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
void realign(Reading<int8_t>& operand, void* memory, const Gpu& on, Stream stream) {
  constexpr auto kBytes = int(kernels::GemmRealignArguments<sizeof(int8_t)>::Turned::kBytes);
  if (operand.copies)
    operand.copy_to(memory, module().realign.with_shared_bytes(kName, kBytes, on), on, stream);
}

/// What to multiply, as rows of k; out has contiguous rows if either of its dimensions has.
struct Int8Problem {
  int64_t batch, m, n, k;
  GemmOperand<const int8_t> left, right;  // [m, k], [n, k]
  GemmOperand<int32_t> out;               // [m, n]

  explicit Int8Problem(const Call& call)
      : batch(call.out.size(0)), m(call.out.size(1)), n(call.out.size(2)), k(call.a.size(2)) {
    const auto &a = call.a, &b = call.b;
    const auto matrices = [&](int64_t stride) { return stride == 0 ? 1 : batch; };
    left = {a.data, m, k, a.stride(1), a.stride(2), a.stride(0), matrices(a.stride(0))};
    right = {b.data, n, k, b.stride(2), b.stride(1), b.stride(0), matrices(b.stride(0))};
    out = {call.out.data, m, n, call.out.stride(1), call.out.stride(2), call.out.stride(0), batch};
    if (out.column_stride == 1 || out.row_stride != 1) return;
    std::swap(m, n);
    std::swap(left, right);
    out = out.transposed();
  }
  kernels::GemmSize size() const {
    return {batch, m, n, k, int(sizeof(int8_t)), int(sizeof(int32_t))};
  }
};

using Arguments = kernels::GemmArguments<int32_t, kernels::GemmExact>;

Arguments arguments_of(const Int8Problem& p, const GemmBuild& build, const Reading<int8_t>& a,
                       const Reading<int8_t>& b) {
  constexpr int64_t kTileK = 128;
  Arguments to;
  to.a = operand_map(kName, a.from, build.tile_m);
  to.b = operand_map(kName, b.from, build.tile_n);
  if (p.out.is_tma_writable()) {
    to.out = operand_map(kName, p.out, 64);
  } else {
    to.out = to.a;  // prefetched and not used
    to.scatter = {p.out.data, p.m, p.n, p.out.row_stride, p.out.column_stride, p.out.batch_stride};
  }
  to.order = kernels::gemm_order(build, p.size());
  to.k_blocks = int((p.k + kTileK - 1) / kTileK);
  to.adds = false;
  to.a_batch = a.from.batch > 1;
  to.b_batch = b.from.batch > 1;
  return to;
}

}  // namespace

Support supports_sm90(const Call& call, int device) {
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  const Int8Problem p(call);
  if (p.batch == 0 || p.m == 0 || p.n == 0 || p.k == 0) return Support::no("an empty operand");
  if (!fits_gemm_sm90(p.batch, p.m, p.n, p.k)) return Support::no("a size beyond 2^31");
  return Support::yes();
}

void launch_sm90(const Call& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const Int8Problem p(call);
  const int shape = kernels::choose_gemm_int8_sm90(p.size(), on.multiprocessors);
  const GemmBuild& build = kGemmInt8Shapes[shape].build;
  Reading<int8_t> a(p.left, false), b(p.right, false);
  const StreamMemory a_copy(a.bytes(), stream, kName), b_copy(b.bytes(), stream, kName);
  realign(a, a_copy.data(), on, stream);
  realign(b, b_copy.data(), on, stream);
  Arguments arguments = arguments_of(p, build, a, b);
  const Kernel kernel =
      module().builds.with_shared_bytes(kName, size_t(shape), build.shared_bytes(), on);
  const int64_t tiles = arguments.order.tiles;
  void* pointers[] = {&arguments};
  check(launch_kernel(
            start_of(tiles, on), kernel, on, unsigned(std::min<int64_t>(tiles, on.multiprocessors)),
            unsigned(build.threads()), 1, unsigned(build.shared_bytes()), stream, pointers),
        "int_matmul: launching");
  wait_if_asked(kName, on, stream);
}

}  // namespace tw::runtime::cuda
