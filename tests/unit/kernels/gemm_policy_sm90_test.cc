#include "tilewright/kernels/gemm_policy_sm90.h"

#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/unit/kernels/hopper.h"

namespace tw::kernels {
namespace {

GemmBuild chosen(int64_t m, int64_t n, int64_t k) {
  return kGemmShapes[choose_gemm_sm90({1, m, n, k, 2}, kMultiprocessors).shape].build;
}

TEST(GemmPolicySm90, LargeProductsTakeTheTileThatFillsItsWaves) {
  EXPECT_EQ(chosen(4096, 4096, 4096).tile_n, 256);  // 512 tiles in 3.9 waves, not 704 in 5.3
  EXPECT_EQ(chosen(2048, 2048, 2048).tile_n, 256);  // 128 tiles, one wave
  EXPECT_EQ(chosen(8192, 8192, 8192).tile_n, 192);  // 20.8 waves against 15.5
  EXPECT_EQ(chosen(8192, 28672, 8192).tile_n, 192);
  EXPECT_EQ(chosen(16384, 16384, 16384).tile_n, 192);
}

TEST(GemmPolicySm90, FewRowsAreColumnsOfTheTile) {
  EXPECT_EQ(chosen(1, 4096, 4096).tile_n, 16);
  EXPECT_EQ(chosen(1, 4096, 4096).split, 2);
  EXPECT_EQ(chosen(1, 14336, 4096).split, 1);  // 112 blocks without
  EXPECT_EQ(chosen(1, 14336, 4096).tile_n, 16);
  EXPECT_EQ(chosen(64, 4096, 4096).tile_n, 64);
  EXPECT_EQ(chosen(128, 4096, 4096).tile_n, 128);
  EXPECT_EQ(chosen(128, 4096, 4096).split, 2);
  EXPECT_EQ(chosen(256, 4096, 4096).tile_n, 128);
  EXPECT_EQ(chosen(256, 4096, 4096).split, 1);
  EXPECT_EQ(chosen(512, 4096, 4096).tile_n, 128);
  EXPECT_EQ(chosen(1024, 1024, 1024).tile_n, 64);  // 128 tiles
}

TEST(GemmPolicySm90, MediumProductsTakeTheTileThatMakesOneWave) {
  EXPECT_EQ(chosen(2048, 768, 768).tile_n, 96);   // 132 tiles
  EXPECT_EQ(chosen(3000, 768, 768).tile_n, 192);  // 96 tiles
  EXPECT_FALSE(chosen(3000, 768, 768).ping_pong);
}

TEST(GemmPolicySm90, Float32IsNotTurnedOver) {
  for (int64_t m : {1, 16, 100, 1000, 5000})
    for (int64_t n : {8, 500, 4096}) {
      const GemmBuild& build =
          kGemmShapes[choose_gemm_sm90({1, m, n, 4096, 4}, kMultiprocessors).shape].build;
      EXPECT_FALSE(build.transposed_out) << m << " x " << n;
    }
}

TEST(GemmPolicySm90, WhatIsAdjustedTakesABuildThatMay) {
  for (int64_t m : {1, 64, 4096, 16384}) {
    const GemmSize size{1, m, m, m, 2, 2, true};
    EXPECT_TRUE(kGemmShapes[choose_gemm_sm90(size, kMultiprocessors).shape].build.may_adjust())
        << m;
  }
  EXPECT_FALSE(chosen(16384, 16384, 16384).may_adjust());  // or this says nothing
}

TEST(GemmPolicySm90, MoreMultiprocessorsAreNeverSlower) {
  for (int64_t m : {1, 16, 100, 1000, 5000})
    for (int64_t n : {8, 500, 4096})
      for (int64_t k : {1, 64, 4096}) {
        const GemmSize size{3, m, n, k, 2};
        EXPECT_GE(choose_gemm_sm90(size, 66).us, choose_gemm_sm90(size, kMultiprocessors).us);
        EXPECT_GT(choose_gemm_sm90(size, 1).us, 0);
      }
}

TEST(GemmOrder, EveryTileOnce) {
  for (const auto& [rows, columns, band] :
       {std::tuple{1, 1, 8}, {7, 5, 8}, {8, 5, 8}, {19, 3, 8}, {3, 40, 2}, {5, 1, 4}}) {
    const GemmOrder order{rows, columns, band, rows * columns * 2};
    std::set<std::tuple<int, int, int>> seen;
    for (int t = 0; t < order.tiles; ++t) {
      const GemmPlace place = order.place(t);
      EXPECT_TRUE(place.row >= 0 && place.row < rows);
      EXPECT_TRUE(place.column >= 0 && place.column < columns);
      EXPECT_TRUE(seen.insert({place.row, place.column, place.batch}).second);
    }
    EXPECT_EQ(seen.size(), size_t(order.tiles));
    EXPECT_EQ(order.place(order.tiles - 1).batch, 1);
  }
}

}  // namespace
}  // namespace tw::kernels
