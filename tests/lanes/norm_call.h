// A call of a norm, of softmax or of a gradient of theirs on Hopper: operands, and the kernels run
// by threads as lanes (testing/lanes).
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/kernels/norm_few_columns_sm90.h"
#include "tilewright/kernels/norm_rows_sm90.h"
#include "tilewright/kernels/norm_sm90.h"

namespace tw::kernels {

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

  /// The kernels of rows that a block holds, as the runtime launches them.
  template <class Norm, NormWay kWay>
  void run_rows() {
    using Rows = NormRows<Norm, kWay>;
    NormRowsArguments<T> given{arguments<Norm>(), {}, nullptr};
    for (int i = 0; i < Norm::kSums; ++i)
      if (wants[i]) outs[i].assign(size_t(of.cols), T(std::nanf("")));
    for (size_t i = 0; i < 2; ++i)
      given.column_sums[i] = outs[i].empty() ? nullptr : outs[i].data();
    std::vector<typename Norm::Factors> factors(size_t(of.rows));
    const bool is_apart = given.sums > 0 && of.rows > 1;
    if (is_apart) given.factors = factors.data();
    const int spans = of.cols * int(sizeof(T)) / NormBuild::kSpanBytes;
    const int warps = NormRowsBuild::warps(kWay, Norm::kKind, spans);
    const auto threads = unsigned(32 * warps);
    const int rows = NormRowsBuild::rows(kWay, warps);
    std::vector<char> near(size_t(NormRowsBuild::shared_bytes(kWay, Norm::kKind, warps)) + 16);
    for (int block = 0; block * rows < of.rows; ++block) {
      typename Rows::Shared shared;
      const auto run = [&] { Rows{given}(shared, near.data()); };
      testing::run_block(unsigned(block), threads, run, unsigned(rows));
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

}  // namespace tw::kernels
