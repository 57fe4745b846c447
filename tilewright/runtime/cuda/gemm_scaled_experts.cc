#include "tilewright/runtime/cuda/gemm_scaled_experts.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "tilewright/kernels/gemm_scaled_experts_build_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/gemm_scaled_experts_image.h"
#include "tilewright/runtime/cuda/gemm_scaled_problem.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/tensor_map.h"

namespace tw::runtime::cuda {
namespace {

using kernels::kScaledExpertsBuilds;
using kernels::ScaledExpertsBuild;

template <class K>
constexpr bool kIsGated = requires(K call) { call.activation; };
template <class K>
constexpr bool kIsWide = sizeof(*K::out.data) == 4;
template <class K>
constexpr const char* kName = kIsGated<K>  ? "scaled_grouped_gated_matmul"
                              : kIsWide<K> ? "scaled_grouped_matmul"
                                           : "scaled_grouped_matmul_unpermute";
constexpr int64_t kChunk = 16;  // bytes of a row that are copied at once

struct ScaledExpertsModule {
  KernelBuilds<kernels::kScaledExpertsBuildCount> builds;

  ScaledExpertsModule() {
    load_kernels("scaled_grouped_matmul", "this GPU", gemm_scaled_experts_image(),
                 [this](std::string_view name, Kernel kernel) {  // gemm_scaled_experts_kernels.cu
                   builds.place(name, "10cuda_entry19gemm_scaled_expertsILi", kernel);
                 });
  }
};

ScaledExpertsModule& module() {
  static ScaledExpertsModule loaded;
  return loaded;
}

template <class K>
View<const int32_t, 1> numbers_of(const K& call) {
  if constexpr (requires { call.rows; }) return call.rows;
  return {};
}

template <class K>
auto arguments_of(const K& call, const ScaledExpertsBuild& build) {
  using Q = std::remove_const_t<typename ScaledOperands<K>::Q>;
  using Out = std::remove_pointer_t<decltype(call.out.data)>;
  const ScaledOperands of{call};
  const int64_t columns = call.out.size(1), width = build.out_columns();
  kernels::ScaledExpertsArguments<Q, Out> to{};
  to.a = operand_map(kName<K>, of.rows(), build.rows);
  to.b = operand_map(kName<K>, of.weight(), build.box_columns());
  to.a_scale = call.a_scale;
  to.b_scale = call.b_scale;
  to.groups = call.groups();
  to.gathered = {numbers_of(call), call.a.data, uint32_t(call.a.stride(0) / kChunk),
                 int(call.a.size(0)), int(call.a.size(1))};
  to.scattered = call.scattered();
  to.out = call.out;
  to.column_tiles = int((columns + width - 1) / width);
  to.k_blocks = of.k_blocks();
  to.k_blocks_per_scale = of.k_blocks_per_scale();
  to.columns_per_scale = of.columns_per_scale();
  if constexpr (kIsGated<K>) to.activation = call.activation;
  constexpr int64_t kEight = 8 / int64_t{sizeof(Out)};
  to.stores_eights = reinterpret_cast<uintptr_t>(call.out.data) % 8 == 0 &&
                     (call.out.stride(0) % kEight == 0 || call.out.size(0) == 1);
  return to;
}

}  // namespace

template <ScaledExpertsCall K>
Support supports_scaled_experts(const K& call, int device) {
  constexpr int64_t kMostChunks = int64_t{1} << 32;
  if (Support s = ScaledOperands{call}.supports(device); !s) return s;
  if (call.out.size(0) == 0) return Support::no("an empty operand");
  if (call.scattered().count > (int64_t{1} << 31) - 512) return Support::no("a size beyond 2^31");
  if (numbers_of(call) && call.a.stride(0) / kChunk > kMostChunks / call.a.size(0))
    return Support::no("rows of a, to be gathered, that span more than 64 GiB");
  if (kIsGated<K> && call.out.size(1) % kernels::ScaledGemmBuild::kSpan != 0 &&
      call.block_n < call.b.size(1))
    return Support::no("columns of a gate that are no multiple of 64, with several scales");
  return Support::yes();
}

template <ScaledExpertsCall K>
void launch_scaled_experts(const K& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const int64_t m = call.scattered().count, groups = call.b.size(0);
  const auto index = size_t(kernels::choose_scaled_experts_sm90(kIsGated<K>, bool(numbers_of(call)),
                                                                kIsWide<K>, m, groups));
  const ScaledExpertsBuild& build = kScaledExpertsBuilds[index];
  auto arguments = arguments_of(call, build);
  const int shared_bytes = build.shared_bytes();
  const Kernel kernel = module().builds.with_shared_bytes(kName<K>, index, shared_bytes, on);
  void* pointers[] = {&arguments};
  const Start start = m <= build.rows * groups ? Start::kEarly : Start::kInOrder;
  check(launch_kernel(start, kernel, on, unsigned(on.multiprocessors), unsigned(build.threads()), 1,
                      unsigned(shared_bytes), stream, pointers),
        std::string(kName<K>) + ": launching");
  wait_if_asked(kName<K>, on, stream);
}

template <ScaledExpertsProduct K>
Support supports_sm90(const K& call, int device) {
  return supports_scaled_experts(call, device);
}
template <ScaledExpertsProduct K>
void launch_sm90(const K& call, int device, Stream stream) {
  launch_scaled_experts(call, device, stream);
}

template Support supports_scaled_experts(const kernels::ScaledGroupedMatmul<f8_e4m3fn>&, int);
template void launch_scaled_experts(const kernels::ScaledGroupedMatmul<f8_e4m3fn>&, int, Stream);
template Support supports_sm90(const kernels::ScaledGroupedGatedMatmul&, int);
template void launch_sm90(const kernels::ScaledGroupedGatedMatmul&, int, Stream);
template Support supports_sm90(const kernels::ScaledGroupedMatmulUnpermute&, int);
template void launch_sm90(const kernels::ScaledGroupedMatmulUnpermute&, int, Stream);

}  // namespace tw::runtime::cuda
