// A linear layer whose weight was packed beforehand (kernels/panel_layout.h): it is read in order,
// once, in its own width. Otherwise as kernels/linear.h.
#pragma once

#include "tilewright/kernels/gemm_cpu.h"
#include "tilewright/kernels/linear_epilogue.h"
#include "tilewright/kernels/panel_layout.h"

namespace tw::kernels {

template <class T>
struct LinearPacked {
  Rows<const T> x;                // [*, k]
  View<const uint8_t, 1> packed;  // header and panels, contiguous
  View<const T, 1> bias;          // [n], or absent
  Rows<const T> residual;         // [*, n], or absent
  int activation;                 // an Activation
  Rows<T> out;                    // [*, n], may alias residual

  template <tile::Program P>
  tile::Plan plan(const Machine& machine) const {
    return plan_gemm<P>(problem(), machine);
  }
  template <tile::Program P>
  void operator()(P p) const {
    run_gemm(p, problem());
  }

  struct Problem {
    using Panels = ReadyPanels<T>;
    const LinearPacked& layer;
    int64_t batch, m, n, k;

    TW_INLINE Rows<const T> a(int64_t) const { return layer.x; }
    TW_INLINE Panels b(int64_t) const {
      return {reinterpret_cast<const T*>(layer.packed.data + sizeof(PanelHeader)),
              PanelLayout<T>::stride(k)};
    }
    TW_INLINE LinearEpilogue<T> epilogue(int64_t) const {
      return {layer.bias, layer.residual, Activation(layer.activation), layer.out};
    }
  };
  TW_INLINE Problem problem() const { return {*this, 1, x.rows, out.cols, x.cols}; }
};

}  // namespace tw::kernels
