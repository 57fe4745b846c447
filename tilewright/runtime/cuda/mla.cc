#include "tilewright/runtime/cuda/mla.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "tilewright/kernels/mla_policy_sm90.h"
#include "tilewright/runtime/cuda/attention_arguments.h"
#include "tilewright/runtime/cuda/compiled_builds.h"
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

/// Whether kernels::MlaRows can count how far its rows are from the first.
constexpr int64_t kMostUnits = int64_t{1} << 32;
template <class T>
bool is_near(const AttentionTensor<const T>& x) {
  const int64_t last =
      (x.outer - 1) * x.outer_stride + (x.rows - 1) * x.row_stride + (x.heads - 1) * x.head_stride;
  return last * int64_t{sizeof(T)} / 16 < kMostUnits;
}
/// How far an element is from the first, at most.
int64_t farthest(const View<const float, 4>& x) {
  int64_t out = 0;
  for (int i = 0; i < 4; ++i) out += (x.size(i) - 1) * x.stride(i);
  return out;
}

/// The latent dims, of which attention consists, and the rotated ones.
template <class T, class U>
struct MlaProblem : AttentionProblem<T, U> {
  AttentionTensor<const T> q_pe, k_pe;
  View<const float, 4> scales;

  explicit MlaProblem(const kernels::Mla<T, U>& call)
      : AttentionProblem<T, U>(call.latent()),
        q_pe(call.q_pe),
        k_pe(call.kpe),
        scales(call.ckv_scale) {}
  explicit MlaProblem(const kernels::MlaPaged<T, U>& call)
      : AttentionProblem<T, U>(call.latent()),
        q_pe(call.q_pe, this->q.outer),
        k_pe(call.kpe_pages),
        scales(call.ckv_scale) {}

  bool gathers() const { return kernels::mla_gathers(sizeof(U), bool(this->table), this->k.rows); }
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
    const int64_t scale = scales ? farthest(scales) : 0;
    if (gathers() && !(is_near(this->k) && is_near(k_pe) && scale < kMostUnits))
      return Support::no("keys that are gathered and reach beyond 64 GiB");
    if (Support s = supports_scales(); !s || !this->kNarrow) return s;
    return supports_compiling();
  }
  Support supports_scales() const {
    if (!this->kNarrow && scales) return Support::no("scales of latents of 16 bits");
    if (!this->kNarrow) return Support::yes();
    if (this->k.dims % MlaBuild::kUnit != 0)
      return Support::no("latents of 8 bits that are no multiple of 16");
    if (!scales || scales.size(3) == 1) return Support::yes();
    const int64_t part = this->k.dims / scales.size(3);
    if (part < 2 * MlaBuild::kUnit || !std::has_single_bit(uint64_t(part)))
      return Support::no("a scale for other numbers of latents than 32, 64, 128 and so on");
    return Support::yes();
  }
  kernels::MlaScales scales_of_parts() const {
    if (!scales) return {};
    const auto stride = [this](int i) { return uint32_t(scales.stride(i)); };
    const auto units = uint64_t(this->k.dims / scales.size(3) / MlaBuild::kUnit);
    const int shift = scales.size(3) == 1 ? 31 : std::countr_zero(units);
    return {scales.data, stride(0), stride(1), stride(2), stride(3), shift};
  }
};

template <class T>
kernels::MlaRows<T> rows_of(const AttentionTensor<const T>& x) {
  const auto units = [](int64_t stride) { return uint32_t(stride * int64_t{sizeof(T)} / 16); };
  return {x.data, units(x.outer_stride), units(x.row_stride), units(x.head_stride), int(x.dims)};
}

template <class T, class U>
Kernel kernel_for(int build, int shared_bytes, const Gpu& on) {
  if constexpr (sizeof(U) > 1) {
    return module<T>().builds.with_shared_bytes("mla", size_t(build), shared_bytes, on);
  } else {
    static CompiledBuilds<size_t(kMlaBuildCount)> compiled;
    return compiled.get("mla", size_t(build), shared_bytes, on,
                        [&] { return mla_program({dtype_of<T>, dtype_of<U>, build}); });
  }
}

template <class T, class U>
void launch(const MlaProblem<T, U>& p, const Gpu& on, Stream stream) {
  const kernels::AttentionChoice choice = p.choice(on.multiprocessors);
  kernels::MlaArguments<T, U> arguments{};
  set_arguments<T, U>(p, {1, MlaBuild::kRows, MlaBuild::kKeys, choice}, on.multiprocessors,
                      arguments);
  arguments.q_pe = query_map(p.q_pe, choice.pack);
  if (!p.gathers()) {
    arguments.k = row_map(p.k, arguments.box_keys);
    arguments.k_pe = row_map(p.k_pe, arguments.box_keys);
  }
  arguments.latent = rows_of(p.k), arguments.rotated = rows_of(p.k_pe);
  arguments.scales = p.scales_of_parts();
  const bool small = p.table && p.k.rows < MlaBuild::kKeys;  // pages: each some rows of a block
  const int page_keys = small ? int(p.k.rows) : MlaBuild::kKeys;
  arguments.page_shift = std::countr_zero(unsigned(page_keys));
  arguments.row_mask = uint32_t(page_keys - 1);
  const int64_t blocks = attention_blocks(arguments.order, on.multiprocessors);
  const AttentionPartials<T> partials(p, MlaBuild::kRows, blocks, stream, "mla", arguments);
  const int shared_bytes =
      kMlaBuilds[choice.build].shared_bytes() + (p.kNarrow ? MlaBuild::kScaleBytes : 0);
  const Kernel kernel = kernel_for<T, U>(choice.build, shared_bytes, on);
  void* pointers[] = {&arguments};
  launch_attention("mla", Start::kInOrder, kernel, on, blocks, MlaBuild::kThreads, shared_bytes,
                   stream, pointers);
  partials.add_up(Start::kInOrder, module<T>().combine, on, arguments, stream, "mla", pointers);
}

template <class K>
using ProblemOf = MlaProblem<typename ElementOf<K>::type, typename ElementOf<K>::keys>;

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

TW_INSTANTIATE_SM90(Mla)
TW_INSTANTIATE_SM90(MlaPaged)

}  // namespace tw::runtime::cuda
