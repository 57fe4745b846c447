#include "tilewright/kernels/gemm_scaled_walk_sm90.h"

#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/kernels/hopper.h"
#include "tilewright/kernels/gemm_scaled_policy_sm90.h"

namespace tw::kernels {
namespace {

struct Product {
  int tiles, parts, k_blocks, blocks, split;

  ScaledGemmCut cut() const {
    const int rest = tiles % blocks;
    return parts == 1 ? ScaledGemmCut{} : ScaledGemmCut{tiles - rest, rest, parts};
  }
};

std::vector<ScaledGemmPiece> pieces_of(const Product& p, int block) {
  const int team = block / p.split, part = block % p.split;
  const ScaledGemmCut cut = p.cut();
  const ScaledGemmPiece whole{0, part * p.k_blocks / p.split, (part + 1) * p.k_blocks / p.split};
  std::vector<ScaledGemmPiece> out;
  ScaledGemmWalk walk;
  const auto next = [&] {
    return walk.next(cut.first, cut.piece(block, p.k_blocks), whole, team, p.blocks / p.split);
  };
  for (auto piece = next(); piece.tile < p.tiles; piece = next()) out.push_back(piece);
  return out;
}

class EveryProduct : public ::testing::TestWithParam<Product> {};

TEST_P(EveryProduct, EveryBlockOfKOfEveryTileIsMultipliedOnce) {
  const Product& p = GetParam();
  std::map<int64_t, std::vector<int>> times;
  for (int block = 0; block < p.blocks; ++block) {
    for (const ScaledGemmPiece& piece : pieces_of(p, block)) {
      times[piece.tile].resize(size_t(p.k_blocks));
      ASSERT_LE(piece.last, p.k_blocks);
      for (int i = piece.first; i < piece.last; ++i) ++times[piece.tile][size_t(i)];
    }
  }
  ASSERT_EQ(times.size(), size_t(p.tiles));
  for (const auto& [tile, of] : times)
    EXPECT_EQ(of, std::vector<int>(size_t(p.k_blocks), 1)) << "tile " << tile;
}

// A block waits for the one with the part before its own, which is cut.tiles blocks before it.
TEST_P(EveryProduct, PartsOfATileAreInOrderAndApart) {
  const Product& p = GetParam();
  if (p.parts == 1) return;
  std::map<int64_t, std::vector<std::pair<int, ScaledGemmPiece>>> parts;
  for (int block = 0; block < p.blocks; ++block)
    for (const ScaledGemmPiece& piece : pieces_of(p, block))
      if (piece.first > 0 || piece.last < p.k_blocks) parts[piece.tile].push_back({block, piece});
  ASSERT_EQ(parts.size(), size_t(p.cut().tiles));
  for (const auto& [tile, of] : parts) {
    ASSERT_EQ(of.size(), size_t(p.parts)) << "tile " << tile;
    int end = 0, block = of[0].first;
    EXPECT_LT(block, p.cut().tiles);
    for (const auto& [at, piece] : of) {
      EXPECT_EQ(at, block);
      EXPECT_EQ(p.cut().part(at), (at - of[0].first) / p.cut().tiles);
      EXPECT_EQ(piece.first, end);
      EXPECT_NEAR(piece.last - piece.first, double(p.k_blocks) / p.parts, 1);
      end = piece.last, block += p.cut().tiles;
    }
    EXPECT_EQ(end, p.k_blocks);
  }
}

INSTANTIATE_TEST_SUITE_P(ScaledGemmWalk, EveryProduct,
                         ::testing::Values(Product{704, 3, 32, kMultiprocessors, 1},
                                           Product{1216, 4, 128, kMultiprocessors, 1},
                                           Product{133, 8, 9, kMultiprocessors, 1},
                                           Product{9, 1, 5, 5, 1}, Product{7, 2, 3, 5, 1},
                                           Product{704, 1, 32, kMultiprocessors, 1},
                                           Product{10, 1, 9, 20, 2}, Product{3, 1, 4, 3, 1}));

int parts_of(int64_t m, int64_t n, int64_t k, bool grouped = false) {
  const ScaledGemmSize size{1, m, n, k, grouped};
  return scaled_gemm_cut(choose_scaled_gemm_sm90(size, kMultiprocessors), size, kMultiprocessors)
      .parts;
}

TEST(ScaledGemmPolicy, BlocksShareKWhereTheLastRoundWouldLeaveMostIdle) {
  EXPECT_EQ(parts_of(4096, 4096, 7168), 3);        // 704 tiles of 128 x 192: 44 beyond 5 rounds
  EXPECT_EQ(parts_of(4096, 7168, 16384), 4);       // 1216: 28 beyond 9
  EXPECT_EQ(parts_of(8192, 8192, 8192), 1);        // 2752: 112 beyond 20
  EXPECT_EQ(parts_of(4096, 4096, 7168, true), 1);  // the host does not know the groups
  EXPECT_EQ(parts_of(64, 4096, 7168), 1);          // less than a round
  EXPECT_EQ(parts_of(128 * 132, 192, 65536), 1);   // whole rounds
  EXPECT_EQ(parts_of(4096, 4096, 256), 1);         // a round takes less than sums that pass
}

}  // namespace
}  // namespace tw::kernels
