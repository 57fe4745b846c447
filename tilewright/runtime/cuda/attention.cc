#include "tilewright/runtime/cuda/attention.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "tilewright/ops/core/score_text.h"
#include "tilewright/runtime/cuda/attention_arguments.h"
#include "tilewright/runtime/cuda/attention_image.h"
#include "tilewright/runtime/cuda/attention_seen.h"
#include "tilewright/runtime/cuda/compiled_builds.h"
#include "tilewright/runtime/cuda/device.h"
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

template <class T, class U>
AttentionVariant variant_of(const AttentionProblem<T, U>& p, int number) {
  return {dtype_of<T>, dtype_of<U>, p.changes_scores(), number, p.mods()};
}

template <class T, class U>
Kernel kernel_for(const AttentionProblem<T, U>& p, int number, const AttentionBuild& build,
                  const Gpu& on) {
  if (p.is_compiled()) {
    static CompiledBuilds<2 * size_t(kAttentionBuildCount)> compiled;
    const AttentionVariant variant = variant_of(p, number);
    const std::string key = p.mods() ? ops::score_mods_key(p.mods()) : std::string();
    return compiled.get("attention", size_t(2 * number + int(variant.changes_scores)), key,
                        build.shared_bytes(), on, [&] { return attention_program(variant); });
  }
  return module<T>().builds.with_shared_bytes("attention", size_t(number), build.shared_bytes(),
                                              on);
}

/// Finds the blocks of keys that a mask leaves.
template <class T, class U>
Kernel finder_for(const AttentionProblem<T, U>& p, int number, const Gpu& on) {
  static CompiledBuilds<size_t(kAttentionBuildCount)> compiled;
  const kernels::ScoreMods mask = p.mods().mask_alone();
  return compiled.get("attention", size_t(number), ops::score_mods_key(mask), 0, on, [&] {
    AttentionVariant variant = variant_of(p, number);
    variant.mods = mask;
    return attention_seen_program(variant);
  });
}

template <class T, class U>
void launch(const AttentionProblem<T, U>& p, const Gpu& on, Stream stream) {
  const AttentionChoice choice = kernels::choose_attention_sm90(p.size(), on.multiprocessors);
  const AttentionBuild build =
      kernels::attention_build(int{sizeof(T)}, int{sizeof(U)}, choice.build);
  AttentionArguments<T> arguments{};
  const AttentionCut cut{build.consumers, build.rows(), build.keys, choice};
  set_arguments(p, cut, on.multiprocessors, arguments);
  const auto map_of = [&](const AttentionTensor<const U>& x) {
    return build.box_row_bytes() == 128 && !build.widens()
               ? row_map(x, arguments.box_keys)
               : narrow_map(x, arguments.box_keys, build.box_row_bytes());
  };
  if (kernels::AttentionOverlap::exists(build)) {
    using kernels::AttentionOverlap;
    arguments.key_overlap = AttentionOverlap::columns(int(p.k.dims), build.dims, 16);  // of wgmma
    arguments.value_overlap = AttentionOverlap::columns(int(p.v.dims), build.value_dims, 8);
  }
  arguments.k = map_of(p.k);
  arguments.v = map_of(p.v);
  const AttentionSeenBlocks<T> seen(p, cut, stream, arguments);
  if (seen) seen.find(finder_for(p, choice.build, on), arguments, on.multiprocessors, stream);
  const int64_t blocks = attention_blocks(arguments.order, on.multiprocessors);
  const AttentionPartials<T> partials(p, cut.rows, blocks, stream, "attention", arguments);
  const Kernel kernel = kernel_for(p, choice.build, build, on);
  void* pointers[] = {&arguments};
  launch_attention("attention", Start::kEarly, kernel, on, blocks, build.threads(),
                   build.shared_bytes(), stream, pointers);
  partials.add_up(Start::kEarly, module<T>().combine, on, arguments, stream, "attention", pointers);
}

template <class K>
using ProblemOf = AttentionProblem<typename ElementOf<K>::type, typename ElementOf<K>::keys>;

}  // namespace

template <class K>
  requires kHasAttentionSm90<K>
Support supports_sm90(const K& call, int device) {
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  const ProblemOf<K> problem(call);
  if (Support s = problem.support(); !s || !problem.is_compiled()) return s;
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

TW_INSTANTIATE_SM90(Attention)
TW_INSTANTIATE_SM90(AttentionVarlen)
TW_INSTANTIATE_SM90(AttentionPaged)

}  // namespace tw::runtime::cuda
