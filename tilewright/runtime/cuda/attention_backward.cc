#include "tilewright/runtime/cuda/attention_backward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "tilewright/kernels/attention_backward_build_sm90.h"
#include "tilewright/runtime/cuda/attention_backward_image.h"
#include "tilewright/runtime/cuda/attention_tensor.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionBackwardArguments;
using kernels::AttentionBackwardBuild;
using kernels::kAttentionBackwardBuildCount;
using kernels::kAttentionBackwardBuilds;

constexpr size_t kBuilds = size_t(kAttentionBackwardBuildCount);
constexpr unsigned kEndThreads = 256;  // of the kernels before and after

/// The functions of one element type, found when the first of them is launched.
struct BackwardModule {
  std::array<Kernel, kBuilds> rows{}, products{}, queries{};
  PreparedOnce<kBuilds> prepared;

  explicit BackwardModule(const char* image) {
    load_kernels("attention_backward", "this GPU", image,
                 [this](std::string_view name, Kernel kernel) { place(name, kernel); });
  }

 private:
  /// By the mangled name (attention_backward_kernels.cu).
  void place(std::string_view name, Kernel kernel) {
    const auto take = [&](std::array<Kernel, kBuilds>& into, std::string_view text) {
      const int build = number_after(name, text);
      if (build >= 0) into.at(size_t(build)) = kernel;
    };
    take(rows, "13backward_rowsILi");
    take(products, "10cuda_entry8backwardILi");
    take(queries, "16backward_queriesILi");
  }
};

template <class T>
BackwardModule& module() {
  static BackwardModule loaded(attention_backward_image<T>());
  return loaded;
}

int build_for(int64_t dims) {
  for (int i = 0; i < kAttentionBackwardBuildCount; ++i)
    if (kAttentionBackwardBuilds[i].dims >= dims) return i;
  return -1;
}

template <class T>
int64_t rows_of(const View<T, 4>& x) {
  return x.size(0) * x.size(1) * x.size(2);
}

template <class T>
Support supports(const AttentionBackward<T>& call) {
  constexpr int64_t kMost = int64_t{1} << 29;
  if (call.scale < 0) return Support::no("negative scale");
  if (rows_of(call.q) == 0 || rows_of(call.k) == 0) return Support::no("empty tensors");
  if (build_for(std::max(call.q.size(3), call.v.size(3))) < 0)
    return Support::no("heads of more than 128 elements");
  using Tensor = AttentionTensor<const T>;
  for (const Tensor& x :
       {Tensor(call.q), Tensor(call.k), Tensor(call.v), Tensor(call.grad), Tensor(call.output)})
    if (!x.is_aligned() || !x.counts_in_32_bits())
      return Support::no("rows that do not begin at multiples of 16 bytes, or sizes beyond 2^29");
  for (const AttentionTensor<T>& x :
       {AttentionTensor<T>(call.q_grad), AttentionTensor<T>(call.k_grad),
        AttentionTensor<T>(call.v_grad)})
    if (!x.is_writable())
      return Support::no("gradients whose rows do not begin and end at multiples of 16 bytes");
  if (rows_of(call.q) + call.q.size(0) * call.q.size(2) * 64 > kMost || rows_of(call.k) > kMost)
    return Support::no("sizes beyond 2^29");
  return Support::yes();
}

/// A window of at least 2^29 sees everything.
int window(int64_t keys) {
  return keys < 0 ? -1 : int(std::min<int64_t>(keys, int64_t{1} << 29));
}

template <class T>
void set_sizes(const AttentionBackward<T>& call, const AttentionBackwardBuild& build,
               AttentionBackwardArguments<T>& a) {
  a.batches = int(call.q.size(0)), a.q_heads = int(call.q.size(2));
  a.kv_heads = int(call.k.size(2)), a.group = a.q_heads / a.kv_heads;
  a.queries = int(call.q.size(1)), a.keys = int(call.k.size(1));
  a.query_blocks = (a.queries + build.queries - 1) / build.queries;
  a.key_blocks = (a.keys + AttentionBackwardBuild::kKeys - 1) / AttentionBackwardBuild::kKeys;
  a.dims = int(call.q.size(3)), a.value_dims = int(call.v.size(3));
}

template <class T>
AttentionBackwardArguments<T> arguments_of(const AttentionBackward<T>& call,
                                           const AttentionBackwardBuild& build) {
  constexpr float kLog2E = 1.4426950408889634f;
  AttentionBackwardArguments<T> a{};
  set_sizes(call, build, a);
  a.q = row_map(AttentionTensor<const T>(call.q), 64);
  a.grad = row_map(AttentionTensor<const T>(call.grad), 64);
  a.k = row_map(AttentionTensor<const T>(call.k), 64);
  a.v = row_map(AttentionTensor<const T>(call.v), 64);
  const float scale = call.scale == 0 ? 1 / std::sqrt(float(call.q.size(3))) : call.scale;
  const float cap = call.softcap;
  a.scale = scale;
  a.score_scale = cap > 0 ? scale / cap : 0;
  a.exponent_scale = (cap > 0 ? cap : scale) * kLog2E;
  a.before = window(call.window_left), a.after = window(call.causal ? 0 : call.window_right);
  a.fold = a.after >= 0 && a.before < 0 ? 2 : 1;
  a.kv_lens = call.kv_lens;
  const auto rows = []<class U>(const View<U, 4>& x) {
    return kernels::AttentionRows<U>{x.data, x.stride(0), x.stride(1), x.stride(2)};
  };
  a.grad_rows = rows(call.grad), a.out_rows = rows(call.output);
  a.q_grad = rows(call.q_grad), a.k_grad = rows(call.k_grad), a.v_grad = rows(call.v_grad);
  a.lse = call.lse;
  return a;
}

/// Blocks of threads that wait for each other must all be there at the same time.
Result launch_together(Kernel kernel, unsigned blocks, unsigned threads, unsigned shared_bytes,
                       Stream stream, void** arguments) {
  constexpr int kCooperative = 2;  // CUlaunchAttributeID
  LaunchAttribute together{kCooperative, 1, {}};
  const LaunchConfig config{{blocks, 1, 1}, {threads, 1, 1}, shared_bytes, stream, &together, 1};
  return driver().launch_kernel_with(&config, kernel, arguments, nullptr);
}

template <class T>
void launch(const AttentionBackward<T>& call, const Gpu& on, Stream stream) {
  const std::string op = "attention_backward";
  const auto index = size_t(build_for(std::max(call.q.size(3), call.v.size(3))));
  const AttentionBackwardBuild& build = kAttentionBackwardBuilds[index];
  AttentionBackwardArguments<T> a = arguments_of(call, build);
  const kernels::AttentionRing ring = kernels::choose_attention_ring(
      int64_t{a.batches} * a.kv_heads, a.key_blocks, a.fold, on.multiprocessors);
  a.ring = ring.size;

  const int64_t blocks = int64_t{a.batches} * a.q_heads * a.query_blocks;
  const int64_t sums = blocks * build.sum_count(), rows = blocks * 2 * build.queries;
  const int64_t ranks = a.rank_place(a.rank_batches() - 1, a.group, 0);
  const StreamMemory memory((sums + rows + ranks + blocks) * int64_t{sizeof(float)}, stream, op);
  a.q_sums = static_cast<float*>(memory.data());
  a.rows = a.q_sums + sums;
  a.ranks = reinterpret_cast<int*>(a.rows + rows);
  a.added = a.ranks + ranks;

  BackwardModule& from = module<T>();
  const auto shared = unsigned(build.shared_bytes());
  from.prepared(index, on, [&] { allow_shared_bytes(op, from.products[index], int(shared), on); });
  void* pointers[] = {&a};
  check(launch_overlapped(from.rows[index], on, unsigned(blocks), kEndThreads, 1, 0, stream,
                          pointers),
        op + ": launching");
  check(launch_together(from.products[index], unsigned(ring.size * ring.count),
                        AttentionBackwardBuild::kThreads, shared, stream, pointers),
        op + ": launching the products");
  check(launch_overlapped(from.queries[index], on, unsigned(blocks), kEndThreads, 1, 0, stream,
                          pointers),
        op + ": launching the gradients of queries");
}

}  // namespace

template <class T>
  requires(sizeof(T) == 2)
Support supports_sm90(const AttentionBackward<T>& call, int device) {
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  return supports(call);
}

template <class T>
  requires(sizeof(T) == 2)
void launch_sm90(const AttentionBackward<T>& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  launch(call, on, stream);
  wait_if_asked("attention_backward", on, stream);
}

#define TW_INSTANTIATE(T)                                           \
  template Support supports_sm90(const AttentionBackward<T>&, int); \
  template void launch_sm90(const AttentionBackward<T>&, int, Stream);
TW_INSTANTIATE(f16)
TW_INSTANTIATE(bf16)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
