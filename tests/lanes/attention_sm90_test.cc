// What attention on Hopper computes besides the products: which block of threads works on which
// tile, which keys of it, and the sum over parts. The device's text, run by threads as lanes
// (testing/lanes).
#include <array>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tilewright/kernels/attention_combine_sm90.h"
#include "tilewright/kernels/attention_line_sm90.h"
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
  given.order.tiles = (length + kTileQueries - 1) / kTileQueries;
  given.order.heads = heads, given.order.batches = batches, given.order.folded = true;
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

/// Sequences of these lengths, a query each; heads of keys that a tile each reads.
struct Decoding {
  std::vector<int32_t> lengths;
  AttentionArguments<bf16> given{};

  Decoding(std::vector<int32_t> of, int heads, AttentionTeam team, int step)
      : lengths(std::move(of)) {
    given.sequences = int(lengths.size());
    given.order.heads = heads, given.order.team = team;
    given.order.step = step, given.order.least = 2;
    given.queries = 1;
    given.before = given.after = -1;
    given.kv_lens = view_of<1>(lengths, {given.sequences});
  }
  int blocks_of(int batch) const { return (lengths[size_t(batch)] + kBlockKeys - 1) / kBlockKeys; }
};

struct Shares {
  std::vector<std::vector<AttentionTile>> tiles;  // of each block of threads
  std::vector<AttentionParted> parted;
};
Shares take_shares(AttentionArguments<bf16> given, int queries, int blocks) {
  AttentionOrder& order = given.order;
  order.teams = blocks / order.team.size();
  order.units = order.heads / order.team.heads;
  Shares out;
  out.tiles.resize(size_t(blocks));
  out.parted.resize(size_t(blocks), {-1, 0, 0, 0, 0, 0});
  given.parted = out.parted.data();
  gridDim.x = unsigned(blocks);
  for (unsigned block = 0; block < unsigned(blocks); ++block)
    testing::run_warp(block, 0, [&] {
      AttentionLine line(given, queries, kBlockKeys);
      for (bool more = true; more;) {
        AttentionTile tile;
        more = line.next(given, queries, kBlockKeys, tile);
        line.leave(given, tile);
        if (more && testing::lane() == 0) out.tiles[block].push_back(tile);
      }
    });
  return out;
}

/// Every block of keys is taken once, and the sum over parts finds all parts of a tile.
void expect_taken_once(const Decoding& of, const Shares& shares) {
  std::map<std::array<int, 3>, int> taken;  // how often a block of a tile is
  std::map<std::pair<int, int>, int> whole;
  std::map<int, const AttentionTile*> slots;
  for (const auto& tiles : shares.tiles)
    for (const AttentionTile& tile : tiles) {
      EXPECT_EQ(tile.q_len, 1);
      if (tile.slot < 0) ++whole[{tile.batch, tile.head}];
      if (tile.slot >= 0) {
        EXPECT_TRUE(slots.insert({tile.slot, &tile}).second);
      }
      for (int i = tile.first_block; i < tile.last_block; ++i) ++taken[{tile.batch, tile.head, i}];
    }
  size_t parts = 0;
  for (size_t block = 0; block < shares.parted.size(); ++block) {
    const AttentionParted& tile = shares.parted[block];
    ASSERT_GE(tile.parts, 0);
    for (int i = 0; i < tile.parts; ++i, ++parts) {
      const int slot = 2 * (int(block) + i * of.given.order.team.size()) + int(i == 0);
      ASSERT_TRUE(slots.contains(slot));
      EXPECT_EQ(slots[slot]->head, tile.head);
      EXPECT_EQ(slots[slot]->batch, slots[2 * int(block) + 1]->batch);
      EXPECT_EQ(slots[slot]->q_outer, tile.q_outer);
      if (i == 0) ++whole[{slots[slot]->batch, tile.head}];
    }
  }
  EXPECT_EQ(parts, slots.size());
  size_t expected = 0;
  for (int b = 0; b < of.given.sequences; ++b)
    for (int h = 0; h < of.given.order.heads; ++h) {
      EXPECT_EQ((whole[{b, h}]), 1) << b << ' ' << h;
      for (int i = 0; i < of.blocks_of(b); ++i, ++expected) EXPECT_EQ((taken[{b, h, i}]), 1);
    }
  EXPECT_EQ(taken.size(), expected);
}

/// No share is longer than the mean by more than a step and a tile's ends.
void expect_balanced(const Decoding& of, const Shares& shares) {
  const AttentionOrder& order = of.given.order;
  const auto steps_of = [&](int blocks) {
    return std::max((blocks + order.step - 1) / order.step, 1);
  };
  int total = 0;
  for (int b = 0; b < of.given.sequences; ++b)
    total += order.heads * (steps_of(of.blocks_of(b)) + AttentionLine::kEnds);
  const int blocks = int(shares.tiles.size());
  for (const auto& tiles : shares.tiles) {
    int steps = 0;
    for (const AttentionTile& tile : tiles)
      steps += steps_of(tile.last_block - tile.first_block) +
               (tile.slot < 0 || tile.slot % 2 == 1 ? AttentionLine::kEnds : 0);
    EXPECT_LE(steps, std::max(total / blocks + 1 + AttentionLine::kEnds, order.least));
  }
}

TEST(AttentionShare, FindsWhoseAStepIs) {
  for (const AttentionShare& share :
       {AttentionShare{1000003, 0, 132}, {33, 1, 2}, {17, 1, 5}, {130, 0, 1}, {140, 0, 132}})
    for (int team = 0; team < 3 * share.parts; ++team)
      for (const int step : {share.begin(team), share.begin(team + 1) - 1})
        if ((step - share.skip) % share.length < share.length - share.skip) {
          EXPECT_EQ(share.team_at(step), team);
        }
}

TEST(AttentionLine, SharesAreEqualWhateverTheLengths) {
  std::mt19937 random(11);
  for (const int sequences : {1, 5, 40, 70})
    for (const int step : {1, 2})
      for (const AttentionTeam team : {AttentionTeam{1, 1}, AttentionTeam{2, 1}}) {
        std::vector<int32_t> lengths;
        for (int i = 0; i < sequences; ++i) lengths.push_back(i % 7 == 3 ? 0 : 1 << random() % 14);
        for (int32_t& x : lengths) x += x > 0 ? int32_t(random() % unsigned(x)) : 0;
        const Decoding of(lengths, 4, team, step);
        const Shares shares = take_shares(of.given, 1, 12);
        expect_taken_once(of, shares);
        expect_balanced(of, shares);
      }
}

TEST(AttentionLine, MembersOfATeamReadTheSameKeys) {
  const Decoding of({3000, 128, 0, 700}, 4, {4, 1}, 2);
  const Shares shares = take_shares(of.given, 1, 12);
  expect_taken_once(of, shares);
  for (size_t team = 0; team < 3; ++team)
    for (size_t i = 0; i < shares.tiles[4 * team].size(); ++i)
      for (size_t member = 0; member < 4; ++member) {
        const AttentionTile& first = shares.tiles[4 * team][i];
        const AttentionTile& tile = shares.tiles[4 * team + member][i];
        EXPECT_EQ(tile.head, int(member));
        EXPECT_EQ(tile.batch, first.batch);
        EXPECT_EQ(tile.first_block, first.first_block);
        EXPECT_EQ(tile.last_block, first.last_block);
      }
}

TEST(AttentionLine, TilesOfOneLengthAreCutAlikeIfThatCostsLittle) {
  const auto parts = [](int sequences, int slack) {
    Decoding of(std::vector<int32_t>(size_t(sequences), 64 * kBlockKeys), 1, {}, 1);
    of.given.order.slack = slack;
    const Shares shares = take_shares(of.given, 1, 12);
    expect_taken_once(of, shares);
    std::multiset<int> out;
    for (const AttentionParted& tile : shares.parted) out.insert(tile.parts);
    return out;
  };
  EXPECT_EQ(parts(24, 0).count(0), 12U);  // two whole ones each
  EXPECT_EQ(parts(11, 8).count(0), 12U);  // one idle
  EXPECT_LT(parts(11, 0).count(0), 12U);
  EXPECT_EQ(parts(5, 8).count(2), 5U);  // two halves of each
}

TEST(AttentionLine, TheHostMayKnowTheShares) {
  for (const int sequences : {1, 5, 11, 30})
    for (const int slack : {0, 8}) {
      Decoding of(std::vector<int32_t>(size_t(sequences), 9 * kBlockKeys), 4, {2, 1}, 2);
      AttentionOrder& order = of.given.order;
      order.slack = slack;
      const Shares found = take_shares(of.given, 1, 12);
      order.line = {sequences * 2 * (AttentionLine::kEnds + 5), AttentionLine::kEnds + 5};
      order.share = order.line.share(6, order.least, slack);
      const Shares known = take_shares(of.given, 1, 12);
      expect_taken_once(of, known);
      for (size_t block = 0; block < 12; ++block) {
        EXPECT_EQ(known.parted[block].parts, found.parted[block].parts);
        ASSERT_EQ(known.tiles[block].size(), found.tiles[block].size());
        for (size_t i = 0; i < known.tiles[block].size(); ++i)
          EXPECT_EQ(known.tiles[block][i].first_block, found.tiles[block][i].first_block);
      }
    }
}

TEST(AttentionLine, TakesAFewStepsAtLeast) {
  Decoding of({5 * kBlockKeys}, 1, {}, 1);
  of.given.order.least = 3;
  const Shares shares = take_shares(of.given, 1, 12);
  expect_taken_once(of, shares);
  EXPECT_EQ(shares.parted[0].parts, 2);
}

TEST(AttentionLine, PacksQueriesOfEveryNumber) {
  constexpr int kSequences = 37, kQueries = 16, kHeads = 3, kBlocks = 7;
  std::mt19937 random(5);
  std::vector<int32_t> offsets{0}, lengths;
  for (int i = 0; i < kSequences; ++i) {
    offsets.push_back(offsets.back() + (i % 5 == 0 ? 0 : int32_t(random() % 60)));
    lengths.push_back(int32_t(offsets.back() - offsets[size_t(i)] + int(random() % 900)));
  }
  AttentionArguments<bf16> given{};
  given.order.heads = kHeads, given.order.step = given.order.least = 1;
  given.q_offsets = view_of<1>(offsets, {kSequences + 1});
  given.kv_lens = view_of<1>(lengths, {kSequences});
  given.sequences = kSequences;
  given.before = 300;
  std::map<std::array<int, 4>, int> taken;
  std::set<std::array<int, 3>> begun;
  for (const auto& tiles : take_shares(given, kQueries, kBlocks).tiles)
    for (const AttentionTile& tile : tiles) {
      if (tile.slot < 0 || tile.slot % 2 == 1) {
        EXPECT_TRUE(begun.insert({tile.batch, tile.head, tile.first_query}).second);
      }
      for (int i = tile.first_block; i < tile.last_block; ++i)
        ++taken[{tile.batch, tile.head, tile.first_query, i}];
    }
  size_t tiles = 0, blocks = 0;
  for (int b = 0; b < kSequences; ++b)
    for (int first = 0; first < offsets[size_t(b) + 1] - offsets[size_t(b)]; first += kQueries)
      for (int h = 0; h < kHeads; ++h, ++tiles) {
        AttentionTile tile;
        tile.batch = b, tile.first_query = first;
        tile.find_sequence(given);
        tile.find_blocks(given, kQueries, kBlockKeys);
        EXPECT_TRUE(begun.contains({b, h, first}));
        for (int i = tile.first_block; i < tile.last_block; ++i, ++blocks)
          EXPECT_EQ((taken[{b, h, first, i}]), 1);
      }
  EXPECT_EQ(begun.size(), tiles);
  EXPECT_EQ(taken.size(), blocks);
}

/// A tile of two queries in `count` blocks of threads.
void expect_parts_added(int count) {
  constexpr int kHeads = 2, kRows = 4, kDims = 200;  // two queries of two heads
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  const auto slots = size_t(2 * count);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> sums(slots * kRows * kDims), logs(slots * kRows);
  std::vector<float> sinks{0.5F, kNothing}, lse(kRows);
  std::vector<bf16> out(size_t{kRows} * kDims);
  for (float& x : sums) x = normal(random);
  for (size_t i = 0; i < logs.size(); ++i) {
    logs[i] = 3 * normal(random);
    if (i % 3 != 0 && i % kRows < 2) continue;  // all of query 1, some of query 0
    logs[i] = kNothing;
    for (size_t d = 0; d < kDims; ++d) sums[i * kDims + d] = std::nanf("");  // was never written
  }
  std::vector<AttentionParted> parted(size_t(count), {0, 0, 0, 0, 0, 0});
  parted[0] = {count, 0, 0, 0, 2, 0};
  AttentionArguments<bf16> given{};
  given.pack = given.q_heads = kHeads, given.value_dims = kDims;
  given.partials = sums.data(), given.partial_lse = logs.data();
  given.parted = parted.data(), given.part_rows = kRows;
  given.rows = {out.data(), 0, kHeads * kDims, kDims};
  given.lse = {lse.data(), 0, 1, 2};
  given.sinks = view_of<1>(sinks, {kHeads});
  given.order.teams = count;
  gridDim.x = 3;
  for (unsigned block = 0; block < gridDim.x; ++block) {
    AttentionCombine<bf16>::Shared shared;
    testing::run_block(block, kAttentionCombineThreads,
                       [&] { AttentionCombine<bf16>{given}(shared); });
  }

  const auto at = [&](int part, size_t row) {
    return size_t(2 * part + int(part == 0)) * kRows + row;
  };
  for (size_t row = 0; row < kRows; ++row) {
    double total = std::exp(double(sinks[row % kHeads]));
    for (int i = 0; i < count; ++i) total += std::exp(double(logs[at(i, row)]));
    const double logarithm = double(lse[row % kHeads * 2 + row / kHeads]);
    EXPECT_TRUE(logarithm == std::log(total) || std::abs(logarithm - std::log(total)) < 1e-4);
    for (size_t d = 0; d < kDims; ++d) {
      double want = 0;
      for (int i = 0; i < count; ++i)
        if (logs[at(i, row)] != kNothing)
          want += std::exp(double(logs[at(i, row)])) * double(sums[at(i, row) * kDims + d]);
      want = total > 0 ? want / total : 0;
      EXPECT_NEAR(double(float(out[row * kDims + d])), want, 0.004 * std::abs(want) + 1e-6);
    }
  }
}

TEST(AttentionCombine, AddsUpWhatPartsFound) {
  for (const int parts : {2, 33, 200}) expect_parts_added(parts);
}

}  // namespace
}  // namespace tw::kernels
