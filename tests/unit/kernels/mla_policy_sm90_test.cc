#include "tilewright/kernels/mla_policy_sm90.h"

#include <gtest/gtest.h>

namespace tw::kernels {
namespace {

constexpr int kMultiprocessors = 132;

AttentionSize decode(int64_t sequences, int64_t keys, int64_t heads, int64_t page_keys = 0) {
  return {.dims = 512,
          .sequences = sequences,
          .queries = 1,
          .keys = keys,
          .group = heads,
          .kv_heads = 1,
          .page_keys = page_keys,
          .masked = false};
}

TEST(MlaPolicy, FillsTheMultiprocessors) {
  const auto splits = [](int64_t sequences, int64_t keys) {
    return choose_mla_sm90(decode(sequences, keys, 128), 64, kMultiprocessors).splits;
  };
  EXPECT_EQ(splits(128, 4096), 1);
  EXPECT_EQ(splits(64, 4096), 1);
  EXPECT_EQ(splits(32, 8192), 2);
  EXPECT_GE(splits(1, 65536), 60);
  EXPECT_LE(splits(1, 65536), 66);
  EXPECT_EQ(splits(1, 1), 1);
}

TEST(MlaPolicy, PacksHeadsIntoRows) {
  EXPECT_EQ(choose_mla_sm90(decode(1, 64, 128), 64, kMultiprocessors).pack, 64);
  EXPECT_EQ(choose_mla_sm90(decode(1, 64, 16), 64, kMultiprocessors).pack, 16);
  AttentionSize prompt = decode(1, 64, 16);
  prompt.queries = 64;
  EXPECT_EQ(choose_mla_sm90(prompt, 64, kMultiprocessors).pack, 1);
}

TEST(MlaPolicy, TakesTheSmallestBuildOrNone) {
  AttentionSize size = decode(1, 64, 16);
  size.dims = 200;
  EXPECT_EQ(kMlaBuilds[choose_mla_sm90(size, 64, kMultiprocessors).build].values, 256);
  size.dims = 257;
  EXPECT_EQ(kMlaBuilds[choose_mla_sm90(size, 64, kMultiprocessors).build].values, 512);
  size.dims = 513;
  EXPECT_EQ(choose_mla_sm90(size, 64, kMultiprocessors).build, -1);
  EXPECT_EQ(choose_mla_sm90(decode(1, 64, 16), 65, kMultiprocessors).build, -1);
  EXPECT_EQ(choose_mla_sm90(decode(1, 64, 16, 10), 64, kMultiprocessors).build, -1);
  EXPECT_GE(choose_mla_sm90(decode(1, 64, 16, 16), 64, kMultiprocessors).build, 0);
  EXPECT_GE(choose_mla_sm90(decode(1, 64, 16, 256), 64, kMultiprocessors).build, 0);
}

}  // namespace
}  // namespace tw::kernels
