// Rotary position embedding. Su et al., arXiv:2104.09864, eq. 34.
//
//   (a, b) -> (a cos - b sin, b cos + a sin)      for each pair (a, b) of the first 2 R dimensions
//
// Pairs are (x[i], x[i + R]) in the NeoX form and (x[2i], x[2i + 1]) in the interleaved one: two
// strided rows either way, so that one loop serves both; pairs that lie side by side are taken
// apart in registers. Dimensions from 2 R on pass through.
// One program per token, or per head or four on a GPU, whose loads go ahead together. There pairs
// that lie side by side, and dimensions that pass through, come in words with the rest.
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
    return {*this, way(), int(heads_each())};
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) {
      const int64_t words =
          columns() / (way() == kShortWords ? kShortWord : kLongWord);  // one for a thread
      return tile::plan_of(x.size(0) * x.size(1) * head_groups(heads_each()))
          .over(way() == kAny ? x.size(3) / 2 : words * tile::Plan::kColumnsOfLane);
    }
    return tile::plan_of(x.size(0) * x.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    turn_token(p);
  }

 private:
  /// Heads of a program on a GPU: of few, one, which is done sooner.
  static constexpr int64_t kHeads = 4, kFewHeads = 8192;
  TW_INLINE int64_t heads_each() const {
    return x.size(0) * x.size(1) * x.size(2) <= kFewHeads ? 1 : kHeads;
  }
  TW_INLINE int64_t head_groups(int64_t each) const { return (x.size(2) + each - 1) / each; }

  /// Of a head: words of eight elements, or of four, or elements as they lie.
  enum Way { kLongWords, kShortWords, kAny };
  static constexpr int kLongWord = 8, kShortWord = 4;

  /// Whether heads have dimensions that do not turn.
  TW_INLINE bool has_rest() const { return 2 * cos.size(1) != x.size(3); }
  /// Elements of a head that a word each is found for: of pairs of halves those of the first one.
  TW_INLINE int64_t columns() const { return x.size(3) - (interleaved ? 0 : cos.size(1)); }
  TW_INLINE Way way() const {
    return is_whole(kLongWord) ? kLongWords : is_whole(kShortWord) ? kShortWords : kAny;
  }
  /// Whether all is whole words of so many elements, and programs are counted in 31 bits.
  TW_INLINE bool is_whole(int word) const {
    const int64_t pairs = cos.size(1), dim = x.size(3);
    if (x.stride(3) != 1 || out.stride(3) != 1 || cos.stride(1) != 1 || sin.stride(1) != 1)
      return false;
    if ((dim | (interleaved ? 2 * pairs : pairs)) % word != 0) return false;
    auto data = reinterpret_cast<uint64_t>(x.data) | reinterpret_cast<uint64_t>(out.data);
    auto tables = reinterpret_cast<uint64_t>(cos.data) | reinterpret_cast<uint64_t>(sin.data);
    int64_t strides = 0;
    for (int d = 0; d < 3; ++d) strides |= x.stride(d) | out.stride(d);
    tables |= uint64_t(cos.stride(0) | sin.stride(0)) * sizeof(float);
    data |= uint64_t(strides) * sizeof(T);
    const auto in_memory = [](int bytes) { return unsigned(bytes < 16 ? bytes : 16); };
    return data % in_memory(word * int(sizeof(T))) == 0 &&
           tables % in_memory((interleaved ? word / 2 : word) * int(sizeof(float))) == 0 &&
           x.size(0) * x.size(1) * x.size(2) >> 31 == 0;
  }

#if defined(__CUDACC__)
  /// What a program has: heads of a token.
  struct Heads {
    View<const T, 2> from;  // [heads, dim]
    View<T, 2> to;          // [heads, dim]
    int64_t position;
    int count;
    float sign;
  };
  template <class P>
  TW_DEVICE Heads heads_at(P p, int each) const {
    int64_t token, group, b, s;
    const auto split = [](auto i, auto n, int64_t& quotient, int64_t& rest) {
      quotient = int64_t(i / n), rest = int64_t(i - i / n * n);
    };
    if constexpr (P::kWay == kAny) {
      split(p.index(), head_groups(each), token, group);
      split(token, x.size(1), b, s);
    } else {  // is_whole: what counts programs has 31 bits, which divide sooner
      split(uint32_t(p.index()), uint32_t(head_groups(each)), token, group);
      split(uint32_t(token), uint32_t(x.size(1)), b, s);
    }
    const int64_t first = group * each, left = x.size(2) - first;
    const int count = int(left < each ? left : each);
    return {x[b][s].part(first, count), out[b][s].part(first, count),
            positions ? positions(b, s) : s, count, inverse ? -1.0f : 1.0f};
  }

  /// Cosines, or sines, of a word's elements from pair `first` on.
  template <int kWord>
  TW_DEVICE tile::Pack<float, kWord> angles(const float* row, int64_t first) const {
    tile::Pack<float, kWord> out;
    if (interleaved) {
      const auto half = tile::Raw<float, kWord / 2>::load(row + first);
      TW_UNROLL
      for (int i = 0; i < kWord; ++i) out[i] = half.element(i / 2);
    } else {
      out = tile::Raw<float, kWord>::load(row + first).template widen<float>();
    }
    return out;
  }
  /// Thread i of a program has word i of each head; in pairs of halves also that of the other half.
  /// What is turned is on its way before it is known by how much: positions are in memory, too.
  template <int kWord, class P>
  TW_DEVICE void turn_words(P p, int heads_each) const {
    using Word = tile::Raw<T, kWord>;
    const Heads heads = heads_at(p, heads_each);
    const int pairs = int(cos.size(1)), all = int(columns()) / kWord;
    TW_ROLLED
    for (int i = p.thread(); i < all; i += p.threads()) {
      const bool is_turned = i * kWord < (interleaved ? 2 * pairs : pairs);
      const bool has_other = is_turned && !interleaved;
      const int column = i * kWord + (is_turned || interleaved ? 0 : pairs);
      Word words[kHeads] = {}, others[kHeads] = {};
      TW_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        if (h >= heads.count) continue;
        const T* const from = heads.from.data + h * heads.from.stride(0) + column;
        words[h] = Word::load(from);
        if (has_other) others[h] = Word::load(from + pairs);
      }
      tile::require_index(p, heads.position, cos.size(0));
      tile::Pack<float, kWord> c = {}, n = {};
      if (is_turned) {
        const int first = interleaved ? column / 2 : column;
        c = angles<kWord>(cos[heads.position].data, first);
        n = angles<kWord>(sin[heads.position].data, first) * heads.sign;
      }
      TW_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        if (h >= heads.count) continue;
        T* const to = heads.to.data + h * heads.to.stride(0) + column;
        if (is_turned) turn_word(words[h], others[h], c, n);
        words[h].store(to);
        if (has_other) others[h].store(to + pairs);
      }
    }
  }
  template <int kWord>
  TW_DEVICE void turn_word(tile::Raw<T, kWord>& word, tile::Raw<T, kWord>& other,
                           const tile::Pack<float, kWord>& c,
                           const tile::Pack<float, kWord>& n) const {
    using Word = tile::Raw<T, kWord>;
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

  template <class P>
  TW_DEVICE void turn_heads(P p, int heads_each) const {
    const Heads heads = heads_at(p, heads_each);
    tile::require_index(p, heads.position, cos.size(0));
    const int64_t pairs = cos.size(1);
    const auto run = [&](const auto& from_a, const auto& from_b, const auto& cosine,
                         const auto& sine, const auto& to_a, const auto& to_b) {
      tile::for_row(p, cosine, [&](auto at) {
        decltype(tile::load_raw(from_a.row(0), at)) a[kHeads] = {}, o[kHeads] = {};
        TW_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          if (h >= heads.count) continue;
          a[h] = tile::load_raw(from_a.row(h), at);
          o[h] = tile::load_raw(from_b.row(h), at);
        }
        const auto c = tile::load(cosine, at), n = tile::load(sine, at) * heads.sign;
        TW_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          if (h >= heads.count) continue;
          const auto u = a[h].template widen<float>(), v = o[h].template widen<float>();
          tile::store(p, to_a.row(h), at, u * c - v * n);
          tile::store(p, to_b.row(h), at, v * c + u * n);
        }
      });
    };
    const auto from = rows(heads.from);
    const auto to = rows(heads.to);
    tile::with_rows(p, run, half(from, 0, pairs), half(from, 1, pairs), cos[heads.position],
                    sin[heads.position], half(to, 0, pairs), half(to, 1, pairs));
    for (int h = 0; h < heads.count && has_rest(); ++h)
      tile::map_row(
          p, rest(heads.to[h], 2 * pairs), [](auto v) { return v; },
          rest(heads.from[h], 2 * pairs));
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
  int heads_each;

  TW_INLINE int way() const { return how; }

#if defined(__CUDACC__)
  template <class P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kWay == kAny)
      rope.turn_heads(p, heads_each);
    else
      rope.template turn_words<P::kWay == kShortWords ? kShortWord : kLongWord>(p, heads_each);
  }
#endif
};

}  // namespace tw::kernels
