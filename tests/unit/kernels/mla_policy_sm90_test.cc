#include "tilewright/kernels/mla_policy_sm90.h"

#include <utility>

#include <gtest/gtest.h>

#include "tests/unit/kernels/hopper.h"

namespace tw::kernels {
namespace {

AttentionSize decode(int64_t sequences, int64_t keys, int64_t heads, int64_t page_keys = 0) {
  return {.dims = 512,
          .value_dims = 512,
          .sequences = sequences,
          .queries = 1,
          .keys = keys,
          .group = heads,
          .kv_heads = 1,
          .page_keys = page_keys,
          .masked = false,
          .varies = false};
}

TEST(MlaPolicy, TilesThatShareKeysAreOneTeams) {
  const auto team = [](AttentionSize size, int64_t queries, bool varies = false) {
    size.queries = queries, size.varies = varies;
    const AttentionTeam out = choose_mla_sm90(size, 64, kMultiprocessors).team;
    return std::pair{out.heads, out.tiles};
  };
  EXPECT_EQ(team(decode(1, 64, 64), 1), std::pair(1, 1));
  EXPECT_EQ(team(decode(1, 64, 128), 1), std::pair(2, 1));
  EXPECT_EQ(team(decode(1, 64, 128), 2), std::pair(2, 2));
  EXPECT_EQ(team(decode(1, 64, 128), 8), std::pair(2, 2));
  EXPECT_EQ(team(decode(1, 64, 128), 3), std::pair(2, 1));
  EXPECT_EQ(team(decode(1, 64, 128), 2, true), std::pair(2, 1));
  EXPECT_EQ(team(decode(1, 64, 16), 4096), std::pair(4, 1));
}

TEST(AttentionPolicy, HeadsOfASequenceAreReadSideBySide) {
  const auto team = [](int64_t kv_heads, int multiprocessors = kMultiprocessors) {
    AttentionSize size = decode(1, 64, 4);
    size.dims = size.value_dims = 128, size.kv_heads = kv_heads;
    return choose_attention_sm90(size, multiprocessors).team.heads;
  };
  EXPECT_EQ(team(1), 1);
  EXPECT_EQ(team(8), 8);
  EXPECT_EQ(team(32), 8);
  EXPECT_EQ(team(7), 7);
  EXPECT_EQ(team(11), 1);     // more than eight
  EXPECT_EQ(team(8, 20), 4);  // a team of eight would leave four of twenty
}

TEST(AttentionPolicy, TakesTheBuildOfTheFewestDimsThatSuffice) {
  const auto dims = [](int64_t wanted, int64_t values, int64_t queries, int64_t page_keys = 0) {
    AttentionSize size = decode(1, 4096, 1, page_keys);
    size.dims = wanted, size.value_dims = values, size.queries = queries;
    const int build = choose_attention_sm90(size, kMultiprocessors).build;
    return build < 0 ? std::pair(0, 0)
                     : std::pair(kAttentionBuilds[build].dims, kAttentionBuilds[build].value_dims);
  };
  EXPECT_EQ(dims(8, 64, 4096), std::pair(64, 64));
  EXPECT_EQ(dims(72, 72, 4096), std::pair(96, 96));
  EXPECT_EQ(dims(64, 112, 4096), std::pair(128, 128));
  EXPECT_EQ(dims(192, 128, 4096), std::pair(192, 128));
  EXPECT_EQ(dims(192, 128, 4096, 64), std::pair(192, 128));
  EXPECT_EQ(dims(160, 160, 4096), std::pair(192, 192));
  EXPECT_EQ(dims(160, 160, 4096, 64), std::pair(256, 256));  // 112 keys are no pages of 64
  EXPECT_EQ(dims(256, 8, 4096), std::pair(256, 256));
  EXPECT_EQ(dims(96, 96, 1), std::pair(128, 128));  // memory bounds a few queries
  EXPECT_EQ(dims(264, 264, 4096), std::pair(0, 0));
}

TEST(AttentionPolicy, QueriesOfEightBitsHaveBuildsOfTheirOwn) {
  constexpr int kMostShared = 227 * 1024;  // of a block of threads
  for (const auto& build : kAttentionFp8Builds) {
    AttentionSize size = decode(1, 4096, 1, 0);
    size.dims = size.value_dims = build.dims, size.queries = 4096, size.fp8 = true;
    const AttentionChoice choice = choose_attention_sm90(size, kMultiprocessors);
    EXPECT_EQ(kAttentionFp8Builds[choice.build].dims, build.dims);
    EXPECT_EQ(choice.step, 0);  // tiles are whole
    EXPECT_EQ(build.query_buffers(), 2);
    EXPECT_LE(build.shared_bytes(), kMostShared);
    const int helping = build.has_helper_group() ? build.helper_registers() : 0;
    EXPECT_LE(
        128 * (build.producer_registers() + helping + build.consumers * build.consumer_registers()),
        1 << 16);
  }
}

TEST(AttentionPolicy, LongSequencesOfEightBitsHaveTallerTiles) {
  const auto consumers = [](int64_t keys, bool masked, int64_t dims) {
    AttentionSize size = decode(1, keys, 1, 0);
    size.dims = size.value_dims = dims, size.queries = keys, size.fp8 = true, size.masked = masked;
    return kAttentionFp8Builds[choose_attention_sm90(size, kMultiprocessors).build].consumers;
  };
  EXPECT_EQ(consumers(1024, false, 64), 2);
  EXPECT_EQ(consumers(4096, false, 64), 3);
  EXPECT_EQ(consumers(4096, true, 64), 2);
  EXPECT_EQ(consumers(16384, true, 64), 3);
  EXPECT_EQ(consumers(16384, false, 128), 2);
}

TEST(AttentionPolicy, FewQueriesOfNarrowKeysLieAcross) {
  const auto across = [](int64_t queries, int64_t group, int64_t dims, bool biased = false,
                         int64_t page_keys = 0) {
    AttentionSize size = decode(1, 4096, group, page_keys);
    size.dims = size.value_dims = dims, size.queries = queries;
    size.narrow = true, size.biased = biased;
    const AttentionChoice choice = choose_attention_sm90(size, kMultiprocessors);
    return std::pair(kAttentionNarrowBuilds[choice.build].across, choice.pack);
  };
  EXPECT_EQ(across(1, 4, 128), std::pair(8, 4));
  EXPECT_EQ(across(2, 4, 128), std::pair(8, 4));
  EXPECT_EQ(across(1, 7, 64), std::pair(8, 7));
  EXPECT_EQ(across(1, 12, 128), std::pair(16, 12));
  EXPECT_EQ(across(8, 4, 128), std::pair(16, 4));  // two tiles
  EXPECT_EQ(across(9, 4, 128), std::pair(0, 4));   // more
  EXPECT_EQ(across(1, 48, 64), std::pair(0, 48));
  EXPECT_EQ(across(4, 4, 256), std::pair(8, 4));
  EXPECT_EQ(across(1, 4, 264 / 2), std::pair(8, 4));  // of 256 dims
  EXPECT_EQ(across(1, 4, 128, true), std::pair(0, 4));
  EXPECT_EQ(across(1, 4, 128, false, 256), std::pair(8, 4));
  constexpr int kMostShared = 227 * 1024;  // of a block of threads
  for (const auto& build : kAttentionNarrowBuilds) {
    EXPECT_LE(build.shared_bytes(), kMostShared);
    const int helping = build.has_helper_group() ? 128 * build.helper_registers() : 0;
    EXPECT_LE(128 * build.producer_registers() + helping +
                  32 * build.consumer_warps() * build.consumer_registers(),
              1 << 16);
  }
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
