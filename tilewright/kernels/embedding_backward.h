// The gradient of rows read by index: weight_grad[v] = sum of grad[i] over the i with indices[i] =
// v.
//
// On a CPU phase 0 sorts the positions by index (one program, a counting sort); phase 1 adds up
// each row of the vocabulary in the order of its positions: the same bits for any number of
// threads, and no two programs write one row. On a GPU a program has one row and looks for its
// positions itself.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, class I>
struct EmbeddingBackward {
  static constexpr int64_t kRows = 32;  // of the vocabulary, per program

  Rows<const T> grad;       // [*, cols]
  Rows<const I> indices;    // [*], each in 0 .. vocabulary
  View<const T, 2> weight;  // [vocabulary, cols], for its shape
  View<T, 2> weight_grad;   // [vocabulary, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t vocabulary = weight_grad.size(0);
    tile::Plan plan;
    if (weight_grad.size(1) == 0) return plan;
    plan.scratch_bytes = weight_grad.size(1) * int64_t{sizeof(float)};
    if constexpr (P::kOnGpu) {
      plan.grid[0] = vocabulary;
      return plan.over(weight_grad.size(1));
    }
    plan.phases = 2;
    plan.grid[0] = 1;
    plan.grid[1] = (vocabulary + kRows - 1) / kRows;
    plan.workspace_bytes = (vocabulary + 1 + indices.rows) * int64_t{sizeof(int64_t)};
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      return row(p, p.index(), [&](auto&& add) {
        tile::for_each_match(
            p, indices.rows, [&](int64_t i) { return int64_t(indices(i, 0)) == p.index(); }, add);
      });
    int64_t* const ends = p.template workspace<int64_t>();  // [v]: where the positions of v end
    int64_t* const positions = ends + weight_grad.size(0) + 1;
    if (p.phase() == 0) return sort(ends, positions);
    const int64_t first = p.index() * kRows;
    for (int64_t v = first; v < first + kRows && v < weight_grad.size(0); ++v)
      row(p, v, [&](auto&& add) {
        for (int64_t i = ends[v]; i < ends[v + 1]; ++i) add(positions[i]);
      });
  }

 private:
  /// Afterwards positions[ends[v] .. ends[v + 1]) are those of v, in order.
  TW_INLINE void sort(int64_t* ends, int64_t* positions) const {
    const int64_t vocabulary = weight_grad.size(0), n = indices.rows;
    for (int64_t v = 0; v <= vocabulary; ++v) ends[v] = 0;
    for (int64_t i = 0; i < n; ++i) ++ends[int64_t(indices(i, 0)) + 1];
    for (int64_t v = 0; v < vocabulary; ++v) ends[v + 1] += ends[v];
    // Placing moves each start to its end, so the starts are one entry further on.
    for (int64_t v = vocabulary; v > 0; --v) ends[v] = ends[v - 1];
    for (int64_t i = 0; i < n; ++i) positions[ends[int64_t(indices(i, 0)) + 1]++] = i;
  }

  /// for_positions(add): add(i) for the positions of v, in order.
  template <class P, class ForPositions>
  TW_INLINE void row(P p, int64_t v, ForPositions&& for_positions) const {
    using V = typename P::template Vec<float>;
    const auto to = weight_grad[v];
    const View<float, 1> sum = view(p.template scratch<float>(), to.size(0));
    tile::for_row(p, sum, [&](auto at) { tile::store_cached(sum, at, V{}); });
    for_positions([&](int64_t i) {
      tile::with_rows(
          p,
          [&](const auto& from, const auto& total) {
            tile::for_row(p, total, [&](auto at) {
              tile::store_cached(total, at, tile::load(total, at) + tile::load(from, at));
            });
          },
          grad.row(i), sum);
    });
    tile::for_row(p, to, [&](auto at) { tile::store(p, to, at, tile::load(sum, at)); });
  }
};

}  // namespace tw::kernels
