#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/kernels/linear_quantized.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/packed_quantized.h"
#include "tilewright/ops/core/random_blocks.h"

namespace tw::ops {

/// Linear layer with block-quantised weights packed by the operator pack_quantized. `compute` int8
/// rounds activations to int8 per 32 k (kernels/quantize_rows.h), int16 to two such digits, bf16
/// rounds activations and weights to bf16, f32 rounds nothing. The gated activations take weights
/// packed with `up`: out = silu(x · gateᵀ) * (x · upᵀ) + residual. `out` may alias `residual`. On a
/// GPU, `packed` is not looked into before the kernel runs, which weights of other sizes stop: give
/// `out_features` where neither bias nor residual says N.
struct LinearQuantized {
  static constexpr Schema kSchema{
      "linear_quantized(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, "
      "activation: none|relu|gelu|gelu_tanh|silu|silu_and_mul|gelu_tanh_and_mul = none, "
      "compute: int8|bf16|f32|int16 = int8, out_features: i64 = -1) -> out: T[*, N]"};
  static constexpr Isa kIsas[] = {Isa::avx512_vnni, Isa::amx};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  template <class T>
  using Kernel = kernels::LinearQuantized<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.packed.stride(0) != 1 && k.packed.size(0) > 1) return Support::no("packed has gaps");
    if (k.is_gated() && k.bias) return Support::no("a gated activation takes no bias");
    if (k.out_features == -1 || k.out_features == k.out.cols) return Support::yes();
    return Support::no("out_features = " + std::to_string(k.out_features) + ", but out has " +
                       std::to_string(k.out.cols));
  }

  /// What the kernels read in words, by offsets of 32 bits within a panel.
  template <class T>
  static Support supports_cuda(const Kernel<T>& k) {
    if (k.x.cols >= 1 << 26) return Support::no("K must be below 2^26 on a GPU");
    if (reinterpret_cast<uintptr_t>(k.packed.data) % 16 == 0) return Support::yes();
    return Support::no("packed must begin at a multiple of 16 bytes on a GPU");
  }

  template <class T>
  static Support supports(const Kernel<T>& k) {
    const int64_t bytes = k.packed.size(0);
    const PackedQuantizedCheck check = check_packed_quantized(k.packed.data, bytes);
    if (!check.reason.empty()) return Support::no(check.reason);
    const kernels::QuantizedHeader& h = check.header;
    if (h.k != k.x.cols)
      return Support::no("packed has K = " + std::to_string(h.k) + ", but x has " +
                         std::to_string(k.x.cols));
    if ((h.is_gated != 0) != k.is_gated())
      return Support::no(h.is_gated
                             ? "packed holds a gate and its factor, but activation is no gate"
                             : "a gated activation needs weights packed by pack_gated");
    if (features(h) != k.out.cols)
      return Support::no("packed has N = " + std::to_string(features(h)) + ", but out has " +
                         std::to_string(k.out.cols));
    return Support::yes();
  }

  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings& bindings) {
    std::vector<int64_t> shape = bindings.lead;
    shape.push_back(features_of(call, bindings));
    return {shape};
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const kernels::QuantizedHeader h =
        check_packed_quantized(k.packed.data, k.packed.size(0)).header;
    std::vector<float> weights(static_cast<size_t>(h.rows * h.k));
    for (int64_t r = 0; r < h.rows; ++r) unpack_row(k.packed.data, r, weights.data() + r * h.k);
    const auto compute = kernels::QuantizedCompute(k.compute);
    if (compute == kernels::QuantizedCompute::kBf16)
      for (float& w : weights) w = float(bf16(w));
    std::vector<double> x(static_cast<size_t>(h.k)), dots(static_cast<size_t>(h.rows));
    for (int64_t m = 0; m < k.x.rows; ++m) {
      for (int64_t c = 0; c < h.k; ++c) x[size_t(c)] = double(k.x(m, c));
      if (compute == kernels::QuantizedCompute::kInt8) round_activations(x, 1);
      if (compute == kernels::QuantizedCompute::kInt16) round_activations(x, 2);
      if (compute == kernels::QuantizedCompute::kBf16)
        for (double& v : x) v = double(bf16(float(v)));
      for (int64_t r = 0; r < h.rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < h.k; ++c)
          sum += x[size_t(c)] * double(weights[size_t(r * h.k + c)]);
        dots[size_t(r)] = sum;
      }
      for (int64_t n = 0; n < k.out.cols; ++n) {
        double v = activate(k.activation, dots[size_t(n)] + (k.bias ? double(k.bias(n)) : 0.0));
        if (k.is_gated()) v *= dots[size_t(k.out.cols + n)];
        k.out(m, n) = T(k.residual ? v + double(k.residual(m, n)) : v);
      }
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double m = double(k.x.rows), n = double(k.out.cols) * (k.is_gated() ? 2 : 1);
    const double activations = m * double(k.x.cols + k.out.cols * (k.residual ? 2 : 1));
    return {.flops = 2 * m * n * double(k.x.cols),
            .bytes = double(k.packed.size(0)) + activations * double(sizeof(T)),
            .arithmetic = kArithmetic[k.compute]};
  }

  /// Packs random weights [N, K]; `format=i` of a case is the i-th block format of core/dtype.h.
  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "packed") return std::nullopt;
    const DType dtype = format_of(known["format"]);
    const int64_t n = known["N"], k = known["K"];
    const Scalar* activation = known.scalars.find("activation");
    const bool gated = activation != nullptr && activation->integer >= Kernel<float>::kSiluAndMul;
    const std::vector<uint8_t> blocks = random_blocks(dtype, (gated ? 2 : 1) * n * k, seed);
    if (!gated) return pack_quantized(dtype, blocks.data(), n, k).bytes;
    const uint8_t* up =
        blocks.data() + n * k / info(dtype).block_elements * info(dtype).block_bytes;
    return pack_gated(dtype, blocks.data(), up, n, k).bytes;
  }

  static constexpr Case kEdgeCases[] = {
      {"no tokens", "*=0 K=64 N=8 format=0"},
      {"no features", "*=2 K=64 N=0 format=0"},
      {"no k", "*=2 K=0 N=5 format=1 +bias +residual"},
      {"one token, lone panel, odd block", "*=1 K=96 N=37 format=0 +bias activation=relu"},
      {"one token, q4_1", "*=1 K=64 N=33 format=1"},
      {"one token, q5_0", "*=1 K=96 N=16 format=2"},
      {"one token, q5_1", "*=1 K=96 N=16 format=3"},
      {"one token, q8_0", "*=1 K=160 N=16 format=4"},
      {"one token, q2_k", "*=1 K=512 N=16 format=5"},
      {"one token, q3_k", "*=1 K=512 N=16 format=6"},
      {"one token, q4_k", "*=1 K=512 N=16 format=7"},
      {"one token, q5_k", "*=1 K=512 N=16 format=8"},
      {"one token, q6_k", "*=1 K=512 N=16 format=9"},
      {"one token, iq4_nl", "*=1 K=96 N=16 format=10"},
      {"one token, iq4_xs", "*=1 K=512 N=16 format=11"},
      {"one token, mxfp4", "*=1 K=224 N=16 format=12"},
      {"many spans of k", "*=1 K=4160 N=3 format=0"},
      {"tiles of all sizes, q4_0", "*=27 K=96 N=37 format=0 +residual"},
      {"q4_1, several pieces of k", "*=2x3 K=1056 N=33 format=1 +bias +residual activation=gelu"},
      {"q5_0", "*=15 K=96 N=16 format=2"},
      {"q5_1", "*=15 K=96 N=16 format=3"},
      {"q8_0", "*=15 K=160 N=40 format=4 activation=silu"},
      {"q2_k", "*=15 K=768 N=16 format=5"},
      {"q3_k", "*=15 K=768 N=16 format=6"},
      {"q4_k", "*=15 K=768 N=16 format=7"},
      {"q5_k", "*=15 K=768 N=16 format=8"},
      {"q6_k", "*=15 K=768 N=16 format=9"},
      {"iq4_nl", "*=15 K=96 N=16 format=10"},
      {"iq4_xs", "*=15 K=768 N=16 format=11"},
      {"mxfp4", "*=15 K=224 N=16 format=12"},
      {"several groups of tokens", "*=200 K=32 N=18 format=0"},
      {"gated, one token", "*=1 K=64 N=37 format=1 activation=silu_and_mul +residual"},
      {"gated", "*=7 K=256 N=20 format=7 activation=gelu_tanh_and_mul"},
      {"f32, one token, q4_1", "*=1 K=320 N=33 format=1 compute=f32 activation=gelu_tanh +bias"},
      {"f32, q2_k", "*=3 K=512 N=16 format=5 compute=f32"},
      {"f32, q3_k", "*=3 K=256 N=16 format=6 compute=f32"},
      {"f32, q6_k", "*=15 K=256 N=40 format=9 compute=f32 +residual"},
      {"f32, iq4_xs", "*=3 K=256 N=16 format=11 compute=f32"},
      {"f32, mxfp4, gated", "*=3 K=96 N=17 format=12 compute=f32 activation=silu_and_mul"},
      {"two tokens, q4_1", "*=2 K=96 N=70 format=1 +residual"},
      {"three tokens, q6_k, gated", "*=3 K=256 N=20 format=9 activation=silu_and_mul"},
      {"four tokens, iq4_nl", "*=4 K=96 N=37 format=10"},
      {"int16, no k", "*=2 K=0 N=5 format=1 compute=int16 +bias"},
      {"int16, one token, q8_0", "*=1 K=160 N=37 format=4 compute=int16 +bias +residual"},
      {"int16, two tokens, q4_1", "*=2 K=96 N=70 format=1 compute=int16 activation=silu"},
      {"int16, q6_k, gated", "*=7 K=512 N=37 format=9 compute=int16 activation=silu_and_mul"},
      {"int16, several groups of tokens", "*=150 K=32 N=18 format=0 compute=int16"},
      {"bf16, no k", "*=2 K=0 N=5 format=1 compute=bf16 +bias"},
      {"bf16, one token, q4_1", "*=1 K=320 N=33 format=1 compute=bf16 activation=gelu_tanh +bias"},
      {"bf16, q4_0, several pieces of k", "*=35 K=1056 N=50 format=0 compute=bf16"},
      {"bf16, q8_0", "*=17 K=96 N=16 format=4 compute=bf16 +residual"},
      {"bf16, q2_k", "*=3 K=512 N=16 format=5 compute=bf16"},
      {"bf16, q4_k, gated", "*=33 K=256 N=40 format=7 compute=bf16 activation=silu_and_mul"},
      {"bf16, q6_k", "*=70 K=512 N=37 format=9 compute=bf16 +residual"},
      {"bf16, mxfp4", "*=5 K=224 N=16 format=12 compute=bf16"},
      {"bf16, several groups of tokens", "*=600 K=32 N=18 format=0 compute=bf16"}};
  static constexpr Case kWorkloads[] = {
      {"q4_0 4096x14336, decode", "*=1 K=4096 N=14336 format=0"},
      {"q4_0 4096x14336, n = 8", "*=8 K=4096 N=14336 format=0"},
      {"q4_0 4096x14336, n = 16", "*=16 K=4096 N=14336 format=0"},
      {"q4_0 4096x14336, n = 32", "*=32 K=4096 N=14336 format=0"},
      {"q4_0 4096x14336, n = 64", "*=64 K=4096 N=14336 format=0"},
      {"q4_0 4096x14336, n = 128", "*=128 K=4096 N=14336 format=0"},
      {"q4_k 4096x14336, decode", "*=1 K=4096 N=14336 format=7"},
      {"q4_k 4096x14336, n = 128", "*=128 K=4096 N=14336 format=7"},
      {"q6_k 4096x14336, decode", "*=1 K=4096 N=14336 format=9"},
      {"q8_0 4096x14336, decode", "*=1 K=4096 N=14336 format=4"},
      {"smollm2-135m/qkv, decode", "*=1 K=576 N=960 format=1"},
      {"smollm2-135m/gate and up, decode", "*=1 K=576 N=1536 format=1 activation=silu_and_mul"},
      {"smollm2-135m/head, decode", "*=1 K=576 N=49152 format=4 compute=int16"},
      {"smollm2-135m/gate and up, prefill", "*=128 K=576 N=1536 format=1 activation=silu_and_mul"},
      {"smollm2-135m/down, prefill", "*=128 K=1536 N=576 format=1 +residual"},
      {"smollm2-135m/down, prefill, bf16", "*=128 K=1536 N=576 format=1 compute=bf16 +residual"},
      {"q4_k 4096x14336, n = 128, bf16", "*=128 K=4096 N=14336 format=7 compute=bf16"}};

 private:
  /// Of the output. `packed` tells, unless it lies on a GPU.
  static int64_t features_of(const Call& call, const Bindings& bindings) {
    if (call[2].present || call[3].present) return bindings["N"];
    if (const int64_t given = bindings.integer("out_features"); given >= 0) return given;
    const TensorRef& packed = call[1].tensor;
    if (packed.device.is_cuda())
      throw Error(ErrorKind::kInvalidArgument,
                  "linear_quantized: packed alone says how many features out has, and lies on a "
                  "GPU; give out_features");
    const PackedQuantizedCheck check =
        check_packed_quantized(static_cast<const uint8_t*>(packed.data), packed.sizes[0]);
    if (!check.reason.empty())
      throw Error(ErrorKind::kInvalidArgument, "linear_quantized: " + check.reason);
    return features(check.header);
  }

  static constexpr DType kArithmetic[] = {DType::kI8, DType::kBf16, DType::kF32, DType::kI8};

  static int64_t features(const kernels::QuantizedHeader& h) {
    return h.is_gated ? h.rows / 2 : h.rows;
  }

  static DType format_of(int64_t format) {
    constexpr int kFirst = static_cast<int>(kFirstBlockDType), kLast = kDTypeCount - 1 - kFirst;
    if (format > kLast)
      throw Error(ErrorKind::kInvalidArgument,
                  "linear_quantized: format = " + std::to_string(format) + " must be in 0 .. " +
                      std::to_string(kLast) + ", " + std::string(name(kFirstBlockDType)) + " to " +
                      std::string(name(DType(kFirst + kLast))));
    return DType(kFirst + static_cast<int>(format));
  }

  /// What quantize_rows.h does to a row, decisions in float32 as there.
  static void round_activations(std::vector<double>& x, int digits) {
    for (size_t b = 0; b < x.size(); b += 32) {
      std::vector<double> rest(x.begin() + int64_t(b), x.begin() + int64_t(b) + 32);
      std::fill_n(x.begin() + int64_t(b), 32, 0.0);
      for (int digit = 0; digit < digits; ++digit) {
        const std::vector<double> rounded = round_block(rest);
        for (size_t i = 0; i < 32; ++i) x[b + i] += rounded[i], rest[i] -= rounded[i];
      }
    }
  }
  static std::vector<double> round_block(const std::vector<double>& x) {
    float range = 0;
    for (const double v : x) {
      const float magnitude = std::fabs(float(v));
      if (!(magnitude <= range)) range = magnitude;  // a NaN stays
      if (std::isnan(range)) break;
    }
    const float inverse = range > 1e-36f ? 127.0f / range : 0.0f;
    const float d = range * (1.0f / 127.0f);
    std::vector<double> out;
    for (const double v : x)
      out.push_back(double(d) * (inverse != 0 ? std::nearbyint(float(v) * inverse) : 0.0));
    return out;
  }

  static double activate(int activation, double v) {
    switch (activation) {
      case 1:
        return std::max(v, 0.0);
      case 2:
        return 0.5 * v * (1 + std::erf(v * std::sqrt(0.5)));
      case 3:
      case 6:
        return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      case 4:
      case 5:
        return v / (1 + std::exp(-v));
      default:
        return v;
    }
  }
};

}  // namespace tw::ops
