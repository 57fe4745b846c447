#pragma once

#include <optional>
#include <string>

#include "tilewright/kernels/mla.h"
#include "tilewright/ops/attention.h"

namespace tw::ops {

/// What the operators of multi-head latent attention share.
struct MlaFamily : AttentionFamily {
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  /// Of the latent dims as of attention; the rotated ones besides.
  template <class K, class T>
  static Cost cost(const K& kernel, const View<const T, 4>& kpe) {
    const kernels::AttentionShape shape = kernel.shape();
    Cost out =
        AttentionFamily::cost(shape, kernel.lengths(), kernel.options(), sizeof(T), sizeof(T));
    const double rotated = double(kpe.size(3)) / (2 * double(shape.dims));
    out.flops *= 1 + rotated;
    out.bytes *= 0.5 + rotated;  // keys are the values
    return out;
  }
};

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434), the projections of keys and values
/// absorbed: all heads share the latent keys `ckv`, which are the values, too, and the rotated dims
/// `kpe`; both may be columns of one cache. The last query stands at the last key.
struct Mla : MlaFamily {
  static constexpr Schema kSchema{
      "mla(q_nope: T[B, S, Hq, D], q_pe: T[B, S, Hq, R], ckv: T[B, L, H, D], kpe: T[B, L, H, R], "
      "kv_lens: i32[B]?, scale: f32 = 0, causal: bool = false) -> "
      "out: T[B, S, Hq, D], lse: f32[B, Hq, S]?"};

  template <class T>
  using Kernel = kernels::Mla<T>;

  template <class K>
  static Support supports_shapes(const K& kernel) {
    return supports_shape(kernel.shape(), kernel.options());
  }
  template <class K>
  static Support supports(const K& kernel) {
    return supports_lens("kv_lens", kernel.kv_lens, kernel.ckv.size(1));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "kv_lens") return std::nullopt;
    const int64_t most = known["L"];
    return make<int32_t>({known["B"]},
                         [&](int64_t i) { return most - mix_below(seed, i, most / 2 + 1); });
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
      {"latent 512, prompt", "B=1 S=70 Hq=2 D=512 R=64 L=90 H=1 causal=1 +lse"}};
  static constexpr Case kWorkloads[] = {
      {"deepseek-v2-lite/decode 1024", "B=1 S=1 Hq=16 D=512 R=64 L=1024 H=1"},
      {"deepseek-v3/decode 4096", "B=1 S=1 Hq=128 D=512 R=64 L=4096 H=1"}};

  template <class T>
  static void reference(const Kernel<T>& kernel) {
    AttentionFamily::reference(kernel);
  }
  template <class T>
  static Cost cost(const Kernel<T>& kernel) {
    return MlaFamily::cost(kernel, kernel.kpe);
  }
};

}  // namespace tw::ops
