#include "tilewright/runtime/cuda/attention_backward.h"

#include <string_view>

#include "tilewright/runtime/cuda/attention_backward_image.h"
#include "tilewright/runtime/cuda/attention_backward_problem.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

using kernels::AttentionBackwardArguments;
using kernels::AttentionBackwardBuild;
using kernels::kAttentionBackwardBuildCount;
using kernels::kAttentionBackwardBuilds;

/// The functions of one element type, found when the first of them is launched.
struct BackwardModule {
  KernelBuilds<size_t(kAttentionBackwardBuildCount)> schedules, rows, products, queries;

  explicit BackwardModule(const char* image) {
    load_kernels("attention_backward", "this GPU", image,
                 [this](std::string_view name, Kernel kernel) {  // attention_backward_kernels.cu
                   schedules.place(name, "17backward_scheduleILi", kernel);
                   rows.place(name, "13backward_rowsILi", kernel);
                   products.place(name, "10cuda_entry8backwardILi", kernel);
                   queries.place(name, "16backward_queriesILi", kernel);
                 });
  }
};

template <class T>
BackwardModule& module() {
  static BackwardModule loaded(attention_backward_image<T>());
  return loaded;
}

/// Blocks of threads that wait for each other must all be there at the same time.
Result launch_together(Kernel kernel, unsigned blocks, unsigned threads, unsigned shared_bytes,
                       Stream stream, void** arguments) {
  constexpr int kCooperative = 2;  // CUlaunchAttributeID
  LaunchAttribute together{kCooperative, 1, {}};
  const LaunchConfig config{{blocks, 1, 1}, {threads, 1, 1}, shared_bytes, stream, &together, 1};
  return driver().launch_kernel_with(&config, kernel, arguments, nullptr);
}

/// What the kernels keep until the gradients of queries are there.
template <class T>
class Workspace {
 public:
  Workspace(const AttentionBackwardBuild& build, Stream stream, AttentionBackwardArguments<T>& a)
      : blocks_(int64_t{a.blocks} * a.q_heads),
        memory_(bytes(build, a), stream, "attention_backward") {
    a.q_sums = take<float>(blocks_ * build.sum_count());
    a.rows = take<float>(blocks_ * 2 * build.queries);
    a.ranks = take<int>(a.rank_count());
    a.added = take<int>(blocks_ * build.kConsumers);
    if (!a.q_offsets) return;
    a.rings = take<int>(a.sequences);
    a.item_steps = take<int>(a.sequences);
    a.turns = take<kernels::AttentionBackwardTurn>(a.sequences + 1);
  }
  unsigned blocks() const { return unsigned(blocks_); }

 private:
  int64_t bytes(const AttentionBackwardBuild& build, const AttentionBackwardArguments<T>& a) const {
    const int64_t of_block = build.sum_count() + 2 * build.queries + build.kConsumers;
    const int64_t schedule = a.q_offsets ? 4 * a.sequences + 2 : 0;
    return (blocks_ * of_block + a.rank_count() + schedule) * int64_t{sizeof(int)};
  }
  template <class U>
  U* take(int64_t count) {
    auto* const out = reinterpret_cast<U*>(static_cast<int*>(memory_.data()) + used_);
    used_ += count * int64_t{sizeof(U) / sizeof(int)};
    return out;
  }

  int64_t blocks_, used_ = 0;
  StreamMemory memory_;
};

template <class T>
void launch(const AttentionBackwardProblem<T>& call, const Gpu& on, Stream stream) {
  const std::string op = "attention_backward";
  const auto index = size_t(call.build());
  const AttentionBackwardBuild& build = kAttentionBackwardBuilds[index];
  AttentionBackwardArguments<T> a = call.arguments(build);
  a.workers = on.multiprocessors;
  kernels::AttentionRing ring{on.multiprocessors, 1};
  if (!a.q_offsets)
    ring = kernels::choose_attention_ring(int64_t{a.sequences} * a.kv_heads, a.key_blocks, a.fold,
                                          a.workers);
  a.ring = ring.size;
  const Workspace<T> workspace(build, stream, a);

  BackwardModule& from = module<T>();
  const int shared = build.shared_bytes();
  const Kernel products = from.products.with_shared_bytes(op, index, shared, on);
  void* pointers[] = {&a};
  const auto overlap = [&](Kernel kernel, unsigned blocks, unsigned threads) {
    check(launch_kernel(Start::kEarly, kernel, on, blocks, threads, 1, 0, stream, pointers),
          op + ": launching");
  };
  if (a.q_offsets) overlap(from.schedules[index], 1, kernels::kAttentionScheduleThreads);
  overlap(from.rows[index], workspace.blocks(), build.kRowThreads);
  check(launch_together(products, unsigned(ring.size * ring.count),
                        AttentionBackwardBuild::kThreads, unsigned(shared), stream, pointers),
        op + ": launching the products");
  overlap(from.queries[index], workspace.blocks(), unsigned(build.query_threads()));
}

template <class K>
using ProblemOf = AttentionBackwardProblem<typename ElementOf<K>::type>;

}  // namespace

template <class K>
  requires kHasAttentionBackwardSm90<K>
Support supports_sm90(const K& call, int device) {
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  return ProblemOf<K>(call).support();
}

template <class K>
  requires kHasAttentionBackwardSm90<K>
void launch_sm90(const K& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  launch(ProblemOf<K>(call), on, stream);
  wait_if_asked("attention_backward", on, stream);
}

#define TW_INSTANTIATE(K, T)                                 \
  template Support supports_sm90(const kernels::K<T>&, int); \
  template void launch_sm90(const kernels::K<T>&, int, Stream);
TW_INSTANTIATE(AttentionBackward, f16)
TW_INSTANTIATE(AttentionBackward, bf16)
TW_INSTANTIATE(AttentionVarlenBackward, f16)
TW_INSTANTIATE(AttentionVarlenBackward, bf16)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
