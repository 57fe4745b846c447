// The order of attention's backward on Hopper: which blocks a block of threads passes by, and when
// it may add to the queries' gradients. The device's text, run by threads as lanes (testing/lanes).
#include <map>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/kernels/attention_backward_order_sm90.h"

namespace tw::kernels {
namespace {

constexpr int kQueries = 64, kKeys = 128;
using Arguments = AttentionBackwardArguments<bf16>;
using Order = AttentionBackwardOrder<kQueries, kKeys, bf16>;

/// An addition: to which block of queries, and which one in its order.
struct Addition {
  int batch, head, block, rank, key_block;
};

Arguments arguments(int batches, int kv_heads, int group, int queries, int keys, int before,
                    int after) {
  Arguments out{};
  out.batches = batches, out.kv_heads = kv_heads, out.group = group;
  out.q_heads = kv_heads * group;
  out.queries = queries, out.keys = keys;
  out.query_blocks = (queries + kQueries - 1) / kQueries;
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
      for (AttentionBackwardWalk<bf16> walk(given); walk.more(); walk.next()) {
        const Order order{given, given.kv_len(walk.batch())};
        const AttentionBackwardTile tile = order.tile(walk.key_block());
        for (int i = 0; i < tile.steps; ++i) {
          const auto at = tile.at(i);
          if (testing::lane() != 0) continue;
          out[block].push_back({walk.batch(), walk.kv_head() * given.group + at.head, at.block,
                                rank(order, walk.key_block(), at), walk.key_block()});
        }
      }
    });
  return out;
}

/// Lets every block of threads add as soon as it may, one step at a time: each pair of blocks that
/// see each other once, in order, and nobody waits for ever. Returns the rounds that took.
int simulate(const Arguments& given) {
  const auto all = additions(given);
  std::map<std::tuple<int, int, int>, int> added;
  std::vector<size_t> next(all.size(), 0);
  int rounds = 0;
  for (bool moves = true; moves; ++rounds) {
    moves = false;
    const auto before = added;
    for (size_t i = 0; i < all.size(); ++i) {
      if (next[i] == all[i].size()) continue;
      const Addition& a = all[i][next[i]];
      const auto key = std::make_tuple(a.batch, a.head, a.block);
      const auto found = before.find(key);
      if ((found == before.end() ? 0 : found->second) != a.rank) continue;
      ++added[key];
      ++next[i];
      moves = true;
    }
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(next[i], all[i].size()) << "waits for ever";
  int pairs = 0, sum = 0;
  for (const auto& [key, count] : added) sum += count;
  for (int b = 0; b < given.batches; ++b)
    for (int n = 0; n < given.key_blocks; ++n)
      for (int m = 0; m < given.query_blocks; ++m) {
        bool sees = false;
        for (int i = m * kQueries; i < std::min((m + 1) * kQueries, given.queries); ++i)
          for (int j = n * kKeys; j < std::min((n + 1) * kKeys, given.kv_len(b)); ++j) {
            const int at = i + given.kv_len(b) - given.queries;
            sees |= (given.before < 0 || j >= at - given.before) &&
                    (given.after < 0 || j <= at + given.after);
          }
        pairs += sees ? given.q_heads : 0;
      }
  EXPECT_EQ(sum, pairs);
  return rounds - 1;
}

void use_ring(Arguments& given, int multiprocessors) {
  const AttentionRing ring = choose_attention_ring(int64_t{given.batches} * given.kv_heads,
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

TEST(AttentionBackwardOrder, NobodyWaitsWhereStepsTakeEquallyLong) {
  Arguments given = arguments(1, 2, 1, 2048, 2048, -1, -1);
  use_ring(given, 16);
  EXPECT_EQ(gridDim.x, 16u);
  EXPECT_EQ(simulate(given), 2 * 32);
  given = arguments(1, 2, 1, 2048, 2048, -1, 0);
  use_ring(given, 16);
  EXPECT_EQ(gridDim.x, 16u);
  EXPECT_EQ(simulate(given), 32 + 2);  // blocks of queries of a pair of blocks of keys
}

}  // namespace
}  // namespace tw::kernels
