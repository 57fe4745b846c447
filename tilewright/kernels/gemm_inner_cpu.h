// What gemm_cpu.h multiplies, and the instructions it does so with. Each tells what it wants its
// operands to look like:
//
//     Units                 what a, and b where the task packs it, are packed into
//     Scratch, Ready        formats (tile/cpu/mma.h) of a panel packed by the task, and of one that
//                           was packed beforehand, if any may be
//     kTileRows<P>          most rows of a register tile
//     kWidenRows<P>         rows from which a packed panel is widened once for all row tiles
//     kReadsRows            whether few rows can multiply b as it lies, its rows along k
//     kReadsAcross          whether they can where its columns lie side by side
//     kStep                 values of k that are multiplied together: a is filled up to them
//     kWholeTiles           whether a is packed as whole row tiles, filled up with any rows
//     pack_rows()           packs `count` of a's rows as a row tile of `height`, up to `end`
//     Scope                 held while a task multiplies row tiles of so many rows
#pragma once

#include "tilewright/core/machine.h"
#include "tilewright/core/view.h"
#include "tilewright/tile/cpu/mma_int8.h"
#include "tilewright/tile/cpu/mma_rows.h"
#include "tilewright/tile/cpu/pack.h"
#if defined(__AMX_BF16__)
#include "tilewright/tile/cpu/mma_tiles.h"
#endif

namespace tw::kernels {

namespace gemm_detail {

inline constexpr int64_t kNeverWidened = int64_t{1} << 62;

/// What the instructions on vectors share. Rows of a may want units of their own.
template <class PackedUnits, class RowUnits = PackedUnits>
struct VectorInner {
  using Units = PackedUnits;
  template <class P>
  static constexpr int64_t kTileRows = tile::kMaxTileRows<P>;
  static constexpr bool kReadsRows = true;
  static constexpr bool kReadsAcross = true;
  static constexpr bool kWholeTiles = false;
  static constexpr int64_t kStep = Units::kDepth;
  struct Scope {
    TW_INLINE explicit Scope(int64_t) {}
  };

  template <class P, class T>
  __attribute__((noinline)) static void pack_rows(P p, const Rows<const T>& a, int64_t row,
                                                  int64_t count, int height, int64_t first,
                                                  int64_t k, typename Units::Unit* to,
                                                  typename Units::Unit* end) {
    const int64_t ahead = a.lead_strides[a.lead - 1] * height;
    const tile::PackRows<P, T> rows(count, a.col_stride, ahead,
                                    [&](int i) { return a.row(row + i).data; });
    tile::pack_tight<RowUnits>(p, rows, first, k, to, end);
  }
};

template <class T>
struct FmaInner : VectorInner<tile::WidenedUnits<T>> {
  using Scratch = tile::PlainPanel<float>;
  using Ready = tile::PlainPanel<T>;
  /// Rows from which widening a panel once beats widening it in every register tile.
  template <class P>
  static constexpr int64_t kWidenRows = 4 * tile::kMaxTileRows<P>;
};
template <>
struct FmaInner<float> : VectorInner<tile::WidenedUnits<float>> {
  using Scratch = tile::PlainPanel<float>;
  using Ready = tile::PlainPanel<float>;
  template <class P>
  static constexpr int64_t kWidenRows = kNeverWidened;
};
template <>
struct FmaInner<bf16> : VectorInner<tile::WidenedUnits<bf16>> {
  using Scratch = tile::PlainPanel<float>;
  using Ready = tile::Bf16Panel;
  template <class P>
  static constexpr int64_t kWidenRows = 4 * tile::kMaxTileRows<P>;
};
/// vpdpbusd.
struct Int8QuadInner : VectorInner<tile::QuadUnits<false>, tile::QuadUnits<true>> {
  using Scratch = tile::QuadPanel;
};
/// vpmaddwd.
struct Int8WordInner : VectorInner<tile::WordUnits> {
  using Scratch = tile::WordPanel;
};
#if defined(__AVX512BF16__)
struct Bf16DotInner : VectorInner<tile::PairUnits> {
  using Scratch = tile::Bf16DotPanel;
  using Ready = tile::Bf16DotPanel;
  template <class P>
  static constexpr int64_t kWidenRows = kNeverWidened;
};
#endif
#if defined(__AMX_BF16__)
/// tdpbf16ps or tdpbssd. Row tiles of a are stored whole, so that one configuration serves all of a
/// task.
template <class T>
struct TileInner {
  using Units = tile::TileUnits<T>;
  using Scratch = tile::TilePanel<T>;
  using Ready = tile::TilePanel<T>;
  template <class P>
  static constexpr int64_t kTileRows = 2 * tile::kTileRows;
  template <class P>
  static constexpr int64_t kWidenRows = kNeverWidened;
  static constexpr bool kReadsRows = false;
  static constexpr bool kReadsAcross = false;
  static constexpr bool kWholeTiles = true;
  static constexpr int64_t kStep = Scratch::kDepth;
  struct Scope : tile::TileScope {
    TW_INLINE explicit Scope(int64_t rows) : TileScope(tile::product_tiles(int(rows))) {}
  };

  template <class P>
  __attribute__((noinline)) static void pack_rows(P p, const Rows<const T>& a, int64_t row,
                                                  int64_t count, int height, int64_t first,
                                                  int64_t k, uint32_t* to, uint32_t*) {
    for (int i = 0; i < height; i += tile::kTileRows) {
      const int64_t from = i < count ? i : count - 1;
      const tile::PackRows<P, T> rows(count - from, a.col_stride, 0,
                                      [&](int j) { return a.row(row + from + j).data; });
      const int rest = height - i;
      tile::pack_tile_rows(p, rows, first, k, rest < tile::kTileRows ? rest : tile::kTileRows,
                           to + i * tile::kTilePairs, height * tile::kTilePairs);
    }
  }
};
#endif

/// Calls f.template operator()<Inner>(operations per second) of the instruction that is quicker on
/// this machine.
template <class P, class Problem, class F>
TW_INLINE auto with_inner([[maybe_unused]] const Problem& problem, const Machine& machine, F&& f) {
  using T = typename Problem::Panels::Element;
  [[maybe_unused]] constexpr bool kBf16 =
      tile::same_type<T, bf16> && tile::same_type<typename Problem::Panels::Value, bf16>;
#if defined(__AMX_BF16__)
  if constexpr (P::kHasAmx && kBf16) {
    if (machine.prefers_bf16_tiles() && machine.bf16_tile_gflops > machine.bf16_dot_gflops)
      return f.template operator()<TileInner<bf16>>(machine.bf16_tile_gflops);
  }
  if constexpr (P::kHasAmx && tile::same_type<T, int8_t>) {  // few rows are read as they lie
    if (problem.m > tile::kMaxTileRows<P> && machine.int8_tile_gops > machine.int8_dot_gops)
      return f.template operator()<TileInner<int8_t>>(machine.int8_tile_gops);
  }
#endif
#if defined(__AVX512BF16__)
  if constexpr (P::kHasBf16 && kBf16) {
    if (machine.bf16_dot_gflops > machine.f32_fma_gflops)
      return f.template operator()<Bf16DotInner>(machine.bf16_dot_gflops);
  }
#endif
  if constexpr (tile::same_type<T, int8_t> && P::kHasVnni)
    return f.template operator()<Int8QuadInner>(machine.int8_dot_gops);
  else if constexpr (tile::same_type<T, int8_t>)
    return f.template operator()<Int8WordInner>(machine.int8_dot_gops);
  else
    return f.template operator()<FmaInner<T>>(machine.f32_fma_gflops);
}

}  // namespace gemm_detail
}  // namespace tw::kernels
