#pragma once

#include "tilewright/kernels/attention_fp8.h"
#include "tilewright/ops/core/attention_family.h"

namespace tw::ops {

/// Attention of e4m3 queries over e4m3 keys and values, sequences one after the other as in
/// `attention_varlen`: each has a scale for the queries, the keys and the values of every head of
/// keys. Rows of queries outside all sequences are left alone in outputs that are given, and 0 in
/// new ones.
struct AttentionFp8 : AttentionFamily {
  static constexpr Schema kSchema{
      "attention_fp8(q: f8_e4m3fn[N, Hq, D], k: f8_e4m3fn[M, H, D], v: f8_e4m3fn[M, H, Dv], "
      "cu_seqlens_q: i32[C], cu_seqlens_kv: i32[C], q_scale: f32[R, H]?, k_scale: f32[R, H]?, "
      "v_scale: f32[R, H]?, sinks: f32[Hq]?, scale: f32 = 0, causal: bool = false, "
      "window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> "
      "out: bf16[N, Hq, Dv], lse: f32[Hq, N]?"};
  using Types = Combos<Combo<>>;
  static constexpr std::string_view kSequences = "cu_seqlens_q";
  /// Hopper's tensor cores take weights in e4m3, rounded by up to 2^-4 of themselves, and keep some
  /// 14 bits of a sum of its products, scores among them: of what cancels they keep less. Exact
  /// arithmetic with such weights is off by 0.28 of all outputs' root mean square in "heads of
  /// 128". CPUs have weights in float32, and round to bf16 in the end alone.
  static constexpr double kToleranceScale = 1;
  static constexpr double kGpuToleranceScale = 24;
  static constexpr double kOperandTolerance = 0x1p-12;

  template <class...>
  using Kernel = kernels::AttentionFp8;

  static Support supports_shapes(const Kernel<>& kernel) {
    const int64_t offsets = kernel.cu_seqlens_q.size(0);
    if (offsets == 0)
      return Support::no(
          "cu_seqlens_q is empty, but needs one entry more than there are sequences");
    if (Support s = supports_scale("q_scale", kernel.q_scale, offsets); !s) return s;
    if (Support s = supports_scale("k_scale", kernel.k_scale, offsets); !s) return s;
    if (Support s = supports_scale("v_scale", kernel.v_scale, offsets); !s) return s;
    return supports_shape(kernel.shape(), kernel.options());
  }
  static Support supports(const Kernel<>& kernel) {
    if (Support s = supports_offsets("cu_seqlens_q", kernel.cu_seqlens_q, kernel.q.size(0)); !s)
      return s;
    return supports_offsets("cu_seqlens_kv", kernel.cu_seqlens_kv, kernel.k.size(0));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg == "cu_seqlens_q") return offsets(known["C"], known["N"], seed);
    if (arg == "cu_seqlens_kv") return offsets(known["C"], known["M"], seed);
    if (arg == "q_scale" || arg == "k_scale" || arg == "v_scale")
      return make<float>({known["R"], known["H"]}, [&](int64_t i) {
        const int64_t draw = mix_below(seed, i, 38);  // few are negative, fewer 0
        return (draw % 8 == 1 ? -0.02 : 0.02) * double(draw);
      });
    return std::nullopt;
  }

  static constexpr Case kEdgeCases[] = {
      {"no sequence", "C=1 R=0 N=0 Hq=2 M=0 H=1 D=8 Dv=8 +q_scale +lse"},
      {"no keys", "C=3 R=2 N=7 Hq=2 M=0 H=1 D=8 Dv=8 +k_scale +lse"},
      {"no scales", "C=2 N=5 Hq=2 M=9 H=2 D=16 Dv=16 +lse"},
      {"rows at odd addresses", "C=4 R=3 N=90 Hq=2 M=140 H=1 D=24 Dv=40 causal=1 +v_scale +lse"},
      {"heads of 64, causal",
       "C=5 R=4 N=700 Hq=4 M=900 H=2 D=64 Dv=64 causal=1 +q_scale +k_scale +v_scale +lse"},
      {"heads of 128",
       "C=6 R=5 N=600 Hq=2 M=1300 H=2 D=128 Dv=128 +q_scale +k_scale +v_scale +lse"},
      {"heads of 80, values of 112",
       "C=3 R=2 N=300 Hq=2 M=500 H=1 D=80 Dv=112 causal=1 +q_scale +k_scale"},
      {"window, sinks, softcap",
       "C=7 R=6 N=400 Hq=3 M=900 H=3 D=128 Dv=64 window_left=150 window_right=20 softcap=5 +sinks "
       "+q_scale +k_scale +v_scale +lse"},
      {"few queries",
       "C=6 R=5 N=7 Hq=8 M=1300 H=2 D=128 Dv=128 causal=1 +q_scale +k_scale +v_scale +sinks +lse"},
      {"heads of 256",
       "C=3 R=2 N=300 Hq=1 M=500 H=1 D=256 Dv=256 causal=1 +q_scale +k_scale +v_scale +lse"},
      {"heads of 512", "C=2 R=1 N=3 Hq=1 M=40 H=1 D=512 Dv=512 +q_scale +lse"}};
  static constexpr Case kWorkloads[] = {
      {"llama-3.1-8b/8 prompts",
       "C=9 R=8 N=4096 Hq=32 M=4096 H=8 D=128 Dv=128 causal=1 +q_scale +k_scale +v_scale"},
      {"gpt-oss-20b/a prompt",
       "C=2 R=1 N=4096 Hq=64 M=4096 H=8 D=64 Dv=64 causal=1 +q_scale +k_scale +v_scale +sinks"}};

  static void reference(const Kernel<>& kernel) { AttentionFamily::reference(kernel); }
  static Cost cost(const Kernel<>& kernel) {
    return AttentionFamily::cost(kernel.shape(), kernel.lengths(), kernel.options(), 1, 1);
  }

 private:
  static Support supports_scale(const char* name, const View<const float, 2>& scale,
                                int64_t offsets) {
    const int64_t sequences = offsets - 1, rows = scale.size(0);
    if (rows == sequences || scale.size(1) == 0) return Support::yes();  // absent, or of no head
    return Support::no(std::string(name) + " has " + std::to_string(rows) +
                       " rows, but needs one for each of " + std::to_string(sequences) +
                       " sequences");
  }
};

}  // namespace tw::ops
