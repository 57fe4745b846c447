// Norms and their gradients on Hopper, whole: the device's text, run by threads as lanes
// (testing/lanes), beside sums in double precision.
#include "tilewright/kernels/norm_sm90.h"

#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tilewright/kernels/norm_backward_rows_sm90.h"
#include "tilewright/kernels/norm_few_sm90.h"
#include "tilewright/kernels/norm_fold_sm90.h"
#include "tilewright/kernels/norm_forward_rows_sm90.h"
#include "tilewright/kernels/softmax_rows_sm90.h"

namespace tw::kernels {
namespace {

struct Sizes {
  int rows, cols, clusters;
  NormShape shape;
};

/// One call: operands, and what the kernels make of them.
template <class T>
struct Call {
  Sizes of;
  std::vector<T> grad, x, weight, residual, out, second_out;
  std::vector<float> partials;
  std::vector<T> outs[2];
  bool is_weighted = true, has_residual = false, wants[2] = {true, true};

  Call(const Sizes& sizes, float mean) : of(sizes) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<T>& data, int count, float offset) {
      for (int i = 0; i < count; ++i) data.push_back(T(normal(random) + offset));
    };
    fill(grad, of.rows * of.cols, 0.5F);
    fill(x, of.rows * of.cols, mean);
    fill(residual, of.rows * of.cols, 0);
    fill(weight, of.cols, 1);
    out.assign(x.size(), T(std::nanf("")));
    second_out = out;
  }

  template <class Norm, bool kIsCluster>
  void run() {
    NormArguments<T> given = arguments<Norm>();
    given.shape = of.shape;
    partials.assign(size_t(of.clusters * given.sums * of.cols), std::nanf(""));
    given.partials = partials.data();
    gridDim.x = unsigned(of.clusters * of.shape.ranks);
    for (int cluster = 0; cluster < of.clusters; ++cluster)
      run_cluster<NormSm90<Norm, kIsCluster>>(given, cluster);
    fold(given);
  }

  /// The kernels of few rows, as the runtime launches them.
  template <class Norm, bool kIsShort>
  void run_few() {
    using Few = NormFew<Norm, kIsShort>;
    NormFewArguments<T> given{arguments<Norm>(), {}, nullptr};
    for (int i = 0; i < Norm::kSums; ++i)
      if (wants[i]) outs[i].assign(size_t(of.cols), T(std::nanf("")));
    for (size_t i = 0; i < 2; ++i)
      given.column_sums[i] = outs[i].empty() ? nullptr : outs[i].data();
    std::vector<typename Norm::Factors> factors(size_t(of.rows));
    const bool is_apart = given.sums > 0 && of.rows > 1;
    if (is_apart) given.factors = factors.data();
    const int spans = of.cols * int(sizeof(T)) / NormBuild::kSpanBytes;
    const auto threads = unsigned(NormFewBuild::threads(spans, kIsShort));
    for (unsigned r = 0; r < unsigned(of.rows); ++r) {
      typename Few::Shared shared;
      testing::run_block(r, threads, [&] { Few{given}(shared); });
    }
    if constexpr (Norm::kSums > 0) {
      using Columns = NormFewColumns<Norm>;
      for (int c = 0; c < of.cols && is_apart; c += Columns::kColumns) {
        typename Columns::Shared shared;
        testing::run_block(unsigned(c / Columns::kColumns), NormFewBuild::kColumnThreads,
                           [&] { Columns{given}(shared); });
      }
    }
  }

 private:
  template <class Norm>
  NormArguments<T> arguments() {
    NormArguments<T> given{};
    constexpr bool kIsGradient = Norm::kSums > 0;
    given.inputs[0] = x.data(), given.inputs[1] = kIsGradient ? grad.data() : residual.data();
    given.outs[0] = out.data(), given.outs[1] = second_out.data();
    given.weight = is_weighted ? weight.data() : nullptr;
    given.residual_grad = has_residual ? residual.data() : nullptr;
    for (int i = 0; i < 2; ++i) given.input_strides[i] = given.out_strides[i] = of.cols;
    given.residual_stride = of.cols;
    given.rows = of.rows, given.cols = of.cols, given.eps = 1e-5F;
    given.place[0] = given.place[1] = -1;
    for (int i = 0; i < Norm::kSums; ++i) given.place[i] = wants[i] ? given.sums++ : -1;
    return given;
  }

  template <class Kernel>
  void run_cluster(const NormArguments<T>& given, int cluster) const {
    using Shared = typename Kernel::Shared;
    const int ranks = of.shape.ranks;
    const auto threads = unsigned(32 * of.shape.warps * of.shape.groups);
    testing::Cluster all{std::barrier<>(int(threads) * ranks), {}};
    std::vector<std::unique_ptr<Shared>> memory;
    for (int r = 0; r < ranks; ++r) {
      memory.push_back(std::make_unique<Shared>());
      std::memset(static_cast<void*>(memory.back().get()), 0xff, sizeof(Shared));  // NaN
      all.shared.push_back(reinterpret_cast<char*>(memory.back().get()));
    }
    this_cluster = &all;
    std::vector<std::jthread> blocks;
    for (int r = 0; r < ranks; ++r)
      blocks.emplace_back([&, r] {
        testing::run_block(unsigned(cluster * ranks + r), threads,
                           [&] { Kernel{given}(all.shared[size_t(r)]); });
      });
  }

  /// As the fold does, of which there is a test of its own.
  void fold(const NormArguments<T>& given) {
    for (int i = 0; i < 2; ++i) {
      if (given.place[i] < 0) continue;
      for (int c = 0; c < of.cols; ++c) {
        double sum = 0;
        for (int cluster = 0; cluster < of.clusters; ++cluster)
          sum += double(partials[size_t((cluster * given.sums + given.place[i]) * of.cols + c)]);
        outs[i].push_back(T(float(sum)));
      }
    }
  }
};

template <class T>
void expect_near(double value, double want, double scale, const std::string& what) {
  const double rounding = sizeof(T) == 4 ? 2e-6 : 8e-3;  // of bf16: half of 2^-7, and a bit
  ASSERT_NEAR(value, want, rounding * std::abs(want) + 2e-5 * scale) << what;
}

template <class T>
void expect_gradients(const Call<T>& call, bool is_layer_norm) {
  const int rows = call.of.rows, cols = call.of.cols;
  std::vector<double> sums[2];
  for (auto& sum : sums) sum.assign(size_t(cols), 0);
  for (int r = 0; r < rows; ++r) {
    const auto at = [&](const std::vector<T>& from, int c) {
      return double(float(from[size_t(r) * size_t(cols) + size_t(c)]));
    };
    double mean = 0, squares = 0, grads = 0, products = 0;
    for (int c = 0; c < cols && is_layer_norm; ++c) mean += at(call.x, c) / cols;
    for (int c = 0; c < cols; ++c) squares += std::pow(at(call.x, c) - mean, 2) / cols;
    const double rstd = 1 / std::sqrt(squares + double(1e-5F));
    const auto normal = [&](int c) { return (at(call.x, c) - mean) * rstd; };
    const auto scaled = [&](int c) {
      return at(call.grad, c) * (call.is_weighted ? double(float(call.weight[size_t(c)])) : 1);
    };
    for (int c = 0; c < cols; ++c) {
      if (is_layer_norm) grads += scaled(c) / cols;
      products += scaled(c) * normal(c) / cols;
      sums[0][size_t(c)] += at(call.grad, c) * normal(c);
      sums[1][size_t(c)] += at(call.grad, c);
    }
    for (int c = 0; c < cols; ++c)
      expect_near<T>(at(call.out, c),
                     (scaled(c) - grads - normal(c) * products) * rstd +
                         (call.has_residual ? at(call.residual, c) : 0),
                     1, "row " + std::to_string(r) + ", column " + std::to_string(c));
  }
  for (int i = 0; i < 2; ++i)
    for (size_t c = 0; c < call.outs[i].size(); ++c)
      expect_near<T>(double(float(call.outs[i][c])), sums[i][c], rows, "sum " + std::to_string(i));
}

/// Both norms, on rows of one block.
template <class T>
void expect_both(const Sizes& sizes, float mean = 0.3F) {
  Call<T> rms(sizes, mean), layer(sizes, mean);
  rms.wants[1] = false;
  rms.template run<RmsNormBackwardSm90<T>, false>();
  expect_gradients(rms, false);
  layer.template run<LayerNormBackwardSm90<T>, false>();
  expect_gradients(layer, true);
}

template <class T>
void expect_sums_normed(const Call<T>& call) {
  const int rows = call.of.rows, cols = call.of.cols;
  for (int r = 0; r < rows; ++r) {
    const auto at = [&](const std::vector<T>& from, int c) {
      return double(float(from[size_t(r) * size_t(cols) + size_t(c)]));
    };
    const auto sum = [&](int c) {
      return double(float(T(float(at(call.x, c) + at(call.residual, c)))));
    };
    double squares = 0;
    for (int c = 0; c < cols; ++c) squares += std::pow(sum(c), 2) / cols;
    const double rstd = 1 / std::sqrt(squares + double(1e-5F));
    for (int c = 0; c < cols; ++c) {
      const std::string what = "row " + std::to_string(r) + ", column " + std::to_string(c);
      expect_near<T>(at(call.out, c), sum(c) * rstd * double(float(call.weight[size_t(c)])), 1,
                     what);
      ASSERT_EQ(at(call.second_out, c), sum(c)) << what;
    }
  }
}
template <class T, bool kIsCluster = false>
void expect_fused_add(const Sizes& sizes) {
  Call<T> call(sizes, 0.3F);
  call.template run<FusedAddRmsNormSm90<T>, kIsCluster>();
  expect_sums_normed(call);
}

/// All norms of few rows.
template <class T, bool kIsShort>
void expect_few(int rows, int cols) {
  const Sizes sizes{rows, cols, 0, {}};
  Call<T> rms(sizes, 0.3F), layer(sizes, 0.3F), add(sizes, 0.3F), forward(sizes, 0.3F);
  rms.wants[1] = false, rms.has_residual = true;
  rms.template run_few<RmsNormBackwardSm90<T>, kIsShort>();
  expect_gradients(rms, false);
  layer.wants[0] = rows != 2;
  layer.template run_few<LayerNormBackwardSm90<T>, kIsShort>();
  expect_gradients(layer, true);
  add.template run_few<FusedAddRmsNormSm90<T>, kIsShort>();
  expect_sums_normed(add);
  for (T& x : forward.residual) x = T(0.0F);
  forward.template run_few<RmsNormSm90<T>, kIsShort>();
  forward.second_out = forward.x;
  expect_sums_normed(forward);
}

TEST(NormSm90, FusedAdd) {
  expect_fused_add<float>({23, 512, 2, {1, 512, 1, 2}});
  expect_fused_add<bf16>({9, 1000, 1, {1, 1000, 1, 2}});
  expect_fused_add<float>({9, 600, 1, {1, 600, 2, 2}});
  expect_fused_add<float>({1, 300, 1, {1, 300, 1, 4}});
  for (const int ranks : {2, 4})
    expect_fused_add<float, true>({9, 524 * ranks - 4 * ranks + 4, 1, {ranks, 524, 2, 1}});
}

TEST(NormSm90, RowsOfAWarp) {
  expect_both<float>({11, 512, 2, {1, 512, 1, 2}});
  expect_both<bf16>({9, 1000, 1, {1, 1000, 1, 2}});
}

TEST(NormSm90, RowsOfSeveralWarps) {
  expect_both<float>({9, 600, 1, {1, 600, 2, 2}});
  expect_both<bf16>({5, 2048, 1, {1, 2048, 2, 1}});
}

TEST(NormSm90, FewerRowsThanGroups) {
  expect_both<float>({1, 300, 1, {1, 300, 1, 4}});
  expect_both<float>({3, 600, 1, {1, 600, 2, 3}});
}

TEST(NormSm90, RowsOfACluster) {
  for (const int ranks : {2, 4}) {
    const Sizes sizes{6, 524 * ranks - 4 * ranks + 4, 1, {ranks, 524, 2, 1}};
    Call<float> rms(sizes, 0.3F), layer(sizes, 0.3F);
    rms.wants[1] = false;
    rms.run<RmsNormBackwardSm90<float>, true>();
    expect_gradients(rms, false);
    layer.run<LayerNormBackwardSm90<float>, true>();
    expect_gradients(layer, true);
  }
}

TEST(NormSm90, WhatIsAbsent) {
  const Sizes sizes{4, 400, 1, {1, 400, 1, 2}};
  Call<float> residual(sizes, 0.3F), alone(sizes, 0.3F), bias(sizes, 0.3F);
  residual.has_residual = true;
  residual.wants[0] = residual.wants[1] = false;
  residual.run<RmsNormBackwardSm90<float>, false>();
  expect_gradients(residual, false);
  alone.is_weighted = alone.wants[0] = alone.wants[1] = false;
  alone.run<LayerNormBackwardSm90<float>, false>();
  expect_gradients(alone, true);
  bias.wants[0] = false;
  bias.run<LayerNormBackwardSm90<float>, false>();
  expect_gradients(bias, true);
  EXPECT_TRUE(bias.outs[0].empty());
}

/// A sum of squares about zero would lose all digits of the variance.
TEST(NormSm90, ADistantMean) {
  Call<float> call({4, 1100, 1, {1, 1100, 3, 1}}, 0.3F);
  for (float& x : call.x) x = std::round(x * 8) / 8 + 100;
  call.run<LayerNormBackwardSm90<float>, false>();
  expect_gradients(call, true);
}

TEST(NormSm90, FewRows) {
  expect_few<float, true>(1, 396);
  expect_few<bf16, true>(2, 520);
  expect_few<float, false>(3, 532);
  expect_few<bf16, false>(1, 1544);
}

/// More rows than the threads of a block of the sums have at once, and than have loads together.
TEST(NormSm90, SumsOverMoreRowsThanThreads) {
  Call<float> call({67, 36, 0, {}}, 0.3F), twice({131, 36, 0, {}}, 0.3F);
  call.wants[1] = false;
  call.run_few<RmsNormBackwardSm90<float>, true>();
  expect_gradients(call, false);
  twice.run_few<LayerNormBackwardSm90<float>, true>();
  expect_gradients(twice, true);
}

TEST(NormSm90, LayerNormOfFewRows) {
  Call<float> call({2, 1028, 0, {}}, 100), bare({3, 268, 0, {}}, 0.3F);
  call.has_residual = true;  // for the bias, of each row its own
  call.run_few<LayerNormSm90<float>, false>();
  bare.is_weighted = false;
  bare.run_few<LayerNormSm90<float>, true>();
  for (const Call<float>* of : {&call, &bare})
    for (int r = 0; r < of->of.rows; ++r) {
      const int cols = of->of.cols;
      const auto at = [&](const std::vector<float>& from, int c) {
        return double(from[size_t(r * cols + c)]);
      };
      double mean = 0, squares = 0;
      for (int c = 0; c < cols; ++c) mean += at(of->x, c) / cols;
      for (int c = 0; c < cols; ++c) squares += std::pow(at(of->x, c) - mean, 2) / cols;
      for (int c = 0; c < cols; ++c) {
        const double normal = (at(of->x, c) - mean) / std::sqrt(squares + double(1e-5F));
        const double weight = of->is_weighted ? double(of->weight[size_t(c)]) : 1;
        expect_near<float>(at(of->out, c),
                           normal * weight + (of->has_residual ? at(of->residual, c) : 0), 1,
                           std::to_string(r) + ", " + std::to_string(c));
      }
    }
}

/// Softmax and its logarithm, and their gradients, of which x is the gradient of the output.
template <class T, bool kIsShort, bool kIsLog>
void expect_softmax(int rows, int cols) {
  const Sizes sizes{rows, cols, 0, {}};
  Call<T> forward(sizes, 0.3F), backward(sizes, 0.3F);
  for (T& x : forward.x) x = T(float(x) * 20 - 100);
  forward.template run_few<SoftmaxSm90<T, kIsLog>, kIsShort>();
  for (T& y : backward.residual) y = T(-std::abs(float(y)));
  backward.template run_few<SoftmaxBackwardSm90<T, kIsLog>, kIsShort>();
  for (int r = 0; r < rows; ++r) {
    const auto at = [&](const std::vector<T>& from, int c) {
      return double(float(from[size_t(r * cols + c)]));
    };
    double high = -INFINITY, total = 0, grads = 0;
    for (int c = 0; c < cols; ++c) high = std::max(high, at(forward.x, c));
    for (int c = 0; c < cols; ++c) total += std::exp(at(forward.x, c) - high);
    for (int c = 0; c < cols; ++c)
      grads += at(backward.x, c) * (kIsLog ? 1 : at(backward.residual, c));
    for (int c = 0; c < cols; ++c) {
      const std::string what = "row " + std::to_string(r) + ", column " + std::to_string(c);
      const double below = at(forward.x, c) - high, y = at(backward.residual, c);
      expect_near<T>(at(forward.out, c), kIsLog ? below - std::log(total) : std::exp(below) / total,
                     0.1, what);
      const double g = at(backward.x, c);
      expect_near<T>(at(backward.out, c), kIsLog ? g - std::exp(y) * grads : y * (g - grads),
                     std::abs(grads), what);
    }
  }
}

TEST(NormSm90, SoftmaxOfFewRows) {
  expect_softmax<float, true, false>(1, 396);
  expect_softmax<bf16, true, true>(2, 520);
  expect_softmax<float, false, true>(3, 532);
  expect_softmax<bf16, false, false>(1, 1544);
}

TEST(NormSm90, SoftmaxOfWhatIsInfinite) {
  Call<float> call({4, 300, 0, {}}, 0.3F);
  float* const rows = call.x.data();
  std::fill(rows, rows + 256, -INFINITY);  // two warps know of none
  std::fill(rows + 300, rows + 600, -INFINITY);
  rows[700] = INFINITY, rows[1000] = NAN;
  call.run_few<SoftmaxSm90<float>, true>();
  EXPECT_EQ(call.out[255], 0);
  double sum = 0;
  for (int c = 0; c < 300; ++c) sum += double(call.out[size_t(c)]);
  EXPECT_NEAR(sum, 1, 1e-5);
  for (size_t c = 300; c < 1200; ++c) ASSERT_TRUE(std::isnan(call.out[c])) << c;
}

TEST(NormSm90, FoldAddsUpWhatClustersLeft) {
  constexpr int kCols = 40, kSums = 2, kThreads = NormFoldArguments<float>::kThreads;
  for (const int clusters : {1, 33, 132}) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> partials(size_t(clusters * kSums * kCols)), outs[kSums];
    for (float& x : partials) x = normal(random);
    NormFoldArguments<float> given{partials.data(), clusters, kCols, kSums, {}};
    for (int i = 0; i < kSums; ++i) {
      outs[i].assign(2 * kCols, std::nanf(""));
      given.outs[i] = {outs[i].data(), {kCols}, {2}};
    }
    for (unsigned block = 0; block < 2 * kSums; ++block) {
      NormFold<float>::Shared shared;
      testing::run_block(block, kThreads, [&] { NormFold<float>{given}(shared); });
    }
    for (int i = 0; i < kSums; ++i)
      for (int c = 0; c < kCols; ++c) {
        double want = 0;
        for (int b = 0; b < clusters; ++b)
          want += double(partials[size_t((b * kSums + i) * kCols + c)]);
        ASSERT_NEAR(double(outs[i][size_t(2 * c)]), want, 1e-5 * clusters) << i << ", " << c;
        ASSERT_TRUE(std::isnan(outs[i][size_t(2 * c + 1)]));
      }
  }
}

TEST(NormSm90, ShapesCoverRows) {
  using Build = NormBuild;
  for (const int bytes : {2, 4})
    for (int64_t cols = 1024 / bytes; cols <= Build::kRanks * Build::kRowBytes / bytes;
         cols += Build::kSpanBytes / bytes) {
      const NormShape shape = choose_norm_sm90(cols, bytes);
      const int64_t of_warp = 32 * Build::kSpans * Build::kSpanBytes / bytes;
      ASSERT_GE(int64_t{shape.ranks} * shape.columns, cols);
      ASSERT_LT(int64_t{shape.ranks - 1} * shape.columns, cols);  // no block has none
      ASSERT_EQ(shape.columns % (Build::kSpanBytes / bytes), 0);
      ASSERT_GE(shape.warps * of_warp, shape.columns);
      ASSERT_LT((shape.warps - 1) * of_warp, shape.columns);
      ASSERT_LE(shape.warps * shape.groups, Build::kWarps);
      ASSERT_TRUE(shape.ranks == 1 || shape.groups == 1);
    }
}

}  // namespace
}  // namespace tw::kernels
