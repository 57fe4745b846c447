// The discrete Fourier transform of rows of complex numbers, of any length.
//
//   out[k] = sum over j of x[j] w^(j k),  w = exp(-2 pi i / n), or its conjugate: `inverse`
//
// By the Stockham algorithm: one pass per factor r of n (4 first, then primes), between two
// buffers, in natural order at the end. With s the product of the factors before, m = n / (s r),
// and i = q + s p for q < s, p < m:
//
//   y[q + s (r p + k)] = w^(s p k) * sum over j < r of x[i + s m j] w^(j k n / r)
//
// One program per row. The powers of w are made first, in float64, as products of a coarse and a
// fine step, so that sines and cosines are few. The work is in proportion to n times the sum of its
// prime factors. The inverse is the same of numbers whose real and imaginary parts are exchanged.
#pragma once

#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// A complex number, or as many of them as V has lanes.
template <class V>
struct Complex {
  V re, im;

  TW_INLINE friend Complex operator+(const Complex& a, const Complex& b) {
    return {a.re + b.re, a.im + b.im};
  }
  TW_INLINE friend Complex operator-(const Complex& a, const Complex& b) {
    return {a.re - b.re, a.im - b.im};
  }
  /// -i times this.
  TW_INLINE Complex turned() const { return {im, -re}; }
  template <class C>
  TW_INLINE Complex times(const Complex<C>& w) const {
    return {re * w.re - im * w.im, re * w.im + im * w.re};
  }
};

template <class C>
struct Fft {
  static constexpr int kGpuRegisters = 128;
  static constexpr int64_t kFine = 64;  // powers of w that one coarse step spans

  View<const C, 3> x;  // [B, n, 2]
  bool inverse;
  View<C, 3> out;  // [B, n, 2]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t n = x.size(1), coarse = (n + kFine - 1) / kFine;
    tile::Plan plan = tile::plan_of(n > 0 ? 1 : 0, 4 * n * int64_t{sizeof(C)}).over(n);
    plan.phases = 3;
    plan.grid[1] = coarse;
    plan.grid[2] = n > 0 ? x.size(0) : 0;
    plan.workspace_bytes = 2 * kFine * int64_t{sizeof(double)} + 2 * n * int64_t{sizeof(C)};
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if (p.phase() == 0) return each(p, kFine, [&](int64_t i) { fine(p)[i] = root(i); });
    if (p.phase() == 2) return transform(p);
    const int64_t first = p.index() * kFine, rest = x.size(1) - first;
    const Complex<double> step = root(first);
    each(p, rest < kFine ? rest : kFine, [&](int64_t i) {
      const Complex<double> w = step.times(fine(p)[i]);
      roots(p)[first + i] = {C(w.re), C(w.im)};
    });
  }

 private:
  struct Pass {
    int64_t radix, stride, length;  // r, s and n / s
    TW_INLINE int64_t parts() const { return length / radix; }
  };
  /// A row, real and imaginary parts apart.
  struct Buffer {
    C *re, *im;
    template <class V, class At>
    TW_INLINE Complex<V> load(int64_t from, int64_t n, const At& at) const {
      return {tile::load(view(re + from, n), at), tile::load(view(im + from, n), at)};
    }
    template <class V, class At>
    TW_INLINE void store(int64_t to, int64_t n, const At& at, const Complex<V>& v) const {
      tile::store_cached(view(re + to, n), at, v.re);
      tile::store_cached(view(im + to, n), at, v.im);
    }
  };

  template <class P>
  TW_INLINE static Complex<double>* fine(P p) {
    return p.template workspace<Complex<double>>();
  }
  template <class P>
  TW_INLINE static Complex<C>* roots(P p) {
    return reinterpret_cast<Complex<C>*>(fine(p) + kFine);
  }
  TW_INLINE Complex<double> root(int64_t i) const {
    const double angle = -6.283185307179586 * double(i) / double(x.size(1));
    return {__builtin_cos(angle), __builtin_sin(angle)};
  }

  /// f(i) for i < n, by the threads of the program in turn.
  template <class P, class F>
  TW_INLINE static void each(P p, int64_t n, F&& f) {
    int64_t begin = 0, step = 1;
    if constexpr (P::kOnGpu) {
      begin = p.thread();
      step = p.threads();
    }
    for (int64_t i = begin; i < n; i += step) f(i);
  }

  template <class P>
  TW_INLINE void transform(P p) const {
    const int64_t n = x.size(1);
    C* const memory = p.template scratch<C>();
    Buffer from{memory, memory + n}, to{memory + 2 * n, memory + 3 * n};
    each(p, n, [&](int64_t i) {
      from.re[i] = x(p.index(), i, inverse ? 1 : 0);
      from.im[i] = x(p.index(), i, inverse ? 0 : 1);
    });
    tile::sync(p);
    int64_t stride = 1, divisor = 4;
    while (stride < n) {
      const int64_t length = n / stride;
      if (length % divisor != 0) {  // 4, then 2, 3, and odd numbers; a prime is its own root's end
        divisor = divisor == 4 ? 2 : divisor == 2 ? 3 : divisor + 2;
        if (divisor * divisor > length && divisor > 3) divisor = length;
        continue;
      }
      run(p, Pass{divisor, stride, length}, from, to);
      tile::sync(p);
      const Buffer other = from;
      from = to;
      to = other;
      stride *= divisor;
    }
    each(p, n, [&](int64_t i) {
      out(p.index(), i, inverse ? 1 : 0) = from.re[i];
      out(p.index(), i, inverse ? 0 : 1) = from.im[i];
    });
    tile::sync(p);  // another row of this instance writes the same memory
  }

  /// One pass: on a CPU over vectors of q where there are enough of them.
  template <class P>
  TW_INLINE void run(P p, const Pass& pass, const Buffer& from, const Buffer& to) const {
    using V = typename P::template Vec<C>;
    if (P::kOnGpu || pass.stride < P::template kLanes<C>)
      return each(p, pass.stride * pass.parts(), [&](int64_t i) {
        const int64_t part = index_quotient(i, pass.stride);
        combine<C>(
            p, pass, part, [&](int64_t at) { return Complex<C>{from.re[i + at], from.im[i + at]}; },
            [&](int64_t at, const Complex<C>& v) {
              const int64_t place = i + pass.stride * (pass.radix - 1) * part + at;
              to.re[place] = v.re;
              to.im[place] = v.im;
            });
      });
    if constexpr (!P::kOnGpu) {
      for (int64_t part = 0; part < pass.parts(); ++part)
        tile::for_row<C>(p, pass.stride, [&](auto span) {
          combine<V>(
              p, pass, part,
              [&](int64_t at) {
                return from.template load<V>(pass.stride * part + at, pass.stride, span);
              },
              [&](int64_t at, const Complex<V>& v) {
                to.store(pass.stride * pass.radix * part + at, pass.stride, span, v);
              });
        });
    }
  }

  /// The r outputs of one set of inputs: load(s m j), store(s k, value).
  template <class V, class P, class Load, class Store>
  TW_INLINE void combine(P p, const Pass& pass, int64_t part, Load&& load, Store&& store) const {
    const Complex<C>* const w = roots(p);
    const int64_t step = pass.stride * pass.parts(), power = pass.stride * part;
    const auto put = [&](int64_t k, const Complex<V>& v) {
      store(pass.stride * k, v.times(w[power * k]));
    };
    if (pass.radix == 4) {
      const Complex<V> a = load(0), b = load(step), c = load(2 * step), d = load(3 * step);
      const Complex<V> even = a + c, odd = a - c, sum = b + d, turned = (b - d).turned();
      put(0, even + sum);
      put(1, odd + turned);
      put(2, even - sum);
      put(3, odd - turned);
    } else if (pass.radix == 2) {
      const Complex<V> a = load(0), b = load(step);
      put(0, a + b);
      put(1, a - b);
    } else {
      const int64_t turn = x.size(1) / pass.radix;
      for (int64_t k = 0; k < pass.radix; ++k) {
        Complex<V> sum = load(0);
        for (int64_t j = 1, at = k; j < pass.radix; ++j) {
          sum = sum + load(step * j).times(w[turn * at]);
          at = at + k < pass.radix ? at + k : at + k - pass.radix;
        }
        put(k, sum);
      }
    }
  }
};

}  // namespace tw::kernels
