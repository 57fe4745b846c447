// What the conformance suite cannot state of linear layers with weights of 4 or 8 bits: bits that
// must not depend on the tokens beside one, or on the threads.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/ops/linear_int4.h"
#include "tilewright/ops/linear_int8.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/launch.h"

namespace tw {
namespace {

/// An operator, of elements of one type.
template <class Operator, class Element, int kBits>
struct Layer {
  using Op = Operator;
  using T = Element;
  static int64_t bytes(int64_t k) { return k * kBits / 8; }
};

template <class L>
class LinearInt : public ::testing::Test {
 protected:
  runtime::ThreadPool one_{1}, two_{2};
  runtime::Context single_{one_}, pair_{two_};
};
using Layers = ::testing::Types<Layer<ops::LinearInt4, float, 4>, Layer<ops::LinearInt4, f16, 4>,
                                Layer<ops::LinearInt4, bf16, 4>, Layer<ops::LinearInt8, float, 8>,
                                Layer<ops::LinearInt8, f16, 8>, Layer<ops::LinearInt8, bf16, 8>>;
TYPED_TEST_SUITE(LinearInt, Layers);

TYPED_TEST(LinearInt, ATokenHasTheSameBitsInAnyBatchOnAnyThreads) {
  using T = typename TypeParam::T;
  using Op = typename TypeParam::Op;
  const int64_t m = 70, n = 90, k = 1500, row_bytes = TypeParam::bytes(k);
  testing::Random random(1);
  const auto normal = [&](int64_t count) {
    std::vector<T> out(static_cast<size_t>(count));
    for (T& value : out) value = T(static_cast<float>(random.normal()));
    return out;
  };
  const auto bytes = [&](int64_t count) {
    std::vector<int8_t> out(static_cast<size_t>(count));
    for (int8_t& value : out) value = static_cast<int8_t>(random.below(256) - 128);
    return out;
  };
  const auto x = normal(m * k), bias = normal(n);
  const auto weight = bytes(n * row_bytes);
  for (const int64_t group_size : {7, 128}) {
    const int64_t groups = (k + group_size - 1) / group_size;
    const auto scale = normal(n * groups);
    const auto zero = bytes(n * groups);
    const auto run = [&](runtime::Context& context, int64_t first, int64_t count) {
      std::vector<T> out(static_cast<size_t>(count * n));
      runtime::launch<Op>(
          context, typename Op::template Kernel<T>{rows<const T>(x.data() + first * k, count, k),
                                                   view<const int8_t>(weight.data(), n, row_bytes),
                                                   view<const T>(scale.data(), n, groups),
                                                   view<const int8_t>(zero.data(), n, groups),
                                                   view<const T>(bias.data(), n), group_size,
                                                   rows(out.data(), count, n)});
      return out;
    };
    const std::vector<T> all = run(this->single_, 0, m);
    for (const int64_t count : {1, 2, 3, 4, 6, 7, 8, 9, 24, 25, 33, 70})
      for (const int64_t first : {int64_t{0}, m - count}) {
        const std::vector<T> part = run(this->pair_, first, count);
        EXPECT_EQ(0, std::memcmp(all.data() + first * n, part.data(), part.size() * sizeof(T)))
            << count << " tokens from " << first << ", groups of " << group_size;
      }
  }
}

}  // namespace
}  // namespace tw
