// A linear layer that gates: out = f(gate) * up in float32, where x weightᵀ + bias has the columns
// of the gate before those of up. Shazeer, arXiv:2002.05202, eq. 5 and 6.
//
// On a CPU a panel of the weight has kGatedColumns rows of the gate, then the rows of up that they
// gate: a tile of sums has both. On a GPU see runtime/cuda/gated_linear.cc.
#pragma once

#include "tilewright/kernels/gated_activation.h"
#include "tilewright/kernels/gemm_cpu.h"

namespace tw::kernels {

inline constexpr int64_t kGatedColumns = tile::kPanelWidth / 2;

/// The rows of a weight in the order of its panels. Where the last panel is not full, it repeats
/// the last row of each half.
template <class T>
struct GatedRows {
  static constexpr int lead = 2;   // they lie in no single order
  View<const T, 2> weight;         // [2 n, k]
  int64_t rows, cols, col_stride;  // of all panels
  int64_t lead_strides[1];         // between those of a panel

  TW_INLINE explicit GatedRows(const View<const T, 2>& of)
      : weight(of),
        rows((of.size(0) / 2 + kGatedColumns - 1) / kGatedColumns * tile::kPanelWidth),
        cols(of.size(1)),
        col_stride(of.stride(1)),
        lead_strides{of.stride(0)} {}
  TW_INLINE View<const T, 1> row(int64_t i) const {
    const int64_t features = weight.size(0) / 2, in_panel = i % tile::kPanelWidth;
    const int64_t wanted = i / tile::kPanelWidth * kGatedColumns + in_panel % kGatedColumns;
    const int64_t feature = wanted < features ? wanted : features - 1;
    return weight[in_panel < kGatedColumns ? feature : features + feature];
  }
};

template <class T>
struct GatedEpilogue {
  View<const T, 1> bias;  // [2 n], or absent
  GatedActivation activation;
  Rows<T> out;  // [*, n]

  template <class P>
  TW_INLINE void prefetch(P, int64_t row, int rows, int64_t column, int64_t) const {
    tile::prefetch_tile(row, rows, column / 2, count(column / 2), out);
  }
  template <class P>
  __attribute__((noinline)) void operator()(P p, const float* tile, int64_t row, int rows,
                                            int64_t column, int64_t) const {
    const int64_t first = column / 2, n = out.cols;
    with_activation(activation, [&](auto f) {
      const auto gated = [&]<class V>(V gate, auto at, int64_t r) {
        const float* const ups = tile + (r - row) * tile::kPanelWidth + kGatedColumns;
        V up = tile::load<V>(ups + (at.offset - first));
        if (bias) {
          gate += tile::load(bias.part(0, n), at);
          up += tile::load(bias.part(n, n), at);
        }
        return f(gate) * up;
      };
      tile::store_tile(p, tile, row, rows, first, count(first), out, gated);
    });
  }

 private:
  TW_INLINE int64_t count(int64_t first) const {
    return gemm_detail::at_most(kGatedColumns, out.cols - first);
  }
};

template <class T>
struct GatedLinear {
  Rows<const T> x;          // [*, k]
  View<const T, 2> weight;  // [2 n, k]
  View<const T, 1> bias;    // [2 n], or absent
  int activation;           // a GatedActivation
  Rows<T> out;              // [*, n]

  template <tile::Program P>
  tile::Plan plan(const Machine& machine) const {
    return plan_gemm<P>(problem(), machine);
  }
  template <tile::Program P>
  void operator()(P p) const {
    run_gemm(p, problem());
  }

  struct Problem {
    using Panels = StridedPanels<T, GatedRows<T>>;
    const GatedLinear& layer;
    int64_t batch, m, n, k;

    TW_INLINE Rows<const T> a(int64_t) const { return layer.x; }
    TW_INLINE Panels b(int64_t) const { return {GatedRows<T>(layer.weight)}; }
    TW_INLINE GatedEpilogue<T> epilogue(int64_t) const {
      return {layer.bias, GatedActivation(layer.activation), layer.out};
    }
  };
  TW_INLINE Problem problem() const {
    return {*this, 1, x.rows, GatedRows<T>(weight).rows, weight.size(1)};
  }
};

}  // namespace tw::kernels
