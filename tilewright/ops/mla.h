#pragma once

#include <optional>
#include <string>

#include "tilewright/kernels/mla.h"
#include "tilewright/ops/attention.h"

namespace tw::ops {

/// What the operators of multi-head latent attention share.
struct MlaFamily : AttentionFamily {
  /// Scores are small, for latents of 8 bits have scales: what remains is that GPUs round weights.
  static constexpr double kToleranceScale = 1;
  static constexpr double kGpuToleranceScale = AttentionFamily::kToleranceScale;
  /// Queries, outputs, rotated dims of one dtype; latents of the same, or of 8 bits.
  using Types = Combos<Combo<float, float>, Combo<float, int8_t>, Combo<float, f8_e4m3fn>,
                       Combo<f16, f16>, Combo<f16, int8_t>, Combo<f16, f8_e4m3fn>,
                       Combo<bf16, bf16>, Combo<bf16, int8_t>, Combo<bf16, f8_e4m3fn>>;

  /// Of the latent dims as of attention, keys being the values; the rotated ones besides.
  template <class T, class U, class K>
  static Cost cost(const K& kernel, int64_t rotated_dims) {
    const kernels::AttentionShape shape = kernel.shape();
    const double rotated = double(rotated_dims) / (2 * double(shape.dims));
    const auto of = [&](size_t q_bytes, size_t kv_bytes) {
      return AttentionFamily::cost(shape, kernel.lengths(), kernel.options(), q_bytes, kv_bytes);
    };
    const Cost queries = of(sizeof(T), 0);
    return {.flops = (1 + rotated) * queries.flops,
            .bytes = (1 + rotated) * queries.bytes + of(0, sizeof(U)).bytes / 2 +
                     rotated * of(0, sizeof(T)).bytes};
  }
  /// Latents of 8 bits, and scales by which they are numbers of every T; `sizes` are those before
  /// the last.
  static std::optional<Tensor> materialize_latents(std::string_view arg, std::vector<int64_t> sizes,
                                                   const Bindings& known, DType latents,
                                                   uint64_t seed) {
    const bool scales = arg == "ckv_scale";
    sizes.push_back(known[scales ? "G" : "D"]);
    if (scales)
      return make<float>(std::move(sizes),
                         [&](int64_t i) { return std::exp2(-1 - double(mix_below(seed, i, 4))); });
    if (latents != DType::kI8) return std::nullopt;
    return make<int8_t>(std::move(sizes), [&](int64_t i) { return mix_below(seed, i, 9) - 4; });
  }
  /// `scales` begins with the sizes of `latents`, and its parts divide the dims.
  template <class U>
  static Support supports_scales(const View<const float, 4>& scales,
                                 const View<const U, 4>& latents) {
    if (!scales) return Support::yes();
    const int64_t dims = latents.size(3), parts = scales.size(3);
    if (parts > 0 && dims % parts == 0) return Support::yes();
    return Support::no("D = " + std::to_string(dims) +
                       " must be a multiple of G = " + std::to_string(parts) + ", at least 1");
  }
};

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434), the projections of keys and values
/// absorbed: all heads share the latent keys `ckv`, which are the values, too, and the rotated dims
/// `kpe`; both may be columns of one cache. The last query stands at the last key. Latents of 8
/// bits are times `ckv_scale`, of which a key has one for each D / G of its dims (G = 4 in
/// DeepSeek-V3.2, arXiv:2512.02556), and must then be numbers of T.
struct Mla : MlaFamily {
  static constexpr Schema kSchema{
      "mla(q_nope: T[B, S, Hq, D], q_pe: T[B, S, Hq, R], ckv: U[B, L, H, D], kpe: T[B, L, H, R], "
      "kv_lens: i32[B]?, ckv_scale: f32[B, L, H, G]?, scale: f32 = 0, causal: bool = false) -> "
      "out: T[B, S, Hq, D], lse: f32[B, Hq, S]?"};

  template <class T, class U>
  using Kernel = kernels::Mla<T, U>;

  template <class K>
  static Support supports_shapes(const K& kernel) {
    if (Support s = supports_scales(kernel.ckv_scale, kernel.ckv); !s) return s;
    return supports_shape(kernel.shape(), kernel.options());
  }
  template <class K>
  static Support supports(const K& kernel) {
    return supports_lens("kv_lens", kernel.kv_lens, kernel.ckv.size(1));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    const int64_t most = known["L"];
    if (arg == "kv_lens")
      return make<int32_t>({known["B"]},
                           [&](int64_t i) { return most - mix_below(seed, i, most / 2 + 1); });
    if (arg == "ckv" || arg == "ckv_scale")
      return materialize_latents(arg, {known["B"], most, known["H"]}, known, combo[1], seed);
    return std::nullopt;
  }

  static constexpr Case kEdgeCases[] = {
      {"no batch", "B=0 S=1 Hq=2 D=8 R=4 L=4 H=1"},
      {"no queries", "B=1 S=0 Hq=2 D=8 R=4 L=4 H=1 +lse"},
      {"no keys", "B=1 S=2 Hq=2 D=8 R=4 L=0 H=1 +lse"},
      {"one element, nothing rotated", "B=1 S=1 Hq=1 D=1 R=0 L=1 H=1 +lse"},
      {"odd dims, two heads of keys", "B=2 S=3 Hq=6 D=13 R=5 L=150 H=2 causal=1 +kv_lens +lse"},
      {"latent 256, heads of 64 rows", "B=2 S=1 Hq=64 D=256 R=64 L=300 H=1 +kv_lens +lse"},
      {"latent 512, one block", "B=1 S=1 Hq=16 D=512 R=64 L=40 H=1 +lse"},
      {"latent 512, split", "B=1 S=1 Hq=64 D=512 R=64 L=700 H=1 scale=0.1 +lse"},
      {"latent 512, three queries each",
       "B=2 S=3 Hq=16 D=512 R=64 L=200 H=1 causal=1 +kv_lens +lse"},
      {"latent 448, rotated 32", "B=1 S=2 Hq=8 D=448 R=32 L=130 H=1 +lse"},
      {"latent 512, scales of four parts",
       "B=2 S=1 Hq=64 D=512 R=64 L=300 H=1 G=4 +kv_lens +ckv_scale +lse"},
      {"heads of latents, nothing rotated", "B=1 S=1 Hq=4 D=64 R=0 L=150 H=2 G=1 +ckv_scale"},
      {"heads of latents, nothing rotated, scales of four parts",
       "B=1 S=2 Hq=6 D=64 R=0 L=300 H=2 G=4 causal=1 +ckv_scale +lse"},
      {"odd dims, scales", "B=2 S=3 Hq=6 D=15 R=5 L=150 H=2 G=3 causal=1 +ckv_scale +lse"},
      {"latent 512, prompt", "B=1 S=70 Hq=2 D=512 R=64 L=90 H=1 causal=1 +lse"}};
  static constexpr Case kWorkloads[] = {
      {"deepseek-v2-lite/decode 1024", "B=1 S=1 Hq=16 D=512 R=64 L=1024 H=1"},
      {"deepseek-v3/decode 4096", "B=1 S=1 Hq=128 D=512 R=64 L=4096 H=1"}};

  template <class T, class U>
  static void reference(const Kernel<T, U>& kernel) {
    AttentionFamily::reference(kernel);
  }
  template <class T, class U>
  static Cost cost(const Kernel<T, U>& kernel) {
    return MlaFamily::cost<T, U>(kernel, kernel.kpe.size(3));
  }
};

}  // namespace tw::ops
