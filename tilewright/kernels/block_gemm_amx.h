// block_gemm_cpu.h by the tiles of AMX: operands rounded to bf16, sums float32.
//
// Left operands are [row group][k / 32][height][32], groups of 32 rows and the last one perhaps of
// 16; right ones panels of pairs, [k / 2][32][2]. Both are zero where k ends within 32. The rows
// that fill up a product's last tile are of no use.
#pragma once

#include "tilewright/kernels/block_gemm_cpu.h"
#include "tilewright/tile/cpu/mma_tiles.h"

namespace tw::kernels::block_gemm {

struct Bf16Tiles {
  using Unit = uint32_t;
  using Value = float;
  static constexpr int64_t kRows = tile::kTileRows, kDepth = tile::kTileDepth;

  /// Held while a task multiplies.
  struct Scope : tile::TileScope {
    TW_INLINE Scope() : TileScope(tile::product_tiles(int(2 * kRows))) {}
  };
  TW_INLINE static constexpr int64_t rows(int64_t m) { return (m + kRows - 1) / kRows * kRows; }
  TW_INLINE static constexpr int64_t pairs(int64_t depth) {
    return (depth + kDepth - 1) / kDepth * kDepth / 2;
  }
  TW_INLINE static constexpr int64_t left_units(int64_t m, int64_t depth) {
    return rows(m) * pairs(depth);
  }
  TW_INLINE static constexpr int64_t right_units(int64_t n, int64_t depth) {
    return panels(n) * kWidth * pairs(depth);
  }

  /// f(first row, count, units from there on, units from one 32 of k to the next) for each tile.
  template <class F>
  TW_INLINE static void for_row_tiles(int64_t m, int64_t depth, F&& f) {
    for (int64_t r = 0; r < m; r += kRows) {
      const int64_t group = r / (2 * kRows) * (2 * kRows);
      const int64_t height = m - group > kRows ? 2 * kRows : kRows;
      f(r, m - r < kRows ? m - r : kRows, group * pairs(depth) + (r - group) * tile::kTilePairs,
        height * tile::kTilePairs);
    }
  }

  template <class P>
  __attribute__((noinline)) static void pack_left(P p, const Block<bf16>& a, Unit* to) {
    for_row_tiles(a.rows, a.depth, [&](int64_t r, int64_t count, int64_t at, int64_t pitch) {
      const tile::PackRows<P, bf16> rows(count, a.depth_stride, 0,
                                         [&](int i) { return a.data + (r + i) * a.row_stride; });
      tile::pack_tile_rows(p, rows, 0, a.depth, int(kRows), to + at, pitch);
    });
  }

  /// Of rows or of columns that are contiguous.
  template <class P>
  __attribute__((noinline)) static void pack_left(P p, const Block<float>& a, Unit* to) {
    for_row_tiles(a.rows, a.depth, [&](int64_t r, int64_t count, int64_t at, int64_t pitch) {
      for (int64_t k = 0; k < a.depth; k += kDepth, at += pitch) {
        const int64_t rest = a.depth - k, depth = rest < kDepth ? rest : kDepth;
        const Block<float> part{a.data + r * a.row_stride + k * a.depth_stride, count, depth,
                                a.row_stride, a.depth_stride};
        if (a.depth_stride == 1)
          pack_tile(p, part, to + at);
        else
          turn_tile(p, part, to + at);
      }
    });
  }

  template <class P>
  __attribute__((noinline)) static void pack_right(P p, const Block<bf16>& b, Unit* to) {
    const int64_t units = (b.depth + 1) / 2, size = pairs(b.depth) * kWidth;
    for (int64_t column = 0; column < b.rows; column += kWidth, to += size) {
      __builtin_memset(to + units * kWidth, 0, size_t(size - units * kWidth) * sizeof(Unit));
      for (int64_t lane = 0; lane < kWidth && column + lane < b.rows; lane += kRows) {
        const int64_t from = column + lane;
        const tile::PackRows<P, bf16> rows(b.rows - from, b.depth_stride, 0, [&](int i) {
          return b.data + (from + i) * b.row_stride;
        });
        tile::pack_wide<tile::PairUnits>(p, rows, 0, b.depth, to + lane, kWidth);
      }
    }
  }

  template <class P>
  __attribute__((noinline)) static void multiply(P p, const Unit* a, int64_t m, const Unit* b,
                                                 int64_t n, int64_t depth, float* c,
                                                 bool accumulate) {
    for (int64_t j = 0; j < n; j += kWidth)
      for (int64_t r = 0; r < m; r += 2 * kRows) {
        const int height = int(m - r > kRows ? 2 * kRows : kRows);
        float* const to = c + j * rows(m) + r * kWidth;
        tile::mma<tile::Bf16TilePanel>(
            p, height, a + r * pairs(depth), reinterpret_cast<const bf16*>(b + j * pairs(depth)),
            2 * pairs(depth), to, 0, accumulate, reinterpret_cast<const char*>(to));
      }
  }

 private:
  /// A tile of rows whose values are contiguous.
  template <class P>
  TW_INLINE static void pack_tile(P, const Block<float>& a, Unit* to) {
    using V = typename P::f32;
    constexpr int kN = tile::kLanesOf<V>;
    const auto load = [&](const float* row, int64_t count) {
      return count >= kN ? tile::load<V>(row) : tile::load_partial<V>(row, int(count));
    };
    for (int64_t r = 0; r < a.rows; ++r) {
      const float* const row = a.data + r * a.row_stride;
      const V low = load(row, a.depth), high = a.depth > kN ? load(row + kN, a.depth - kN) : V{};
      tile::store(to + r * tile::kTilePairs, tile::join_bf16(low, high));
    }
  }
  /// A tile whose columns are contiguous, whole ones.
  template <class P>
  TW_INLINE static void turn_tile(P p, const Block<float>& a, Unit* to) {
    using V = typename P::f32;
    alignas(64) Unit units[tile::kTilePairs * kRows] = {};
    for (int64_t k = 0; k < a.depth; k += 2) {
      const float* const row = a.data + k * a.depth_stride;
      const V odd = k + 1 < a.depth ? tile::load<V>(row + a.depth_stride) : V{};
      tile::store(units + k / 2 * kRows, tile::pair_bf16(tile::load<V>(row), odd));
    }
    tile::transpose_block(p, units, kRows, to, tile::kTilePairs, kRows, tile::kTilePairs);
  }
};

}  // namespace tw::kernels::block_gemm
