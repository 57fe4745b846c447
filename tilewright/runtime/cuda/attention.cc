#include "tilewright/runtime/cuda/attention.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tilewright/runtime/cuda/attention_image.h"
#include "tilewright/runtime/cuda/attention_problem.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

using kernels::AttentionArguments;
using kernels::AttentionBuild;
using kernels::AttentionChoice;
using kernels::kAttentionBuildCount;
using kernels::kAttentionBuilds;
using tile::cuda::TensorMap;

/// The functions of one element type, found when the first of them is launched.
struct AttentionModule {
  std::array<Kernel, size_t(kAttentionBuildCount)> builds{};
  Kernel combine = nullptr;
  PreparedOnce<size_t(kAttentionBuildCount)> prepared;

  explicit AttentionModule(const char* image) {
    load_kernels("attention", "this GPU", image,
                 [this](std::string_view name, Kernel kernel) { place(name, kernel); });
  }

  void prepare(int build, const Gpu& on) {
    const auto index = size_t(build);
    prepared(index, on, [&] {
      allow_shared_bytes("attention", builds[index], kAttentionBuilds[build].shared_bytes(), on);
    });
  }

 private:
  /// By the mangled name (attention_kernels.cu).
  void place(std::string_view name, Kernel kernel) {
    if (name.find("attention_combine") != std::string_view::npos) combine = kernel;
    const int build = number_after(name, "10cuda_entry9attentionILi");
    if (build >= 0) builds.at(size_t(build)) = kernel;
  }
};

template <class T>
AttentionModule& module() {
  static AttentionModule loaded(attention_image<T>());
  return loaded;
}

template <class T>
TensorMap query_map(const AttentionTensor<const T>& q, int64_t pack) {
  return tensor_map<T, 4>(q, {pack, q.rows, q.heads / pack, q.outer},
                          {q.head_stride, q.row_stride, pack * q.head_stride, q.outer_stride},
                          {uint32_t(pack), uint32_t(64 / pack), 1, 1});
}
/// A window of at least 2^29 sees everything.
int window(int64_t keys) {
  return keys < 0 ? -1 : int(std::min<int64_t>(keys, int64_t{1} << 29));
}

template <class T>
void set_sizes(const AttentionProblem<T>& p, const AttentionChoice& choice,
               AttentionArguments<T>& a) {
  const AttentionBuild& build = kAttentionBuilds[choice.build];
  const int64_t rows = int64_t{build.consumers} * (64 / choice.pack);
  // Every sequence may end in the middle of a tile.
  a.order.tiles = int((p.q.rows + rows - 1) / rows + (p.q_offsets ? p.sequences : 0));
  a.order.heads = int(p.q.heads / choice.pack);
  a.order.batches = p.q_offsets ? 1 : int(p.sequences);
  a.order.splits = choice.splits;
  a.order.folded = p.after() == 0 && p.options.window_left < 0 && !p.q_offsets;
  a.q_heads = int(p.q.heads), a.value_dims = int(p.v.dims);
  a.pack = choice.pack, a.heads_per_kv = int(p.group()) / choice.pack;
  a.sequences = int(p.sequences);
  a.queries = int(p.q.rows), a.keys = int(p.keys);
  a.box_keys = p.table ? int(std::min<int64_t>(p.k.rows, build.keys)) : build.keys;
  a.page_keys = p.table ? int(p.k.rows) : 1;
}

template <class T>
AttentionArguments<T> arguments_of(const AttentionProblem<T>& p, const AttentionChoice& choice) {
  constexpr float kLog2E = 1.4426950408889634f;
  AttentionArguments<T> a{};
  set_sizes(p, choice, a);
  a.q = query_map(p.q, choice.pack);
  a.k = row_map(p.k, a.box_keys);
  a.v = row_map(p.v, a.box_keys);
  const float scale = p.options.scale == 0 ? 1 / std::sqrt(float(p.q.dims)) : p.options.scale;
  const float cap = p.options.softcap;
  a.score_scale = cap > 0 ? scale / cap : 0;
  a.exponent_scale = (cap > 0 ? cap : scale) * kLog2E;
  a.before = window(p.options.window_left), a.after = window(p.after());
  a.q_offsets = p.q_offsets, a.kv_offsets = p.kv_offsets, a.kv_lens = p.kv_lens;
  a.table = p.table, a.sinks = p.options.sinks;
  a.rows = {p.out.data, p.out.outer_stride, p.out.row_stride, p.out.head_stride};
  a.lse = p.lse;
  return a;
}

template <class T>
void launch(const AttentionProblem<T>& p, const Gpu& on, Stream stream) {
  const AttentionChoice choice = kernels::choose_attention_sm90(p.size(), on.multiprocessors);
  const AttentionBuild& build = kAttentionBuilds[choice.build];
  AttentionArguments<T> arguments = arguments_of(p, choice);
  const int64_t queries = p.q.outer * p.q.rows, rows = queries * p.q.heads;
  const int64_t partials = choice.splits > 1 ? choice.splits * rows : 0;
  const StreamMemory sums(partials * (p.v.dims + 1) * int64_t{sizeof(float)}, stream, "attention");
  if (partials > 0) {
    auto* const memory = static_cast<float*>(sums.data());
    arguments.partials = {memory, rows * p.v.dims, p.q.heads * p.v.dims, p.v.dims};
    arguments.partial_lse = {memory + partials * p.v.dims, rows, p.q.heads, 1};
  }
  AttentionModule& from = module<T>();
  from.prepare(choice.build, on);
  const auto blocks = std::min<int64_t>(arguments.order.items(), on.multiprocessors);
  void* pointers[] = {&arguments};
  check(driver().launch_kernel(from.builds[size_t(choice.build)], unsigned(blocks), 1, 1,
                               unsigned(build.threads()), 1, 1, unsigned(build.shared_bytes()),
                               stream, pointers, nullptr),
        "attention: launching");
  if (partials == 0) return;
  check(
      driver().launch_kernel(from.combine, unsigned(rows), 1, 1, kernels::kAttentionCombineThreads,
                             1, 1, 0, stream, pointers, nullptr),
      "attention: launching the sum over splits");
}

template <class K>
struct ElementOf;
template <template <class, class> class K, class T>
struct ElementOf<K<T, T>> {
  using type = T;
};
template <class K>
using ProblemOf = AttentionProblem<typename ElementOf<K>::type>;

}  // namespace

template <class K>
  requires kHasAttentionSm90<K>
Support supports_attention_sm90(const K& call, int device) {
  if (gpu(device).compute_major != 9) return Support::no("a GPU that is not a Hopper");
  return ProblemOf<K>(call).support();
}

template <class K>
  requires kHasAttentionSm90<K>
void launch_attention_sm90(const K& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  launch(ProblemOf<K>(call), on, stream);
  wait_if_asked("attention", on, stream);
}

#define TW_INSTANTIATE(K, T)                                              \
  template Support supports_attention_sm90(const kernels::K<T, T>&, int); \
  template void launch_attention_sm90(const kernels::K<T, T>&, int, Stream);
TW_INSTANTIATE(Attention, f16)
TW_INSTANTIATE(Attention, bf16)
TW_INSTANTIATE(AttentionVarlen, f16)
TW_INSTANTIATE(AttentionVarlen, bf16)
TW_INSTANTIATE(AttentionPaged, f16)
TW_INSTANTIATE(AttentionPaged, bf16)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
