// The gradient of rows read by index: weight_grad[v] = sum of grad[i] over the i with indices[i] =
// v.
//
// On a CPU phase 0 sorts the positions by index (one program, a counting sort); phase 1 adds up
// each row of the vocabulary in the order of its positions: the same bits for any number of
// threads, and no two programs write one row. On a GPU see listed_sums_gpu.h.
#pragma once

#include "tilewright/kernels/listed_sums_gpu.h"
#include "tilewright/kernels/row_positions.h"

namespace tw::kernels {

/// Each position's row is the one that its index names, and adds the position's gradient.
template <class I>
struct EmbeddingPositions {
  static constexpr bool kWeighs = false;
  const Rows<const I>& indices;

  TW_INLINE int64_t count() const { return indices.rows; }
  TW_INLINE int64_t row_of(int64_t i) const { return int64_t(*begin_of_row(indices, i)); }
  TW_INLINE int64_t source(int64_t i) const { return i; }
  TW_INLINE float weight(int64_t) const { return 1.0f; }
};

template <class T, class I>
struct EmbeddingBackward {
  static constexpr int64_t kRows = 32;  // of the vocabulary, per program

  Rows<const T> grad;       // [*, cols]
  Rows<const I> indices;    // [*], each in 0 .. vocabulary
  View<const T, 2> weight;  // [vocabulary, cols], for its shape
  View<T, 2> weight_grad;   // [vocabulary, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) return on_gpu<P>().plan();
    const int64_t vocabulary = weight_grad.size(0);
    tile::Plan plan;
    if (weight_grad.size(1) == 0) return plan;
    plan.scratch_bytes = weight_grad.size(1) * int64_t{sizeof(float)};
    plan.phases = 2;
    plan.grid[0] = 1;
    plan.grid[1] = (vocabulary + kRows - 1) / kRows;
    plan.workspace_bytes = RowPositions::bytes(vocabulary, indices.rows);
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    on_gpu<P>()(p);
#else
    const RowPositions of{p.template workspace<int64_t>(), weight_grad.size(0), indices.rows};
    if (p.phase() == 0) return of.sort([&](int64_t i) { return int64_t(indices(i, 0)); });
    const int64_t first = p.index() * kRows;
    for (int64_t v = first; v < first + kRows && v < weight_grad.size(0); ++v)
      sum_rows(p, weight_grad[v],
               [&](auto&& add) { of.for_each(v, [&](int64_t i) { add(grad.row(i), 1); }); });
#endif
  }

 private:
  template <class P>
  TW_INLINE ListedSums<P, T, EmbeddingPositions<I>> on_gpu() const {
    return {{indices}, grad, weight_grad};
  }
};

}  // namespace tw::kernels
