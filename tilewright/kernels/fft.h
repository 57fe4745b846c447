// The discrete Fourier transform of rows of complex numbers, of any length.
//
//   out[k] = sum over j of x[j] w^(j k),  w = exp(-2 pi i / n), or its conjugate: `inverse`
//
// By Stockham's algorithm: one pass per factor r of n, between two buffers, in natural order at the
// end. With s the product of the factors before, m = n / (s r), and i = q + s p for q < s, p < m:
//
//   y[q + s (r p + k)] = w^(s p k) * sum over j < r of x[i + s m j] w^(j k n / r)
//
// The inverse is the same of numbers whose real and imaginary parts are exchanged. The schedules
// are in fft_cpu.h and fft_gpu.h.
#pragma once

#include "tilewright/kernels/fft_gpu.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/fft_cpu.h"
#endif

namespace tw::kernels {

template <class C>
struct Fft {
  View<const C, 3> x;  // [B, n, 2]
  bool inverse;
  View<C, 3> out;  // [B, n, 2]

  template <tile::Program P>
  TW_DEVICE auto prepared() const
    requires(P::kOnGpu)
  {
    return FftGpu<C>(x, out, inverse);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return schedule<P>().template plan<P>(machine);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    schedule<P>()(p);
  }

 private:
  template <class P>
  TW_INLINE auto schedule() const {
#if !defined(__CUDACC__)
    if constexpr (!P::kOnGpu)
      return FftCpu<C>(x, out, inverse, P::template kLanes<C>);
    else
#endif
      return FftGpu<C>(x, out, inverse);
  }
};

}  // namespace tw::kernels
