// Stockham's passes on a CPU (fft.h), over transforms whose numbers lie side by side: the strides
// are a vector's lanes at least from the first pass on.
#pragma once

#include "tilewright/kernels/fft_plan.h"
#include "tilewright/tile/cpu/pairs.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Where the numbers of a pass lie: real and imaginary parts apart, side by side in pairs, or in
/// vectors that alternate.
template <class C>
struct FftPlace {
  enum Kind { kApart, kPairs, kVectors };
  Kind kind = kApart;
  C *re = nullptr, *im = nullptr;

  template <class V>
  TW_INLINE Complex<V> load(int64_t at) const {
    if (kind == kApart) return {tile::load<V>(re + at), tile::load<V>(im + at)};
    const V a = tile::load<V>(re + 2 * at), b = tile::load<V>(re + 2 * at + tile::kLanesOf<V>);
    if (kind == kVectors) return {a, b};
    return {tile::every_other<0>(a, b), tile::every_other<1>(a, b)};
  }
  template <class V>
  TW_INLINE void store(int64_t at, const Complex<V>& v) const {
    if (kind == kApart) {
      tile::store(re + at, v.re);
      tile::store(im + at, v.im);
    } else {
      const bool whole = kind == kVectors;
      tile::store(re + 2 * at, whole ? v.re : tile::pairs_of<0>(v.re, v.im));
      tile::store(re + 2 * at + tile::kLanesOf<V>, whole ? v.im : tile::pairs_of<1>(v.re, v.im));
    }
  }
};

/// The passes of transforms of `length` numbers, `beside` of them.
template <class C>
struct FftTransforms {
  using Place = FftPlace<C>;

  int64_t length, beside;
  const Complex<C>* roots;  // the powers of w
  FftPasses passes;

  /// From `source` by way of two buffers, of which it may be the second, to `sink`, if that is
  /// somewhere; or else into one of the buffers. Returns where the results are. They are multiplied
  /// by `factors`, if there are any. The parts of numbers are exchanged where that is asked for.
  template <class P>
  TW_INLINE Place run(P p, Place source, const Place& sink, const Place& first, const Place& second,
                      const Place& factors, bool exchanges_source, bool exchanges_sink) const {
    int64_t stride = 1;
    for (int i = 0; i < passes.count; ++i) {
      const bool is_last = i + 1 == passes.count;
      const Place to = is_last && sink.re != nullptr ? sink : i % 2 == 0 ? first : second;
      const Pass pass{stride,
                      length / (stride * passes.radix[i]),
                      beside,
                      roots,
                      source,
                      to,
                      is_last ? factors : Place{},
                      exchanges_source && i == 0,
                      exchanges_sink && is_last};
      with_radix<kLargest>(passes.radix[i],
                           [&]<int kRadix>() TW_INLINED { make<kRadix>(p, pass); });
      source = to;
      stride *= passes.radix[i];
    }
    return source;
  }
  static constexpr int kLargest = 8;  // radix: of more, registers have no room

 private:
  struct Pass {
    int64_t stride, parts, beside;
    const Complex<C>* roots;
    Place from, to, factors;
    bool exchanges_from, exchanges_to;
  };

  template <int kRadix, class P>
  TW_SHARED static void make(P, const Pass& pass) {
    using V = typename P::template Vec<C>;
    constexpr int kLanes = tile::kLanesOf<V>;
    const int64_t width = pass.stride * pass.beside, step = width * pass.parts;
    for (int64_t part = 0; part < pass.parts; ++part) {
      Complex<C> w[kRadix];
      for (int k = 1; k < kRadix; ++k) w[k] = pass.roots[part * pass.stride * k];
      for (int64_t begin = 0; begin < width; begin += kLanes) {
        // The last vector may overlap the one before: it computes the same again.
        const int64_t q = begin + kLanes <= width ? begin : width - kLanes;
        const int64_t in = width * part + q, out = width * kRadix * part + q;
        Complex<V> v[kRadix];
        TW_UNROLL
        for (int j = 0; j < kRadix; ++j) v[j] = pass.from.template load<V>(in + step * j);
        if (pass.exchanges_from) exchange(v);
        butterfly<kRadix>(v);
        if (part > 0) {
          TW_UNROLL
          for (int k = 1; k < kRadix; ++k) v[k] = v[k].times(w[k]);
        }
        if (pass.factors.re != nullptr) {
          TW_UNROLL
          for (int k = 0; k < kRadix; ++k)
            v[k] = v[k].times(pass.factors.template load<V>(out + width * k));
        }
        if (pass.exchanges_to) exchange(v);
        TW_UNROLL
        for (int k = 0; k < kRadix; ++k) pass.to.store(out + width * k, v[k]);
      }
    }
  }
  template <int kRadix, class V>
  TW_INLINE static void exchange(Complex<V> (&v)[kRadix]) {
    TW_UNROLL
    for (int k = 0; k < kRadix; ++k) v[k] = v[k].exchanged();
  }
};

}  // namespace tw::kernels
