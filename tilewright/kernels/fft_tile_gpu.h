// Transforms that a GPU's program makes in shared memory, several at once: Stockham's passes, from
// one buffer to another, a thread's butterflies in registers. The first pass reads, and the last
// one writes, the numbers' own places, where threads side by side then have what lies side by side.
#pragma once

#include "tilewright/kernels/fft_plan.h"

namespace tw::kernels {

/// Where numbers lie: number j of transform t.
template <class C>
struct FftSide {
  using Number = Complex<C>;
  C* data;
  int64_t across, step, part;  // from a transform, a number, a real part to the next
  bool is_exchanged;           // real and imaginary parts
  bool is_whole;               // each number is one word

  TW_INLINE static FftSide of(C* data, int64_t across, int64_t step, int64_t part,
                              bool is_exchanged) {
    const bool is_whole = part == 1 && across % 2 == 0 && step % 2 == 0 &&
                          reinterpret_cast<uint64_t>(data) % sizeof(Number) == 0;
    return {data, across, step, part, is_exchanged, is_whole};
  }
  TW_INLINE static FftSide of(Number* data, int64_t across, int64_t step) {
    return {&data->re, 2 * across, 2 * step, 1, false, true};
  }
  /// Whether numbers lie nearer to each other than transforms.
  TW_INLINE bool is_by_number() const { return step <= across; }
  TW_INLINE Number load(int64_t t, int64_t j) const {
    const C* const at = data + t * across + j * step;
    const Number v = is_whole ? *reinterpret_cast<const Number*>(at) : Number{at[0], at[part]};
    return is_exchanged ? v.exchanged() : v;
  }
  TW_INLINE void store(int64_t t, int64_t j, const Number& v) const {
    C* const at = data + t * across + j * step;
    const Number w = is_exchanged ? v.exchanged() : v;
    if (is_whole) {
      *reinterpret_cast<Number*>(at) = w;
    } else {
      at[0] = w.re;
      at[part] = w.im;
    }
  }
  /// Numbers j, j + apart, ... of transform t, which are words.
  template <int kCount>
  TW_INLINE void load_words(Number (&v)[kCount], int t, int j, int apart) const {
    const C* at = data + t * across + j * step;
    const int64_t jump = apart * step;
    TW_UNROLL
    for (int i = 0; i < kCount; ++i, at += jump) v[i] = *reinterpret_cast<const Number*>(at);
    exchange(v);
  }
  template <int kCount>
  TW_INLINE void store_words(Number (&v)[kCount], int t, int j, int apart) const {
    C* at = data + t * across + j * step;
    const int64_t jump = apart * step;
    exchange(v);
    TW_UNROLL
    for (int i = 0; i < kCount; ++i, at += jump) *reinterpret_cast<Number*>(at) = v[i];
  }

 private:
  template <int kCount>
  TW_INLINE void exchange(Number (&v)[kCount]) const {
    if (!is_exchanged) return;
    TW_UNROLL
    for (int i = 0; i < kCount; ++i) v[i] = v[i].exchanged();
  }
};

/// a / b of numbers below 2^19: (a + 0.5) / b is farther from whole numbers than rounding brings
/// it.
TW_INLINE int small_quotient(int a, int b) {
  return int((float(a) + 0.5f) / float(b));
}

/// Result k of transform t is turned by w^((first + t) k), w = exp(-2 pi i / n); n = 0: not.
struct FftTurn {
  int64_t n = 0, first = 0;
};

template <class C>
struct FftTile {
  using Number = Complex<C>;
  using Side = FftSide<C>;
  static constexpr int kLargest = sizeof(C) == sizeof(float) ? 16 : 8;  // radix
  static constexpr int kSector = 32 / int(sizeof(Number));  // numbers that memory moves at once
  static constexpr int kSpace = 128 / int(sizeof(Number));  // numbers between two unused ones

  int length;      // of a transform
  int count;       // of transforms that there is room for
  int here;        // that there are
  bool is_beside;  // number j of transform t is the (j count + t)th, or else the (t length + j)th
  Number *from, *to;  // what the next pass reads and where it writes

  TW_INLINE FftTile(int n, int room, int exist, bool beside, Number* memory)
      : length(n), count(room), here(exist), is_beside(beside), from(memory) {
    to = memory + spaced(int64_t{n} * room);
  }

  /// The place of a number: so that threads whose numbers are 8 or 16 apart use all banks.
  TW_INLINE static constexpr unsigned spaced(unsigned at) { return at + at / kSpace; }
  TW_INLINE static int64_t scratch_bytes(int64_t numbers) {
    return (2 * int64_t{spaced(unsigned(numbers))} + 1) * int64_t{sizeof(Number)};
  }
  /// Transforms of so many numbers that a program has: of those that lie side by side, in words
  /// that memory moves; of rows, while there are enough programs.
  TW_INLINE static int beside(int64_t length) {
    constexpr int64_t kNumbers = 32768 / int64_t{sizeof(Number)};
    int64_t count = 4 * kSector;
    while (count > kSector && count * length > kNumbers) count /= 2;
    return int(count);
  }
  TW_INLINE static int rows(int64_t length, int64_t batch) {
    constexpr int64_t kNumbers = 16384 / int64_t{sizeof(Number)}, kPrograms = 264;
    const int64_t by_size = kNumbers / length, by_number = batch / kPrograms;
    const int64_t most = by_size < by_number ? by_size : by_number;
    return most > 1 ? int(most) : 1;
  }

  /// Whether a pass finds, or leaves, enough numbers side by side.
  TW_INLINE bool is_direct(const Side& side, int radix) const {
    if (radix == 0 || !side.is_whole) return false;
    return is_beside ? side.across == 2 : side.step == 2 && length >= radix * kSector;
  }
  /// What is between passes: number j of transform t.
  TW_INLINE Number& at(int t, int j) const { return from[spaced(unsigned(place(t, j)))]; }

  /// put(t, j, get(t, j)) for all numbers here, kAtOnce of a thread on their way together; threads
  /// side by side have numbers that are, or transforms.
  template <int kAtOnce, class P, class Get, class Put>
  TW_INLINE void each(P p, bool is_by_number, Get&& get, Put&& put) const {
    const int all = length * here, inner = is_by_number ? length : here;
    const auto with = [&](int e, auto&& f) TW_INLINED {
      const int high = small_quotient(e, inner), low = e - high * inner;
      if (e < all) f(is_by_number ? high : low, is_by_number ? low : high);
    };
    TW_ROLLED
    for (int e = p.thread(); e < all; e += kAtOnce * p.threads()) {
      Number v[kAtOnce];
      TW_UNROLL
      for (int i = 0; i < kAtOnce; ++i)
        with(e + i * p.threads(), [&](int t, int j) TW_INLINED { v[i] = get(t, j); });
      TW_UNROLL
      for (int i = 0; i < kAtOnce; ++i)
        with(e + i * p.threads(), [&](int t, int j) TW_INLINED { put(t, j, v[i]); });
    }
  }

  /// The transforms of what `source` has, if it is not null, into `sink`, if that is not null.
  template <class P>
  TW_INLINE void run(P p, const FftPasses& passes, const Side& source, bool reads, const Side& sink,
                     bool writes, const FftTurn& turn) {
    int stride = 1;
    TW_ROLLED
    for (int i = 0; i < passes.count; ++i) {
      const bool is_last = i + 1 == passes.count;
      const Pass pass{stride, length / stride, reads && i == 0, writes && is_last,
                      is_last ? turn : FftTurn{}};
      with_radix<kLargest>(passes.radix[i],
                           [&]<int kRadix>() TW_INLINED { make<kRadix>(p, pass, source, sink); });
      if (pass.writes) return;
      p.sync();
      Number* const other = from;
      from = to;
      to = other;
      stride *= passes.radix[i];
    }
  }

 private:
  struct Pass {
    int stride, left;  // the product of the radices before, and of the others
    bool reads, writes;
    FftTurn turn;
  };

  TW_INLINE int place(int t, int j) const { return is_beside ? j * count + t : t * length + j; }

  template <int kRadix, class P>
  TW_INLINE void make(P p, const Pass& pass, const Side& source, const Side& sink) const {
    const int each = length / kRadix, all = each * (is_beside ? count : here);
    const int unit = is_beside ? count : 1, inner = is_beside ? count : each;
    TW_ROLLED
    for (int b = p.thread(); b < all; b += p.threads()) {
      const int high = small_quotient(b, inner), low = b - high * inner;
      const int t = is_beside ? low : high, i = is_beside ? high : low;
      if (t >= here) continue;
      const int part = small_quotient(i, pass.stride);
      const int first = i + (kRadix - 1) * pass.stride * part;  // result, the others a stride apart
      Number v[kRadix];
      if (pass.reads) {
        source.load_words(v, t, i, each);
      } else {
        const unsigned at = unsigned(place(t, i)), step = unsigned(each * unit);
        TW_UNROLL
        for (unsigned j = 0; j < kRadix; ++j) v[j] = from[spaced(at + j * step)];
      }
      butterfly<kRadix>(v);
      if (pass.left > kRadix) turn_by(v, part, pass.left);
      if (pass.turn.n > 0) {
        const int64_t turns = pass.turn.first + t;
        const Number w = root_of_unity<C>(turns * first, pass.turn.n);
        TW_UNROLL
        for (int k = 0; k < kRadix; ++k) v[k] = v[k].times(w);
        turn_by(v, turns * pass.stride, pass.turn.n);
      }
      if (pass.writes) {
        sink.store_words(v, t, first, pass.stride);
      } else {
        const unsigned at = unsigned(place(t, first)), step = unsigned(pass.stride * unit);
        TW_UNROLL
        for (unsigned k = 0; k < kRadix; ++k) to[spaced(at + k * step)] = v[k];
      }
    }
  }
  /// v[k] turned by w^(at k), w = exp(-2 pi i / n): by products of two powers, since a sine costs
  /// more than a product, and one of many products has lost digits.
  template <int kRadix, class Int>
  TW_INLINE static void turn_by(Number (&v)[kRadix], Int at, Int n) {
    Number w[kRadix];
    TW_UNROLL
    for (int k = 1; k < kRadix; ++k) {
      const int low = k % 4 != 0 && k > 4 ? k % 4 : k > 4 ? 4 : 1;
      w[k] = k == 1 || k == 4 ? root_of_unity<C>(at * k, n) : w[k - low].times(w[low]);
      v[k] = v[k].times(w[k]);
    }
  }
};

}  // namespace tw::kernels
