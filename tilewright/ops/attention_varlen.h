#pragma once

#include "tilewright/kernels/attention_varlen.h"
#include "tilewright/ops/attention.h"

namespace tw::ops {

/// Attention over sequences of different lengths, one after the other without padding; otherwise as
/// `attention`. Rows of queries outside all sequences are left alone in outputs that are given, and
/// 0 in new ones.
struct AttentionVarlen : AttentionFamily {
  static constexpr Schema kSchema{
      "attention_varlen(q: T[N, Hq, D], k: U[M, H, D], v: U[M, H, Dv], cu_seqlens_q: i32[C], "
      "cu_seqlens_kv: i32[C], sinks: f32[Hq]?, k_scale: f32[M, H]?, v_scale: f32[M, H]?, "
      "alibi_slopes: f32[Hq]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1, "
      "window_right: i64 = -1, "
      "softcap: f32 = 0, score_mod: text = \"\", mask_mod: text = \"\", mod_f32: f32[F]?, mod_i32: "
      "i32[I]?) -> out: T[N, Hq, Dv], lse: f32[Hq, N]?"};
  static constexpr std::string_view kSequences = "cu_seqlens_q";
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  static constexpr Gradient kGradient{
      "where sinks=absent, k_scale=absent, v_scale=absent, alibi_slopes=absent, score_mod=absent, "
      "mask_mod=absent: "
      "attention_varlen_backward(grad=out.grad, q, k, v, output=out, lse, cu_seqlens_q, "
      "cu_seqlens_kv, scale, causal, window_left, window_right, softcap) -> q.grad, k.grad, "
      "v.grad"};
  using ReferenceTypes = Combos<Combo<double, double>>;

  template <class T, class U>
  using Kernel = kernels::AttentionVarlen<T, U>;

  template <class K>
  static Support supports_shapes(const K& kernel) {
    if (kernel.cu_seqlens_q.size(0) == 0)
      return Support::no(
          "cu_seqlens_q is empty, but needs one entry more than there are sequences");
    return supports_shape(kernel.shape(), kernel.options());
  }
  template <class K>
  static Support supports(const K& kernel) {
    if (Support s = supports_offsets("cu_seqlens_q", kernel.cu_seqlens_q, kernel.q.size(0)); !s)
      return s;
    return supports_offsets("cu_seqlens_kv", kernel.cu_seqlens_kv, kernel.k.size(0));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg == "alibi_slopes") return slopes(known["Hq"], seed);
    if (arg == "mod_i32") return few_numbers(known["I"], seed);
    if (arg == "cu_seqlens_q") return offsets(known["C"], known["N"], seed);
    if (arg == "cu_seqlens_kv") return offsets(known["C"], known["M"], seed);
    return materialize_quantized(arg, {known["M"], known["H"]}, known, combo[1], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no sequence", "C=1 N=0 Hq=2 M=0 H=1 D=8 Dv=8 +lse"},
      {"no keys", "C=3 N=7 Hq=2 M=0 H=1 D=8 Dv=8 +lse"},
      {"one sequence", "C=2 N=5 Hq=2 M=9 H=2 D=16 Dv=16 +lse"},
      {"causal", "C=5 N=230 Hq=6 M=410 H=2 D=32 Dv=32 causal=1 +lse"},
      {"window, sinks, softcap, scales",
       "C=7 N=90 Hq=3 M=300 H=3 D=24 Dv=40 window_left=20 window_right=0 softcap=5 +sinks +k_scale "
       "+v_scale +lse"},
      {"heads of 128", "C=40 N=900 Hq=4 M=1300 H=2 D=128 Dv=128 causal=1 +lse"},
      {"heads of 128, window, sinks, softcap",
       "C=5 N=300 Hq=4 M=500 H=2 D=128 Dv=128 window_left=90 window_right=7 softcap=5 +sinks +lse"},
      {"heads of 96", "C=6 N=230 Hq=4 M=410 H=2 D=96 Dv=96 causal=1 +lse"},
      {"heads of 192, values of 128", "C=9 N=500 Hq=2 M=700 H=2 D=192 Dv=128 +lse"},
      {"heads of 128, few queries", "C=5 N=9 Hq=4 M=1300 H=1 D=128 Dv=128 causal=1 +sinks +lse"},
      {"slopes", "C=6 N=230 Hq=4 M=410 H=2 D=64 Dv=64 causal=1 +alibi_slopes +lse"},
      {"heads of 256", "C=3 N=500 Hq=1 M=200 H=1 D=256 Dv=256 +lse"},
      {"odd dims", "C=6 N=230 Hq=6 M=210 H=2 D=300 Dv=20 causal=1 +lse"},
      {"score_mod, mask_mod",
       "C=6 N=230 Hq=4 M=410 H=2 D=64 Dv=64 I=99 score_mod=score-abs(q-k)*(h%3)/16 "
       "mask_mod=mod_i32[k]!=b +mod_i32 +lse"}};
  static constexpr Case kWorkloads[] = {
      {"minilm/32 sentences", "C=33 N=2048 Hq=12 M=2048 H=12 D=32 Dv=32"},
      {"llama-3.1-8b/8 prompts", "C=9 N=4096 Hq=32 M=4096 H=8 D=128 Dv=128 causal=1"}};

  template <class T, class U>
  static void reference(const Kernel<T, U>& kernel) {
    AttentionFamily::reference(kernel);
  }
  template <class T, class U>
  static Cost cost(const Kernel<T, U>& kernel) {
    return AttentionFamily::cost(kernel.shape(), kernel.lengths(), kernel.options(), sizeof(T),
                                 sizeof(U));
  }
};

}  // namespace tw::ops
