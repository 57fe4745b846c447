// The register-blocked inner product of matrix multiplication on the CPU.
//
//   c[r, j] (+)= sum over k of a[k, r] * b[k, j]       r < kRows,  j < kPanelWidth
//
// `a` is packed k-major, kRows values per k; `b` is a panel: kPanelWidth columns, k-major, in one
// of the formats below or those of mma_int8.h; `c` is a tile of row length kPanelWidth, float32
// unless the format adds up in something else. The sum over k is one chain of fused multiply-adds
// per element, in the order of k, and may be cut anywhere and continued from c: whatever the
// blocking or the number of rows, an element sees the same operations. After Goto & van de Geijn
// (TOMS 2008) and BLIS (Van Zee & van de Geijn, TOMS 2015).
#pragma once

#include "tilewright/tile/cpu/program.h"

namespace tw::tile {

/// Columns of a panel, on every instruction set, so that packed weights may travel between them.
inline constexpr int kPanelWidth = 32;

/// Rows of the tallest register tile: accumulators fill the registers but for two vectors of b and
/// the broadcasts of a.
template <class P>
inline constexpr int kMaxTileRows = P::kRegisters == 32 ? 14 : 6;

namespace detail {

template <class V, int kRows, int kVecs>
TW_INLINE void outer_product(V (&acc)[kRows][kVecs], const float* a, const V (&b)[kVecs]) {
  TW_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const V x = splat<V>(a[r]);
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j) acc[r][j] = fma(x, b[j], acc[r][j]);
  }
}

}  // namespace detail

// ---- panel formats -------------------------------------------------------------------------

/// What a format, or the units that one is made of, adds up in: float32, or F::Sum.
template <class F>
struct SumOf {
  using type = float;
};
template <class F>
  requires requires { typename F::Sum; }
struct SumOf<F> {
  using type = typename F::Sum;
};
template <class F>
using sum_t = typename SumOf<F>::type;

/// Whether its sums begin at values of each column: starts(p, b, k, to) writes those of a panel.
template <class F>
inline constexpr bool kHasStarts = requires { requires F::kHasStarts; };

/// Element: what b points at. Unit: what a points at. A step multiplies kDepth values of k; half()
/// is the last one of a k that is no multiple of kDepth. kUnitDepth: values of k in one Unit.
template <class F>
concept PanelFormat = requires(vec<sum_t<F>, 8> (&acc)[1][1], const typename F::Unit* a,
                               const typename F::Element* b) {
  F::step(acc, a, b);
  F::kDepth / F::kUnitDepth;
};

/// b[k][j] as T, widened to float32 in the register.
template <class T>
struct PlainPanel {
  using Element = T;
  using Unit = float;
  static constexpr int kDepth = 1, kUnitDepth = 1;

  template <class V, int kRows, int kVecs>
  TW_INLINE static void step(V (&acc)[kRows][kVecs], const float* a, const T* b) {
    V w[kVecs];
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j) w[j] = load<V>(b + j * kLanesOf<V>);
    detail::outer_product(acc, a, w);
  }
};

/// bf16 in pairs of k, b[k / 2][j][k % 2], widened with a shift or a mask: the layout that
/// vdpbf16ps reads, and cheaper to widen than rows of 16-bit values.
struct Bf16Panel {
  using Element = bf16;
  using Unit = float;
  static constexpr int kDepth = 2, kUnitDepth = 1;

  template <class V>
  using Bits = vec<uint32_t, kLanesOf<V>>;

  template <class V, int kRows, int kVecs>
  TW_INLINE static void half(V (&acc)[kRows][kVecs], const float* a, const bf16* b) {
    V w[kVecs];
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j)
      w[j] = bit_cast<V>(load_bits<Bits<V>>(b + 2 * j * kLanesOf<V>) << 16);
    detail::outer_product(acc, a, w);
  }
  template <class V, int kRows, int kVecs>
  TW_INLINE static void step(V (&acc)[kRows][kVecs], const float* a, const bf16* b) {
    half(acc, a, b);
    V w[kVecs];
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j)
      w[j] = bit_cast<V>(load_bits<Bits<V>>(b + 2 * j * kLanesOf<V>) & 0xffff0000u);
    detail::outer_product(acc, a + kRows, w);
  }
};

#if defined(__AVX512BF16__)
/// The same layout multiplied by vdpbf16ps; a holds pairs too. An odd k is padded with zeros.
struct Bf16DotPanel {
  using Element = bf16;
  using Unit = uint32_t;
  static constexpr int kDepth = 2, kUnitDepth = 2;

  template <class V, int kRows, int kVecs>
  TW_INLINE static void step(V (&acc)[kRows][kVecs], const uint32_t* a, const bf16* b) {
    __m512bh w[kVecs];
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j) w[j] = (__m512bh)load_bits<__m512i>(b + 2 * j * kLanesOf<V>);
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512bh x = (__m512bh)_mm512_set1_epi32(int(a[r]));
      TW_UNROLL
      for (int j = 0; j < kVecs; ++j) acc[r][j] = (V)_mm512_dpbf16_ps((__m512)acc[r][j], x, w[j]);
    }
  }
  template <class V, int kRows, int kVecs>
  TW_INLINE static void half(V (&acc)[kRows][kVecs], const uint32_t* a, const bf16* b) {
    step(acc, a, b);
  }
};
#endif

// ---- the tile ------------------------------------------------------------------------------

/// kVecs vectors of each row of the tile: k values of k, starting from zero or from c, and from
/// `starts` where there are any. Returns `ahead` moved past the lines that were prefetched, one for
/// every four steps.
template <PanelFormat Format, class P, int kRows, int kVecs>
TW_INLINE const char* mma_columns(P, const typename Format::Unit* a,
                                  const typename Format::Element* b, int64_t k, sum_t<Format>* c,
                                  bool accumulate, const char* ahead, const sum_t<Format>* starts) {
  using V = typename P::template Vec<sum_t<Format>>;
  constexpr int kN = kLanesOf<V>;
  constexpr int kUnits = kRows * Format::kDepth / Format::kUnitDepth;  // of a, per step
  constexpr int kElements = kPanelWidth * Format::kDepth;              // of b, per step
  constexpr int kUnroll = 4;

  V acc[kRows][kVecs];
  TW_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j) acc[r][j] = V{};
  }
  if (accumulate) {
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TW_UNROLL
      for (int j = 0; j < kVecs; ++j) acc[r][j] = load<V>(c + r * kPanelWidth + j * kN);
    }
  }
  if constexpr (kHasStarts<Format>) {
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j) {
      const V start = load<V>(starts + j * kN);
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r][j] += start;
    }
  }
  int64_t steps = k / Format::kDepth;
  for (; steps >= kUnroll; steps -= kUnroll) {
    TW_UNROLL
    for (int u = 0; u < kUnroll; ++u) Format::step(acc, a + u * kUnits, b + u * kElements);
    prefetch_l2(ahead);
    ahead += 64;
    a += kUnroll * kUnits;
    b += kUnroll * kElements;
  }
  for (; steps > 0; --steps) {
    Format::step(acc, a, b);
    a += kUnits;
    b += kElements;
  }
  if constexpr (Format::kDepth > 1) {
    if (k % Format::kDepth != 0) Format::half(acc, a, b);
  }
  TW_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j) store(c + r * kPanelWidth + j * kN, acc[r][j]);
  }
  return ahead;
}

/// A tile of kRows rows; columns from `cols` on may be left as they are.
template <PanelFormat Format, class P, int kRows>
__attribute__((noinline)) const char* mma_rows(P p, const typename Format::Unit* a,
                                               const typename Format::Element* b, int64_t k,
                                               sum_t<Format>* c, int64_t cols, bool accumulate,
                                               const char* ahead, const sum_t<Format>* starts) {
  constexpr int kN = P::template kLanes<float>;
  constexpr int kAll = kPanelWidth / kN;
  // As many columns at once as the registers hold beside two vectors of b and a broadcast.
  constexpr int kVecs = kRows * kAll <= P::kRegisters - 4 ? kAll : 2;
  TW_UNROLL
  for (int j = 0; j < kAll; j += kVecs) {
    if (j > 0 && j * kN >= cols) break;
    ahead = mma_columns<Format, P, kRows, kVecs>(p, a, b + j * kN * Format::kDepth, k, c + j * kN,
                                                 accumulate, ahead,
                                                 kHasStarts<Format> ? starts + j * kN : nullptr);
  }
  return ahead;
}

/// Calls f.operator()<rows>() for 1 <= rows <= kMax <= 14.
template <int kMax, class F>
TW_INLINE auto with_rows(int rows, F&& f) {
  switch (rows) {
#define TW_ROWS(count)                                                  \
  case count:                                                           \
    if constexpr (count <= kMax) return f.template operator()<count>(); \
    [[fallthrough]];
    // clang-format off
    TW_ROWS(1)
    TW_ROWS(2)
    TW_ROWS(3) TW_ROWS(4) TW_ROWS(5) TW_ROWS(6) TW_ROWS(7) TW_ROWS(8) TW_ROWS(9) TW_ROWS(10)
        TW_ROWS(11) TW_ROWS(12) TW_ROWS(13) TW_ROWS(14)
    // clang-format on
#undef TW_ROWS
            default : __builtin_unreachable();
  }
}

/// c (+)= a · b for 1 <= rows <= kMaxTileRows, and `starts` where the format has any. Prefetches
/// some lines from `ahead` on into L2, and returns where to go on.
template <PanelFormat Format, class P>
TW_INLINE const char* mma(P p, int rows, const typename Format::Unit* a,
                          const typename Format::Element* b, int64_t k, sum_t<Format>* c,
                          int64_t cols, bool accumulate, const char* ahead,
                          const sum_t<Format>* starts = nullptr) {
  return with_rows<kMaxTileRows<P>>(rows, [&]<int kRows>() {
    return mma_rows<Format, P, kRows>(p, a, b, k, c, cols, accumulate, ahead, starts);
  });
}

}  // namespace tw::tile
