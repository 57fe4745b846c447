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

#include "tilewright/kernels/fft_plan.h"
#if !defined(__CUDACC__)
#include "tilewright/tile/cpu/quads.h"
#endif

namespace tw::kernels {

template <class C>
struct FftCpu {
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
    read(p, inverse ? from.im : from.re, inverse ? from.re : from.im);
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
    write(p, inverse ? from.im : from.re, inverse ? from.re : from.im);
    tile::sync(p);  // another row of this instance writes the same memory
  }

  /// The two parts of a row's numbers apart, and side by side again. On a CPU by vectors, where
  /// they lie in order.
  template <class P>
  TW_INLINE void read(P p, C* __restrict first, C* __restrict second) const {
    const View<const C, 2> row = x[p.index()];
    if (!P::kOnGpu && row.stride(0) == 2 && row.stride(1) == 1)
      return split(row.data, row.size(0), first, second);
    each(p, row.size(0), [&](int64_t i) {
      first[i] = row(i, 0);
      second[i] = row(i, 1);
    });
  }
  template <class P>
  TW_INLINE void write(P p, const C* first, const C* second) const {
    const View<C, 2> row = out[p.index()];
    if (!P::kOnGpu && row.stride(0) == 2 && row.stride(1) == 1)
      return join(first, second, row.size(0), row.data);
    each(p, row.size(0), [&](int64_t i) {
      row(i, 0) = first[i];
      row(i, 1) = second[i];
    });
  }
  TW_INLINE static void split(const C* __restrict pairs, int64_t n, C* __restrict first,
                              C* __restrict second) {
    for (int64_t i = 0; i < n; ++i) {
      first[i] = pairs[2 * i];
      second[i] = pairs[2 * i + 1];
    }
  }
  TW_INLINE static void join(const C* __restrict first, const C* __restrict second, int64_t n,
                             C* __restrict pairs) {
    for (int64_t i = 0; i < n; ++i) {
      pairs[2 * i] = first[i];
      pairs[2 * i + 1] = second[i];
    }
  }

  /// One pass: on a CPU over vectors of q where there are enough of them, or else of i.
  template <class P>
  TW_INLINE void run(P p, const Pass& pass, const Buffer& from, const Buffer& to) const {
    const auto number = [&](int64_t i) {
      const int64_t part = index_quotient(i, pass.stride);
      combine_at<C>(p, pass, part, i - part * pass.stride, from, to);
    };
    if constexpr (P::kOnGpu) {
      each(p, pass.stride * pass.parts(), number);
    } else if (pass.stride < P::template kLanes<C>) {
      for (int64_t i = run_quads(p, pass, from, to); i < pass.stride * pass.parts(); ++i) number(i);
    } else {
      using V = typename P::template Vec<C>;
      for (int64_t part = 0; part < pass.parts(); ++part) {
        int64_t q = 0;
        for (; q + tile::kLanesOf<V> <= pass.stride; q += tile::kLanesOf<V>)
          combine_at<V>(p, pass, part, q, from, to);
        for (; q < pass.stride; ++q) combine_at<C>(p, pass, part, q, from, to);
      }
    }
  }
  /// The outputs of the inputs from q of a part on.
  template <class V, class P>
  TW_INLINE void combine_at(P p, const Pass& pass, int64_t part, int64_t q, const Buffer& from,
                            const Buffer& to) const {
    const int64_t in = pass.stride * part + q, first = pass.stride * pass.radix * part + q;
    combine<V>(
        p, pass, part,
        [&](int64_t at) {
          return Complex<V>{load<V>(from.re + in + at), load<V>(from.im + in + at)};
        },
        [&](int64_t at, const Complex<V>& v) {
          store(to.re + first + at, v.re);
          store(to.im + first + at, v.im);
        });
  }
  template <class V>
  TW_INLINE static V load(const C* from) {
    if constexpr (tile::same_type<V, C>)
      return *from;
    else
      return tile::load<V>(from);
  }
  template <class V>
  TW_INLINE static void store(C* to, V v) {
    if constexpr (tile::same_type<V, C>)
      *to = v;
    else
      tile::store(to, v);
  }

  /// As many i as fill vectors, of a pass of radix 4 whose outputs are runs of four numbers: those
  /// of an i if s = 1, of four q if s = 4. Returns their number.
  template <class P>
  TW_INLINE int64_t run_quads([[maybe_unused]] P p, [[maybe_unused]] const Pass& pass,
                              [[maybe_unused]] const Buffer& from,
                              [[maybe_unused]] const Buffer& to) const {
    int64_t i = 0;
#if !defined(__CUDACC__)
    if constexpr (!P::kOnGpu && sizeof(C) == sizeof(float)) {
      using V = typename P::template Vec<C>;
      constexpr int kLanes = tile::kLanesOf<V>, kRadix = 4;
      const bool first = pass.stride == 1;
      if (pass.radix != kRadix || (!first && pass.stride != kRadix)) return 0;
      const int64_t step = pass.stride * pass.parts();
      const Complex<C>* const w = roots(p);
      for (; i + kLanes <= step; i += kLanes) {
        const auto load = [&](int64_t j) {
          return Complex<V>{tile::load<V>(from.re + i + j * step),
                            tile::load<V>(from.im + i + j * step)};
        };
        const auto powers = [&](int64_t k) -> Complex<V> {
          const Complex<C>* const of = w + i * k;
          if (first) return {tile::gather<V>(&of->re, 2 * k), tile::gather<V>(&of->im, 2 * k)};
          return {tile::splat_quads<V>([&](int64_t j) { return of[kRadix * j * k].re; }),
                  tile::splat_quads<V>([&](int64_t j) { return of[kRadix * j * k].im; })};
        };
        Complex<V> y[kRadix];
        of_four(load(0), load(1), load(2), load(3), y);
        for (int k = 1; k < kRadix; ++k) y[k] = y[k].times(powers(k));
        V re[kRadix] = {y[0].re, y[1].re, y[2].re, y[3].re};
        V im[kRadix] = {y[0].im, y[1].im, y[2].im, y[3].im};
        if (first) {
          tile::transpose_quads(re);
          tile::transpose_quads(im);
        }
        for (int k = 0; k < kRadix; ++k) {
          const int64_t place = kRadix * (i + k);
          tile::store_quads(re[k], [&](int j) { return to.re + place + 4 * kRadix * j; });
          tile::store_quads(im[k], [&](int j) { return to.im + place + 4 * kRadix * j; });
        }
      }
    }
#endif
    return i;
  }
  template <class V>
  TW_INLINE static void of_four(const Complex<V>& a, const Complex<V>& b, const Complex<V>& c,
                                const Complex<V>& d, Complex<V> (&y)[4]) {
    const Complex<V> even = a + c, odd = a - c, sum = b + d, turned = (b - d).turned();
    y[0] = even + sum;
    y[1] = odd + turned;
    y[2] = even - sum;
    y[3] = odd - turned;
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
      Complex<V> y[4];
      of_four(load(0), load(step), load(2 * step), load(3 * step), y);
      for (int k = 0; k < 4; ++k) put(k, y[k]);
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
