#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/attention.h"
#include "tilewright/ops/core/bind.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// What the attention operators share: definition, cost, rules and test data.
struct AttentionFamily {
  /// Queries, outputs of one dtype; keys, values of any of these.
  using Types =
      Combos<Combo<float, float>, Combo<float, f16>, Combo<float, bf16>, Combo<float, int8_t>,
             Combo<float, f8_e4m3fn>, Combo<f16, float>, Combo<f16, f16>, Combo<f16, bf16>,
             Combo<f16, int8_t>, Combo<f16, f8_e4m3fn>, Combo<bf16, float>, Combo<bf16, f16>,
             Combo<bf16, bf16>, Combo<bf16, int8_t>, Combo<bf16, f8_e4m3fn>>;

  /// A GPU's matrix instructions take weights of the values' type: rounded like the result itself.
  static constexpr double kToleranceScale = 2;

  /// Query i of `mask` sees key j. The last query stands at the last key.
  static bool sees(const kernels::AttentionMask& mask, int64_t i, int64_t j) {
    const int64_t position = i + mask.kv_len - mask.q_len;
    if (mask.left >= 0 && j < position && position - j > mask.left) return false;
    return mask.right < 0 || j <= position || j - position <= mask.right;
  }

  template <class K>
  static void reference(const K& kernel) {
    const kernels::AttentionShape shape = kernel.shape();
    for (int64_t b = 0; b < kernel.lengths().sequences; ++b) {
      const auto s = kernel.sequence(b);
      for (int64_t kv = 0; kv < shape.kv_heads; ++kv) {
        const WideHead head(s, kv);
        for (int64_t i = 0; i < s.q_len(); ++i)
          for (int64_t h = kv * shape.group(); h < (kv + 1) * shape.group(); ++h)
            reference_row(s, kernel.options(), exact_of(kernel), i, h, head);
      }
    }
  }

  static Cost cost(const kernels::AttentionShape& shape, const kernels::SequenceLengths& lengths,
                   const kernels::AttentionOptions& options, size_t q_bytes, size_t kv_bytes) {
    const double width = double(shape.dims) + double(shape.value_dims);
    Cost out;
    for (int64_t b = 0; b < lengths.sequences; ++b) {
      const int64_t q_len = lengths.q_len(b), kv_len = lengths.kv_len(b);
      const kernels::AttentionMask mask = options.mask(q_len, kv_len);
      double pairs = 0;
      for (int64_t i = 0; i < q_len; ++i) {
        const kernels::KeyRange keys = mask.keys(i);
        if (!keys.empty()) pairs += double(keys.end - keys.begin);
      }
      out.flops += 2 * pairs * double(shape.q_heads) * width;
      const int64_t seen = q_len > 0 ? kv_len - std::max<int64_t>(0, mask.keys(0).begin) : 0;
      out.bytes += double(q_len) * double(shape.q_heads) * width * double(q_bytes) +
                   double(seen) * double(shape.kv_heads) * width * double(kv_bytes);
    }
    return out;
  }

  /// The rules that hold for all of them.
  static Support supports_shape(const kernels::AttentionShape& shape,
                                const kernels::AttentionOptions& options) {
    if (shape.dims == 0) return Support::no("D = 0, but scores need at least one dimension");
    if (shape.value_dims == 0) return Support::no("Dv = 0, but values need at least one dimension");
    if (shape.q_heads > 0 && (shape.kv_heads == 0 || shape.q_heads % shape.kv_heads != 0))
      return Support::no("Hq = " + std::to_string(shape.q_heads) +
                         " must be a multiple of H = " + std::to_string(shape.kv_heads));
    if (Support s = supports_window("window_left", options.window_left); !s) return s;
    if (Support s = supports_window("window_right", options.window_right); !s) return s;
    if (!std::isfinite(options.scale)) return Support::no("scale must be finite");
    if (!(options.softcap >= 0) || std::isinf(options.softcap))
      return Support::no("softcap = " + std::to_string(options.softcap) +
                         " must be finite and at least 0");
    return Support::yes();
  }
  /// How far queries see on one side: -1 is all.
  static Support supports_window(std::string_view name, int64_t window) {
    if (window >= -1) return Support::yes();
    return Support::no(std::string(name) + " = " + std::to_string(window) + " must be at least -1");
  }
  /// Whether 0 <= lens[b] <= most for all b.
  static Support supports_lens(std::string_view name, const View<const int32_t, 1>& lens,
                               int64_t most) {
    for (int64_t b = 0; lens && b < lens.size(0); ++b)
      if (lens(b) < 0 || lens(b) > most)
        return Support::no(std::string(name) + "[" + std::to_string(b) + "] = " +
                           std::to_string(lens(b)) + " must be in 0 .. " + std::to_string(most));
    return Support::yes();
  }

  /// Whether offsets start at 0 or later, do not fall, and end at `most` or before.
  static Support supports_offsets(std::string_view name, const View<const int32_t, 1>& offsets,
                                  int64_t most) {
    for (int64_t b = 0; b < offsets.size(0); ++b) {
      const int64_t least = b > 0 ? offsets(b - 1) : 0;
      if (offsets(b) < least || offsets(b) > most)
        return Support::no(std::string(name) + "[" + std::to_string(b) +
                           "] = " + std::to_string(offsets(b)) + " must be in " +
                           std::to_string(least) + " .. " + std::to_string(most));
    }
    return Support::yes();
  }

  /// A tensor of numbers drawn by `draw(i)` as T.
  template <class T, class F>
  static Tensor make(std::vector<int64_t> sizes, F&& draw) {
    Tensor out = Tensor::empty(sizes, dtype_of<T>);
    for (int64_t i = 0, n = out.ref().count(); i < n; ++i)
      static_cast<T*>(out.ref().data)[i] = static_cast<T>(draw(i));
    return out;
  }
  /// Well mixed bits of (seed, i).
  static uint64_t mix(uint64_t seed, int64_t i) {
    uint64_t z = seed + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(i + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  static int64_t mix_below(uint64_t seed, int64_t i, int64_t n) {
    return n > 0 ? static_cast<int64_t>(mix(seed, i) % static_cast<uint64_t>(n)) : 0;
  }
  /// `count` rising offsets from 0 to `last`; some sequences are empty.
  static Tensor offsets(int64_t count, int64_t last, uint64_t seed) {
    std::vector<int64_t> cuts;
    for (int64_t i = 0; i < count; ++i) cuts.push_back(mix_below(seed, i, last + 1));
    std::sort(cuts.begin(), cuts.end());
    if (count > 0) cuts.front() = 0;
    if (count > 1) cuts.back() = last;
    return make<int32_t>({count}, [&](int64_t i) { return cuts[static_cast<size_t>(i)]; });
  }
  /// Slopes like those of the ALiBi paper: distant keys never have large scores of either sign.
  static Tensor slopes(int64_t heads, uint64_t seed) {
    return make<float>({heads}, [&](int64_t i) {
      return std::exp2(-8 * double(mix_below(seed, i, heads) + 1) / double(heads));
    });
  }
  /// int8 keys and values, and the scales of keys and values.
  static std::optional<Tensor> materialize_quantized(std::string_view arg,
                                                     std::vector<int64_t> sizes, DType kv,
                                                     uint64_t seed) {
    if (arg == "k_scale" || arg == "v_scale")
      return make<float>(std::move(sizes),
                         [&](int64_t i) { return 0.05 + 0.01 * double(mix_below(seed, i, 20)); });
    if (kv == DType::kI8)
      return make<int8_t>(std::move(sizes), [&](int64_t i) { return mix_below(seed, i, 17) - 8; });
    return std::nullopt;
  }

 private:
  /// The numbers that arguments of float64 have in float64.
  struct Exact {
    double scale, softcap;
  };
  template <class K>
  static Exact exact_of(const K& kernel) {
    const kernels::AttentionOptions options = kernel.options();
    Exact out{double(options.scale), double(options.softcap)};
    if constexpr (std::is_same_v<decltype(kernel.scale), double>)
      out = {kernel.scale, kernel.softcap};
    if (out.scale == 0) out.scale = 1 / std::sqrt(double(kernel.shape().dims));
    return out;
  }

  /// Keys, rotated dims last, and values of a head in float64, with their scales, each read once
  /// for all queries.
  struct WideHead {
    int64_t index, dims, value_dims;
    std::vector<double> keys, values;  // rows of dims and of value_dims

    template <class T, class U>
    WideHead(const kernels::AttentionSequence<T, U>& s, int64_t head)
        : index(head),
          dims(s.q.size(2) + (s.k_pe ? s.q_pe.size(2) : 0)),
          value_dims(s.out.size(2)) {
      for (int64_t j = 0; j < s.kv_len; ++j) {
        append(keys, j, s.k, s.q.size(2), s.k_scale, s.scale_parts);
        if (s.k_pe) append(keys, j, s.k_pe, s.q_pe.size(2), {}, 1);
        append(values, j, s.v, value_dims, s.v_scale, s.scale_parts);
      }
    }

   private:
    /// Row j of the head, each of its equal parts times its scale.
    template <class U>
    void append(std::vector<double>& to, int64_t j, const kernels::KeySource<U>& from,
                int64_t count, const kernels::KeySource<float>& scales, int64_t parts) const {
      const kernels::KeySegment<U> row = from.head(index).at(j, j + 1);
      const kernels::KeySegment<float> factors = scales.head(index).at(j, j + 1);
      for (int64_t d = 0; d < count; ++d) {
        const double factor = scales ? factors.data[d * parts / count * factors.dim_stride] : 1;
        to.push_back(factor * double(row.data[d * row.dim_stride]));
      }
    }
  };

  template <class T, class U>
  static void reference_row(const kernels::AttentionSequence<T, U>& s,
                            const kernels::AttentionOptions& options, const Exact& exact, int64_t i,
                            int64_t h, const WideHead& head) {
    const kernels::AttentionMask mask = options.mask(s.q_len(), s.kv_len);
    std::vector<double> query;
    for (int64_t d = 0; d < s.q.size(2); ++d) query.push_back(double(s.q(i, h, d)));
    for (int64_t d = s.q.size(2); d < head.dims; ++d)
      query.push_back(double(s.q_pe(i, h, d - s.q.size(2))));
    std::vector<double> scores(static_cast<size_t>(s.kv_len), -HUGE_VAL);
    double top = options.sinks ? double(options.sinks(h)) : -HUGE_VAL;
    for (int64_t j = 0; j < s.kv_len; ++j) {
      if (!sees(mask, i, j)) continue;
      double dot =
          std::inner_product(query.begin(), query.end(), head.keys.begin() + j * head.dims, 0.0);
      dot *= exact.scale;
      if (exact.softcap > 0) dot = exact.softcap * std::tanh(dot / exact.softcap);
      if (s.bias) dot += double(s.bias(h, i, j));
      if (options.slopes)
        dot -= double(options.slopes(h)) * std::abs(double(i + s.kv_len - s.q_len() - j));
      scores[static_cast<size_t>(j)] = dot;
      top = std::max(top, dot);
    }
    const double base =
        top == -HUGE_VAL ? 0 : top;  // a row whose scores are all -inf weighs nothing
    double sum = options.sinks ? std::exp(double(options.sinks(h)) - base) : 0;
    std::vector<double> result(static_cast<size_t>(s.out.size(2)), 0.0);
    for (int64_t j = 0; j < s.kv_len; ++j) {
      if (!sees(mask, i, j)) continue;
      const double weight = std::exp(scores[static_cast<size_t>(j)] - base);
      sum += weight;
      const auto value = head.values.begin() + j * head.value_dims;
      std::transform(result.begin(), result.end(), value, result.begin(),
                     [&](double r, double v) { return r + weight * v; });
    }
    for (int64_t d = 0; d < s.out.size(2); ++d)
      s.out(i, h, d) = T(sum == 0 ? 0.0 : result[static_cast<size_t>(d)] / sum);
    if (s.lse) s.lse(h, i) = float(top + std::log(sum));
  }
};

/// Attention over keys and values in one tensor per batch entry: a prompt, or a cache of which
/// kv_lens[b] keys are filled. Hq may be a multiple of H (grouped queries). A query sees the keys
/// up to its own position (causal) or within the window; the last query stands at the last key. A
/// row that sees no key gives zeros, and lse = -inf (or the sink). attn_bias is added to the capped
/// scores, and -alibi_slopes[h] times the distance of query and key; -inf hides a key. Values
/// of 8 bits times their scales must be numbers of T.
struct Attention : AttentionFamily {
  static constexpr Schema kSchema{
      "attention(q: T[B, S, Hq, D], k: U[B, L, H, D], v: U[B, L, H, Dv], kv_lens: i32[B]?, "
      "sinks: f32[Hq]?, k_scale: f32[B, L, H]?, v_scale: f32[B, L, H]?, "
      "attn_bias: T[B, Hq, S, L]?, alibi_slopes: f32[Hq]?, scale: f32 = 0, "
      "causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> "
      "out: T[B, S, Hq, Dv], lse: f32[B, Hq, S]?"};
  static constexpr Isa kIsas[] = {Isa::avx512_bf16, Isa::amx};
  static constexpr Gradient kGradient{
      "where sinks=absent, k_scale=absent, v_scale=absent, attn_bias=absent, alibi_slopes=absent: "
      "attention_backward(grad=out.grad, q, k, v, output=out, lse, kv_lens, scale, causal, "
      "window_left, window_right, softcap) -> q.grad, k.grad, v.grad"};
  using ReferenceTypes = Combos<Combo<double, double>>;

  template <class T, class U>
  using Kernel = kernels::Attention<T, U>;

  template <class K>
  static Support supports_shapes(const K& kernel) {
    return supports_shape(kernel.shape(), kernel.options());
  }
  template <class K>
  static Support supports(const K& kernel) {
    return supports_lens("kv_lens", kernel.kv_lens, kernel.k.size(1));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg == "alibi_slopes") return slopes(known["Hq"], seed);
    if (arg == "kv_lens") {
      const int64_t most = known["L"];
      return make<int32_t>({known["B"]},
                           [&](int64_t i) { return most - mix_below(seed, i, most / 2 + 1); });
    }
    if (arg == "k_scale" || arg == "v_scale" || arg == "k" || arg == "v") {
      std::vector<int64_t> sizes{known["B"], known["L"], known["H"]};
      if (arg == "k") sizes.push_back(known["D"]);
      if (arg == "v") sizes.push_back(known["Dv"]);
      return materialize_quantized(arg, std::move(sizes), combo[1], seed);
    }
    return std::nullopt;
  }

  static constexpr Case kEdgeCases[] = {
      {"no batch", "B=0 S=4 Hq=2 L=4 H=1 D=8 Dv=8"},
      {"no queries", "B=1 S=0 Hq=2 L=4 H=1 D=8 Dv=8 +lse"},
      {"no keys", "B=1 S=3 Hq=2 L=0 H=1 D=8 Dv=8 +lse"},
      {"no keys, sinks", "B=1 S=3 Hq=2 L=0 H=1 D=8 Dv=8 +sinks +lse"},
      {"one element", "B=1 S=1 Hq=1 L=1 H=1 D=1 Dv=1 +lse"},
      {"decode, one block, group of 3", "B=2 S=1 Hq=9 L=77 H=3 D=64 Dv=64 +kv_lens +lse"},
      {"decode, many blocks", "B=1 S=1 Hq=4 L=700 H=1 D=32 Dv=32 +lse"},
      {"decode, odd dims", "B=1 S=1 Hq=4 L=300 H=2 D=13 Dv=27 +k_scale +v_scale"},
      {"decode, window", "B=2 S=1 Hq=7 L=555 H=1 D=40 Dv=48 causal=1 window_left=200 +sinks"},
      {"prefill", "B=1 S=130 Hq=2 L=130 H=2 D=64 Dv=64 +lse"},
      {"prefill, causal", "B=2 S=67 Hq=6 L=200 H=2 D=32 Dv=32 causal=1 +kv_lens +lse"},
      {"prefill, more queries than keys", "B=1 S=150 Hq=1 L=20 H=1 D=16 Dv=16 causal=1 +lse"},
      {"prefill, window both ways",
       "B=1 S=300 Hq=2 L=280 H=1 D=24 Dv=40 window_left=37 window_right=5 +lse"},
      {"softcap, sinks, scales",
       "B=1 S=33 Hq=5 L=170 H=5 D=20 Dv=36 softcap=3 scale=0.5 +sinks +k_scale +v_scale +lse"},
      {"heads of 64, softcap, sinks",
       "B=1 S=300 Hq=4 L=170 H=2 D=64 Dv=48 softcap=3 scale=0.5 +sinks +lse"},
      {"heads of 128, causal", "B=2 S=200 Hq=4 L=333 H=2 D=128 Dv=128 causal=1 +lse"},
      {"heads of 128, window",
       "B=1 S=300 Hq=2 L=300 H=1 D=128 Dv=96 window_left=70 window_right=9"},
      {"heads of 128, few queries", "B=2 S=5 Hq=6 L=500 H=2 D=128 Dv=128 causal=1 +kv_lens +lse"},
      {"heads of 128, long keys", "B=1 S=70 Hq=1 L=6200 H=1 D=128 Dv=128 +kv_lens +lse"},
      {"heads of 128, decode", "B=2 S=1 Hq=8 L=3000 H=2 D=128 Dv=128 +kv_lens +sinks +lse"},
      {"bias", "B=2 S=37 Hq=6 L=150 H=2 D=32 Dv=24 causal=1 softcap=3 +attn_bias +kv_lens +lse"},
      {"bias, slopes, heads of 64",
       "B=1 S=300 Hq=2 L=280 H=1 D=64 Dv=64 window_left=37 +attn_bias +alibi_slopes +sinks +lse"},
      {"bias, heads of 128", "B=2 S=200 Hq=4 L=333 H=2 D=128 Dv=128 +attn_bias +kv_lens +lse"},
      {"heads of 128, scales",
       "B=2 S=3 Hq=8 L=700 H=2 D=128 Dv=128 causal=1 +kv_lens +k_scale +v_scale +lse"},
      {"heads of 64, scales", "B=1 S=90 Hq=4 L=300 H=4 D=64 Dv=64 +k_scale +v_scale"},
      {"bias, decode", "B=2 S=1 Hq=8 L=3000 H=2 D=128 Dv=128 +attn_bias +kv_lens +lse"},
      {"slopes, few queries", "B=2 S=5 Hq=6 L=500 H=2 D=128 Dv=96 causal=1 +alibi_slopes +lse"},
      {"slopes, heads of 256", "B=1 S=150 Hq=2 L=300 H=1 D=256 Dv=256 +alibi_slopes"},
      {"heads of 256", "B=1 S=150 Hq=2 L=300 H=1 D=256 Dv=200 +sinks +lse"},
      {"heads of 256, decode", "B=1 S=1 Hq=5 L=900 H=1 D=256 Dv=256 +lse"}};
  static constexpr Case kWorkloads[] = {
      {"smollm2-135m/prefill 512", "B=1 S=512 Hq=9 L=512 H=3 D=64 Dv=64 causal=1"},
      {"smollm2-135m/decode 512", "B=1 S=1 Hq=9 L=512 H=3 D=64 Dv=64 causal=1"},
      {"bert-base/128", "B=8 S=128 Hq=12 L=128 H=12 D=64 Dv=64"},
      {"H16 S512 D64", "B=1 S=512 Hq=16 L=512 H=16 D=64 Dv=64"},
      {"H16 S1024 D64", "B=1 S=1024 Hq=16 L=1024 H=16 D=64 Dv=64"},
      {"H16 S2048 D64", "B=1 S=2048 Hq=16 L=2048 H=16 D=64 Dv=64"},
      {"H16 S2048 D64 causal", "B=1 S=2048 Hq=16 L=2048 H=16 D=64 Dv=64 causal=1"},
      {"H8 S512 D128", "B=1 S=512 Hq=8 L=512 H=8 D=128 Dv=128"},
      {"H8 S1024 D128", "B=1 S=1024 Hq=8 L=1024 H=8 D=128 Dv=128"},
      {"H8 S4096 D128", "B=1 S=4096 Hq=8 L=4096 H=8 D=128 Dv=128"},
      {"H8 S4096 D128 causal", "B=1 S=4096 Hq=8 L=4096 H=8 D=128 Dv=128 causal=1"},
      {"t5-base/512", "B=4 S=512 Hq=12 L=512 H=12 D=64 Dv=64 scale=1 +attn_bias"},
      {"bloom-560m/1024", "B=1 S=1024 Hq=16 L=1024 H=16 D=64 Dv=64 causal=1 +alibi_slopes"},
      {"llama-3.1-8b/decode 4096", "B=1 S=1 Hq=32 L=4096 H=8 D=128 Dv=128 causal=1"}};

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
