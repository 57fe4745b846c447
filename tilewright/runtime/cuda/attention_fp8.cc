#include "tilewright/runtime/cuda/attention_fp8.h"

#include "tilewright/runtime/cuda/attention_arguments.h"
#include "tilewright/runtime/cuda/compiled_builds.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/launch.h"

namespace tw::runtime::cuda {
namespace {

using kernels::AttentionBuild;
using T = kernels::AttentionFp8::T;
using Problem = AttentionProblem<T>;

constexpr const char* kName = "attention_fp8";

/// The library carries none of its kernels.
Kernel kernel_for(int number, const AttentionBuild& build, const Gpu& on) {
  static CompiledBuilds<size_t(kernels::kAttentionFp8BuildCount)> compiled;
  return compiled.get(kName, size_t(number), build.shared_bytes(), on,
                      [&] { return attention_program({dtype_of<T>, dtype_of<T>, false, number}); });
}

}  // namespace

Support supports_sm90(const kernels::AttentionFp8& call, int device) {
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  if (Support s = Problem(call).support(); !s) return s;
  return supports_compiling();
}

void launch_sm90(const kernels::AttentionFp8& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const Problem p(call);
  const kernels::AttentionChoice choice =
      kernels::choose_attention_sm90(p.size(), on.multiprocessors);
  const AttentionBuild build = kernels::kAttentionFp8Builds[choice.build];
  kernels::AttentionArguments<T> arguments{};
  set_arguments(p, {build.consumers, build.rows(), build.keys, choice}, on.multiprocessors,
                arguments);
  arguments.k = row_map(p.k, arguments.box_keys);
  arguments.v = row_map(p.v, arguments.box_keys);
  const int64_t blocks = attention_blocks(arguments.order, on.multiprocessors);
  const Kernel kernel = kernel_for(choice.build, build, on);
  void* pointers[] = {&arguments};
  launch_attention(kName, Start::kInOrder, kernel, on, blocks, build.threads(),
                   build.shared_bytes(), stream, pointers);
  wait_if_asked(kName, on, stream);
}

}  // namespace tw::runtime::cuda
