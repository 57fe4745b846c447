// What the conformance suite cannot state of matrix multiplication: bits that must not depend on
// the batch, the threads or the way the weight is stored, views that alias or broadcast, and packed
// weights that are not what they claim.
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/ops/core/packed_weight.h"
#include "tilewright/ops/linear.h"
#include "tilewright/ops/linear_packed.h"
#include "tilewright/ops/matmul.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/launch.h"

namespace tw {
namespace {

template <class T>
std::vector<T> random_values(int64_t count, uint64_t seed) {
  testing::Random random(seed);
  std::vector<T> out(static_cast<size_t>(count));
  for (T& value : out) value = T(static_cast<float>(random.normal()));
  return out;
}

template <class T>
Rows<const T> const_rows(const std::vector<T>& data, int64_t count, int64_t cols,
                         int64_t first = 0) {
  return rows<const T>(data.data() + first * cols, count, cols);
}

template <class T>
class Gemm : public ::testing::Test {
 protected:
  runtime::ThreadPool one_{1}, two_{2};
  runtime::Context single_{one_}, pair_{two_};
};
using Types = ::testing::Types<float, f16, bf16>;
TYPED_TEST_SUITE(Gemm, Types);

TYPED_TEST(Gemm, ARowHasTheSameBitsInAnyBatchOnAnyThreads) {
  using T = TypeParam;
  const int64_t m = 300, n = 130, k = 801;
  const auto x = random_values<T>(m * k, 1), weight = random_values<T>(n * k, 2);
  const auto bias = random_values<T>(n, 3), residual = random_values<T>(m * n, 4);
  const auto w = view<const T>(weight.data(), n, k);
  const Tensor packed = ops::pack_weight<T>(w);
  const auto bytes = view<const uint8_t>(packed.span<uint8_t>().data(), packed.bytes());

  const auto run = [&](runtime::Context& context, int64_t first, int64_t count, bool is_packed) {
    std::vector<T> out(static_cast<size_t>(count * n));
    const auto from = const_rows(x, count, k, first);
    const auto added = const_rows(residual, count, n, first);
    const auto b = view<const T>(bias.data(), n);
    const auto to = rows(out.data(), count, n);
    if (is_packed)
      runtime::launch<ops::LinearPacked>(context,
                                         kernels::LinearPacked<T>{from, bytes, b, added, 4, to});
    else
      runtime::launch<ops::Linear>(context, kernels::Linear<T>{from, w, b, added, 4, {}, {}, to});
    return out;
  };

  for (const bool is_packed : {false, true}) {
    const std::vector<T> all = run(this->single_, 0, m, is_packed);
    EXPECT_EQ(0, std::memcmp(all.data(), run(this->pair_, 0, m, is_packed).data(),
                             all.size() * sizeof(T)))
        << "two threads";
    for (const int64_t count : {1, 2, 3, 4, 6, 7, 13, 15, 29, 64, 170}) {
      for (const int64_t first : {int64_t{0}, int64_t{5}, m - count}) {
        const std::vector<T> part = run(this->pair_, first, count, is_packed);
        EXPECT_EQ(0, std::memcmp(all.data() + first * n, part.data(), part.size() * sizeof(T)))
            << count << " rows from " << first << (is_packed ? ", packed" : "");
      }
    }
  }
  EXPECT_EQ(0, std::memcmp(run(this->single_, 0, m, true).data(),
                           run(this->single_, 0, m, false).data(), sizeof(T) * size_t(m * n)))
      << "packing changes bits";
}

TYPED_TEST(Gemm, MatmulIsTheSameForEveryLayoutOfItsOperands) {
  using T = TypeParam;
  const int64_t batch = 2, m = 37, n = 43, k = 300;
  const auto a = random_values<T>(batch * m * k, 5), b = random_values<T>(batch * k * n, 6);
  const auto transposed = [](auto v) {
    std::swap(v.sizes[1], v.sizes[2]);
    std::swap(v.strides[1], v.strides[2]);
    return v;
  };
  const auto copy =
      [&](const auto& from) {  // the same elements, last two dimensions swapped in memory
        std::vector<T> out(static_cast<size_t>(from.size(0) * from.size(1) * from.size(2)));
        const auto to = transposed(view(out.data(), from.size(0), from.size(2), from.size(1)));
        for (int64_t i = 0; i < from.size(0); ++i)
          for (int64_t r = 0; r < from.size(1); ++r)
            for (int64_t c = 0; c < from.size(2); ++c) to(i, r, c) = from(i, r, c);
        return out;
      };
  const auto a_rows = view<const T>(a.data(), batch, m, k),
             b_rows = view<const T>(b.data(), batch, k, n);
  const auto a_turned = copy(a_rows), b_turned = copy(b_rows);
  const auto a_columns = transposed(view<const T>(a_turned.data(), batch, k, m));
  const auto b_columns = transposed(view<const T>(b_turned.data(), batch, n, k));

  std::vector<T> want(static_cast<size_t>(batch * m * n));
  const auto want_view = view(want.data(), batch, m, n);
  runtime::launch<ops::Matmul>(this->pair_,
                               kernels::Matmul<T>{a_rows, b_rows, 0.5f, {}, 1, want_view});
  for (const auto& left : {a_rows, a_columns}) {
    for (const auto& right : {b_rows, b_columns}) {
      for (const bool turned : {false, true}) {
        std::vector<T> out(want.size());
        const auto to =
            turned ? transposed(view(out.data(), batch, n, m)) : view(out.data(), batch, m, n);
        runtime::launch<ops::Matmul>(this->pair_, kernels::Matmul<T>{left, right, 0.5f, {}, 1, to});
        for (int64_t i = 0; i < batch; ++i)
          for (int64_t r = 0; r < m; ++r)
            for (int64_t c = 0; c < n; ++c)
              ASSERT_EQ(0, std::memcmp(&to(i, r, c), &want_view(i, r, c), sizeof(T)))
                  << "at " << i << ", " << r << ", " << c << (turned ? ", out transposed" : "");
      }
    }
  }
}

TYPED_TEST(Gemm, ABroadcastMatrixMultipliesEveryBatch) {
  using T = TypeParam;
  const int64_t batch = 3, m = 5, n = 40, k = 33;
  const auto a = random_values<T>(batch * m * k, 7), b = random_values<T>(k * n, 8);
  auto shared = view<const T>(b.data(), int64_t{1}, k, n);
  shared.sizes[0] = batch;
  shared.strides[0] = 0;
  std::vector<T> out(static_cast<size_t>(batch * m * n)), one(static_cast<size_t>(m * n));
  runtime::launch<ops::Matmul>(this->pair_, kernels::Matmul<T>{view<const T>(a.data(), batch, m, k),
                                                               shared,
                                                               1.0f,
                                                               {},
                                                               1,
                                                               view(out.data(), batch, m, n)});
  for (int64_t i = 0; i < batch; ++i) {
    runtime::launch<ops::Matmul>(
        this->single_, kernels::Matmul<T>{view<const T>(a.data() + i * m * k, int64_t{1}, m, k),
                                          view<const T>(b.data(), int64_t{1}, k, n),
                                          1.0f,
                                          {},
                                          1,
                                          view(one.data(), int64_t{1}, m, n)});
    EXPECT_EQ(0, std::memcmp(out.data() + i * m * n, one.data(), one.size() * sizeof(T)));
  }
}

TYPED_TEST(Gemm, FewRowsTimesColumnsSideBySideHaveTheBitsOfMany) {
  using T = TypeParam;
  const int64_t most = 40, n = 131, k = 301;
  const auto a = random_values<T>(most * k, 13), b = random_values<T>(k * n, 14);
  const auto run = [&](int64_t m) {
    std::vector<T> out(static_cast<size_t>(m * n));
    runtime::launch<ops::Matmul>(this->pair_,
                                 kernels::Matmul<T>{view<const T>(a.data(), int64_t{1}, m, k),
                                                    view<const T>(b.data(), int64_t{1}, k, n),
                                                    1.0f,
                                                    {},
                                                    1,
                                                    view(out.data(), int64_t{1}, m, n)});
    return out;
  };
  const std::vector<T> all = run(most);
  for (const int64_t m : {1, 2, 5, 6, 7, 13, 14, 15}) {
    const std::vector<T> few = run(m);
    EXPECT_EQ(0, std::memcmp(all.data(), few.data(), few.size() * sizeof(T))) << m << " rows";
  }
}

/// Rows of the weight a multiple of 2 KiB apart are copied first where a set of the nearest cache
/// holds few lines (tile/cpu/mma_rows.h).
TYPED_TEST(Gemm, FewRowsHaveTheSameBitsWhetherTheWeightIsCopiedOrNot) {
  using T = TypeParam;
  const int64_t n = 75;  // whole vectors of rows and a part of one
  for (const int64_t pitch : {int64_t(2048 / sizeof(T)), int64_t(16384 / sizeof(T))})
    for (const int64_t k : {pitch, pitch - 37, int64_t{5}})
      for (const int64_t m : {1, 2, 5}) {
        const auto x = random_values<T>(m * k, 1), weight = random_values<T>(n * pitch, 2);
        const auto linear = [&](int64_t l1d_bytes) {
          Machine machine = this->single_.machine();
          machine.l1d_bytes = l1d_bytes;
          runtime::Context context(this->one_, machine);
          std::vector<T> out(static_cast<size_t>(m * n), T(7.0f));
          kernels::Linear<T> kernel{};
          kernel.x = const_rows(x, m, k);
          kernel.weight = View<const T, 2>{weight.data(), {n, k}, {pitch, 1}};
          kernel.out = rows(out.data(), m, n);
          runtime::launch<ops::Linear>(context, kernel);
          return out;
        };
        const std::vector<T> copied = linear(32 << 10), in_place = linear(48 << 10);
        for (int64_t i = 0; i < m * n; ++i) {
          double want = 0, size = 0;
          for (int64_t j = 0; j < k; ++j) {
            const double term =
                double(x[size_t(i / n * k + j)]) * double(weight[size_t(i % n * pitch + j)]);
            want += term;
            size += std::abs(term);
          }
          const float got = float(copied[size_t(i)]);
          ASSERT_EQ(got, float(in_place[size_t(i)])) << "k=" << k << " m=" << m << " at " << i;
          const double rounded = sizeof(T) == 4 ? 0 : std::abs(want) / 128;  // of bf16, or less
          ASSERT_NEAR(got, want, rounded + 1e-5 * size) << "k=" << k << " m=" << m;
        }
      }
}

TYPED_TEST(Gemm, TheResidualMayBeTheOutput) {
  using T = TypeParam;
  const int64_t m = 70, n = 50, k = 900;
  const auto x = random_values<T>(m * k, 9), weight = random_values<T>(n * k, 10);
  const auto residual = random_values<T>(m * n, 11);
  std::vector<T> apart(residual.size()), in_place = residual;
  kernels::Linear<T> layer{const_rows(x, m, k),
                           view<const T>(weight.data(), n, k),
                           {},
                           const_rows(residual, m, n),
                           0,
                           {},
                           {},
                           rows(apart.data(), m, n)};
  runtime::launch<ops::Linear>(this->pair_, layer);
  layer.residual = const_rows(in_place, m, n);
  layer.out = rows(in_place.data(), m, n);
  runtime::launch<ops::Linear>(this->pair_, layer);
  EXPECT_EQ(0, std::memcmp(apart.data(), in_place.data(), apart.size() * sizeof(T)));
}

TYPED_TEST(Gemm, PackingLosesNothing) {
  using T = TypeParam;
  const int64_t n = 45, k = 31;
  const auto weight = random_values<T>(n * k, 12);
  View<const T, 2> turned = view<const T>(weight.data(), k, n);  // strided: n is contiguous
  std::swap(turned.sizes[0], turned.sizes[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  const Tensor packed = ops::pack_weight<T>(turned);
  const uint8_t* data = packed.span<uint8_t>().data();
  const auto check = ops::check_packed_weight(data, packed.bytes());
  EXPECT_EQ(check.reason, "");
  EXPECT_EQ(check.header.n, n);
  EXPECT_EQ(check.header.k, k);
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t i = 0; i < n; ++i) {
    ops::unpack_weight_row(data, i, row.data());
    for (int64_t j = 0; j < k; ++j) ASSERT_EQ(row[size_t(j)], float(turned(i, j)));
  }
}

TEST(PackedWeight, SpoiledHeadersAreNamed) {
  const auto weight = random_values<float>(40 * 8, 13);
  const Tensor packed =
      ops::pack_weight<float>(view<const float>(weight.data(), int64_t{40}, int64_t{8}));
  const auto good = packed.span<uint8_t>();
  const auto reason = [&](size_t offset, uint8_t value, int64_t bytes) {
    std::vector<uint8_t> copy(good.begin(), good.end());
    copy[offset] = value;
    return ops::check_packed_weight(copy.data(), bytes).reason;
  };
  const int64_t all = packed.bytes();
  EXPECT_EQ(reason(all > 0 ? 63 : 0, 0, all), "");
  EXPECT_NE(reason(0, 'x', all).find("first bytes"), std::string::npos);
  EXPECT_NE(reason(4, 9, all).find("version 9"), std::string::npos);
  EXPECT_NE(reason(6, 200, all).find("dtype number 200"), std::string::npos);
  EXPECT_NE(reason(7, 2, all).find("interleaved by 2"), std::string::npos);
  EXPECT_NE(reason(15, 0x80, all).find("negative"), std::string::npos);
  EXPECT_NE(reason(15, 0x7f, all).find("overflows"), std::string::npos);
  EXPECT_NE(reason(8, 90, all).find("needs"), std::string::npos);
  EXPECT_NE(reason(63, 0, all - 1).find("needs"), std::string::npos);
  EXPECT_NE(reason(63, 0, 63).find("no header"), std::string::npos);
  EXPECT_NE(reason(63, 0, 0).find("no header"), std::string::npos);
}

}  // namespace
}  // namespace tw
