// The schedule of fft.h on a CPU. All passes go by vectors of numbers that lie side by side. A row
// of n = a b numbers is cut for that (Bailey's four steps): number j = b i + c, result k = l + a m.
// The transforms over i of all columns c come first, whose results l are turned by w^(c l); the
// block is transposed, and those over c follow, of all l. Rows too short to be cut are a vector's
// lanes. A length with a larger prime factor becomes that of a convolution (Bluestein).
//
// Phases before make the powers of w, as products of a coarse and a fine one in float64, so that
// sines and cosines are few, and the transform of the chirp.
#pragma once

#include "tilewright/kernels/fft_passes_cpu.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class C>
struct FftCpu {
  using Place = FftPlace<C>;
  using Transforms = FftTransforms<C>;
  static constexpr int64_t kFine = 64;  // powers of w that one coarse step spans

  View<const C, 3> x;  // [B, n, 2]
  View<C, 3> out;      // [B, n, 2]
  bool inverse, is_convolved;
  int64_t n, length;      // of the rows, and of their transforms or the convolution
  int64_t rows, columns;  // of a transform that is cut, or one column
  int64_t lanes;

  TW_INLINE FftCpu(const View<const C, 3>& from, const View<C, 3>& to, bool is_inverse,
                   int64_t vector)
      : x(from), out(to), inverse(is_inverse), n(from.size(1)), lanes(vector) {
    is_convolved = !FftPasses::are_for(n);
    length = is_convolved ? chirp_length(n) : n;
    if (is_convolved && length < lanes * lanes) length = lanes * lanes;
    rows = smaller_half(length);
    if (rows < lanes) rows = length;
    columns = rows > 0 ? length / rows : 1;
  }

  template <tile::Program P>
  TW_INLINE tile::Plan plan(const Machine&) const {
    if (n == 0 || x.size(0) == 0) return tile::plan_of(0);
    tile::Plan plan =
        tile::plan_of((table_size() + kFine - 1) / kFine, 2 * buffer_size() * int64_t{sizeof(C)});
    plan.phases = 4;
    plan.grid[1] = is_cut() ? rows : 0;
    plan.grid[2] = is_convolved;
    plan.grid[3] = is_cut() ? x.size(0) : (x.size(0) + lanes - 1) / lanes;
    plan.workspace_bytes = table_size() * int64_t{sizeof(Complex<double>)} +
                           2 * (length + (is_convolved ? length : 0)) * int64_t{sizeof(C)};
    return plan;
  }

  template <class P>
  TW_INLINE void operator()(P p) const {
    if (p.phase() == 0) return tabulate(p);
    if (p.phase() == 1) return tabulate_turns(p);
    if (p.phase() == 2) return transform_chirp(p);
    if (!is_cut()) return transform_lanes(p);
    if (is_convolved) return convolve(p);
    transform_row(p);
  }

 private:
  TW_INLINE bool is_cut() const { return columns > 1; }

  // The tables of the workspace: powers of w by one and by kFine, in float64; then, in as much
  // room, those of the roots of a column's transform, of a row's, and the chirp. What turns the
  // results of columns, and the transform of the chirp, follow.
  struct Tables {
    Complex<double>*fine, *coarse;
    Complex<C>*of_rows, *of_columns, *chirp;
    Place turns, chirp_result;
  };
  TW_INLINE int64_t coarse_size() const { return (length + kFine - 1) / kFine; }
  TW_INLINE int64_t table_size() const {
    return kFine + coarse_size() + rows + columns + (is_convolved ? n : 0);
  }
  template <class P>
  TW_INLINE Tables tables(P p) const {
    Tables t;
    t.fine = p.template workspace<Complex<double>>();
    t.coarse = t.fine + kFine;
    t.of_rows = reinterpret_cast<Complex<C>*>(t.coarse + coarse_size());
    t.of_columns = t.of_rows + rows;
    t.chirp = t.of_columns + columns;
    C* const after = reinterpret_cast<C*>(t.fine + table_size());
    t.turns = {Place::kApart, after, after + length};
    t.chirp_result = {Place::kApart, after + 2 * length, after + 3 * length};
    return t;
  }
  template <class P>
  TW_INLINE void tabulate(P p) const {
    const Tables t = tables(p);
    const int64_t first = p.index() * kFine, last = tile::lesser(first + kFine, table_size());
    for (int64_t i = first; i < last; ++i) {
      int64_t at = i;
      if (at < kFine)
        t.fine[at] = root_of_unity<double>(at % length, length);
      else if ((at -= kFine) < coarse_size())
        t.coarse[at] = root_of_unity<double>(at * kFine, length);
      else if ((at -= coarse_size()) < rows)
        t.of_rows[at] = root_of_unity<C>(at, rows);
      else if ((at -= rows) < columns)
        t.of_columns[at] = root_of_unity<C>(at, columns);
      else
        t.chirp[at - columns] = kernels::chirp<C>(at - columns, n);
    }
  }
  template <class P>
  TW_INLINE void tabulate_turns(P p) const {
    const Tables t = tables(p);
    const int64_t l = p.index();
    for (int64_t c = 0, at = 0; c < columns; ++c, at += l) {
      const Complex<double> w = t.coarse[at / kFine].times(t.fine[at % kFine]);
      t.turns.re[l * columns + c] = C(w.re);
      t.turns.im[l * columns + c] = C(w.im);
    }
  }

  TW_INLINE int64_t buffer_size() const { return 2 * length * (is_cut() ? 1 : lanes); }
  template <class P>
  TW_INLINE Place buffer(P p, int which) const {
    C* const data = p.template scratch<C>() + which * buffer_size();
    return {is_cut() ? Place::kApart : Place::kVectors, data, data + length};
  }
  /// The transform of a row that is cut, from either buffer or another place.
  template <class P>
  TW_INLINE Place transform(P p, const Place& source, const Place& sink, const Place& factors,
                            bool exchanges_source, bool exchanges_sink) const {
    const Tables t = tables(p);
    const int used = source.re != buffer(p, 0).re;
    const Place a = buffer(p, 1 - used), b = buffer(p, used);
    const Transforms of_column{rows, columns, t.of_rows, FftPasses::of(rows, Transforms::kLargest)};
    const Transforms of_row{columns, rows, t.of_columns,
                            FftPasses::of(columns, Transforms::kLargest)};
    const Place turned = of_column.run(p, source, {}, a, b, t.turns, exchanges_source, false);
    const Place other = turned.re == a.re ? b : a;
    transpose(p, turned.re, other.re);
    transpose(p, turned.im, other.im);
    return of_row.run(p, other, sink, turned, other, factors, false, exchanges_sink);
  }
  /// Blocks of as many rows as a vector has lanes, the last one from the end, as the last units
  /// are.
  template <class P>
  TW_INLINE void transpose(P p, const C* from, C* to) const {
    const int64_t most = columns / kUnits * kUnits, last = columns - kUnits;
    for (int64_t begin = 0; begin < rows; begin += lanes) {
      const int64_t l = begin + lanes <= rows ? begin : rows - lanes;
      turn(p, from + l * columns, columns, to + l, rows, most, lanes);
      if (most < columns)
        turn(p, from + l * columns + last, columns, to + last * rows + l, rows, kUnits, lanes);
    }
  }
  static constexpr int64_t kUnits = 4;  // that registers transpose
  /// to[u * to_stride + v] = from[v * from_stride + u] for u < units, v < count.
  template <class P>
  TW_INLINE void turn(P p, const C* from, int64_t from_stride, C* to, int64_t to_stride,
                      int64_t units, int64_t count) const {
    const bool is_float = sizeof(C) == sizeof(float);
    const int64_t some = is_float ? units / kUnits * kUnits : 0, most = count / lanes * lanes;
    if (is_float)
      tile::transpose_block(p, reinterpret_cast<const uint32_t*>(from), from_stride,
                            reinterpret_cast<uint32_t*>(to), to_stride, some, most);
    for (int64_t v = 0; v < count; ++v)
      for (int64_t u = v < most ? some : 0; u < units; ++u)
        to[u * to_stride + v] = from[v * from_stride + u];
  }

  TW_INLINE bool are_pairs(const int64_t (&stride)[3]) const {
    return stride[1] == 2 && stride[2] == 1;
  }
  template <class P>
  TW_INLINE void transform_row(P p) const {
    Place source = buffer(p, 1), sink;
    if (are_pairs(x.strides))
      source = {Place::kPairs, const_cast<C*>(&x(p.index(), 0, 0)), nullptr};
    else
      read(p.index(), source);
    if (are_pairs(out.strides)) sink = {Place::kPairs, &out(p.index(), 0, 0), nullptr};
    const Place result = transform(p, source, sink, {}, inverse, inverse);
    if (sink.re == nullptr) write(p.index(), result);
  }
  TW_INLINE void read(int64_t row, const Place& to) const {
    for (int64_t i = 0; i < n; ++i) {
      to.re[i] = x(row, i, 0);
      to.im[i] = x(row, i, 1);
    }
  }
  TW_INLINE void write(int64_t row, const Place& from) const {
    for (int64_t i = 0; i < n; ++i) {
      out(row, i, 0) = from.re[i];
      out(row, i, 1) = from.im[i];
    }
  }

  /// Rows as the lanes of vectors; those that are missing are any.
  template <class P>
  TW_INLINE void transform_lanes(P p) const {
    const int64_t first = p.index() * lanes, here = tile::lesser(lanes, x.size(0) - first);
    const Place a = buffer(p, 0), b = buffer(p, 1);
    if (are_pairs(x.strides) && here == lanes)
      turn(p, &x(first, 0, 0), x.stride(0), b.re, lanes, 2 * n, lanes);
    else
      for (int64_t i = 0; i < 2 * n; ++i)
        for (int64_t r = 0; r < lanes; ++r)
          b.re[i * lanes + r] = r < here ? x(first + r, i / 2, i % 2) : C{};
    const Transforms all{n, lanes, tables(p).of_rows, FftPasses::of(n, Transforms::kLargest)};
    const Place result = all.run(p, b, {}, a, b, {}, inverse, inverse);
    if (are_pairs(out.strides) && here == lanes)
      turn(p, result.re, lanes, &out(first, 0, 0), out.stride(0), lanes, 2 * n);
    else
      for (int64_t i = 0; i < 2 * n; ++i)
        for (int64_t r = 0; r < here; ++r) out(first + r, i / 2, i % 2) = result.re[i * lanes + r];
  }

  /// The chirp that rows are convolved with, the same from either end.
  template <class P>
  TW_INLINE void transform_chirp(P p) const {
    const Tables t = tables(p);
    const Place from = buffer(p, 1);
    for (int64_t j = 0; j < length; ++j) {
      const int64_t near = tile::lesser(j, length - j);
      const Complex<C> w = near < n ? t.chirp[near].conjugate() : Complex<C>{};
      from.re[j] = w.re;
      from.im[j] = w.im;
    }
    transform(p, from, t.chirp_result, {}, false, false);
  }
  template <class P>
  TW_INLINE void convolve(P p) const {
    const Tables t = tables(p);
    const Place from = buffer(p, 1);
    for (int64_t j = 0; j < length; ++j) {
      Complex<C> v{};
      if (j < n)
        v = Complex<C>{x(p.index(), j, inverse), x(p.index(), j, !inverse)}.times(t.chirp[j]);
      from.re[j] = v.re;
      from.im[j] = v.im;
    }
    const Place there = transform(p, from, {}, t.chirp_result, false, true);
    const Place back = transform(p, there, {}, {}, false, true);
    const C scale = C(1) / C(length);
    for (int64_t k = 0; k < n; ++k) {
      const Complex<C> y = Complex<C>{back.re[k] * scale, back.im[k] * scale}.times(t.chirp[k]);
      out(p.index(), k, inverse) = y.re;
      out(p.index(), k, !inverse) = y.im;
    }
  }
};

}  // namespace tw::kernels
