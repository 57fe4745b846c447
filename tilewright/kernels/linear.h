// A linear layer: out = activation(x weightᵀ * row_scale * column_scale + bias) + residual, float32
// accumulation.
//
// A row of out has the same bits whatever batch it is computed in (tile/cpu/mma.h), so that
// decoding one token and prefilling a prompt agree.
#pragma once

#include "tilewright/kernels/gemm_cpu.h"
#include "tilewright/kernels/linear_epilogue.h"

namespace tw::kernels {

template <class T>
struct Linear {
  Rows<const T> x;                    // [*, k]
  View<const T, 2> weight;            // [n, k]
  View<const T, 1> bias;              // [n], or absent
  Rows<const T> residual;             // [*, n], or absent
  int activation;                     // an Activation
  Rows<const float> row_scale;        // [*], or absent
  View<const float, 1> column_scale;  // [n], or absent
  Rows<T> out;                        // [*, n], may alias residual

  template <tile::Program P>
  tile::Plan plan(const Machine& machine) const {
    return plan_gemm<P>(problem(), machine);
  }
  template <tile::Program P>
  void operator()(P p) const {
    run_gemm(p, problem());
  }

  struct Problem {
    using Panels = StridedPanels<T>;
    const Linear& layer;
    int64_t batch, m, n, k;

    TW_INLINE Rows<const T> a(int64_t) const { return layer.x; }
    TW_INLINE Panels b(int64_t) const {
      const View<const T, 2>& w = layer.weight;
      Rows<const T> rows;
      rows.data = w.data;
      rows.rows = rows.lead_sizes[0] = w.size(0);
      rows.cols = w.size(1);
      rows.lead_strides[0] = w.stride(0);
      rows.col_stride = w.stride(1);
      return {rows};
    }
    TW_INLINE LinearEpilogue<T> epilogue(int64_t) const {
      return {layer.bias, layer.residual,  Activation(layer.activation),
              layer.out,  layer.row_scale, layer.column_scale};
    }
  };
  TW_INLINE Problem problem() const { return {*this, 1, x.rows, weight.size(0), weight.size(1)}; }
};

}  // namespace tw::kernels
