#pragma once

#include "tilewright/ops/attention_paged.h"
#include "tilewright/ops/mla.h"

namespace tw::ops {

/// Multi-head latent attention, as `mla`, over a cache in pages, as `attention_paged`. With pages
/// of one key, a row of `block_table` is a list of keys, in any order: what each query of sparse
/// attention has picked (DeepSeek-V3.2, arXiv:2512.02556), B being N.
struct MlaPaged : MlaFamily {
  static constexpr Schema kSchema{
      "mla_paged(q_nope: T[N, Hq, D], q_pe: T[N, Hq, R], ckv_pages: U[P, S, H, D], "
      "kpe_pages: T[P, S, H, R], block_table: i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, "
      "ckv_scale: f32[P, S, H, G]?, scale: f32 = 0, causal: bool = false) -> out: T[N, Hq, D], "
      "lse: f32[Hq, N]?"};
  static constexpr std::string_view kSequences = "cu_seqlens_q";

  template <class T, class U>
  using Kernel = kernels::MlaPaged<T, U>;

  template <class K>
  static Support supports_shapes(const K& kernel) {
    if (Support s = supports_scales(kernel.ckv_scale, kernel.ckv_pages); !s) return s;
    return AttentionPaged::supports_shapes(kernel.latent());
  }
  template <class K>
  static Support supports(const K& kernel) {
    return AttentionPaged::supports(kernel.latent());
  }
  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg == "cu_seqlens_q" || arg == "block_table" || arg == "kv_lens")
      return AttentionPaged::materialize(arg, known, combo, seed);
    if (arg == "ckv_pages" || arg == "ckv_scale")
      return materialize_latents(arg, {known["P"], known["S"], known["H"]}, known, combo[1], seed);
    return std::nullopt;
  }

  static constexpr Case kEdgeCases[] = {
      {"no sequence", "N=0 Hq=2 D=8 R=4 P=1 S=16 H=1 B=0 W=1"},
      {"no pages", "N=2 Hq=2 D=8 R=4 P=0 S=16 H=1 B=2 W=3 +lse"},
      {"page of 10", "N=2 Hq=4 D=64 R=16 P=30 S=10 H=1 B=2 W=25 causal=1 +lse"},
      {"latent 512, pages of 64", "N=2 Hq=128 D=512 R=64 P=20 S=64 H=1 B=2 W=4 causal=1 +lse"},
      {"latent 512, pages of 16", "N=6 Hq=16 D=512 R=64 P=40 S=16 H=1 B=3 W=13 causal=1 +lse"},
      {"latent 512, lists of keys", "N=5 Hq=128 D=512 R=64 P=300 S=1 H=1 B=5 W=150 +lse"},
      {"latent 256, lists of short pages", "N=4 Hq=24 D=256 R=32 P=90 S=4 H=1 B=4 W=40 +lse"},
      {"latent 512, scales of four parts, lists of keys",
       "N=5 Hq=128 D=512 R=64 P=300 S=1 H=1 B=5 W=150 G=4 +ckv_scale +lse"},
      {"latent 512, scales, page of 64",
       "N=6 Hq=16 D=512 R=64 P=20 S=64 H=1 B=3 W=4 G=1 causal=1 +ckv_scale +lse"},
      {"latent 256, scales of eight parts, page of 10",
       "N=3 Hq=8 D=256 R=32 P=30 S=10 H=1 B=3 W=25 G=8 causal=1 +ckv_scale"},
      {"latent 512, mixed stages",
       "N=90 Hq=2 D=512 R=64 P=12 S=128 H=1 B=4 W=2 C=5 causal=1 +cu_seqlens_q +lse"}};
  static constexpr Case kWorkloads[] = {
      {"deepseek-v3/decode, batch 4", "N=4 Hq=128 D=512 R=64 P=128 S=64 H=1 B=4 W=32 causal=1"},
      {"deepseek-v3.2/32 queries of 2048 keys each",
       "N=32 Hq=128 D=512 R=64 P=16384 S=1 H=1 B=32 W=2048"}};

  template <class T, class U>
  static void reference(const Kernel<T, U>& kernel) {
    AttentionFamily::reference(kernel);
  }
  template <class T, class U>
  static Cost cost(const Kernel<T, U>& kernel) {
    return MlaFamily::cost<T, U>(kernel, kernel.kpe_pages.size(3));
  }
};

}  // namespace tw::ops
