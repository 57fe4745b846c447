// Dropout with a mask that follows from the seed and the element's number alone (tile/philox.h):
// the same on every target, for any number of threads, and again in the backward.
//
//   out[e] = x[e] / (1 - p)   where word e of the seed is at least p 2^32, else 0
//
// Srivastava et al., JMLR 15 (2014).
#pragma once

#include "tilewright/kernels/elementwise.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/philox_block.h"
#else
#include "tilewright/tile/cpu/philox_block.h"
#endif

namespace tw::kernels {

template <class T>
struct Dropout {
  using C = tile::compute_t<T>;
  static constexpr int64_t kGroup = 64;  // elements whose words are drawn at once
  static constexpr int kGpuRegisters = sizeof(T) > 2 ? 128 : 64;

  Rows<const T> x;  // [...]
  float p;          // in [0, 1]
  int64_t seed;
  Rows<T> out;  // [...], may alias x

  /// Words below it are dropped: p 2^32, which for p = 1 is beyond all words.
  TW_INLINE uint64_t threshold() const { return uint64_t(double(p) * 0x1p32); }
  TW_INLINE C factor() const { return p < 1 ? C(1 / (1 - double(p))) : C(0); }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    tile::Plan plan = plan_elementwise<P>(out);
    if constexpr (P::kOnGpu) {
      const int64_t asked = plan.columns[0], least = P::kDrawnColumns;
      const int64_t columns = asked < least ? least : asked;
      plan = plan.over(columns);
      plan.scratch_bytes = P::drawn_bytes(columns);
    }
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P program) const {
    const ElementwiseBlock block = block_of(program, out);
    const int64_t begin = block.begin, end = begin + block.count;
    const auto run = [&](const auto& from, const auto& to) {
      for (int64_t r = block.first_row; r < block.end_row; ++r)
        drop_columns(program, from.row(r), to.row(r), r * out.cols, begin, end);
    };
    tile::with_rows<C>(program, run, x, out);
  }

  /// On a GPU what is the same for all elements is worked out on the host. Where p is 1 all are
  /// dropped or zero.
  struct Prepared;
  template <tile::Program P>
  TW_DEVICE Prepared prepared() const
    requires(P::kOnGpu)
  {
    const uint64_t least = threshold();
    return {tile::PhiloxKeys::of(uint64_t(seed)),
            uint32_t(least < 0xffffffffu ? least : 0xffffffffu), factor(), x, out};
  }

 private:
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
      const auto by = tile::load(scale, at);
      tile::store_cached(to, at, tile::select(by > 0, tile::load(from, at) * by, decltype(by){}));
    });
  }
};

template <class T>
struct Dropout<T>::Prepared {
  static constexpr int kGpuRegisters = Dropout::kGpuRegisters;
  tile::PhiloxKeys keys;
  uint32_t least;
  C kept;
  Rows<const T> x;
  Rows<T> out;

#if defined(__CUDACC__)
  template <class P>
  TW_DEVICE void operator()(P program) const {
    with_block(
        program, out,
        [&](int64_t first, const View<T, 1>& to, const View<const T, 1>& from) {
          const auto run = [&](const auto& in, const auto& into) {
            tile::scale_drawn<C>(program, keys, first, least, kept, in, into);
          };
          tile::with_rows<C>(program, run, from, to);
        },
        x);
  }
#endif
};

}  // namespace tw::kernels
