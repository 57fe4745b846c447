#include "tilewright/kernels/gemm_scaled_walk_sm90.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/kernels/gemm_scaled_policy_sm90.h"

namespace tw::kernels {
namespace {

constexpr int kSms = 132;  // of an H100 SXM

std::vector<ScaledGemmPiece> pieces_of(const ScaledGemmShare& share, int64_t tiles) {
  std::vector<ScaledGemmPiece> out;
  ScaledGemmWalk walk(share);
  for (auto piece = walk.next(share); piece.tile < tiles; piece = walk.next(share))
    out.push_back(piece);
  return out;
}

struct Product {
  int tiles, cut, k_blocks, blocks, split;
};

class EveryProduct : public testing::TestWithParam<Product> {};

TEST_P(EveryProduct, EveryBlockOfKOfEveryTileIsMultipliedOnce) {
  const Product& p = GetParam();
  std::map<int64_t, std::vector<int>> times;
  for (int block = 0; block < p.blocks; ++block) {
    for (const ScaledGemmPiece& piece :
         pieces_of({block, p.blocks, p.split, p.cut, p.k_blocks}, p.tiles)) {
      times[piece.tile].resize(size_t(p.k_blocks));
      ASSERT_LE(piece.last, p.k_blocks);
      for (int i = piece.first; i < piece.last; ++i) ++times[piece.tile][size_t(i)];
    }
  }
  ASSERT_EQ(times.size(), size_t(p.tiles));
  for (const auto& [tile, of] : times)
    EXPECT_EQ(of, std::vector<int>(size_t(p.k_blocks), 1)) << "tile " << tile;
}

TEST_P(EveryProduct, LaterPartsAreTheFirstPieceOfTheBlockBefore) {
  const Product& p = GetParam();
  if (p.split > 1) return;
  std::vector<ScaledGemmPiece> before;
  for (int block = 0; block < p.blocks; ++block) {
    const auto pieces = pieces_of({block, p.blocks, 1, p.cut, p.k_blocks}, p.tiles);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].first > 0) {
        EXPECT_EQ(i, 0u);
        EXPECT_EQ(pieces[i].last, p.k_blocks);
      } else if (pieces[i].last < p.k_blocks) {
        ASSERT_FALSE(before.empty());
        EXPECT_EQ(before[0].tile, pieces[i].tile);
        EXPECT_EQ(before[0].first, pieces[i].last);
      }
    }
    before = pieces;
  }
}

TEST_P(EveryProduct, PartsOfTheLineAreEqual) {
  const Product& p = GetParam();
  if (p.cut == 0) return;
  for (int block = 0; block < p.blocks; ++block) {
    const ScaledGemmShare share{block, p.blocks, 1, p.cut, p.k_blocks};
    EXPECT_NEAR(share.end() - share.begin(), double(p.cut) * p.k_blocks / p.blocks, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(ScaledGemmWalk, EveryProduct,
                         testing::Values(Product{704, 132 + 44, 32, kSms, 1},
                                         Product{1216, 132 + 28, 128, kSms, 1},
                                         Product{133, 133, 7, kSms, 1},
                                         Product{263, 263, 1, kSms, 1}, Product{9, 9, 5, 5, 1},
                                         Product{704, 0, 32, kSms, 1}, Product{10, 0, 9, 20, 2},
                                         Product{3, 0, 4, 3, 1}));

int cut_of(int64_t m, int64_t n, int64_t k, bool grouped = false) {
  const ScaledGemmSize size{1, m, n, k, grouped};
  const int build = choose_scaled_gemm_sm90(size, kSms);
  return scaled_gemm_cut_tiles(build, size, kSms);
}

TEST(ScaledGemmPolicy, TilesAreCutWhereTheLastRoundWouldLeaveBlocksIdle) {
  EXPECT_EQ(cut_of(4096, 4096, 7168), 132 + 44);   // 704 tiles of 128 x 192
  EXPECT_EQ(cut_of(4096, 7168, 16384), 132 + 28);  // 1216
  EXPECT_EQ(cut_of(4096, 4096, 7168, true), 0);    // the host does not know the groups
  EXPECT_EQ(cut_of(64, 4096, 7168), 0);            // less than a round
  EXPECT_EQ(cut_of(128 * 132, 192, 65536), 0);     // whole rounds
}

TEST(ScaledGemmPolicy, NoCountOverflows) {
  for (int64_t k : {int64_t{128}, int64_t{1} << 20, int64_t{1} << 24, int64_t{1} << 30})
    for (int64_t n : {4096, 7168, 100000}) {
      const int64_t cut = cut_of(4096, n, k);
      EXPECT_LT(double(cut) * double(k) / 128 * kSms, 2147483648.0) << n << ", " << k;
    }
}

}  // namespace
}  // namespace tw::kernels
