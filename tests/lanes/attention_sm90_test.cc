// What attention on Hopper computes besides the products: which block of threads works on which
// tile, and the sum over splits. The device's text, run by threads as lanes (testing/lanes).
#include <array>
#include <mutex>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tilewright/kernels/attention_combine_sm90.h"
#include "tilewright/kernels/attention_tiles_sm90.h"

namespace tw::kernels {
namespace {

constexpr int kTileQueries = 128, kBlockKeys = 128;

template <int kRank, class T>
View<const T, kRank> view_of(const std::vector<T>& data, std::array<int64_t, kRank> sizes) {
  View<const T, kRank> out{};
  out.data = data.data();
  int64_t stride = 1;
  for (int i = kRank; i-- > 0;) {
    out.sizes[i] = sizes[size_t(i)];
    out.strides[i] = stride;
    stride *= sizes[size_t(i)];
  }
  return out;
}

/// The tiles of each block of threads.
std::vector<std::vector<AttentionTile>> walk(const AttentionArguments<bf16>& given, int blocks) {
  std::vector<std::vector<AttentionTile>> out(static_cast<size_t>(blocks));
  gridDim.x = unsigned(blocks);
  for (unsigned block = 0; block < unsigned(blocks); ++block)
    testing::run_warp(block, 0, [&] {
      AttentionTile tile;
      AttentionWalk all(given.order);
      while (all.next(given, kTileQueries, kBlockKeys, tile))
        if (testing::lane() == 0) out[block].push_back(tile);
    });
  return out;
}

AttentionArguments<bf16> causal(int batches, int heads, int length) {
  AttentionArguments<bf16> given{};
  given.order = {(length + kTileQueries - 1) / kTileQueries, heads, batches, 1, true};
  given.queries = given.keys = length;
  given.before = -1;
  return given;
}

void expect_each_once(const std::vector<std::vector<AttentionTile>>& walks,
                      const std::function<int(int)>& length, int batches, int heads) {
  std::set<std::array<int, 3>> seen;
  for (const auto& tiles : walks)
    for (const AttentionTile& tile : tiles) {
      EXPECT_TRUE(seen.insert({tile.batch, tile.head, tile.first_query}).second);
      EXPECT_LT(tile.first_query, tile.q_len);
      EXPECT_EQ(tile.q_len, length(tile.batch));
    }
  int expected = 0;
  for (int b = 0; b < batches; ++b)
    expected += (length(b) + kTileQueries - 1) / kTileQueries * heads;
  EXPECT_EQ(int(seen.size()), expected);
}

TEST(AttentionWalk, VisitsEveryTileOnce) {
  for (const int length : {1, 128, 300, 700, 1664})
    for (const int blocks : {1, 3, 7})
      expect_each_once(walk(causal(2, 3, length), blocks), [&](int) { return length; }, 2, 3);
}

TEST(AttentionWalk, CausalTilesAreDealtEvenly) {
  int least = 1 << 30, most = 0;
  for (const auto& tiles : walk(causal(4, 4, 2048), 16)) {
    int blocks = 0;
    for (const AttentionTile& tile : tiles) blocks += tile.last_block - tile.first_block;
    least = std::min(least, blocks);
    most = std::max(most, blocks);
  }
  EXPECT_EQ(least, most);
}

TEST(AttentionWalk, FindsSequencesOfEveryLength) {
  constexpr int kSequences = 40, kHeads = 1;
  std::mt19937 random(5);
  std::vector<int32_t> offsets{0};
  for (int i = 0; i < kSequences; ++i)
    offsets.push_back(offsets.back() + (i % 5 == 0 ? 0 : int32_t(random() % 400)));
  AttentionArguments<bf16> given = causal(1, kHeads, 0);
  given.q_offsets = given.kv_offsets = view_of<1>(offsets, {kSequences + 1});
  given.sequences = kSequences;
  given.order.tiles = (offsets.back() + kTileQueries - 1) / kTileQueries + kSequences;
  given.order.folded = false;
  const auto length = [&](int b) { return offsets[size_t(b) + 1] - offsets[size_t(b)]; };
  expect_each_once(walk(given, 3), length, kSequences, kHeads);
}

template <int kWays>
void expect_splits_added() {
  constexpr int kSplits = 33, kQueries = 3, kHeads = 2, kDims = 200;
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> sums(size_t{kSplits} * kQueries * kHeads * kDims), logs(sums.size() / kDims);
  std::vector<float> sinks{0.5F, kNothing}, lse(kQueries * kHeads);
  std::vector<bf16> out(size_t{kQueries} * kHeads * kDims);
  for (float& x : sums) x = normal(random);
  for (size_t i = 0; i < logs.size(); ++i) {
    logs[i] = 3 * normal(random);
    if (i % 3 != 0 && i / kHeads % kQueries != 1) continue;  // all of query 1, some of the others
    logs[i] = kNothing;
    for (size_t d = 0; d < kDims; ++d) sums[i * kDims + d] = std::nanf("");  // was never written
  }
  AttentionArguments<bf16> given{};
  given.order.splits = kSplits;
  given.queries = kQueries, given.q_heads = kHeads, given.value_dims = kDims;
  given.partials = {sums.data(), kQueries * kHeads * kDims, kHeads * kDims, kDims};
  given.partial_lse = {logs.data(), kQueries * kHeads, kHeads, 1};
  given.rows = {out.data(), 0, kHeads * kDims, kDims};
  given.lse = {lse.data(), 0, 1, kQueries};
  given.sinks = view_of<1>(sinks, {kHeads});
  const int blocks = kQueries * kHeads * attention_combine_blocks(kDims, kWays);
  for (unsigned block = 0; block < unsigned(blocks); ++block)
    for (unsigned first = 0; first < kAttentionCombineThreads; first += 32)
      testing::run_warp(block, first, [&] { AttentionCombine<bf16, kWays>{given}(); });

  for (size_t row = 0; row < kQueries * kHeads; ++row) {
    double total = std::exp(double(sinks[row % kHeads]));
    for (size_t s = 0; s < kSplits; ++s) total += std::exp(double(logs[s * lse.size() + row]));
    const double logarithm = double(lse[row % kHeads * kQueries + row / kHeads]);
    EXPECT_TRUE(logarithm == std::log(total) || std::abs(logarithm - std::log(total)) < 1e-4);
    for (size_t d = 0; d < kDims; ++d) {
      double want = 0;
      for (size_t s = 0; s < kSplits; ++s) {
        const size_t at = s * lse.size() + row;
        if (logs[at] != kNothing) want += std::exp(double(logs[at])) * double(sums[at * kDims + d]);
      }
      want = total > 0 ? want / total : 0;
      EXPECT_NEAR(double(float(out[row * kDims + d])), want, 0.004 * std::abs(want) + 1e-6);
    }
  }
}

TEST(AttentionCombine, AddsUpWhatSplitsFound) {
  expect_splits_added<kAttentionCombineWays[0]>();
  expect_splits_added<kAttentionCombineWays[1]>();
}

}  // namespace
}  // namespace tw::kernels
