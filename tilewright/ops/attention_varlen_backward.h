#pragma once

#include <optional>
#include <vector>

#include "tilewright/kernels/attention_varlen_backward.h"
#include "tilewright/ops/attention_backward.h"
#include "tilewright/ops/attention_varlen.h"

namespace tw::ops {

/// Gradients of attention_varlen without sinks and scales of keys, from its output and lse; 0 for
/// rows outside all sequences.
struct AttentionVarlenBackward {
  static constexpr Schema kSchema{
      "attention_varlen_backward(grad: T[N, Hq, Dv], q: T[N, Hq, D], k: T[M, H, D], "
      "v: T[M, H, Dv], output: T[N, Hq, Dv], lse: f32[Hq, N], cu_seqlens_q: i32[C], "
      "cu_seqlens_kv: i32[C], scale: f32 = 0, causal: bool = false, window_left: i64 = -1, "
      "window_right: i64 = -1, softcap: f32 = 0) -> "
      "q_grad: T[N, Hq, D], k_grad: T[M, H, D], v_grad: T[M, H, Dv]"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  /// As without packing.
  static constexpr double kToleranceScale = AttentionBackward::kToleranceScale;
  static constexpr double kGpuToleranceScale = AttentionBackward::kGpuToleranceScale;
  static constexpr bool kInPlace = false;
  using Types = AttentionBackward::Types;
  using ReferenceTypes = AttentionBackward::ReferenceTypes;

  template <class T>
  using Kernel = kernels::AttentionVarlenBackward<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& kernel) {
    return AttentionVarlen::supports_shapes(kernel);
  }
  template <class T>
  static Support supports(const Kernel<T>& kernel) {
    return AttentionVarlen::supports(kernel);
  }

  template <class T>
  static void reference(const Kernel<T>& kernel) {
    for (const auto& out : {kernel.q_grad, kernel.k_grad, kernel.v_grad})
      for (int64_t i = 0; i < out.size(0); ++i)
        for (int64_t h = 0; h < out.size(1); ++h)
          for (int64_t d = 0; d < out.size(2); ++d) out(i, h, d) = T(0.0);
    for (int64_t b = 0; b < kernel.sequences(); ++b)
      AttentionBackward::reference(kernel.sequence(b));
  }

  template <class T>
  static Cost cost(const Kernel<T>& kernel) {
    const kernels::SequenceLengths lengths{kernel.sequences(),   0, 0, kernel.cu_seqlens_q,
                                           kernel.cu_seqlens_kv, {}};
    Cost out =
        AttentionFamily::cost(kernel.shape(), lengths, kernel.options(), sizeof(T), sizeof(T));
    out.flops *= 2.5;  // five products instead of two
    out.bytes *= 3;
    return out;
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg == "cu_seqlens_q") return AttentionFamily::offsets(known["C"], known["N"], seed);
    if (arg == "cu_seqlens_kv") return AttentionFamily::offsets(known["C"], known["M"], seed);
    if (arg != "lse") return std::nullopt;
    const double keys = double(known["M"]) / double(std::max<int64_t>(known["C"] - 1, 1));
    return AttentionBackward::draw_lse({known["Hq"], known["N"]}, keys, seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no sequence", "C=1 N=3 Hq=2 M=2 H=1 D=8 Dv=8"},
      {"no keys", "C=3 N=7 Hq=2 M=0 H=1 D=8 Dv=8"},
      {"no queries", "C=3 N=0 Hq=2 M=7 H=1 D=8 Dv=8"},
      {"one sequence", "C=2 N=5 Hq=2 M=9 H=2 D=16 Dv=16"},
      {"blocks", "C=3 N=150 Hq=2 M=300 H=2 D=40 Dv=24"},
      {"causal, groups", "C=5 N=230 Hq=6 M=410 H=2 D=32 Dv=32 causal=1"},
      {"heads of 128, groups", "C=9 N=900 Hq=4 M=1300 H=2 D=128 Dv=128 causal=1"},
      {"heads of 128, rows of 16 bytes", "C=40 N=700 Hq=2 M=900 H=1 D=104 Dv=72"},
      {"heads of 192, values of 128", "C=4 N=300 Hq=2 M=400 H=2 D=192 Dv=128 causal=1"},
      {"heads of 256, groups", "C=4 N=400 Hq=4 M=900 H=2 D=256 Dv=240"},
      {"heads of 64, window", "C=6 N=800 Hq=2 M=800 H=2 D=64 Dv=64 window_left=70 window_right=9"},
      {"window, softcap",
       "C=7 N=90 Hq=3 M=300 H=3 D=24 Dv=40 window_left=20 window_right=0 softcap=5 scale=0.5"}};
  static constexpr Case kWorkloads[] = {
      {"minilm/32 sentences", "C=33 N=2048 Hq=12 M=2048 H=12 D=32 Dv=32"},
      {"smollm2-135m/packed", "C=9 N=2048 Hq=9 M=2048 H=3 D=64 Dv=64 causal=1"}};
};

}  // namespace tw::ops
