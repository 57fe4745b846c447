// The gradient of rows read by index: weight_grad[v] = sum of grad[i] over the i with indices[i] =
// v.
//
// On a CPU phase 0 sorts the positions by index (one program, a counting sort); phase 1 adds up
// each row of the vocabulary in the order of its positions: the same bits for any number of
// threads, and no two programs write one row. On a GPU see embedding_backward_gpu.h.
#pragma once

#include "tilewright/kernels/embedding_backward_gpu.h"
#include "tilewright/kernels/row_positions.h"

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
    if constexpr (P::kOnGpu)
      return EmbeddingBackwardOnGpu<P, T, I>{grad, indices, weight_grad}.plan();
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
    EmbeddingBackwardOnGpu<P, T, I>{grad, indices, weight_grad}(p);
#else
    const RowPositions of{p.template workspace<int64_t>(), weight_grad.size(0), indices.rows};
    if (p.phase() == 0) return of.sort([&](int64_t i) { return int64_t(indices(i, 0)); });
    const int64_t first = p.index() * kRows;
    for (int64_t v = first; v < first + kRows && v < weight_grad.size(0); ++v)
      sum_rows(p, weight_grad[v],
               [&](auto&& add) { of.for_each(v, [&](int64_t i) { add(grad.row(i), 1); }); });
#endif
  }
};

}  // namespace tw::kernels
