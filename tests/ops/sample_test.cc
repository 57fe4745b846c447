// Properties of sampling: the distribution of many draws, what a setting must exclude, and that a
// draw depends on seed, offset and row alone.
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/core/tensor.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/operators.h"

namespace tw {
namespace {

using Settings = std::map<std::string, double>;

/// Samples `rows` times from one row of logits.
std::vector<int32_t> sample(const std::vector<float>& logits, int64_t rows,
                            const Settings& settings, std::vector<int32_t> history = {}) {
  const auto vocabulary = int64_t(logits.size());
  Tensor row = Tensor::empty({1, vocabulary}, DType::kF32);
  std::copy(logits.begin(), logits.end(), row.span<float>().begin());
  TensorRef x = row.ref();
  x.sizes[0] = rows;
  x.strides[0] = 0;  // the same row again and again
  const Tensor out = Tensor::empty({rows}, DType::kI32);
  const runtime::OperatorInfo& info = runtime::find_operator("sample");
  ops::Call call(*info.schema);
  call.set("logits", x).set("out", out.ref());
  for (const auto& [name, value] : settings) call.set(name, value);
  Tensor seen = Tensor::empty({1, int64_t(history.size())}, DType::kI32);
  if (!history.empty()) {
    std::copy(history.begin(), history.end(), seen.span<int32_t>().begin());
    TensorRef tokens = seen.ref();
    tokens.sizes[0] = rows;
    tokens.strides[0] = 0;
    call.set("history", tokens);
  }
  runtime::Context context;
  info.run(call, context);
  return {out.span<int32_t>().begin(), out.span<int32_t>().end()};
}

std::set<int32_t> tokens_of(const std::vector<int32_t>& draws) {
  return {draws.begin(), draws.end()};
}

TEST(Sample, FrequenciesFollowTheWeights) {
  testing::Random random(1);
  std::vector<float> logits(12);
  for (float& v : logits) v = float(random.normal());
  constexpr int64_t kDraws = 60000;
  for (double temperature : {0.5, 1.0, 2.0}) {
    double total = 0, chi_squared = 0;
    std::vector<double> weights, counts(logits.size(), 0);
    for (float v : logits) weights.push_back(std::exp(double(v) / temperature));
    for (double w : weights) total += w;
    for (int32_t t : sample(logits, kDraws, {{"temperature", temperature}, {"seed", 2024}}))
      ++counts[size_t(t)];
    for (size_t i = 0; i < weights.size(); ++i) {
      const double expected = double(kDraws) * weights[i] / total;
      chi_squared += std::pow(counts[i] - expected, 2) / expected;
    }
    EXPECT_LT(chi_squared, 31.3) << "11 degrees of freedom, one chance in a thousand";
  }
}

TEST(Sample, DependsOnSeedOffsetAndRowAlone) {
  testing::Random random(2);
  std::vector<float> logits(50000);
  for (float& v : logits) v = float(random.normal());
  const auto draws = sample(logits, 16, {{"seed", 5}, {"offset", 9}});
  EXPECT_EQ(sample(logits, 16, {{"seed", 5}, {"offset", 9}}), draws);
  const auto fewer = sample(logits, 4, {{"seed", 5}, {"offset", 9}});
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), draws.begin()));
  EXPECT_NE(sample(logits, 16, {{"seed", 6}, {"offset", 9}}), draws);
  EXPECT_NE(sample(logits, 16, {{"seed", 5}, {"offset", 10}}), draws);
  EXPECT_GT(tokens_of(draws).size(), 10u);
}

TEST(Sample, LimitsExcludeWhatTheySay) {
  std::vector<float> logits(300, 0);
  for (size_t i = 0; i < 10; ++i) logits[29 * i + 3] = float(i) / 10 + 3;
  const auto tokens = [&](const Settings& s) { return tokens_of(sample(logits, 4000, s)); };
  EXPECT_EQ(tokens({{"top_k", 1}}), (std::set<int32_t>{264}));
  EXPECT_EQ(tokens({{"top_k", 3}}), (std::set<int32_t>{206, 235, 264}));
  EXPECT_EQ(tokens({{"top_p", 0}}), (std::set<int32_t>{264}));
  EXPECT_EQ(tokens({{"min_p", 1}}), (std::set<int32_t>{264}));
  EXPECT_EQ(tokens({{"min_p", 0.85}}), (std::set<int32_t>{235, 264}));
  EXPECT_EQ(tokens({{"top_k", 10}, {"top_p", 0.2}}), (std::set<int32_t>{235, 264}));
  EXPECT_GT(tokens({{"top_k", 11}}).size(), 250u) << "the eleventh ties with all others";
  EXPECT_EQ(tokens({{"temperature", 0.001}}), (std::set<int32_t>{264}));
}

TEST(Sample, GreedyTakesTheFirstOfEquals) {
  std::vector<float> logits(1000, 1);
  EXPECT_EQ(sample(logits, 1, {{"temperature", 0}})[0], 0);
  logits[700] = logits[900] = 2;
  EXPECT_EQ(sample(logits, 1, {{"temperature", 0}})[0], 700);
  logits[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sample(logits, 1, {{"temperature", 0}})[0], 700);
}

TEST(Sample, InfiniteLogits) {
  EXPECT_EQ(tokens_of(sample({1, INFINITY, 2, INFINITY}, 100, {})), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(tokens_of(sample({-INFINITY, 1, -INFINITY, 1}, 100, {})), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(tokens_of(sample({-INFINITY, -INFINITY}, 10, {})), (std::set<int32_t>{0}));
}

TEST(Sample, PenaltiesActOncePerTokenOrPerOccurrence) {
  const std::vector<float> logits = {4, 3.5f, -1, 0};
  const auto greedy = [&](Settings s, std::vector<int32_t> history) {
    s["temperature"] = 0;
    return sample(logits, 1, s, std::move(history))[0];
  };
  EXPECT_EQ(greedy({{"repetition_penalty", 1.1}}, {0, 0, 0, -1}), 0);  // 4 / 1.1 > 3.5, once
  EXPECT_EQ(greedy({{"repetition_penalty", 1.2}}, {0, -1}), 1);
  EXPECT_EQ(greedy({{"frequency_penalty", 0.2}}, {0, 0, -1}), 0);
  EXPECT_EQ(greedy({{"frequency_penalty", 0.2}}, {0, 0, 0}), 1);
  EXPECT_EQ(greedy({{"presence_penalty", 0.4}}, {0, 0, 0}), 0);
  EXPECT_EQ(greedy({{"presence_penalty", 0.6}}, {0}), 1);
}

TEST(Sample, RefusesSettingsOutsideTheirRanges) {
  for (const auto& [name, value] : {std::pair{"temperature", -1.0},
                                    {"temperature", double(INFINITY)},
                                    {"top_k", -1.0},
                                    {"top_p", 1.5},
                                    {"top_p", -0.5},
                                    {"min_p", 2.0},
                                    {"repetition_penalty", 0.0}})
    EXPECT_THROW(sample({1, 2}, 1, {{name, value}}), Error) << name << " = " << value;
  EXPECT_THROW(sample({1, 2}, 1, {}, {2}), Error);
}

}  // namespace
}  // namespace tw
