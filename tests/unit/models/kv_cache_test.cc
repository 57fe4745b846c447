#include "tilewright/models/decoder/kv_cache.h"

#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/core/error.h"

namespace tw::models {
namespace {

constexpr int64_t kLayers = 2, kHeads = 3, kDim = 20;

/// What a cache was given, token by token: [tokens, kHeads, kDim] of keys, then of values.
struct Tokens {
  std::vector<float> keys, values;

  explicit Tokens(int64_t count, uint64_t seed) {
    testing::Random random(seed);
    for (std::vector<float>* x : {&keys, &values}) {
      x->resize(static_cast<size_t>(count * kHeads * kDim));
      for (float& v : *x) v = static_cast<float>(random.normal());
    }
  }
  View<const float, 3> part(const std::vector<float>& of, int64_t first, int64_t count) const {
    return view(of.data() + first * kHeads * kDim, count, kHeads, kDim);
  }
};

class KvCacheTest : public ::testing::Test {
 protected:
  runtime::ThreadPool pool_{2};
  runtime::Context context_{pool_};
  KvCache cache_{kLayers, kHeads, kDim};

  void append(const Tokens& tokens, int64_t first, int64_t end, DType dtype) {
    cache_.reserve(cache_.length() + end - first, dtype);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const bool swap = layer == 1;  // so that layers differ
      cache_.write(context_, layer,
                   tokens.part(swap ? tokens.values : tokens.keys, first, end - first),
                   tokens.part(swap ? tokens.keys : tokens.values, first, end - first));
    }
    cache_.advance(end - first);
  }

  template <class T>
  void expect_holds(const Tokens& tokens, int64_t count) {
    ASSERT_EQ(cache_.length(), count);
    for (int64_t t = 0; t < count; ++t)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t d = 0; d < kDim; ++d) {
          const auto at = static_cast<size_t>((t * kHeads + h) * kDim + d);
          const int64_t page = cache_.block_table()(0, t / KvCache::kPage),
                        slot = t % KvCache::kPage;
          const float key = float(T(tokens.keys[at])), value = float(T(tokens.values[at]));
          ASSERT_EQ(float(cache_.keys<T>(0)(page, slot, h, d)), key) << t << " " << h << " " << d;
          ASSERT_EQ(float(cache_.values<T>(0)(page, slot, h, d)), value);
          ASSERT_EQ(float(cache_.keys<T>(1)(page, slot, h, d)), value);
          ASSERT_EQ(float(cache_.values<T>(1)(page, slot, h, d)), key);
        }
  }
};

TEST_F(KvCacheTest, HoldsWhatWasWrittenInPiecesOfAnySize) {
  const Tokens tokens(700, 1);
  int64_t at = 0;
  for (const int64_t count : {1, 62, 1, 1, 63, 64, 200, 1, 300, 7}) {
    append(tokens, at, at + count, DType::kF16);
    at += count;
  }
  ASSERT_EQ(at, 700);
  expect_holds<f16>(tokens, 700);
}

TEST_F(KvCacheTest, HoldsFloat32Unrounded) {
  const Tokens tokens(130, 2);
  append(tokens, 0, 130, DType::kF32);
  expect_holds<float>(tokens, 130);
}

TEST_F(KvCacheTest, GoesOnAfterTruncation) {
  const Tokens old(100, 3), tokens(160, 4);
  append(tokens, 0, 70, DType::kF16);
  append(old, 0, 90, DType::kF16);
  cache_.truncate(70);
  append(tokens, 70, 160, DType::kF16);
  expect_holds<f16>(tokens, 160);
}

TEST_F(KvCacheTest, OnlyAnEmptyCacheChangesItsType) {
  const Tokens tokens(80, 5);
  append(tokens, 0, 80, DType::kF16);
  EXPECT_THROW(cache_.reserve(81, DType::kF32), Error);
  expect_holds<f16>(tokens, 80);
  cache_.truncate(0);
  append(tokens, 0, 80, DType::kF32);
  expect_holds<float>(tokens, 80);
}

}  // namespace
}  // namespace tw::models
