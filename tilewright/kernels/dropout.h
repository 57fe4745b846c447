// Dropout with a mask that follows from the seed and the element's number alone (tile/philox.h):
// the same on every target, for any number of threads, and again in the backward.
//
//   out[e] = x[e] / (1 - p)   where word e of the seed is at least p 2^32, else 0
//
// Srivastava et al., JMLR 15 (2014).
#pragma once

#include "tilewright/kernels/elementwise.h"
#include "tilewright/tile/philox.h"
#if !defined(__CUDACC__)
#include "tilewright/tile/cpu/philox_block.h"
#endif

namespace tw::kernels {

template <class T>
struct Dropout {
  using C = tile::compute_t<T>;
  static constexpr int64_t kGroup = 64;      // elements whose words are drawn at once
  static constexpr int kGpuRegisters = 128;  // of half of them

  Rows<const T> x;  // [...]
  float p;          // in [0, 1]
  int64_t seed;
  Rows<T> out;  // [...], may alias x

  /// Words below it are dropped: p 2^32, which for p = 1 is beyond all words.
  TW_INLINE uint64_t threshold() const { return uint64_t(double(p) * 0x1p32); }
  TW_INLINE C factor() const { return p < 1 ? C(1 / (1 - double(p))) : C(0); }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P program) const {
    for_parts(program,
              [&](const auto& from, const auto& to, int64_t r, int64_t begin, int64_t end) {
                drop_columns(program, from, to, r * out.cols, begin, end);
              });
  }

  /// On a GPU with arithmetic in float64 done on the host. Where p is 1 all are dropped or zero.
  struct Prepared;
  template <tile::Program P>
  TW_DEVICE Prepared prepared() const
    requires(P::kOnGpu)
  {
    const uint64_t least = threshold();
    return {*this, uint32_t(least < 0xffffffffu ? least : 0xffffffffu), factor()};
  }

 private:
  /// f(from, to, row, begin, end): the parts of rows of this program.
  template <class P, class F>
  TW_INLINE void for_parts(P program, F&& f) const {
    const ElementwiseGrid grid = ElementwiseGrid::of<P>(out);
    const int64_t group = index_quotient(program.index(), grid.blocks_per_row);
    const int64_t first_row = group * grid.rows_per_block;
    const int64_t begin = (program.index() - group * grid.blocks_per_row) * grid.block;
    const int64_t rest = out.cols - begin, end = begin + (rest < grid.block ? rest : grid.block);
    const auto run = [&](const auto& from, const auto& to) {
      for (int64_t r = first_row; r < first_row + grid.rows_per_block && r < out.rows; ++r)
        f(from.row(r), to.row(r), r, begin, end);
    };
    tile::with_rows<C>(program, run, x, out);
  }
#if defined(__CUDACC__)
  /// Elements first, first + 1, ... One draw serves four spans, 16 elements apart.
  template <class P, class From, class To>
  TW_INLINE void drop_part(P program, const From& from, const To& to, int64_t first, uint32_t least,
                           C kept) const {
    constexpr int kN = P::template kLanes<C>, kSpan = 16, kSpans = int(kGroup) / kSpan;
    const int64_t n = to.size(0);
    if (first % kGroup != 0) {
      tile::for_row<C>(program, to, [&](auto at) {
        auto v = tile::load(from, at);
        TW_UNROLL
        for (int i = 0; i < kN; ++i)
          v[i] *= tile::philox_word(uint64_t(seed), uint64_t(first + at.offset + i)) >= least
                      ? kept
                      : C(0);
        tile::store(program, to, at, v);
      });
      return;
    }
    constexpr int kParts = kSpan / kN;  // spans that begin side by side
    for (int64_t u = program.thread(); u / kParts * kGroup < n; u += program.threads()) {
      const int64_t c = u / kParts * kGroup + u % kParts * kN;
      const uint64_t counter = uint64_t(first + c) / kGroup * kSpan + uint64_t(c) % kSpan;
      const auto span = [&](int j) { return tile::span_at<C>(program, to, c + j * kSpan); };
      decltype(tile::load_raw(from, span(0))) raw[kSpans] = {};
      TW_UNROLL
      for (int j = 0; j < kSpans; ++j) {  // before the draws, which take as long
        if (c + j * kSpan < n) raw[j] = tile::load_raw(from, span(j));
      }
      tile::PhiloxBits bits[kN];
      TW_UNROLL
      for (int i = 0; i < kN; ++i) bits[i] = tile::philox(uint64_t(seed), counter + uint64_t(i), 0);
      TW_UNROLL
      for (int j = 0; j < kSpans; ++j) {
        if (c + j * kSpan >= n) break;
        auto v = raw[j].template widen<C>();
        TW_UNROLL
        for (int i = 0; i < kN; ++i) v[i] *= bits[i].word[j] >= least ? kept : C(0);
        tile::store(program, to, span(j), v);
      }
    }
  }
#else
  /// Columns [begin, end) of a row whose first element has the number `before`.
  template <class P, class From, class To>
  TW_INLINE void drop_columns(P program, const From& from, const To& to, int64_t before,
                              int64_t begin, int64_t end) const {
    for (int64_t c = begin; c < end;) {
      const int64_t element = before + c, inside = element % kGroup;
      const int64_t left = end - c, count = left < kGroup - inside ? left : kGroup - inside;
      group(program, from.part(c, count), to.part(c, count), element / kGroup, inside);
      c += count;
    }
  }
  template <class P, class From, class To>
  TW_INLINE void group(P program, const From& from, const To& to, int64_t number,
                       int64_t inside) const {
    alignas(64) uint32_t words[kGroup];
    alignas(64) C factors[kGroup];
    tile::philox_words(program, uint64_t(seed), uint64_t(number), words);
    // In 32 bits, as wide as the words; for p = 1 the factor drops what is left.
    const uint32_t least = p < 1 ? static_cast<uint32_t>(threshold()) : ~uint32_t{0};
    const C kept = factor();
    for (int64_t i = 0; i < kGroup; ++i) factors[i] = words[i] >= least ? kept : C(0);
    // Groups begin anywhere in a row: too rarely aligned for stores around the caches.
    const tile::AdjacentRow<const C> scale(factors + inside, to.size(0));
    tile::for_row<C>(program, to.size(0), [&](auto at) {
      tile::store_cached(to, at, tile::load(from, at) * tile::load(scale, at));
    });
  }
#endif
};

template <class T>
struct Dropout<T>::Prepared {
  static constexpr int kGpuRegisters = Dropout::kGpuRegisters;
  Dropout dropout;
  uint32_t least;
  C kept;

#if defined(__CUDACC__)
  template <class P>
  TW_DEVICE void operator()(P program) const {
    dropout.for_parts(
        program, [&](const auto& from, const auto& to, int64_t r, int64_t begin, int64_t end) {
          dropout.drop_part(program, from.part(begin, end - begin), to.part(begin, end - begin),
                            r * to.size(0) + begin, least, kept);
        });
  }
#endif
};

}  // namespace tw::kernels
