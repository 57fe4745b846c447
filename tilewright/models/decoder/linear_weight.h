// The weight of one linear layer as its kernel wants it: repacked from the file, once.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/core/view.h"
#include "tilewright/kernels/activation.h"
#include "tilewright/models/gguf.h"
#include "tilewright/ops/core/packed_quantized.h"
#include "tilewright/runtime/context.h"

namespace tw::models {

/// How a matrix of the file is read.
struct MatrixSource {
  GgufTensor tensor;
  /// 0, or: rows come in groups of this many, stored as interleaved rotary pairs (Llama in GGUF),
  /// and are put back into halves.
  int64_t interleaved_head = 0;

  /// The file's row that holds row `row`: of a head's d rows, pair i is stored as 2 i and 2 i + 1
  /// and belongs at i and i + d / 2.
  int64_t stored_row(int64_t row) const {
    if (interleaved_head == 0) return row;
    const int64_t inside = row % interleaved_head, half = interleaved_head / 2;
    return row - inside + inside % half * 2 + inside / half;
  }
};

/// Where weights are loaded from and to.
struct WeightLoading {
  const GgufFile& file;
  runtime::ThreadPool& pool;  // all of it packs
  Arena arena{};
};

/// One matrix [n, k], or several of one dtype stacked along n. Block formats stay quantised; float
/// matrices become float32.
class LinearWeight {
 public:
  LinearWeight() = default;
  /// Packs, and releases the file's pages. Throws kBadFile when the shapes do not fit each other.
  static LinearWeight load(WeightLoading& loading, std::span<const MatrixSource> sources);
  /// Two matrices for act(gate) * up. Otherwise as load.
  static LinearWeight load_gated(WeightLoading& loading, const GgufTensor& gate,
                                 const GgufTensor& up);
  /// Whether load_gated takes this pair: both of one block format.
  static bool can_gate(const GgufTensor& gate, const GgufTensor& up);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t bytes() const { return packed_.bytes(); }

  /// out = x w^T (+ bias) (+ residual), x float32 [*, cols]. `compute` is of quantised weights;
  /// others multiply float32.
  struct Extras {
    View<const float, 1> bias = {};
    Rows<const float> residual = {};
  };
  void operator()(runtime::Context& context, const Rows<const float>& x, const Rows<float>& out,
                  kernels::QuantizedCompute compute, const Extras& extras) const;
  void operator()(runtime::Context& context, const Rows<const float>& x, const Rows<float>& out,
                  kernels::QuantizedCompute compute) const {
    (*this)(context, x, out, compute, Extras{});
  }
  /// out = activation(gate(x)) * up(x); only after load_gated.
  void gated(runtime::Context& context, const Rows<const float>& x, const Rows<float>& out,
             kernels::QuantizedCompute compute, bool gelu_tanh) const;

  /// Row `row` as float32, exactly as the file's format defines it. Not after load_gated.
  void read_row(int64_t row, float* out) const;

 private:
  void pack(WeightLoading& loading, DType dtype, std::span<const ops::BlockRows> parts, bool gated);

  bool quantized_ = false;
  int64_t rows_ = 0, cols_ = 0;
  Tensor packed_;  // u8, for linear_quantized or linear_packed
};

}  // namespace tw::models
