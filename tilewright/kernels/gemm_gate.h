// What a gated linear layer does to a product that lies whole in memory, on any GPU: the first half
// of each row, activated, times the second half.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/kernels/gated_activation.h"

namespace tw::kernels {

template <class T>
struct GemmGateArguments {
  const T* both;   // [m, 2 n]
  Rows<T> out;     // [m, n]
  int activation;  // a GatedActivation
};

}  // namespace tw::kernels

#if defined(__CUDACC__)
namespace tw::kernels {

template <class T>
struct GemmGate {
  const GemmGateArguments<T>& given;

  __device__ void operator()() const {
    const int64_t n = given.out.cols, count = given.out.rows * n;
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    with_activation(GatedActivation(given.activation), [&](auto f) {
      for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t row = index_quotient(i, n), column = i - row * n;
        const T* const from = given.both + row * 2 * n + column;
        given.out(row, column) = T(f(float(from[0])) * float(from[n]));
      }
    });
  }
};

}  // namespace tw::kernels
#endif
