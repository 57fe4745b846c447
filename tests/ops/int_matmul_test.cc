// int_matmul with the extremes of bytes, where instructions that saturate would show, in every way
// that operands may lie: the conformance suite draws small numbers.
#include "tilewright/ops/int_matmul.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/launch.h"

namespace tw {
namespace {

struct Sizes {
  int64_t batch, m, n, k;
};

/// A batch of matrices of `rows` by `columns`, which lie by rows, by columns, or every other one.
template <class T>
View<T, 3> batch_of(T* data, int64_t batch, int64_t rows, int64_t columns, int way) {
  View<T, 3> out = view(data, batch, rows, columns);
  if (way == 1) out.strides[1] = 1, out.strides[2] = rows;
  if (way == 2) out.strides[0] *= 2, out.strides[1] *= 2, out.strides[2] = 2;
  return out;
}

std::vector<int8_t> bytes(int64_t count, uint64_t seed, bool extreme) {
  testing::Random random(seed);
  std::vector<int8_t> out(static_cast<size_t>(count));
  for (int8_t& x : out)
    x = extreme ? (random.below(8) == 0 ? 127 : -128) : int8_t(int(random.below(256)) - 128);
  return out;
}

void expect_exact(runtime::Context& context, const Sizes& s, const kernels::IntMatmul& call) {
  runtime::launch<ops::IntMatmul>(context, call);
  for (int64_t i = 0; i < s.batch; ++i)
    for (int64_t m = 0; m < s.m; ++m)
      for (int64_t n = 0; n < s.n; ++n) {
        int64_t sum = 0;
        for (int64_t k = 0; k < s.k; ++k) sum += int64_t{call.a(i, m, k)} * call.b(i, k, n);
        ASSERT_EQ(call.out(i, m, n), int32_t(uint32_t(sum)))
            << "at " << i << ", " << m << ", " << n << " of " << s.m << " x " << s.n << " x "
            << s.k;
      }
}

TEST(IntMatmul, ExtremesInEveryLayout) {
  runtime::ThreadPool one(1), three(3);
  runtime::Context single(one), several(three);
  for (const Sizes& s : {Sizes{2, 1, 37, 131}, Sizes{1, 5, 64, 96}, Sizes{2, 14, 33, 2050},
                         Sizes{1, 40, 70, 523}, Sizes{1, 150, 130, 67}, Sizes{3, 61, 1, 19}})
    for (const bool extreme : {false, true})
      for (int way = 0; way < 27; ++way) {
        const auto a = bytes(2 * s.batch * s.m * s.k, 1, extreme);
        const auto b = bytes(2 * s.batch * s.n * s.k, 2, extreme);
        std::vector<int32_t> out(size_t(2 * s.batch * s.m * s.n));
        expect_exact(way % 2 == 0 ? single : several, s,
                     {batch_of(a.data(), s.batch, s.m, s.k, way % 3),
                      batch_of(b.data(), s.batch, s.k, s.n, way / 3 % 3),
                      batch_of(out.data(), s.batch, s.m, s.n, way / 9)});
      }
}

TEST(IntMatmul, OneMatrixForAllOfABatch) {
  runtime::Context context;
  const Sizes s{3, 20, 40, 130};
  const auto a = bytes(s.batch * s.m * s.k, 3, false), b = bytes(s.n * s.k, 4, false);
  std::vector<int32_t> out(size_t(s.batch * s.m * s.n));
  View<const int8_t, 3> shared = batch_of(b.data(), s.batch, s.k, s.n, 0);
  shared.strides[0] = 0;
  expect_exact(context, s,
               {batch_of(a.data(), s.batch, s.m, s.k, 0), shared,
                batch_of(out.data(), s.batch, s.m, s.n, 0)});
}

TEST(IntMatmul, SumsWrapAround) {
  runtime::Context context;
  for (const int64_t m : {1, 20}) {
    const Sizes s{1, m, 3, 131073};  // 16384 more than 2^31
    const std::vector<int8_t> a(size_t(s.m * s.k), -128), b(size_t(s.n * s.k), -128);
    std::vector<int32_t> out(size_t(s.m * s.n));
    expect_exact(context, s,
                 {batch_of(a.data(), 1, s.m, s.k, 0), batch_of(b.data(), 1, s.k, s.n, 0),
                  batch_of(out.data(), 1, s.m, s.n, 0)});
    EXPECT_EQ(out[0], std::numeric_limits<int32_t>::min() + 16384);
  }
}

}  // namespace
}  // namespace tw
