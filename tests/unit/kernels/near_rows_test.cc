// Few rows times weights whose rows lie a multiple of 2 KiB apart: where a set of the nearest cache
// holds few lines they are copied first (tile/cpu/mma_rows.h). Either way gives the same bits.
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/ops/linear.h"
#include "tilewright/runtime/launch.h"

namespace tw {
namespace {

template <class T>
class NearRows : public ::testing::Test {
 protected:
  static std::vector<T> random(int64_t count, unsigned seed) {
    std::mt19937 bits(seed);
    std::normal_distribution<float> normal;
    std::vector<T> out(static_cast<size_t>(count));
    for (T& x : out) x = T(normal(bits));
    return out;
  }

  /// x [m, k] times the transpose of w [n, k], whose rows are `pitch` elements apart.
  static std::vector<T> linear(int64_t l1d_bytes, const std::vector<T>& x, const std::vector<T>& w,
                               int64_t m, int64_t n, int64_t k, int64_t pitch) {
    Machine machine = runtime::Context().machine();
    machine.l1d_bytes = l1d_bytes;
    runtime::Context context(runtime::default_pool(), machine);
    std::vector<T> out(static_cast<size_t>(m * n), T(7.0f));
    kernels::Linear<T> kernel{};
    kernel.x = rows<const T>(x.data(), m, k);
    kernel.weight = View<const T, 2>{w.data(), {n, k}, {pitch, 1}};
    kernel.out = rows(out.data(), m, n);
    runtime::launch<ops::Linear>(context, kernel);
    return out;
  }
};

using Types = ::testing::Types<float, f16, bf16>;
TYPED_TEST_SUITE(NearRows, Types);

TYPED_TEST(NearRows, CopiedOrNot) {
  using T = TypeParam;
  const int64_t n = 75;  // whole vectors of rows and a part of one
  for (const int64_t pitch : {int64_t(2048 / sizeof(T)), int64_t(16384 / sizeof(T))})
    for (const int64_t k : {pitch, pitch - 37, int64_t{5}})
      for (const int64_t m : {1, 2, 5}) {
        const std::vector<T> x = this->random(m * k, 1), w = this->random(n * pitch, 2);
        const std::vector<T> copied = this->linear(32 << 10, x, w, m, n, k, pitch);
        const std::vector<T> in_place = this->linear(48 << 10, x, w, m, n, k, pitch);
        for (int64_t i = 0; i < m * n; ++i) {
          double want = 0, size = 0;
          for (int64_t j = 0; j < k; ++j) {
            const double term =
                double(x[size_t(i / n * k + j)]) * double(w[size_t(i % n * pitch + j)]);
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

}  // namespace
}  // namespace tw
