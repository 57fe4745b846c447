// Dropout with a mask that follows from the seed and the element's number alone (tile/philox.h):
// the same on every target, for any number of threads, and again in the backward.
//
//   out[e] = x[e] / (1 - p)   where word e of the seed is at least p 2^32, else 0
//
// Srivastava et al., JMLR 15 (2014).
#pragma once

#include "tilewright/kernels/elementwise.h"
#include "tilewright/tile/cpu/philox_block.h"

namespace tw::kernels {

template <class T>
struct Dropout {
  using C = tile::compute_t<T>;
  static constexpr int64_t kGroup = 64;  // elements whose words are drawn at once

  Rows<const T> x;  // [...]
  float p;          // in [0, 1]
  int64_t seed;
  Rows<T> out;  // [...], may alias x

  /// Words below it are dropped: p 2^32, which for p = 1 is beyond all words.
  TW_INLINE uint64_t threshold() const { return uint64_t(double(p) * 0x1p32); }
  TW_INLINE C factor() const { return p < 1 ? C(1 / (1 - double(p))) : C(0); }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(ElementwiseGrid::of(out).programs);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P program) const {
    const ElementwiseGrid grid = ElementwiseGrid::of(out);
    const int64_t first_row = program.index() / grid.blocks_per_row * grid.rows_per_block;
    const int64_t begin = program.index() % grid.blocks_per_row * kElementwiseBlock;
    const int64_t rest = out.cols - begin;
    const int64_t end = begin + (rest < kElementwiseBlock ? rest : kElementwiseBlock);
    for (int64_t r = first_row; r < first_row + grid.rows_per_block && r < out.rows; ++r)
      for (int64_t c = begin; c < end;) {
        const int64_t element = r * out.cols + c, inside = element % kGroup;
        const int64_t left = end - c, count = left < kGroup - inside ? left : kGroup - inside;
        group(program, r, c, count, element / kGroup, inside);
        c += count;
      }
  }

 private:
  template <class P>
  TW_INLINE void group(P program, int64_t r, int64_t c, int64_t count, int64_t number,
                       int64_t inside) const {
    alignas(64) uint32_t words[kGroup];
    alignas(64) C factors[kGroup];
    tile::philox_words(program, uint64_t(seed), uint64_t(number), words);
    const uint64_t least = threshold();
    const C kept = factor();
    for (int64_t i = 0; i < kGroup; ++i) factors[i] = words[i] >= least ? kept : C(0);
    const View<const C, 1> scale{factors + inside, {count}, {1}};
    const auto from = columns_of(x, r, c, count);
    const auto to = columns_of(out, r, c, count);
    tile::for_row<C>(program, count, [&](auto at) {
      tile::store(program, to, at, tile::load(from, at) * tile::load(scale, at));
    });
  }
};

}  // namespace tw::kernels
