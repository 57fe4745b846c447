// What the attention operators share: definition, cost, rules and test data.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/attention_blocks.h"
#include "tilewright/ops/core/bind.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/score_definition.h"

namespace tw::ops {

struct AttentionFamily {
  /// Queries, outputs of one dtype; keys, values of any of these.
  using Types =
      Combos<Combo<float, float>, Combo<float, f16>, Combo<float, bf16>, Combo<float, int8_t>,
             Combo<float, f8_e4m3fn>, Combo<f16, float>, Combo<f16, f16>, Combo<f16, bf16>,
             Combo<f16, int8_t>, Combo<f16, f8_e4m3fn>, Combo<bf16, float>, Combo<bf16, f16>,
             Combo<bf16, bf16>, Combo<bf16, int8_t>, Combo<bf16, f8_e4m3fn>>;

  /// A score is a sum of D products in float32, and the exponential makes what it is off by a part
  /// of its weight: scores of int8 keys without scales are in the hundreds. A GPU's matrix
  /// instructions besides take weights of the values' type: rounded like the result itself.
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
    if (Support s = supports_numbers("score_mod", options.mods.score, options.mods.numbers); !s)
      return s;
    return supports_numbers("mask_mod", options.mods.mask, options.mods.numbers);
  }
  /// What a program reads must be there.
  static Support supports_numbers(const char* name, const kernels::ScoreProgram* program,
                                  const kernels::ScoreNumbers& numbers) {
    for (int i = 0; program != nullptr && i < program->count; ++i) {
      const kernels::ScoreInstruction& one = program->code[i];
      if (one.op != kernels::ScoreOp::kLoad) continue;
      const bool floats = one.type == kernels::ScoreType::kFloat;
      if ((floats ? numbers.floats.size(0) : numbers.ints.size(0)) == 0)
        return Support::no(std::string(name) + " reads " + (floats ? "mod_f32" : "mod_i32") +
                           ", which has no elements or is absent");
    }
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
  /// Whole numbers as programs read them: documents, say.
  static Tensor few_numbers(int64_t count, uint64_t seed) {
    return make<int32_t>({count}, [&](int64_t i) { return mix_below(seed, i, 3); });
  }
  /// int8 keys and values, and the scales of keys and values, which have such sizes; some are
  /// negative, some zero.
  static std::optional<Tensor> materialize_quantized(std::string_view arg,
                                                     std::vector<int64_t> sizes,
                                                     const Bindings& known, DType kv,
                                                     uint64_t seed) {
    if (arg == "k_scale" || arg == "v_scale")
      return make<float>(std::move(sizes), [&](int64_t i) {
        const int64_t kind = mix_below(seed + 1, i, 16);
        const double sign = kind == 0 ? 0 : kind < 4 ? -1 : 1;
        return sign * (0.05 + 0.01 * double(mix_below(seed, i, 20)));
      });
    const bool are_keys = arg == "k" || arg == "k_pages";
    if (kv != DType::kI8 || !(are_keys || arg == "v" || arg == "v_pages")) return std::nullopt;
    sizes.push_back(known[are_keys ? "D" : "Dv"]);
    return make<int8_t>(std::move(sizes), [&](int64_t i) { return mix_below(seed, i, 17) - 8; });
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
    const double q_scale = double(s.query_scale(head.index));
    for (int64_t d = 0; d < s.q.size(2); ++d) query.push_back(q_scale * double(s.q(i, h, d)));
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
      if (options.mods) {
        const kernels::ScoreAt at{int(s.index), int(h),         int(i),
                                  int(j),       int(s.q_len()), int(s.kv_len)};
        dot = modified_score(options.mods, at, dot);
      }
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
      s.out(i, h, d) =
          kernels::attention_output_t<T>(sum == 0 ? 0.0 : result[static_cast<size_t>(d)] / sum);
    if (s.lse) s.lse(h, i) = float(top + std::log(sum));
  }
};

}  // namespace tw::ops
