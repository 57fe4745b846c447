#include "tilewright/runtime/cuda/gemm_scaled.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "tilewright/kernels/gemm_scaled_policy_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/gemm_scaled_experts.h"
#include "tilewright/runtime/cuda/gemm_scaled_image.h"
#include "tilewright/runtime/cuda/gemm_scaled_problem.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"
#include "tilewright/runtime/cuda/tensor_map.h"

namespace tw::runtime::cuda {
namespace {

using kernels::kScaledGemmBuildCount;
using kernels::kScaledGemmBuilds;
using kernels::ScaledGemmBuild;
template <class Q>
using Call = kernels::ScaledGroupedMatmul<Q>;

constexpr const char* kName = "scaled_grouped_matmul";
constexpr int64_t kFetched = 4;  // scales that are read at once
constexpr int kAhead = 1024;     // bytes of a row of b that are asked for before a kernel's turn

template <class Q>
struct ScaledModule {
  KernelBuilds<kScaledGemmBuildCount> builds;

  ScaledModule() {
    load_kernels(kName, "this GPU", gemm_scaled_image<Q>(),
                 [this](std::string_view name, Kernel kernel) {  // gemm_scaled_kernels.cu
                   builds.place(name, "10cuda_entry11gemm_scaledILi", kernel);
                   builds.place(name, "10cuda_entry17gemm_scaled_splitILi", kernel);
                 });
  }
};

template <class Q>
ScaledModule<Q>& module() {
  static ScaledModule<Q> loaded;
  return loaded;
}

/// Whether the scales for four blocks of k are 16 aligned bytes, whichever row they are of.
template <int kRank>
bool has_aligned_fours(const View<const float, kRank>& scales) {
  bool out = reinterpret_cast<uintptr_t>(scales.data) % 16 == 0 && scales.stride(kRank - 1) == 1 &&
             scales.size(kRank - 1) % kFetched == 0;
  for (int i = 0; i + 1 < kRank; ++i) out = out && scales.stride(i) % kFetched == 0;
  return out;
}

template <class Q>
kernels::ScaledGemmArguments arguments_of(const Call<Q>& call, const ScaledGemmBuild& build) {
  const ScaledOperands of{call};
  const GemmOperand<const Q> rows = of.rows(), weight = of.weight();
  const GemmOperand<float> out = as_operand(call.out);
  kernels::ScaledGemmArguments to;
  to.a = operand_map(kName, rows, build.rows);
  to.b = operand_map(kName, weight, build.columns);
  to.stores_boxes = out.is_tma_writable();
  to.out = to.stores_boxes ? operand_map(kName, out, 64) : to.a;
  to.a_scale = call.a_scale;
  to.b_scale = call.b_scale;
  to.groups = call.groups();
  to.rows = call.out;
  to.column_tiles = int((weight.rows + build.columns - 1) / build.columns);
  to.k_blocks = of.k_blocks();
  to.k_blocks_per_scale = of.k_blocks_per_scale();
  to.columns_per_scale = of.columns_per_scale();
  to.fetches_four = call.block_k == of.kBlock && has_aligned_fours<2>(call.a_scale) &&
                    has_aligned_fours<3>(call.b_scale);
  to.is_long = of.has_one_scale() || call.block_k % (kFetched * of.kBlock) == 0;
  if (build.columns == 64 && !call.offsets) {
    to.ahead = kAhead;
    to.b_data = reinterpret_cast<const char*>(weight.data);
    to.b_row_stride = weight.row_stride;
    to.b_row_bytes = weight.columns;
  }
  return to;
}

/// Whose rows are not gathered, or, of e4m3, those of gemm_scaled_experts.h.
template <class Q>
Support supports(const Call<Q>& call, int device) {
  if (!call.rows) return ScaledOperands{call}.supports(device);
  if constexpr (std::is_same_v<Q, f8_e4m3fn>)
    return supports_scaled_experts(call, device);
  else
    return Support::no("rows of int8, to be gathered");
}

template <class Q>
void launch(const Call<Q>& call, int device, Stream stream) {
  if constexpr (std::is_same_v<Q, f8_e4m3fn>)
    if (call.rows) return launch_scaled_experts(call, device, stream);
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const kernels::ScaledGemmSize size{call.b.size(0), call.a.size(0), call.b.size(1), call.a.size(1),
                                     bool(call.offsets)};
  const auto index = size_t(kernels::choose_scaled_gemm_sm90(size, on.multiprocessors));
  const ScaledGemmBuild& build = kScaledGemmBuilds[index];
  kernels::ScaledGemmArguments arguments = arguments_of(call, build);
  arguments.cut = kernels::scaled_gemm_cut(int(index), size, on.multiprocessors);
  const int64_t counters = int64_t{arguments.cut.tiles} * build.consumers();
  const StreamMemory arrived(counters * int64_t{sizeof(int)}, stream, kName);
  arguments.arrived = static_cast<int*>(arrived.data());
  if (counters > 0)
    check(driver().memset_words_async(reinterpret_cast<DevicePointer>(arrived.data()), 0,
                                      size_t(counters), stream),
          "scaled_grouped_matmul: clearing its workspace");

  const int shared_bytes = build.shared_bytes();
  const Kernel kernel = module<Q>().builds.with_shared_bytes(kName, index, shared_bytes, on);
  const int64_t tiles = scaled_gemm_tiles(build, size);
  const int64_t blocks = build.split > 1   ? tiles * build.split
                         : size.is_grouped ? on.multiprocessors
                                           : std::min<int64_t>(tiles, on.multiprocessors);
  void* pointers[] = {&arguments};
  const bool few_rows = size.m <= build.rows * size.groups;
  const Start start = few_rows ? Start::kEarly : start_of(tiles * build.split, on);
  check(launch_kernel(start, kernel, on, unsigned(blocks), unsigned(build.threads()), 1,
                      unsigned(shared_bytes), stream, pointers),
        "scaled_grouped_matmul: launching");
  wait_if_asked(kName, on, stream);
}

}  // namespace

Support supports_sm90(const Call<f8_e4m3fn>& call, int device) {
  return supports(call, device);
}
Support supports_sm90(const Call<int8_t>& call, int device) {
  return supports(call, device);
}
void launch_sm90(const Call<f8_e4m3fn>& call, int device, Stream stream) {
  launch(call, device, stream);
}
void launch_sm90(const Call<int8_t>& call, int device, Stream stream) {
  launch(call, device, stream);
}

}  // namespace tw::runtime::cuda
