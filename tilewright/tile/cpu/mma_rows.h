// The register tile of mma.h with b straight from its rows, for a few rows of a: packing b for so
// little use would cost more than the products. b is transposed in registers, a few units at a
// time.
#pragma once

#include "tilewright/tile/cpu/mma.h"
#include "tilewright/tile/cpu/pack.h"

namespace tw::tile {

namespace detail {

/// Units whose rows of a are packed with something added to each value: kBias, as a unit. One more
/// sum is that of the bias times b, and is taken from all the others in the end.
template <class Units>
inline constexpr int kBiasRows = requires { Units::kBias; } ? 1 : 0;

/// Unit u of row r of a in all lanes; row kRows is the bias.
template <class Units, class U, int kRows>
TW_INLINE U unit_of(const typename Units::Unit* a, int64_t u, int r) {
  if constexpr (kBiasRows<Units> == 1)
    if (r == kRows) return splat<U>(Units::kBias);
  return splat<U>(a[u * kRows + r]);
}

template <class Units, class U, class V>
TW_INLINE V add_product(U a, U b, V acc) {
  if constexpr (requires { Units::add_product(acc, a, b); })
    return Units::add_product(acc, a, b);
  else
    return multiply_add(a, b, acc);
}

/// Units [u, end), whole blocks, of one vector of rows of b times kRows rows of a. Unit 0 begins at
/// element `origin` of `row`.
template <class Units, int kRows, class P, class V, class T>
TW_INLINE void multiply_blocks(V (&acc)[kRows + kBiasRows<Units>], const typename Units::Unit* a,
                               const T* const* row, int64_t origin, int64_t u, int64_t end) {
  using U = typename P::template Vec<typename Units::Unit>;
  for_blocks<Units, U>(u, end, [&]<int kCount>(int64_t from) {
    U v[kCount];
    Units::block(row, origin + from * Units::kDepth, v);
    TW_UNROLL
    for (int i = 0; i < kCount; ++i) {
      TW_UNROLL
      for (int r = 0; r < kRows + kBiasRows<Units>; ++r)
        acc[r] = add_product<Units>(unit_of<Units, U, kRows>(a, from + i, r), v[i], acc[r]);
    }
  });
}

/// A few lines of each of one vector of rows, which are read one row after the other. Lines of rows
/// that lie a multiple of 2 KiB apart share a few sets of the nearest cache. Where a set holds few,
/// they push each other out: those are copied to lines of other sets, the others multiplied where
/// they lie.
template <class P, class T>
class NearRows {
 public:
  static constexpr int64_t kElements = 256 / int64_t{sizeof(T)};  // of a row at once

  TW_INLINE void begin(const PackRows<P, T>& from, const Machine& machine) {
    rows_ = &from;
    const bool has_few_ways = machine.l1d_bytes < kManyWays * kPage;  // its sets span a page
    copied_ = has_few_ways && from.count > 1 &&
              (from.row[1] - from.row[0]) * int64_t{sizeof(T)} % 2048 == 0;
    for (int i = 0; i < kLanes; ++i) row_[i] = copied_ ? lines_[i] : from.row[i];
  }
  /// Brings elements [first, first + count).
  TW_INLINE void bring(int64_t first, int64_t count) {
    origin_ = copied_ ? -first : 0;
    if (!copied_) return;
    for (int i = 0; i < kLanes; ++i) {
      const T* const from = rows_->row[i] + first;
      TW_UNROLL
      for (int64_t line = 0; line < kElements; line += kLine)
        prefetch_l2(from + line + rows_->ahead);
      __builtin_memcpy(lines_[i], from, size_t(count) * sizeof(T));
    }
  }
  /// Before the line of element `at` is multiplied, unless bring() did: of each row the line after
  /// the next one, into the nearest cache, and what is wanted later.
  TW_INLINE void prefetch(int64_t at) const {
    if (copied_) return;
    TW_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      tile::prefetch(rows_->row[i] + at + 2 * kLine);
      prefetch_l2(rows_->row[i] + at + rows_->ahead);
    }
  }
  TW_INLINE const T* const* rows() const { return row_; }
  /// Where element 0 of the rows lies.
  TW_INLINE int64_t origin() const { return origin_; }

 private:
  static constexpr int kLanes = PackRows<P, T>::kLanes;
  static constexpr int64_t kManyWays = 12, kPage = 4096;
  static constexpr int64_t kLine = 64 / int64_t{sizeof(T)}, kPitch = kElements + kLine;

  const PackRows<P, T>* rows_;
  bool copied_;
  int64_t origin_;
  const T* row_[kLanes];
  alignas(64) T lines_[kLanes][kPitch];
};

}  // namespace detail

/// kGroups vectors of columns of c = a · b over k values of k, c as in mma. All rows of b are
/// contiguous in k. Takes a cache line of each row at a time: rows a power of two apart share few
/// places in the first-level cache.
template <class Units, class P, class T, int kRows, int kGroups>
__attribute__((noinline)) void mma_from_rows(P p, const typename Units::Unit* a,
                                             const PackRows<P, T> (&b)[kGroups], int64_t k,
                                             sum_t<Units>* c) {
  using V = typename P::template Vec<sum_t<Units>>;
  using U = typename P::template Vec<typename Units::Unit>;
  constexpr int kDepth = Units::kDepth, kLine = 64 / int(sizeof(T)) / kDepth;
  constexpr int kSums = kRows + detail::kBiasRows<Units>;
  V acc[kGroups][kSums] = {};
  const int64_t whole = k / kDepth / Units::kBlock * Units::kBlock;
  detail::NearRows<P, T> near[kGroups];
  for (int g = 0; g < kGroups; ++g) near[g].begin(b[g], p.machine());
  constexpr int64_t kPiece = detail::NearRows<P, T>::kElements / kDepth;
  for (int64_t piece = 0; piece < whole; piece += kPiece) {
    const int64_t stop = piece + kPiece < whole ? piece + kPiece : whole;
    for (auto& rows : near) rows.bring(piece * kDepth, (stop - piece) * kDepth);
    for (int64_t u = piece; u < stop; u += kLine) {
      const int64_t end = u + kLine < stop ? u + kLine : stop;
      TW_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        near[g].prefetch(u * kDepth);
        detail::multiply_blocks<Units, kRows, P>(acc[g], a, near[g].rows(), near[g].origin(), u,
                                                 end);
      }
    }
  }
  for (int64_t u = whole; u * kDepth < k; ++u) {
    TW_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const U v = Units::template scattered<U>(b[g], u * kDepth, k - u * kDepth);
      TW_UNROLL
      for (int r = 0; r < kSums; ++r)
        acc[g][r] =
            detail::add_product<Units>(detail::unit_of<Units, U, kRows>(a, u, r), v, acc[g][r]);
    }
  }
  TW_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TW_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      if constexpr (kSums > kRows) acc[g][r] -= acc[g][kRows];
      store(c + r * kPanelWidth + g * kLanesOf<V>, acc[g][r]);
    }
  }
}

/// c (+)= a · b for 1 <= rows <= kMaxTileRows, as mma() (tile/cpu/mma.h) with columns of b that lie
/// side by side, in k <= kMost rows `pitch` elements apart; there are `columns` more or as many.
/// Prefetches the rows that follow.
template <class Units, int kMost, class P, class T>
TW_INLINE void mma_across(P p, int rows, const typename Units::Unit* a, const T* b, int64_t pitch,
                          int64_t k, sum_t<Units>* c, int64_t columns, bool accumulate) {
  using V = typename P::template Vec<sum_t<Units>>;
  using U = typename P::template Vec<typename Units::Unit>;
  constexpr int kN = kLanesOf<V>, kAll = kPanelWidth / kN, kDepth = Units::kDepth;
  if (columns < kPanelWidth) {
    alignas(64) T filled[kMost * kPanelWidth] = {};
    for (int64_t i = 0; i < k; ++i)
      __builtin_memcpy(filled + i * kPanelWidth, b + i * pitch, size_t(columns) * sizeof(T));
    return mma_across<Units, kMost>(p, rows, a, filled, kPanelWidth, k, c, kPanelWidth, accumulate);
  }
  with_rows<kMaxTileRows<P>>(rows, [&]<int kRows>() {
    constexpr int kVecs = kRows * kAll <= P::kRegisters - 4 ? kAll : 2;
    constexpr int kSums = kRows + detail::kBiasRows<Units>;
    for (int j = 0; j < kPanelWidth; j += kVecs * kN) {
      V acc[kSums][kVecs];
      TW_UNROLL
      for (int r = 0; r < kSums; ++r) {
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v)
          acc[r][v] = accumulate && r < kRows ? load<V>(c + r * kPanelWidth + j + v * kN) : V{};
      }
      for (int64_t u = 0; u * kDepth < k; ++u) {
        const T* from = b + u * kDepth * pitch + j;
        U w[kVecs];
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v) {
          w[v] = Units::template across<U>(from + v * kN, pitch, kN, k - u * kDepth);
          TW_UNROLL
          for (int d = 0; d < kDepth; ++d) prefetch_l2(from + (k + d) * pitch + v * kN);
        }
        TW_UNROLL
        for (int r = 0; r < kSums; ++r) {
          const U x = detail::unit_of<Units, U, kRows>(a, u, r);
          TW_UNROLL
          for (int v = 0; v < kVecs; ++v)
            acc[r][v] = detail::add_product<Units>(x, w[v], acc[r][v]);
        }
      }
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) {
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v) {
          if constexpr (kSums > kRows) acc[r][v] -= acc[kRows][v];
          store(c + r * kPanelWidth + j + v * kN, acc[r][v]);
        }
      }
    }
  });
}

}  // namespace tw::tile
