// Norms and their gradients on Hopper, whole: the device's text, run by threads as lanes
// (testing/lanes), beside sums in double precision.
#include "tests/lanes/norm_call.h"
#include "tilewright/kernels/norm_backward_rows_sm90.h"
#include "tilewright/kernels/norm_fold_sm90.h"
#include "tilewright/kernels/norm_forward_rows_sm90.h"

namespace tw::kernels {
namespace {

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
/// rms_norm alone and with a sum of inputs.
template <class T, NormWay kWay>
void expect_rms(const Sizes& sizes) {
  Call<T> add(sizes, 0.3F), forward(sizes, 0.3F);
  add.template run_rows<FusedAddRmsNormSm90<T>, kWay>();
  expect_sums_normed(add);
  for (T& x : forward.residual) x = T(0.0F);
  forward.template run_rows<RmsNormSm90<T>, kWay>();
  forward.second_out = forward.x;
  expect_sums_normed(forward);
}

/// All norms of few rows.
template <class T, NormWay kWay>
void expect_few(int rows, int cols) {
  const Sizes sizes{rows, cols, 0, {}};
  Call<T> rms(sizes, 0.3F), layer(sizes, 0.3F);
  rms.wants[1] = false, rms.has_residual = true;
  rms.template run_rows<RmsNormBackwardSm90<T>, kWay>();
  expect_gradients(rms, false);
  layer.wants[0] = rows != 2;
  layer.template run_rows<LayerNormBackwardSm90<T>, kWay>();
  expect_gradients(layer, true);
  expect_rms<T, kWay>(sizes);
}

/// Rows of one warp share a block, longer ones do not.
TEST(NormSm90, ManyRows) {
  expect_rms<float, NormWay::kMany>({9, 252, 0, {}});
  expect_rms<bf16, NormWay::kMany>({3, 2568, 0, {}});
  expect_rms<float, NormWay::kManyLong>({9, 1020, 0, {}});
  expect_rms<bf16, NormWay::kManyLong>({2, 5128, 0, {}});
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
  expect_few<float, NormWay::kFewShort>(1, 396);
  expect_few<bf16, NormWay::kFewShort>(2, 520);
  expect_few<float, NormWay::kFew>(3, 532);
  expect_few<bf16, NormWay::kFew>(1, 1544);
}

/// More rows than the threads of a block of the sums have at once, and than have loads together.
TEST(NormSm90, SumsOverMoreRowsThanThreads) {
  Call<float> call({67, 36, 0, {}}, 0.3F), twice({131, 36, 0, {}}, 0.3F);
  call.wants[1] = false;
  call.run_rows<RmsNormBackwardSm90<float>, NormWay::kFewShort>();
  expect_gradients(call, false);
  twice.run_rows<LayerNormBackwardSm90<float>, NormWay::kFewShort>();
  expect_gradients(twice, true);
}

TEST(NormSm90, LayerNorm) {
  Call<float> call({2, 1028, 0, {}}, 100), bare({3, 268, 0, {}}, 0.3F), many({9, 516, 0, {}}, 9),
      long_rows({2, 1028, 0, {}}, 9);
  call.has_residual = true;  // for the bias, of each row its own
  call.run_rows<LayerNormSm90<float>, NormWay::kFew>();
  bare.is_weighted = false;
  bare.run_rows<LayerNormSm90<float>, NormWay::kFewShort>();
  many.run_rows<LayerNormSm90<float>, NormWay::kMany>();
  long_rows.run_rows<LayerNormSm90<float>, NormWay::kManyLong>();
  for (const Call<float>* of : {&call, &bare, &many, &long_rows})
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
