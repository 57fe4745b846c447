#include "tilewright/runtime/cuda/linear_int.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "tilewright/kernels/linear_int_policy_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/linear_int_image.h"
#include "tilewright/runtime/cuda/tensor_map.h"

namespace tw::runtime::cuda {
namespace {

using kernels::kLinearIntBuilds;
using kernels::kLinearIntFewBuilds;
using kernels::kLinearIntRowBuild;
using kernels::LinearInt;
using kernels::LinearIntBuild;
using kernels::LinearIntFewBuild;
using kernels::LinearIntRowBuild;
using kernels::LinearIntSpan;

template <int kBits>
constexpr const char* kName = kBits == 4 ? "linear_int4" : "linear_int8";

/// The functions of one element type and width, found when the first of them is launched.
template <int kBits>
struct IntModule {
  KernelBuilds<kernels::kLinearIntBuildCount> builds;
  KernelBuilds<kernels::kLinearIntFewBuildCount<kBits>> few;
  LargeKernel row;

  explicit IntModule(const char* image) {
    const std::string bits = "ILi" + std::to_string(kBits) + "E";  // linear_int_kernels.cu
    load_kernels(kName<kBits>, "this GPU", image, [&](std::string_view name, Kernel kernel) {
      builds.place(name, "10cuda_entry10linear_int" + bits + "Li", kernel);
      few.place(name, "10cuda_entry14linear_int_few" + bits + "Li", kernel);
      if (name.find("linear_int_row" + bits) != name.npos) row.set(kernel);
    });
  }
};

template <class T, int kBits>
IntModule<kBits>& module() {
  static IntModule<kBits> loaded(linear_int_image<T>());
  return loaded;
}

/// Values of k that have the same scale.
template <class T, int kBits>
int64_t group_of(const LinearInt<T, kBits>& call) {
  constexpr int64_t kUnit = LinearIntSpan<4>::kDepth;  // of both widths
  return call.group_size < call.x.cols ? call.group_size
                                       : (call.x.cols + kUnit - 1) / kUnit * kUnit;
}

template <class T, int kBits>
Support supports(const LinearInt<T, kBits>& call, int device) {
  using Few = LinearIntFewBuild<kBits>;
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
  if (call.weight.stride(0) > kMost / Few::kMostFeatures)
    return Support::no("rows of the weight too far apart");
  if (group_of(call) % Few::kUnit != 0)
    return Support::no("a group_size that is no multiple of 32");
  return Support::yes();
}

template <class T, int kBits>
kernels::LinearIntArguments<T> arguments_of(const LinearInt<T, kBits>& call) {
  kernels::LinearIntArguments<T> to{};
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
  to.chunks_per_group = int(std::max<int64_t>(1, group_of(call) / LinearIntBuild<kBits>::kChunk));
  to.units_per_group = int(group_of(call) / LinearIntFewBuild<kBits>::kUnit);
  constexpr int64_t kFour = 4;  // features
  to.stores_words = reinterpret_cast<uintptr_t>(call.out.data) % (kFour * sizeof(T)) == 0 &&
                    call.out.col_stride == 1 &&
                    (call.out.lead_strides[0] % kFour == 0 || call.out.rows == 1);
  return to;
}

/// Offsets of the kernel for a row are of 32 bits, and a feature's scales lie beside each other.
template <class T, int kBits>
bool is_regular(const LinearInt<T, kBits>& call) {
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

template <class T, int kBits>
Launch row_launch(const LinearInt<T, kBits>& call, const Gpu& on,
                  kernels::LinearIntArguments<T>& arguments) {
  constexpr LinearIntRowBuild kBuild = kLinearIntRowBuild<kBits>;
  constexpr int kAskedBytes =
      2048;  // what the blocks of two tiles a multiprocessor have on their way
  const int64_t k = call.x.cols;
  arguments.spans_per_group = int(group_of(call) / LinearIntSpan<kBits>::kDepth);
  arguments.token_bytes = int(kBuild.token_bytes(k));
  arguments.warp_spans = kBuild.warp_spans(k);
  arguments.asking_blocks = on.multiprocessors;
  arguments.asked_bytes = kAskedBytes;
  const Kernel kernel =
      module<T, kBits>().row.with_shared_bytes(kName<kBits>, kBuild.kMostSharedBytes, on);
  return {kernel, int(call.out.rows), kBuild.kFeatures, kBuild.threads,
          int(kBuild.shared_bytes(call.out.rows, k))};
}

template <class T, int kBits>
Launch few_launch(size_t index) {
  const LinearIntFewBuild<kBits>& build = kLinearIntFewBuilds<kBits>[index];
  return {module<T, kBits>().few[index], build.tokens, build.features, build.kThreads, 0};
}

template <class T, int kBits>
Launch many_launch(const LinearInt<T, kBits>& call, size_t index, const Gpu& on,
                   kernels::LinearIntArguments<T>& arguments) {
  constexpr const char* kOp = kName<kBits>;
  const LinearIntBuild<kBits>& build = kLinearIntBuilds<kBits>[index];
  const int shared_bytes = build.shared_bytes();
  const Launch out = {module<T, kBits>().builds.with_shared_bytes(kOp, index, shared_bytes, on),
                      build.tokens, build.features(), build.kThreads, shared_bytes};
  arguments.x = operand_map(kOp, as_operand(call.x), out.tokens);
  arguments.weight = operand_map(kOp, as_operand(call.weight), out.features);
  arguments.stages = int((call.x.cols + build.kDepth - 1) / build.kDepth);
  return out;
}

}  // namespace

template <class T, int kBits>
  requires(sizeof(T) == 2)
Support supports_sm90(const LinearInt<T, kBits>& call, int device) {
  return supports(call, device);
}

template <class T, int kBits>
  requires(sizeof(T) == 2)
void launch_sm90(const LinearInt<T, kBits>& call, int device, Stream stream) {
  using kernels::LinearIntKernel;
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const kernels::LinearIntChoice choice = kernels::choose_linear_int_sm90<kBits>(
      {call.out.rows, call.out.cols, call.x.cols, group_of(call), is_regular(call)},
      on.multiprocessors);
  kernels::LinearIntArguments<T> arguments = arguments_of(call);
  const auto index = size_t(choice.build);
  const Launch what = choice.kernel == LinearIntKernel::kRow ? row_launch(call, on, arguments)
                      : choice.kernel == LinearIntKernel::kFew
                          ? few_launch<T, kBits>(index)
                          : many_launch(call, index, on, arguments);
  arguments.token_tiles = int((call.out.rows + what.tokens - 1) / what.tokens);
  arguments.splits = choice.splits;
  const int64_t tiles = (call.out.cols + what.features - 1) / what.features;
  const int64_t blocks = choice.kernel == LinearIntKernel::kRow
                             ? choice.blocks
                             : tiles * arguments.token_tiles * choice.splits;
  void* pointers[] = {&arguments};
  const Start start =
      choice.kernel == LinearIntKernel::kMany ? start_of(blocks, on) : Start::kEarly;
  check(launch_kernel(start, what.kernel, on, unsigned(blocks), unsigned(what.threads), 1,
                      unsigned(what.shared_bytes), stream, pointers, unsigned(choice.splits)),
        kName<kBits>, ": launching");
  wait_if_asked(kName<kBits>, on, stream);
}

#define TW_INSTANTIATE(T, bits)                                                 \
  template TW_API Support supports_sm90(const LinearInt<T, bits>&, int device); \
  template TW_API void launch_sm90(const LinearInt<T, bits>&, int device, Stream stream);
TW_INSTANTIATE(f16, 4)
TW_INSTANTIATE(bf16, 4)
TW_INSTANTIATE(f16, 8)
TW_INSTANTIATE(bf16, 8)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
