#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "tilewright/core/checked.h"
#include "tilewright/core/tensor.h"
#include "tilewright/kernels/fused_experts.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/numbered.h"
#include "tilewright/ops/core/operator.h"
#if !defined(__CUDACC__)  // device code has the kernel alone
#include "tilewright/ops/grouped_gated_matmul.h"
#include "tilewright/ops/grouped_matmul.h"
#include "tilewright/ops/moe_align.h"
#include "tilewright/ops/moe_combine.h"
#endif

namespace tw::ops {

/// The weighted sum of what each token's experts make of it, times scale: down (act(gate x) * up x)
/// with the gate's rows of gate_up_proj before the up's (Shazeer et al., arXiv:1701.06538, eq. 1;
/// gated as in arXiv:2002.05202). An id of -1 stands for an expert elsewhere and adds nothing.
struct FusedExperts {
  static constexpr Schema kSchema{
      "fused_experts(x: T[N, H], gate_up_proj: T[E, 2*F, H], down_proj: T[E, H, F], "
      "topk_weights: f32[N, K], topk_ids: i32[N, K], activation: silu|gelu|gelu_tanh = silu, "
      "scale: f32 = 1) -> out: T[N, H]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;
  /// The first product, the activation's result and each expert's row are rounded to T before they
  /// are multiplied or added up again.
  static constexpr double kToleranceScale = 4;

  template <class T>
  using Kernel = kernels::FusedExperts<T>;

  template <class T>
  static Support supports(const Kernel<T>& k) {
    return supports_numbers("id", k.topk_ids, k.down_proj.size(0), "experts");
  }

#if !defined(__CUDACC__)
  /// The call as calls of other operators: launch<Op>(kernel) runs one.
  template <class T, class Launch>
  static void compose(const Kernel<T>& k, Launch&& launch) {
    struct Memory {
      std::shared_ptr<void> bytes;
      void* data() const { return bytes.get(); }
    };
    run(k, launch, [](int64_t bytes) { return Memory{tw::allocate(bytes)}; });
  }
  /// The same on a GPU: allocate(bytes) owns memory there.
  template <class T, class Launch, class Allocate>
  static void compose_on_gpu(const Kernel<T>& k, Launch&& launch, Allocate&& allocate) {
    run(k, launch, allocate);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t width = k.x.size(1), inner = k.down_proj.size(2);
    std::vector<double> sums(static_cast<size_t>(width)), made(static_cast<size_t>(inner));
    for (int64_t t = 0; t < k.out.size(0); ++t) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t i = 0; i < k.topk_ids.size(1); ++i) {
        const int64_t e = k.topk_ids(t, i);
        if (e < 0) continue;
        for (int64_t f = 0; f < inner; ++f) {
          double gate = 0, up = 0;
          for (int64_t h = 0; h < width; ++h) {
            gate += double(k.x(t, h)) * double(k.gate_up_proj(e, f, h));
            up += double(k.x(t, h)) * double(k.gate_up_proj(e, inner + f, h));
          }
          made[size_t(f)] = GroupedGatedMatmul::define(k.activation, gate) * up;
        }
        for (int64_t h = 0; h < width; ++h) {
          double sum = 0;
          for (int64_t f = 0; f < inner; ++f) sum += made[size_t(f)] * double(k.down_proj(e, h, f));
          sums[size_t(h)] += double(k.topk_weights(t, i)) * sum;
        }
      }
      for (int64_t h = 0; h < width; ++h) k.out(t, h) = T(sums[size_t(h)] * double(k.scale));
    }
  }
#endif

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.topk_ids.size(0)) * double(k.topk_ids.size(1));
    const double matrices = 3 * double(k.x.size(1)) * double(k.down_proj.size(2));
    const double used = std::min(n, double(k.down_proj.size(0)));
    return {.flops = 2 * n * matrices,
            .bytes = double(sizeof(T)) *
                     (used * matrices + 2 * double(k.x.size(0)) * double(k.x.size(1)))};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "topk_ids") return std::nullopt;
    return random_numbers({known["N"], known["K"]}, known["E"], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no tokens", "N=0 H=8 E=3 F=4 K=2"},
      {"no experts of a token", "N=3 H=8 E=3 F=4 K=0"},
      {"no experts", "N=3 H=8 E=0 F=4 K=2"},
      {"no columns", "N=3 H=0 E=2 F=4 K=2"},
      {"nothing between", "N=3 H=8 E=2 F=0 K=2"},
      {"one element", "N=1 H=1 E=1 F=1 K=1"},
      {"a token", "N=1 H=65 E=9 F=33 K=4"},
      {"gelu", "N=20 H=40 E=3 F=24 K=2 activation=gelu"},
      {"tiles", "N=150 H=136 E=4 F=72 K=3 activation=gelu_tanh scale=2.5"}};
  static constexpr Case kWorkloads[] = {{"olmoe-1b-7b/decode", "N=1 H=2048 E=64 F=1024 K=8"},
                                        {"olmoe-1b-7b/prefill", "N=256 H=2048 E=64 F=1024 K=8"},
                                        {"qwen3-30b-a3b/decode", "N=1 H=2048 E=128 F=768 K=8"},
                                        {"qwen3-30b-a3b/prefill", "N=512 H=2048 E=128 F=768 K=8"}};

 private:
#if !defined(__CUDACC__)
  template <class T, class Launch, class Allocate>
  static void run(const Kernel<T>& k, Launch&& launch, Allocate&& allocate) {
    constexpr int64_t kSize = int64_t{sizeof(T)};
    const int64_t tokens = k.topk_ids.size(0), top_k = k.topk_ids.size(1), n = tokens * top_k;
    const int64_t experts = k.down_proj.size(0), width = k.x.size(1), inner = k.down_proj.size(2);
    const auto numbers = allocate((2 * experts + 2 * n) * int64_t{sizeof(int32_t)});
    const auto inner_memory = allocate(checked_mul(n * kSize, inner));
    const auto rows_memory = allocate(checked_mul(n * kSize, width));

    auto* const counts = static_cast<int32_t*>(numbers.data());
    int32_t *const offsets = counts + experts, *const token = offsets + experts;
    int32_t* const positions = token + n;
    launch.template operator()<MoeAlign>(
        kernels::MoeAlign{entries(k.topk_ids), experts, 1, view(counts, experts),
                          view(offsets, experts), view(token, n), rows(positions, n, 1), top_k});
    const View<const int32_t, 1> ends = view<const int32_t>(offsets, experts);

    auto* const made = static_cast<T*>(inner_memory.data());
    auto* const by_expert = static_cast<T*>(rows_memory.data());
    launch.template operator()<GroupedGatedMatmul>(
        kernels::GroupedGatedMatmul<T>{k.x,
                                       turned(k.gate_up_proj),
                                       ends,
                                       {},
                                       view<const int32_t>(token, n),
                                       k.activation,
                                       view(made, n, inner)});
    launch.template operator()<GroupedMatmul>(kernels::GroupedMatmul<T>{
        view<const T>(made, n, inner), turned(k.down_proj), ends, {}, view(by_expert, n, width)});
    launch.template operator()<MoeCombine>(kernels::MoeCombine<T>{
        rows<const T>(by_expert, n, width), view<const int32_t>(positions, tokens, top_k),
        k.topk_weights, k.scale, k.out});
  }
#endif

  /// [E, n, k] as [E, k, n].
  template <class T>
  static View<const T, 3> turned(const View<const T, 3>& x) {
    return {x.data, {x.size(0), x.size(2), x.size(1)}, {x.stride(0), x.stride(2), x.stride(1)}};
  }
  /// Elements in order, each a row.
  static Rows<const int32_t> entries(const View<const int32_t, 2>& x) {
    Rows<const int32_t> out;
    out.data = x.data;
    out.rows = x.size(0) * x.size(1);
    out.cols = 1;
    if (x.stride(0) == x.size(1) * x.stride(1)) {
      out.lead_sizes[0] = out.rows, out.lead_strides[0] = x.stride(1);
      return out;
    }
    out.lead = 2;
    for (int d = 0; d < 2; ++d) out.lead_sizes[d] = x.size(d), out.lead_strides[d] = x.stride(d);
    return out;
  }
};

}  // namespace tw::ops
