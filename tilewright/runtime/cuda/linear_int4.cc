#include "tilewright/runtime/cuda/linear_int4.h"

#include <algorithm>
#include <string_view>

#include "tilewright/kernels/linear_int4_policy_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/linear_int4_image.h"
#include "tilewright/runtime/cuda/tensor_map.h"

namespace tw::runtime::cuda {
namespace {

using kernels::kLinearInt4BuildCount;
using kernels::kLinearInt4Builds;
using kernels::kLinearInt4FewBuildCount;
using kernels::kLinearInt4FewBuilds;
using kernels::kLinearInt4RowBuild;
using kernels::LinearInt4Build;
using kernels::LinearInt4FewBuild;
using kernels::LinearInt4RowBuild;

constexpr const char* kName = "linear_int4";

/// The functions of one element type, found when the first of them is launched.
struct Int4Module {
  KernelBuilds<kLinearInt4BuildCount> builds;
  KernelBuilds<kLinearInt4FewBuildCount> few;
  LargeKernel row;

  explicit Int4Module(const char* image) {
    load_kernels(kName, "this GPU", image, [this](std::string_view name, Kernel kernel) {
      builds.place(name, "10cuda_entry11linear_int4ILi", kernel);  // linear_int4_kernels.cu
      few.place(name, "10cuda_entry15linear_int4_fewILi", kernel);
      if (name.find("linear_int4_row") != name.npos) row.set(kernel);
    });
  }
};

template <class T>
Int4Module& module() {
  static Int4Module loaded(linear_int4_image<T>());
  return loaded;
}

/// Values of k that have the same scale.
template <class T>
int64_t group_of(const kernels::LinearInt4<T>& call) {
  constexpr int64_t kUnit = LinearInt4FewBuild::kSpan;
  return call.group_size < call.x.cols ? call.group_size
                                       : (call.x.cols + kUnit - 1) / kUnit * kUnit;
}

template <class T>
Support supports(const kernels::LinearInt4<T>& call, int device) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 512;  // coordinates reach a tile beyond
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  if (call.out.rows == 0 || call.out.cols == 0 || call.x.cols == 0)
    return Support::no("an empty operand");
  if (call.x.lead > 1 || call.out.lead > 1)
    return Support::no("leading dimensions that no one stride describes");
  if (call.out.rows > kMost || call.out.cols > kMost || call.x.cols > kMost)
    return Support::no("a size beyond 2^31");
  if (!as_operand(call.x).is_tma_legal() || !as_operand(call.weight).is_tma_legal() ||
      call.weight.size(1) % int64_t{kTmaUnit} != 0)
    return Support::no("rows of x or of the weight that start or end at no multiple of 16 bytes");
  if (call.weight.stride(0) > kMost / LinearInt4FewBuild::kMostFeatures)
    return Support::no("rows of the weight too far apart");
  if (group_of(call) % LinearInt4FewBuild::kUnit != 0)
    return Support::no("a group_size that is no multiple of 32");
  return Support::yes();
}

template <class T>
kernels::LinearInt4Arguments<T> arguments_of(const kernels::LinearInt4<T>& call) {
  kernels::LinearInt4Arguments<T> to{};
  to.scale = call.scale;
  to.zero = call.zero;
  to.bias = call.bias;
  to.out = {call.out.data,
            {call.out.rows, call.out.cols},
            {call.out.lead_strides[0], call.out.col_stride}};
  to.tokens = call.x.data;
  to.token_stride = call.x.lead_strides[0];
  to.weight_data = call.weight.data;
  to.weight_stride = call.weight.stride(0);
  to.depth = int(call.x.cols);
  to.groups = int(call.scale.size(1));
  to.chunks_per_group = int(std::max<int64_t>(1, group_of(call) / LinearInt4Build::kChunk));
  to.units_per_group = int(group_of(call) / LinearInt4FewBuild::kUnit);
  constexpr int64_t kFour = 4;  // features
  to.stores_words = reinterpret_cast<uintptr_t>(call.out.data) % (kFour * sizeof(T)) == 0 &&
                    call.out.col_stride == 1 &&
                    (call.out.lead_strides[0] % kFour == 0 || call.out.rows == 1);
  return to;
}

/// Offsets of the kernel for a row are of 32 bits, and a feature's scales lie beside each other.
template <class T>
bool is_regular(const kernels::LinearInt4<T>& call) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto is_short = [&](const auto& view) {
    return !view || (view.stride(1) == 1 && view.stride(0) >= 0 &&
                     view.stride(0) <= (kMost - view.size(1)) / call.out.cols);
  };
  return is_short(call.weight) && is_short(call.scale) && is_short(call.zero);
}

/// What is to be launched.
struct Launch {
  Kernel kernel = nullptr;
  int tokens = 0, features = 0, threads = 0, shared_bytes = 0;
};

template <class T>
Launch row_launch(const kernels::LinearInt4<T>& call, const Gpu& on,
                  kernels::LinearInt4Arguments<T>& arguments) {
  constexpr const LinearInt4RowBuild& kBuild = kLinearInt4RowBuild;
  constexpr int kAskedBytes =
      2048;  // what the blocks of two tiles a multiprocessor have on their way
  const int64_t k = call.x.cols;
  arguments.spans_per_group = int(group_of(call) / LinearInt4RowBuild::kSpan);
  arguments.token_bytes = int(kBuild.token_bytes(k));
  arguments.warp_spans = kBuild.warp_spans(k);
  arguments.asking_blocks = on.multiprocessors;
  arguments.asked_bytes = kAskedBytes;
  const Kernel kernel =
      module<T>().row.with_shared_bytes(kName, LinearInt4RowBuild::kMostSharedBytes, on);
  return {kernel, int(call.out.rows), LinearInt4RowBuild::kFeatures, kBuild.threads,
          int(kBuild.shared_bytes(call.out.rows, k))};
}

template <class T>
Launch few_launch(size_t index) {
  const LinearInt4FewBuild& build = kLinearInt4FewBuilds[index];
  return {module<T>().few[index], build.tokens, build.features, LinearInt4FewBuild::kThreads, 0};
}

template <class T>
Launch many_launch(const kernels::LinearInt4<T>& call, size_t index, const Gpu& on,
                   kernels::LinearInt4Arguments<T>& arguments) {
  const LinearInt4Build& build = kLinearInt4Builds[index];
  const int shared_bytes = build.shared_bytes();
  const Launch out = {module<T>().builds.with_shared_bytes(kName, index, shared_bytes, on),
                      build.tokens, build.features(), LinearInt4Build::kThreads, shared_bytes};
  arguments.x = operand_map(kName, as_operand(call.x), out.tokens);
  arguments.weight = operand_map(kName, as_operand(call.weight), out.features);
  arguments.stages = int((call.x.cols + LinearInt4Build::kDepth - 1) / LinearInt4Build::kDepth);
  return out;
}

template <class T>
void launch(const kernels::LinearInt4<T>& call, int device, Stream stream) {
  using kernels::LinearInt4Kernel;
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const kernels::LinearInt4Choice choice = kernels::choose_linear_int4_sm90(
      {call.out.rows, call.out.cols, call.x.cols, group_of(call), is_regular(call)},
      on.multiprocessors);
  kernels::LinearInt4Arguments<T> arguments = arguments_of(call);
  const auto index = size_t(choice.build);
  const Launch what = choice.kernel == LinearInt4Kernel::kRow ? row_launch(call, on, arguments)
                      : choice.kernel == LinearInt4Kernel::kFew
                          ? few_launch<T>(index)
                          : many_launch(call, index, on, arguments);
  arguments.token_tiles = int((call.out.rows + what.tokens - 1) / what.tokens);
  arguments.splits = choice.splits;
  const int64_t tiles = (call.out.cols + what.features - 1) / what.features;
  const int64_t blocks = choice.kernel == LinearInt4Kernel::kRow
                             ? choice.blocks
                             : tiles * arguments.token_tiles * choice.splits;
  void* pointers[] = {&arguments};
  const Start start =
      choice.kernel == LinearInt4Kernel::kMany ? start_of(blocks, on) : Start::kEarly;
  check(launch_kernel(start, what.kernel, on, unsigned(blocks), unsigned(what.threads), 1,
                      unsigned(what.shared_bytes), stream, pointers, unsigned(choice.splits)),
        "linear_int4: launching");
  wait_if_asked(kName, on, stream);
}

}  // namespace

Support supports_sm90(const kernels::LinearInt4<f16>& call, int device) {
  return supports(call, device);
}
Support supports_sm90(const kernels::LinearInt4<bf16>& call, int device) {
  return supports(call, device);
}
void launch_sm90(const kernels::LinearInt4<f16>& call, int device, Stream stream) {
  launch(call, device, stream);
}
void launch_sm90(const kernels::LinearInt4<bf16>& call, int device, Stream stream) {
  launch(call, device, stream);
}

}  // namespace tw::runtime::cuda
