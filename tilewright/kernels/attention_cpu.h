// Attention's two products and its softmax on the CPU, on tiles that live in L1.
//
// Both products are one loop: acc[r][c] = fma(a[r, i], b[i, c], acc[r][c]) for i in order, so that
// an element's chain of operations is the same in every tile height and width, and may be cut at
// any i and resumed. b is read as it lies in memory (any storage type) or from a packed panel.
// Where a is bf16, b that or of 8 bits, and the processor multiplies pairs of bf16 faster
// (vdpbf16ps), i counts pairs, and weights are rounded to bf16.
#pragma once

#include "tilewright/kernels/attention_blocks.h"
#include "tilewright/tile/cpu/byte_pairs.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels::attention_detail {

/// Rows of the tallest register tile; also what queries are packed in.
template <class P>
inline constexpr int kTileRows = P::kRegisters == 32 ? 12 : 6;
/// Columns of a packed panel: two vectors.
template <class P>
inline constexpr int kPanel = 2 * P::template kLanes<float>;
/// Softmax walks a row in chunks of four vectors.
template <class P>
inline constexpr int kChunk = 4 * P::template kLanes<float>;
/// Row length of a tile of scores: a block and a cache line, so that rows fall into different sets.
inline constexpr int kScoreStride = int(kKeyBlock) + 16;
/// Rows of a tile of scores: with a panel of keys and one of values they fill half of L1.
inline constexpr int kScoreRows = 24;

/// Columns of b where they lie, in vectors of V: pairs of vectors `pair_stride` elements apart (two
/// vectors where columns are contiguous), rows `row_stride` elements apart. While they are read,
/// `ahead` is fetched, byte for byte: decode waits for memory otherwise.
template <class B>
struct Columns {
  const B* data;
  int64_t row_stride, pair_stride;
  const char* ahead;

  /// From vector `vec` on, the rows above which are `count`.
  template <class V>
  TW_INLINE Columns from(int64_t vec, int64_t count) const {
    constexpr int kN = tile::kLanesOf<V>;
    return {data + vec / 2 * pair_stride + vec % 2 * kN, row_stride, pair_stride,
            ahead + vec * kN * count * int64_t{sizeof(B)}};
  }
  /// Without the first `rows`.
  TW_INLINE Columns below(int64_t rows) const {
    return {data + rows * row_stride, row_stride, pair_stride, ahead};
  }
  /// Of the row at `row`.
  template <class V>
  TW_INLINE V load(const B* row, int c) const {
    return tile::load<V>(row + c / 2 * pair_stride + c % 2 * tile::kLanesOf<V>);
  }
  template <int kBytes>
  TW_INLINE void fetch(int64_t row) const {
    TW_UNROLL
    for (int line = 0; line < (kBytes + 63) / 64; ++line)
      tile::prefetch_l2(ahead + row * kBytes + line * 64);
  }
};

/// Columns where they lie, as bf16, a row of pairs being two rows of these, `stride` apart. The
/// first may have no low half, the last no high one: zeros.
template <class B>
struct PairColumns {
  const B* data;
  int64_t row_stride, pair_stride, stride;
  const B *without_low, *without_high;  // rows of pairs, or null
  const char* ahead;

  /// Rows [first, last) of memory, `from` being `first`; pairs begin with even rows.
  TW_INLINE static PairColumns of(const B* from, int64_t first, int64_t last, int64_t stride,
                                  int64_t pair_stride, const char* ahead) {
    const B* const data = from - first % 2 * stride;
    return {data,
            2 * stride,
            pair_stride,
            stride,
            first % 2 != 0 ? data : nullptr,
            last % 2 != 0 ? from + (last - 1 - first) * stride : nullptr,
            ahead};
  }
  template <class V>
  TW_INLINE PairColumns from(int64_t vec, int64_t count) const {
    constexpr int kN = tile::kLanesOf<V>;
    const int64_t to = vec / 2 * pair_stride + vec % 2 * kN;
    const auto moved = [&](const B* row) { return row != nullptr ? row + to : row; };
    return {data + to,
            row_stride,
            pair_stride,
            stride,
            moved(without_low),
            moved(without_high),
            ahead + vec * kN * count * 2 * int64_t{sizeof(B)}};
  }
  TW_INLINE PairColumns below(int64_t rows) const {
    PairColumns out = *this;
    out.data += rows * row_stride;
    return out;
  }
  template <class V>
  TW_INLINE auto load(const B* row, int c) const {
    using Bits = tile::with_element<bits_of<B>, V>;
    return tile::bf16_pairs<B>(low<Bits>(row, c), high<Bits>(row, c));
  }
  /// Vectors c and c + 1, c even, for less than twice the work.
  static constexpr bool kLoadsTwo = sizeof(B) == 1;
  template <class V, class W>
  TW_INLINE void load_two(const B* row, int c, W* to) const {
    using Bits = tile::vec<bits_of<B>, 2 * tile::kLanesOf<V>>;
    tile::bf16_pairs<B>(low<Bits>(row, c), high<Bits>(row, c), to);
  }
  template <int kBytes>
  TW_INLINE void fetch(int64_t row) const {
    TW_UNROLL
    for (int line = 0; line < (2 * kBytes + 63) / 64; ++line)
      tile::prefetch_l2(ahead + row * 2 * kBytes + line * 64);
  }

 private:
  template <class Bits>
  TW_INLINE Bits low(const B* row, int c) const {
    return row != without_low ? tile::load_bits<Bits>(at<Bits>(row, c)) : Bits{};
  }
  template <class Bits>
  TW_INLINE Bits high(const B* row, int c) const {
    return row != without_high ? tile::load_bits<Bits>(at<Bits>(row, c) + stride) : Bits{};
  }
  template <class Bits>
  TW_INLINE const B* at(const B* row, int c) const {
    return row + c / 2 * pair_stride + c % 2 * tile::kLanesOf<Bits>;
  }
};

/// Two vectors of columns from a packed panel of floats or of pairs of bf16.
template <class P, class E>
struct Panel {
  const E* data;
  static constexpr int64_t row_stride = kPanel<P>;

  TW_INLINE Panel below(int64_t rows) const { return {data + rows * row_stride}; }
  template <class V>
  TW_INLINE auto load(const E* row, int c) const {
    return tile::load<tile::with_element<E, V>>(row + c * tile::kLanesOf<V>);
  }
  template <int kBytes>
  TW_INLINE void fetch(int64_t) const {}
};

/// The same; what is read next from memory is fetched meanwhile, `share` bytes for each row.
template <class P, class E>
struct PanelAhead : Panel<P, E> {
  const char* ahead;
  int64_t share;

  TW_INLINE PanelAhead below(int64_t rows) const {
    return {Panel<P, E>::below(rows), ahead + rows * share, share};
  }
  template <int kBytes>
  TW_INLINE void fetch(int64_t row) const {
    tile::prefetch_l2(ahead + row * share);
    if (share > 64) tile::prefetch_l2(ahead + row * share + 64);
  }
};

/// Vectors [c, c + kCount) of b, read from `row`.
template <class V, int kCount, class W, class B>
TW_INLINE void load_vectors(const B& b, decltype(B::data) row, int c, W (&to)[kCount]) {
  if constexpr (requires { B::kLoadsTwo; }) {
    if constexpr (B::kLoadsTwo && kCount % 2 == 0) {
      TW_UNROLL
      for (int i = 0; i < kCount; i += 2) b.template load_two<V>(row, c + i, to + i);
      return;
    }
  }
  TW_UNROLL
  for (int i = 0; i < kCount; ++i) to[i] = b.template load<V>(row, c + i);
}

/// acc[r][c] += a[r * kRow] * b[c], with b's vectors read from `row`.
template <int kRow, class V, int kRows, int kVecs, class E, class B>
TW_INLINE void outer_product(V (&acc)[kRows][kVecs], const E* a, const B& b,
                             decltype(B::data) row) {
  using W = tile::with_element<E, V>;
  if constexpr (kRows < kVecs) {  // the side with fewer vectors waits in registers
    W x[kRows];
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) x[r] = tile::splat<W>(a[r * kRow]);
    constexpr int kAtOnce = kVecs % 2 == 0 ? 2 : 1;
    TW_UNROLL
    for (int c = 0; c < kVecs; c += kAtOnce) {
      W w[kAtOnce];
      load_vectors<V>(b, row, c, w);
      TW_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        TW_UNROLL
        for (int r = 0; r < kRows; ++r)
          acc[r][c + i] = tile::multiply_add(x[r], w[i], acc[r][c + i]);
      }
    }
  } else {
    W w[kVecs];
    load_vectors<V>(b, row, 0, w);
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const W x = tile::splat<W>(a[r * kRow]);
      TW_UNROLL
      for (int c = 0; c < kVecs; ++c) acc[r][c] = tile::multiply_add(x, w[c], acc[r][c]);
    }
  }
}

/// acc[r][c] += sum over i < count of a[r * kRow + i * kStep] * b[i, c].
template <int kRow, int kStep, class V, int kRows, int kVecs, class E, class B>
TW_INLINE void accumulate(V (&acc)[kRows][kVecs], const E* a, const B& b, int64_t count) {
  constexpr int kBytes = kVecs * tile::kLanesOf<V> * int(sizeof(*b.data));
  constexpr int kUnroll = 4;
  auto* row = b.data;
  int64_t i = 0;
  for (; i + kUnroll <= count; i += kUnroll, a += kUnroll * kStep) {
    TW_UNROLL
    for (int u = 0; u < kUnroll; ++u, row += b.row_stride) {
      b.template fetch<kBytes>(i + u);
      outer_product<kRow>(acc, a + u * kStep, b, row);
    }
  }
  for (; i < count; ++i, a += kStep, row += b.row_stride) outer_product<kRow>(acc, a, b, row);
}

/// scores[r, c] = sum over d of q[d, r] * k[d, c], times scale[c] where there is one, and of pairs
/// times `factor`. q is packed by kTileRows. Long sums are made of several, which are more exact.
template <class P, int kRows, int kVecs, class E, class B>
__attribute__((noinline)) void score_tile(P, const E* q, B k, int64_t dims, float factor,
                                          const float* scale, float* scores) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  constexpr int64_t kLongest = 256;
  for (int64_t done = 0;; done += kLongest) {
    const int64_t left = dims - done;
    const bool last = left <= kLongest;
    V acc[kRows][kVecs] = {};
    accumulate<1, kTileRows<P>>(acc, q + done * kTileRows<P>, k.below(done),
                                last ? left : kLongest);
    TW_UNROLL
    for (int c = 0; c < kVecs; ++c) {
      V all = tile::splat<V>(1);
      if constexpr (!tile::same_type<E, float>)  // floats were scaled before
        if (last) all *= factor;
      if (last && scale != nullptr) all *= tile::load<V>(scale + c * kN);
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) {
        float* const to = scores + r * kScoreStride + c * kN;
        if (done > 0) acc[r][c] += tile::load<V>(to);
        tile::store(to, acc[r][c] * all);
      }
    }
    if (last) return;
  }
}

/// How a block's result (m, l, o) joins what came before it, row by row:
/// o_all = o_all * keep + o * add. A negative keep leaves the row alone.
struct MergeFactors {
  float keep[kScoreRows], add[kScoreRows];
};

/// out[r, c] (+)= sum over j of weights[r, j] * v[j, c].
template <class P, int kRows, int kVecs, class E, class B>
__attribute__((noinline)) void weigh_tile(P, const E* weights, B v, int64_t keys, float* out,
                                          int64_t out_stride, bool resume) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  V acc[kRows][kVecs] = {};
  if (resume) {
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TW_UNROLL
      for (int c = 0; c < kVecs; ++c) acc[r][c] = tile::load<V>(out + r * out_stride + c * kN);
    }
  }
  accumulate<kScoreStride, 1>(acc, weights, v, keys);
  TW_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TW_UNROLL
    for (int c = 0; c < kVecs; ++c) tile::store(out + r * out_stride + c * kN, acc[r][c]);
  }
}

/// The same over all keys of a block, merged into `out` from the registers.
template <class P, int kRows, int kVecs, class E>
__attribute__((noinline)) void weigh_and_merge_tile(P, const E* weights, Panel<P, E> v,
                                                    int64_t keys, float* out, int64_t out_stride,
                                                    const float* keep, const float* add) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  V acc[kRows][kVecs] = {};
  accumulate<kScoreStride, 1>(acc, weights, v, keys);
  TW_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (keep[r] < 0) continue;
    const V old = tile::splat<V>(keep[r]), fresh = tile::splat<V>(add[r]);
    TW_UNROLL
    for (int c = 0; c < kVecs; ++c) {
      float* const at = out + r * out_stride + c * kN;
      tile::store(at, tile::fma(acc[r][c], fresh, tile::load<V>(at) * old));
    }
  }
}

/// out[c] = out[c] * keep + block[c]: the merge of one row whose block result lies in memory.
template <class P>
TW_INLINE void merge_row(P, const float* block, float keep, float add, int64_t count, float* out) {
  using V = typename P::f32;
  const V old = tile::splat<V>(keep), fresh = tile::splat<V>(add);
  for (int64_t c = 0; c < count; c += P::template kLanes<float>)
    tile::store(out + c, tile::fma(tile::load<V>(block + c), fresh, tile::load<V>(out + c) * old));
}

/// Calls f.template operator()<kRows>() for the lowest register tile that holds `rows`. What it
/// reads and writes of rows past the last one is scratch.
template <class P, class F>
TW_INLINE void with_tile_rows(P, int rows, F&& f) {
  if (rows <= 1)
    f.template operator()<1>();
  else if (rows <= 2)
    f.template operator()<2>();
  else if (rows <= 3)
    f.template operator()<3>();
  else if (rows <= 4)
    f.template operator()<4>();
  else if (rows <= 6)
    f.template operator()<6>();
  else if constexpr (kTileRows<P> > 6) {
    if (rows <= 8)
      f.template operator()<8>();
    else
      f.template operator()<12>();
  }
}

/// Calls f.template operator()<kVecs>(vec) over `vecs` vectors of columns, as many at once as the
/// registers hold beside the accumulators; an even number but for the last.
template <class P, int kRows, class F>
TW_INLINE void for_columns(P, int64_t vecs, F&& f) {
  constexpr auto kFits = [](int vecs_at_once) {  // beside what accumulate() holds of a and b
    return kRows * vecs_at_once + (kRows < vecs_at_once ? kRows : vecs_at_once) < P::kRegisters;
  };
  constexpr int kWide = kFits(8) ? 8 : kFits(4) ? 4 : 2;
  int64_t vec = 0;
  for (; vec + kWide <= vecs; vec += kWide) f.template operator()<kWide>(vec);
  if constexpr (kWide > 2)
    for (; vec + 2 <= vecs; vec += 2) f.template operator()<2>(vec);
  if (vec < vecs) f.template operator()<1>(vec);
}

/// scores[r, 0 .. vecs * lanes) for `rows` <= kTileRows rows.
template <class P, class E, class B>
TW_INLINE void score(P p, int rows, const E* q, const B& k, int64_t vecs, int64_t dims,
                     float factor, const float* scale, float* scores) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  with_tile_rows(p, rows, [&]<int kRows>() {
    for_columns<P, kRows>(p, vecs, [&]<int kVecs>(int64_t vec) {
      score_tile<P, kRows, kVecs>(p, q, k.template from<V>(vec, dims), dims, factor,
                                  scale != nullptr ? scale + vec * kN : nullptr, scores + vec * kN);
    });
  });
}

template <class P, class E, class B>
TW_INLINE void weigh(P p, int rows, const E* weights, const B& v, int64_t vecs, int64_t keys,
                     float* out, int64_t out_stride, bool resume) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  with_tile_rows(p, rows, [&]<int kRows>() {
    for_columns<P, kRows>(p, vecs, [&]<int kVecs>(int64_t vec) {
      weigh_tile<P, kRows, kVecs>(p, weights, v.template from<V>(vec, keys), keys, out + vec * kN,
                                  out_stride, resume);
    });
  });
}

}  // namespace tw::kernels::attention_detail
