// The order of attention's backward on Hopper: which blocks a block of threads passes by, and when
// it may add to the queries' gradients. The device's text, run by threads as lanes (testing/lanes).
#include <map>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/kernels/attention_backward_walk_sm90.h"

namespace tw::kernels {
namespace {

constexpr int kQueries = 64, kKeys = 128;
using Arguments = AttentionBackwardArguments<bf16>;
using Order = AttentionBackwardOrder<kQueries, kKeys, bf16>;
using Walk = AttentionBackwardWalk<kQueries, kKeys, bf16>;

/// An addition: to which block of queries, and which one in its order.
struct Addition {
  int sequence, head, block, rank;
};

Arguments arguments(int sequences, int kv_heads, int group, int queries, int keys, int before,
                    int after) {
  Arguments out{};
  out.sequences = sequences, out.kv_heads = kv_heads, out.group = group;
  out.q_heads = kv_heads * group;
  out.queries = queries, out.keys = keys;
  out.query_blocks = (queries + kQueries - 1) / kQueries;
  out.blocks = out.query_blocks * sequences;
  out.key_blocks = (keys + kKeys - 1) / kKeys;
  out.before = before, out.after = after;
  out.fold = after >= 0 && before < 0 ? 2 : 1;
  return out;
}

int rank(const Order& order, int key_block, const AttentionBackwardTile::Step& at) {
  const AttentionInterval all = order.key_blocks(at.block);
  const int round = key_block / order.span() * order.span();
  std::vector<int> times(size_t(order.span()));
  for (int n = std::max(all.begin, round); n < std::min(all.end, round + order.span()); ++n)
    times[size_t(n - round)] = order.time(n, at);
  return order.rank(key_block, at.block, times.data());
}

/// What each block of threads adds, in its order.
std::vector<std::vector<Addition>> additions(const Arguments& given) {
  std::vector<std::vector<Addition>> out(gridDim.x);
  for (unsigned block = 0; block < gridDim.x; ++block)
    testing::run_warp(block, 0, [&] {
      for (Walk walk(given); walk.more(); walk.next()) {
        const Order order = walk.order();
        const AttentionBackwardTile tile = order.tile(walk.key_block());
        for (int i = 0; i < tile.steps; ++i) {
          const auto at = tile.at(i);
          if (testing::lane() != 0) continue;
          out[block].push_back({order.sequence.first_block, walk.kv_head() * given.group + at.head,
                                at.block, rank(order, walk.key_block(), at)});
        }
      }
    });
  return out;
}

/// Blocks that see each other, of all heads.
int pairs(const Arguments& given) {
  int out = 0;
  for (int b = 0; b < given.sequences; ++b) {
    const AttentionBackwardSequence of = given.sequence(b, kQueries);
    for (int n = 0; n < of.keys; n += kKeys)
      for (int m = 0; m < of.queries; m += kQueries) {
        bool sees = false;
        for (int i = m; i < std::min(m + kQueries, of.queries); ++i)
          for (int j = n; j < std::min(n + kKeys, of.keys); ++j) {
            const int at = i + of.keys - of.queries;
            sees |= (given.before < 0 || j >= at - given.before) &&
                    (given.after < 0 || j <= at + given.after);
          }
        out += sees ? given.q_heads : 0;
      }
  }
  return out;
}

struct Outcome {
  int rounds = 0;  // that it took
  int close = 0;   // additions at most two rounds after one to the same block
};

/// Lets every block of threads add as soon as it may, one step at a time: each pair of blocks that
/// see each other once, in order, and nobody waits for ever.
Outcome simulate(const Arguments& given) {
  const auto all = additions(given);
  struct Block {
    int count = 0, last = -3;  // additions; the round of the last one
  };
  std::map<std::tuple<int, int, int>, Block> added;
  std::vector<size_t> next(all.size(), 0);
  Outcome out;
  for (bool moves = true; moves; ++out.rounds) {
    moves = false;
    const auto before = added;
    for (size_t i = 0; i < all.size(); ++i) {
      if (next[i] == all[i].size()) continue;
      const Addition& a = all[i][next[i]];
      const auto key = std::make_tuple(a.sequence, a.head, a.block);
      const auto found = before.find(key);
      if ((found == before.end() ? 0 : found->second.count) != a.rank) continue;
      Block& block = added[key];
      if (out.rounds <= block.last + 2) ++out.close;
      block = {block.count + 1, out.rounds};
      ++next[i];
      moves = true;
    }
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(next[i], all[i].size()) << "waits for ever";
  int sum = 0;
  for (const auto& [key, block] : added) sum += block.count;
  EXPECT_EQ(sum, pairs(given));
  --out.rounds;
  return out;
}

void use_ring(Arguments& given, int multiprocessors) {
  const AttentionRing ring = choose_attention_ring(int64_t{given.sequences} * given.kv_heads,
                                                   given.key_blocks, given.fold, multiprocessors);
  given.ring = ring.size;
  gridDim.x = unsigned(ring.size * ring.count);
}

TEST(AttentionBackwardOrder, AddsEveryPairOnceWhateverTheMask) {
  for (const auto& [before, after] : {std::pair{-1, -1}, {-1, 0}, {100, 0}, {70, 200}, {50, -1}})
    for (const auto& [queries, keys] : {std::pair{1, 1}, {700, 640}, {300, 900}, {900, 200}})
      for (const int multiprocessors : {1, 3, 7}) {
        Arguments given = arguments(2, 1, 2, queries, keys, before, after);
        use_ring(given, multiprocessors);
        simulate(given);
      }
}

TEST(AttentionBackwardOrder, CountsOnlyKeysThatAreThere) {
  const std::vector<int32_t> lens{400, 129, 0};
  for (const int after : {-1, 0}) {
    Arguments given = arguments(3, 1, 1, 300, 500, -1, after);
    given.kv_lens = {lens.data(), {3}, {1}};
    use_ring(given, 5);
    simulate(given);
  }
}

/// Sequences of these lengths, and room for their schedule.
struct Varlen {
  std::vector<int32_t> q_offsets{2}, kv_offsets{0};
  std::vector<int> rings, item_steps;
  std::vector<AttentionBackwardTurn> turns;
  Arguments given;

  Varlen(const std::vector<int>& queries, const std::vector<int>& keys, int kv_heads, int group,
         int after, int multiprocessors) {
    for (const int n : queries) q_offsets.push_back(q_offsets.back() + n);
    for (const int n : keys) kv_offsets.push_back(kv_offsets.back() + n);
    const auto count = int64_t(queries.size());
    rings.resize(size_t(count)), item_steps.resize(size_t(count)), turns.resize(size_t(count + 1));
    given = arguments(int(count), kv_heads, group, q_offsets.back(), kv_offsets.back(), -1, after);
    given.blocks = given.queries / kQueries + given.sequences;
    given.q_offsets = {q_offsets.data(), {count + 1}, {1}};
    given.kv_offsets = {kv_offsets.data(), {count + 1}, {1}};
    given.workers = multiprocessors;
    given.rings = rings.data(), given.item_steps = item_steps.data(), given.turns = turns.data();
    gridDim.x = unsigned(multiprocessors);
    testing::run_warp(0, 0, [&] { AttentionBackwardSchedule<kQueries, kKeys, 32, bf16>{given}(); });
  }
  Varlen(const Varlen&) = delete;
  Varlen& operator=(const Varlen&) = delete;
};

TEST(AttentionBackwardOrder, AddsEveryPairOfSequencesOfDifferentLengths) {
  const std::vector<int> some{300, 1, 0, 900, 64, 65, 129}, others{40, 300, 77, 1000, 0, 128, 129};
  std::vector<int> many(40, 70);
  many.push_back(1500);
  for (const int after : {-1, 0, 60})
    for (const int multiprocessors : {1, 3, 7, 20}) {
      simulate(Varlen(some, some, 2, 1, after, multiprocessors).given);
      simulate(Varlen(some, others, 1, 3, after, multiprocessors).given);
      simulate(Varlen(many, many, 1, 1, after, multiprocessors).given);
    }
}

TEST(AttentionBackwardOrder, PlacesOfSequencesDoNotOverlap) {
  const Varlen x({0, 64, 1, 0, 63, 128, 0, 65}, {1, 1, 1, 1, 1, 1, 1, 1}, 1, 1, -1, 4);
  for (int b = 0; b < x.given.sequences; ++b) {
    const AttentionBackwardSequence of = x.given.sequence(b, kQueries);
    const int end = of.first_block + (of.queries + kQueries - 1) / kQueries;
    EXPECT_LE(end,
              b + 1 < x.given.sequences ? x.given.first_block(b + 1, kQueries) : x.given.blocks);
  }
}

TEST(AttentionBackwardOrder, LongSequencesAmongShortOnesKeepAllBlocksOfThreadsAtWork) {
  const Varlen x({4096, 512, 512, 512, 512, 512, 512}, {4096, 512, 512, 512, 512, 512, 512}, 4, 1,
                 -1, 16);
  EXPECT_EQ(x.turns[0].sequence, 0);
  EXPECT_LE(simulate(x.given).rounds, pairs(x.given) * 11 / 10 / 16);
}

TEST(AttentionBackwardOrder, NobodyWaitsWhereStepsTakeEquallyLong) {
  Arguments given = arguments(1, 2, 1, 2048, 2048, -1, -1);
  use_ring(given, 16);
  EXPECT_EQ(gridDim.x, 16u);
  EXPECT_EQ(simulate(given).rounds, 2 * 32);
  given = arguments(1, 2, 1, 2048, 2048, -1, 0);
  use_ring(given, 16);
  EXPECT_EQ(gridDim.x, 16u);
  EXPECT_EQ(simulate(given).rounds, 32 + 2);  // blocks of queries of a pair of blocks of keys
}

/// What a member reads and adds to, the next one does soon after, before it leaves L2.
TEST(AttentionBackwardOrder, HeadsThatShareKeysArePassedByTogether) {
  for (const int after : {-1, 0}) {
    Arguments given = arguments(1, 2, 4, 2048, 2048, -1, after);
    use_ring(given, after < 0 ? 32 : 16);
    const Outcome out = simulate(given);
    EXPECT_EQ(out.rounds, after < 0 ? 4 * 32 : 4 * (32 + 2));
    EXPECT_GE(out.close, pairs(given) * 3 / 4);
  }
}

}  // namespace
}  // namespace tw::kernels
