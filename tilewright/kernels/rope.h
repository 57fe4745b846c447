// Rotary position embedding. Su et al., arXiv:2104.09864, eq. 34.
//
//   (a, b) -> (a cos - b sin, b cos + a sin)      for each pair (a, b) of the first 2 R dimensions
//
// Pairs are (x[i], x[i + R]) in the NeoX form and (x[2i], x[2i + 1]) in the interleaved one: two
// strided rows either way, so that one loop serves both; pairs that lie side by side are taken
// apart in registers. Dimensions from 2 R on pass through.
// One program per token, or per four heads on a GPU, whose loads go ahead together. There pairs
// that lie side by side, and dimensions that pass through, come in words of four elements with the
// rest.
#pragma once

#include "tilewright/tile/tile.h"

#if !defined(__CUDACC__)
#include "tilewright/tile/cpu/pairs.h"
#endif

namespace tw::kernels {

template <class T>
struct Rope {
  static constexpr int kGpuRegisters = 128;  // four heads at once

  View<const T, 4> x;                // [batch, seq, heads, dim]
  View<const float, 2> cos;          // [positions, pairs], pairs <= dim / 2
  View<const float, 2> sin;          // [positions, pairs]
  View<const int32_t, 2> positions;  // [batch, seq], rows of cos and sin; absent: 0, 1, 2, ...
  bool interleaved;
  bool inverse;    // turn the other way: the sign of sin
  View<T, 4> out;  // [batch, seq, heads, dim], may alias x

  struct Prepared;
  template <tile::Program P>
  TW_DEVICE Prepared prepared() const
    requires(P::kOnGpu)
  {
    return {*this, way()};
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu)
      return tile::plan_of(x.size(0) * x.size(1) * head_groups())
          .over(way() == kWords ? words() * kSpan : x.size(3) / 2);
    return tile::plan_of(x.size(0) * x.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    turn_token(p);
  }

 private:
  static constexpr int64_t kHeads = 4;  // of a program on a GPU

  TW_INLINE int64_t head_groups() const { return (x.size(2) + kHeads - 1) / kHeads; }

  /// Of a head: halves of aligned spans of eight elements, words of four, or elements as they lie.
  enum Way { kHalves, kWords, kAny };

  /// Whether heads have dimensions that do not turn.
  TW_INLINE bool has_rest() const { return 2 * cos.size(1) != x.size(3); }
  /// Elements of a word, and of a thread in a plan.
  static constexpr int kWord = 4, kSpan = 8;
  /// Words of a head, of pairs of halves those of the first one.
  TW_INLINE int64_t words() const { return (x.size(3) - (interleaved ? 0 : cos.size(1))) / kWord; }
  TW_INLINE Way way() const {
    if (!interleaved && !has_rest() && cos.size(1) % kSpan == 0 && is_whole(16)) return kHalves;
    return is_whole(kWord * int(sizeof(T))) ? kWords : kAny;
  }
  /// Whether all is whole words of so many bytes.
  TW_INLINE bool is_whole(int bytes) const {
    const int64_t pairs = cos.size(1), dim = x.size(3);
    if (x.stride(3) != 1 || out.stride(3) != 1 || cos.stride(1) != 1 || sin.stride(1) != 1)
      return false;
    auto data = reinterpret_cast<uint64_t>(x.data) | reinterpret_cast<uint64_t>(out.data);
    auto tables = reinterpret_cast<uint64_t>(cos.data) | reinterpret_cast<uint64_t>(sin.data);
    int64_t strides = dim | (interleaved ? 2 * pairs : pairs);
    for (int d = 0; d < 3; ++d) strides |= x.stride(d) | out.stride(d);
    tables |= uint64_t(cos.stride(0) | sin.stride(0)) * sizeof(float);
    data |= uint64_t(strides) * sizeof(T);
    return data % unsigned(bytes) == 0 && tables % (interleaved ? 8 : 16) == 0;
  }

#if defined(__CUDACC__)
  /// What a program has.
  struct Heads {
    View<const T, 2> from;
    View<T, 2> to;
    View<const float, 1> cos, sin;
    int64_t first;
    int count;
    float sign;
  };
  template <class P>
  TW_DEVICE Heads heads_at(P p) const {
    const int64_t token = index_quotient(p.index(), head_groups());
    const int64_t first = (p.index() - token * head_groups()) * kHeads;
    const int64_t b = index_quotient(token, x.size(1)), s = token - b * x.size(1);
    const int64_t position = positions ? positions(b, s) : s, left = x.size(2) - first;
    tile::require_index(p, position, cos.size(0));
    return {x[b][s],
            out[b][s],
            cos[position],
            sin[position],
            first,
            int(left < kHeads ? left : kHeads),
            inverse ? -1.0f : 1.0f};
  }

  /// Cosines, or sines, of a word's elements from pair `first` on.
  TW_DEVICE tile::Pack<float, kWord> angles(const float* row, int64_t first) const {
    tile::Pack<float, kWord> out;
    if (interleaved) {
      const auto two = tile::Raw<float, 2>::load(row + first);
      TW_UNROLL
      for (int i = 0; i < kWord; ++i) out[i] = two.element(i / 2);
    } else {
      out = tile::Raw<float, kWord>::load(row + first).template widen<float>();
    }
    return out;
  }
  /// Thread i of a program has word i of each head; in pairs of halves also that of the other half.
  template <class P>
  TW_DEVICE void turn_words(P p) const {
    using Word = tile::Raw<T, kWord>;
    const Heads heads = heads_at(p);
    const int pairs = int(cos.size(1)), all = int(words());
    TW_ROLLED
    for (int i = p.thread(); i < all; i += p.threads()) {
      const bool is_turned = i * kWord < (interleaved ? 2 * pairs : pairs);
      const bool has_other = is_turned && !interleaved;
      const int column = i * kWord + (is_turned || interleaved ? 0 : pairs);
      Word words[kHeads] = {}, others[kHeads] = {};
      const T* const from = heads.from.data + heads.first * heads.from.stride(0) + column;
      TW_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        if (h >= heads.count) continue;
        words[h] = Word::load(from + h * heads.from.stride(0));
        if (has_other) others[h] = Word::load(from + h * heads.from.stride(0) + pairs);
      }
      tile::Pack<float, kWord> c = {}, n = {};
      if (is_turned) {
        const int first = interleaved ? column / 2 : column;
        c = angles(heads.cos.data, first);
        n = angles(heads.sin.data, first) * heads.sign;
      }
      T* const to = heads.to.data + heads.first * heads.to.stride(0) + column;
      TW_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        if (h >= heads.count) continue;
        T* const target = to + h * heads.to.stride(0);
        if (is_turned) turn_word(words[h], others[h], c, n);
        words[h].store(target);
        if (has_other) others[h].store(target + pairs);
      }
    }
  }
  template <class Word>
  TW_DEVICE void turn_word(Word& word, Word& other, const tile::Pack<float, kWord>& c,
                           const tile::Pack<float, kWord>& n) const {
    const auto a = word.template widen<float>(), o = other.template widen<float>();
    if (!interleaved) {
      word = Word::narrow(a * c - o * n);
      other = Word::narrow(o * c + a * n);
      return;
    }
    tile::Pack<float, kWord> turned;
    TW_UNROLL
    for (int i = 0; i < kWord; i += 2) {
      turned[i] = a[i] * c[i] - a[i + 1] * n[i];
      turned[i + 1] = a[i + 1] * c[i] + a[i] * n[i];
    }
    word = Word::narrow(turned);
  }

  template <bool kIsAligned, class P>
  TW_DEVICE void turn_heads(P p) const {
    const Heads all = heads_at(p);
    const auto from = all.from;
    const auto to = all.to;
    const auto cos_row = all.cos, sin_row = all.sin;
    const int64_t first = all.first, pairs = cos_row.size(0);
    const int heads = all.count;
    const float sign = all.sign;
    const auto run = [&](const auto& from_a, const auto& from_b, const auto& cosine,
                         const auto& sine, const auto& to_a, const auto& to_b) {
      tile::for_row(p, cosine, [&](auto at) {
        const auto c = tile::load(cosine, at), n = tile::load(sine, at) * sign;
        decltype(tile::load_raw(from_a.row(0), at)) a[kHeads] = {}, o[kHeads] = {};
        TW_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          if (h >= heads) continue;
          a[h] = tile::load_raw(from_a.row(h), at);
          o[h] = tile::load_raw(from_b.row(h), at);
        }
        TW_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          if (h >= heads) continue;
          const auto u = a[h].template widen<float>(), v = o[h].template widen<float>();
          tile::store(p, to_a.row(h), at, u * c - v * n);
          tile::store(p, to_b.row(h), at, v * c + u * n);
        }
      });
    };
    const auto from_all = heads_of(from, first, heads);
    const auto to_all = heads_of(to, first, heads);
    const auto walk = [&](const auto&... halves) {
      if constexpr (kIsAligned)
        tile::with_aligned_rows(p, run, halves...);
      else
        tile::with_rows(p, run, halves...);
    };
    walk(half(from_all, 0, pairs), half(from_all, 1, pairs), cos_row, sin_row,
         half(to_all, 0, pairs), half(to_all, 1, pairs));
    if constexpr (!kIsAligned)
      for (int h = 0; h < heads && has_rest(); ++h)
        tile::map_row(
            p, rest(to[first + h], 2 * pairs), [](auto v) { return v; },
            rest(from[first + h], 2 * pairs));
  }
  template <class U>
  TW_INLINE static Rows<U> heads_of(const View<U, 2>& token, int64_t first, int heads) {
    return rows(token.part(first, heads));
  }
  template <class U>
  TW_INLINE Rows<U> half(Rows<U> rows, int which, int64_t pairs) const {
    rows.data += which * rows.col_stride * (interleaved ? 1 : pairs);
    rows.cols = pairs;
    if (interleaved) rows.col_stride *= 2;
    return rows;
  }

#endif

  template <class P>
  TW_DEVICE void turn_token(P p) const {
    const int64_t b = p.index() / x.size(1), s = p.index() % x.size(1);
    const int64_t position = positions ? positions(b, s) : s;
    tile::require_index(p, position, cos.size(0));
    const auto cos_row = cos[position], sin_row = sin[position];
    const int64_t pairs = cos_row.size(0);
    const float sign = inverse ? -1.0f : 1.0f;
    for (int64_t h = 0; h < x.size(2); ++h) {
      const auto from = x[b][s][h];
      const auto to = out[b][s][h];
      int64_t done = 0;
#if !defined(__CUDACC__)
      if (interleaved && from.stride(0) == 1 && to.stride(0) == 1)
        done = turn_neighbours(p, from, to, cos_row, sin_row, sign);
#endif
      const int64_t left = pairs - done;
      const auto from_a = half(from, 0, pairs).part(done, left);
      const auto from_b = half(from, 1, pairs).part(done, left);
      const auto to_a = half(to, 0, pairs).part(done, left);
      const auto to_b = half(to, 1, pairs).part(done, left);
      const auto cosine = cos_row.part(done, left), sine = sin_row.part(done, left);
      tile::for_row(p, left, [&](auto at) {
        const auto a = tile::load(from_a, at), c = tile::load(cosine, at);
        const auto o = tile::load(from_b, at), n = tile::load(sine, at) * sign;
        tile::store(p, to_a, at, a * c - o * n);
        tile::store(p, to_b, at, o * c + a * n);
      });
      const auto from_rest = rest(from, 2 * pairs);
      const auto to_rest = rest(to, 2 * pairs);
      tile::for_row(p, from_rest.size(0),
                    [&](auto at) { tile::store(p, to_rest, at, tile::load(from_rest, at)); });
    }
  }

#if !defined(__CUDACC__)
  /// Whole vectors of pairs that lie side by side; returns how many pairs.
  template <class P>
  TW_INLINE static int64_t turn_neighbours(P p, const View<const T, 1>& from, const View<T, 1>& to,
                                           const View<const float, 1>& cosine,
                                           const View<const float, 1>& sine, float sign) {
    using V = typename P::f32;
    constexpr int kN = P::template kLanes<float>;
    const int64_t whole = cosine.size(0) / kN * kN;
    tile::for_row(p, whole, [&](auto at) {
      const T* const read = from.data + 2 * at.offset;
      T* const written = to.data + 2 * at.offset;
      const V low = tile::load<V>(read), high = tile::load<V>(read + kN);
      const V a = tile::every_other<0>(low, high), o = tile::every_other<1>(low, high);
      const V c = tile::load(cosine, at), n = tile::load(sine, at) * sign;
      const V first = a * c - o * n, second = o * c + a * n;
      tile::store(written, tile::pairs_of<0>(first, second));
      tile::store(written + kN, tile::pairs_of<1>(first, second));
    });
    return whole;
  }
#endif

  template <class U>
  TW_INLINE View<U, 1> half(const View<U, 1>& row, int which, int64_t pairs) const {
    const int64_t step = row.stride(0);
    return {row.data + which * step * (interleaved ? 1 : pairs),
            {pairs},
            {interleaved ? 2 * step : step}};
  }
  template <class U>
  TW_INLINE static View<U, 1> rest(const View<U, 1>& row, int64_t begin) {
    return {row.data + begin * row.stride(0), {row.size(0) - begin}, {row.stride(0)}};
  }
};

/// On a GPU how heads are read is found out on the host.
template <class T>
struct Rope<T>::Prepared {
  static constexpr int kGpuRegisters = Rope::kGpuRegisters, kGpuWays = kAny + 1;
  Rope rope;
  Way how;

  TW_INLINE int way() const { return how; }

#if defined(__CUDACC__)
  template <class P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kWay == kWords)
      rope.turn_words(p);
    else
      rope.turn_heads<P::kWay == kHalves>(p);
  }
#endif
};

}  // namespace tw::kernels
