#include "tilewright/runtime/cuda/mla.h"

#include <algorithm>
#include <string_view>

#include "tilewright/kernels/mla_policy_sm90.h"
#include "tilewright/runtime/cuda/attention_arguments.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/mla_image.h"

namespace tw::runtime::cuda {
namespace {

using kernels::kMlaBuildCount;
using kernels::kMlaBuilds;
using kernels::MlaBuild;

/// The functions of one element type, found when the first of them is launched.
struct MlaModule {
  KernelBuilds<size_t(kMlaBuildCount)> builds;
  Kernel combine = nullptr;

  explicit MlaModule(const char* image) {
    load_kernels("mla", "this GPU", image, [this](std::string_view name, Kernel kernel) {
      builds.place(name, "10cuda_entry3mlaILi", kernel);  // mla_kernels.cu
      if (name.find("attention_combine") != name.npos) combine = kernel;
    });
  }
};

template <class T>
MlaModule& module() {
  static MlaModule loaded(mla_image<T>());
  return loaded;
}

/// The latent dims, of which attention consists, and the rotated ones.
template <class T>
struct MlaProblem : AttentionProblem<T> {
  AttentionTensor<const T> q_pe, k_pe;

  explicit MlaProblem(const kernels::Mla<T>& call)
      : AttentionProblem<T>(call.latent()), q_pe(call.q_pe), k_pe(call.kpe) {}
  explicit MlaProblem(const kernels::MlaPaged<T>& call)
      : AttentionProblem<T>(call.latent()), q_pe(call.q_pe, this->q.outer), k_pe(call.kpe_pages) {}

  /// Whether kernels::MlaRows can count how far its rows are from the first.
  static bool is_near(const AttentionTensor<const T>& x) {
    const int64_t last = (x.outer - 1) * x.outer_stride + (x.rows - 1) * x.row_stride +
                         (x.heads - 1) * x.head_stride;
    return last * int64_t{sizeof(T)} / 16 < int64_t{1} << 32;
  }
  kernels::AttentionChoice choice(int multiprocessors) const {
    return kernels::choose_mla_sm90(this->size(), k_pe.dims, multiprocessors);
  }
  Support support() const {
    if (Support s = this->supports_tensors(); !s) return s;
    if (q_pe.is_empty() || k_pe.is_empty()) return Support::no("no rotated dims");
    if (!q_pe.is_aligned() || !k_pe.is_aligned())
      return Support::no("rotated dims that do not begin at multiples of 16 bytes");
    if (choice(1).build < 0)
      return Support::no("more than 512 latent or 64 rotated dims, or pages of an odd size");
    if (this->table && this->k.rows < kernels::kAttentionLeastBox &&
        !(is_near(this->k) && is_near(k_pe)))
      return Support::no("pages of a few keys that reach beyond 64 GiB");
    return Support::yes();
  }
};

template <class T>
kernels::MlaRows<T> rows_of(const AttentionTensor<const T>& x) {
  const auto units = [](int64_t stride) { return uint32_t(stride * int64_t{sizeof(T)} / 16); };
  return {x.data, units(x.outer_stride), units(x.row_stride), units(x.head_stride), int(x.dims)};
}

template <class T>
void launch(const MlaProblem<T>& p, const Gpu& on, Stream stream) {
  const kernels::AttentionChoice choice = p.choice(on.multiprocessors);
  kernels::MlaArguments<T> arguments{};
  set_arguments<T>(p, {MlaBuild::kRows, MlaBuild::kKeys, choice}, on.multiprocessors, arguments);
  arguments.q = query_map(p.q, choice.pack);
  arguments.q_pe = query_map(p.q_pe, choice.pack);
  arguments.k = row_map(p.k, arguments.box_keys);
  arguments.k_pe = row_map(p.k_pe, arguments.box_keys);
  arguments.latent = rows_of(p.k), arguments.rotated = rows_of(p.k_pe);
  const int64_t blocks = attention_blocks(arguments.order, on.multiprocessors);
  const AttentionPartials<T> partials(p, blocks, stream, "mla", arguments);
  MlaModule& from = module<T>();
  const int shared_bytes = kMlaBuilds[choice.build].shared_bytes();
  const Kernel kernel =
      from.builds.with_shared_bytes("mla", size_t(choice.build), shared_bytes, on);
  void* pointers[] = {&arguments};
  check(driver().launch_kernel(kernel, unsigned(blocks), 1, 1, MlaBuild::kThreads, 1, 1,
                               unsigned(shared_bytes), stream, pointers, nullptr),
        "mla: launching");
  partials.add_up(from.combine, arguments, stream, "mla", pointers);
}

template <class K>
using ProblemOf = MlaProblem<typename ElementOf<K>::type>;

}  // namespace

template <class K>
  requires kHasMlaSm90<K>
Support supports_sm90(const K& call, int device) {
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  return ProblemOf<K>(call).support();
}

template <class K>
  requires kHasMlaSm90<K>
void launch_sm90(const K& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  launch(ProblemOf<K>(call), on, stream);
  wait_if_asked("mla", on, stream);
}

#define TW_INSTANTIATE(K, T)                                 \
  template Support supports_sm90(const kernels::K<T>&, int); \
  template void launch_sm90(const kernels::K<T>&, int, Stream);
TW_INSTANTIATE(Mla, f16)
TW_INSTANTIATE(Mla, bf16)
TW_INSTANTIATE(MlaPaged, f16)
TW_INSTANTIATE(MlaPaged, bf16)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
