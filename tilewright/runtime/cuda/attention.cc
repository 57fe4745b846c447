#include "tilewright/runtime/cuda/attention.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <string_view>

#include "tilewright/runtime/cuda/attention_arguments.h"
#include "tilewright/runtime/cuda/attention_image.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"

namespace tw::runtime::cuda {
namespace {

using kernels::AttentionArguments;
using kernels::AttentionBuild;
using kernels::AttentionChoice;
using kernels::kAttentionBuildCount;
using kernels::kAttentionBuilds;

/// The functions of one element type, found when the first of them is launched.
struct AttentionModule {
  KernelBuilds<size_t(kAttentionBuildCount)> builds;
  Kernel combine = nullptr;

  explicit AttentionModule(const char* image) {
    load_kernels("attention", "this GPU", image, [this](std::string_view name, Kernel kernel) {
      builds.place(name, "10cuda_entry9attentionILi", kernel);  // attention_kernels.cu
      if (name.find("attention_combine") != name.npos) combine = kernel;
    });
  }
};

template <class T>
AttentionModule& module() {
  static AttentionModule loaded(attention_image<T>());
  return loaded;
}

/// The kernels that change scores, each compiled when it is first launched.
template <class T>
class ChangingKernels {
 public:
  Kernel get(int build, const Gpu& on) {
    const std::lock_guard lock(compiling_);
    LargeKernel& kernel = builds_[size_t(build)];
    if (kernel.get() == nullptr) {
      const CompiledKernel code =
          compile_kernel("attention", changing_attention_program(dtype_of<T>, build), "sm_90a");
      kernel.set(load_kernel("attention", described(on), code.cubin.data()));
    }
    return kernel.with_shared_bytes("attention", kAttentionBuilds[build].shared_bytes(), on);
  }

 private:
  std::mutex compiling_;
  std::array<LargeKernel, size_t(kAttentionBuildCount)> builds_;
};

template <class T>
Kernel kernel_for(const AttentionArguments<T>& arguments, int build, const Gpu& on) {
  static ChangingKernels<T> changing;
  if (arguments.changes_scores()) return changing.get(build, on);
  return module<T>().builds.with_shared_bytes("attention", size_t(build),
                                              kAttentionBuilds[build].shared_bytes(), on);
}

template <class T>
void launch(const AttentionProblem<T>& p, const Gpu& on, Stream stream) {
  const AttentionChoice choice = kernels::choose_attention_sm90(p.size(), on.multiprocessors);
  const AttentionBuild& build = kAttentionBuilds[choice.build];
  AttentionArguments<T> arguments{};
  set_arguments(p, {64 * build.consumers, build.keys, choice}, on.multiprocessors, arguments);
  arguments.q = query_map(p.q, choice.pack);
  arguments.k = row_map(p.k, arguments.box_keys);
  arguments.v = row_map(p.v, arguments.box_keys);
  const int64_t blocks = attention_blocks(arguments.order, on.multiprocessors);
  const AttentionPartials<T> partials(p, blocks, stream, "attention", arguments);
  const Kernel kernel = kernel_for(arguments, choice.build, on);
  void* pointers[] = {&arguments};
  check(driver().launch_kernel(kernel, unsigned(blocks), 1, 1, unsigned(build.threads()), 1, 1,
                               unsigned(build.shared_bytes()), stream, pointers, nullptr),
        "attention: launching");
  partials.add_up(module<T>().combine, arguments, stream, "attention", pointers);
}

template <class K>
using ProblemOf = AttentionProblem<typename ElementOf<K>::type>;

}  // namespace

template <class K>
  requires kHasAttentionSm90<K>
Support supports_sm90(const K& call, int device) {
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  const ProblemOf<K> problem(call);
  if (Support s = problem.support(); !s || !problem.changes_scores()) return s;
  return supports_compiling();
}

template <class K>
  requires kHasAttentionSm90<K>
void launch_sm90(const K& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  launch(ProblemOf<K>(call), on, stream);
  wait_if_asked("attention", on, stream);
}

#define TW_INSTANTIATE(K, T)                                    \
  template Support supports_sm90(const kernels::K<T, T>&, int); \
  template void launch_sm90(const kernels::K<T, T>&, int, Stream);
TW_INSTANTIATE(Attention, f16)
TW_INSTANTIATE(Attention, bf16)
TW_INSTANTIATE(AttentionVarlen, f16)
TW_INSTANTIATE(AttentionVarlen, bf16)
TW_INSTANTIATE(AttentionPaged, f16)
TW_INSTANTIATE(AttentionPaged, bf16)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
