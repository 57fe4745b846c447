#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/sample.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/numbered.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Draws one token per row, as Hugging Face's logits processors and warpers would before
/// multinomial sampling; where scores tie at a limit of top-k or top-p, all of them stay.
/// temperature 0 takes the largest logit, the first one of equals. The same seed, offset and row
/// give the same token on every target. Throws kInvalidArgument for settings outside their ranges
/// and for history entries of V or more; negative entries are padding.
struct Sample {
  static constexpr Schema kSchema{
      "sample(logits: f32[*, V], history: i32[*, L]?, temperature: f32 = 1, top_k: i64 = 0, "
      "top_p: f32 = 1, min_p: f32 = 0, repetition_penalty: f32 = 1, frequency_penalty: f32 = 0, "
      "presence_penalty: f32 = 0, seed: i64 = 0, offset: i64 = 0) -> out: i32[*]"};
  using Types = Combos<Combo<>>;

  template <class...>
  using Kernel = kernels::Sample;

  static Support supports_shapes(const kernels::Sample& k) {
    const auto refuse = [](const char* name, double value, const char* rule) {
      return Support::no(std::string(name) + " = " + std::to_string(value) + " must be " + rule);
    };
    if (k.logits.rows > 0 && k.logits.cols == 0)
      return Support::no("V = 0, but a token must come from somewhere");
    if (k.logits.cols > std::numeric_limits<int32_t>::max())
      return Support::no("V = " + std::to_string(k.logits.cols) + " does not fit an i32 token");
    if (!(k.temperature >= 0) || std::isinf(k.temperature))
      return refuse("temperature", k.temperature, "finite and at least 0");
    if (k.top_k < 0) return refuse("top_k", double(k.top_k), "at least 0");
    if (!(k.top_p >= 0 && k.top_p <= 1)) return refuse("top_p", k.top_p, "between 0 and 1");
    if (!(k.min_p >= 0 && k.min_p <= 1)) return refuse("min_p", k.min_p, "between 0 and 1");
    if (!(k.repetition_penalty > 0) || std::isinf(k.repetition_penalty))
      return refuse("repetition_penalty", k.repetition_penalty, "finite and above 0");
    if (!std::isfinite(k.frequency_penalty))
      return refuse("frequency_penalty", k.frequency_penalty, "finite");
    if (!std::isfinite(k.presence_penalty))
      return refuse("presence_penalty", k.presence_penalty, "finite");
    return Support::yes();
  }
  static Support supports(const kernels::Sample& k) {
    for (int64_t r = 0; r < k.history.rows; ++r)
      for (int64_t i = 0; i < k.history.cols; ++i)
        if (k.history(r, i) >= k.logits.cols)
          return Support::no("history holds token " + std::to_string(k.history(r, i)) +
                             ", but V = " + std::to_string(k.logits.cols));
    return Support::yes();
  }

  static void reference(const kernels::Sample& k) {
    for (int64_t r = 0; r < k.logits.rows; ++r) k.out(r, 0) = reference_row(k, r);
  }

  static Cost cost(const kernels::Sample& k) {
    const double n = double(k.logits.rows) * double(k.logits.cols);
    return {.flops = (k.temperature == 0 ? 2 : 20) * n, .bytes = 4 * n};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "history") return std::nullopt;
    std::vector<int64_t> shape = known.lead;
    shape.push_back(known["L"]);
    return random_numbers(shape, known["V"], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 V=8"},
      {"one token", "*=1 V=1"},
      {"all tokens", "*=2x3 V=1031"},
      {"greedy", "*=5 V=333 temperature=0"},
      {"greedy with penalties",
       "*=5 V=33 L=40 temperature=0 repetition_penalty=2 frequency_penalty=0.5 +history"},
      {"cold", "*=9 V=77 temperature=0.2 seed=3"},
      {"top-k", "*=40 V=500 top_k=7 seed=11"},
      {"top-k of all", "*=3 V=20 top_k=20"},
      {"top-k of many", "*=4 V=20000 top_k=50 top_p=0.9"},
      {"a large top-k", "*=4 V=3000 top_k=700 min_p=0.02"},
      {"top-p of many", "*=4 V=20000 top_p=0.9"},
      {"top-p", "*=40 V=500 top_p=0.6 temperature=1.5"},
      {"top-p keeps one", "*=4 V=50 top_p=0"},
      {"min-p", "*=40 V=500 min_p=0.3 offset=17"},
      {"penalties", "*=9 V=60 L=100 repetition_penalty=1.3 frequency_penalty=0.2 +history"},
      {"presence", "*=9 V=60 L=9 presence_penalty=5 seed=5 +history"},
      {"everything",
       "*=30 V=700 L=300 temperature=0.8 top_k=50 top_p=0.9 min_p=0.05 repetition_penalty=1.1 "
       "frequency_penalty=0.1 presence_penalty=0.3 seed=123456789 offset=42 +history"}};
  static constexpr Case kWorkloads[] = {
      {"smollm2-135m/greedy", "*=1 V=49152 temperature=0"},
      {"llama-3.1-8b/top-k top-p", "*=1 V=128256 temperature=0.7 top_k=50 top_p=0.9"},
      {"llama-3.1-8b/top-p", "*=1 V=128256 temperature=0.7 top_p=0.9"}};

 private:
  static std::vector<double> reference_scores(const kernels::Sample& k, int64_t r) {
    std::vector<double> scores;
    for (int64_t c = 0; c < k.logits.cols; ++c) {
      const double x = double(k.logits(r, c));
      scores.push_back(std::isnan(x) ? -INFINITY : x);
    }
    if (!k.history) return scores;
    std::map<int32_t, int> counts;
    for (int64_t i = 0; i < k.history.cols; ++i)
      if (k.history(r, i) >= 0) ++counts[k.history(r, i)];
    for (const auto& [token, count] : counts) {
      double& s = scores[size_t(token)];
      s = s < 0 ? s * double(k.repetition_penalty) : s / double(k.repetition_penalty);
      s -= double(k.frequency_penalty) * count + double(k.presence_penalty);
    }
    return scores;
  }

  static int32_t reference_row(const kernels::Sample& k, int64_t r) {
    const std::vector<double> scores = reference_scores(k, r);
    const auto largest = std::max_element(scores.begin(), scores.end());
    if (k.temperature == 0 || *largest == -INFINITY) return int32_t(largest - scores.begin());

    std::vector<double> weights;
    for (double s : scores)
      weights.push_back(s == *largest ? 1 : std::exp((s - *largest) / double(k.temperature)));
    std::vector<double> sorted = scores;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    if (k.top_k > 0 && k.top_k < k.logits.cols)
      drop_below(sorted[size_t(k.top_k - 1)], scores, weights);
    if (k.top_p < 1) {
      std::vector<std::pair<double, double>> by_score;
      double total = 0;
      for (size_t i = 0; i < scores.size(); ++i) {
        by_score.emplace_back(scores[i], weights[i]);
        total += weights[i];
      }
      std::sort(by_score.begin(), by_score.end(), std::greater<>());
      double larger = 0, last_kept = *largest;
      for (const auto& [s, w] : by_score) {
        if (larger >= double(k.top_p) * total) break;
        last_kept = s;
        larger += w;
      }
      drop_below(last_kept, scores, weights);
    }
    for (double& w : weights)
      if (w < double(k.min_p)) w = 0;

    double total = 0, sum = 0;
    for (double w : weights) total += w;
    const double u = tile::uniform(tile::philox(uint64_t(k.seed), uint64_t(k.offset), uint64_t(r)));
    int32_t token = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      token = int32_t(i);
      sum += weights[i];
      if (sum > u * total) break;
    }
    return token;
  }

  static void drop_below(double limit, const std::vector<double>& scores,
                         std::vector<double>& weights) {
    for (size_t i = 0; i < scores.size(); ++i)
      if (scores[i] < limit) weights[i] = 0;
  }
};

}  // namespace tw::ops
