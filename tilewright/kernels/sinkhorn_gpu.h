// The schedules of sinkhorn.h on a GPU. A matrix of up to 32 rows and columns, as residual streams
// have, is in registers: a lane has a column, and the sums of rows go over the lanes. Another is in
// scratch: a warp has a row, a thread a column, or a share of one.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class P, class T>
struct SinkhornOnGpu {
  static constexpr int kMost = 32;  // rows, and columns, in registers
  static constexpr int64_t kMostThreads = 512;

  const View<const T, 3>& x;
  int64_t iterations;
  float eps;
  const View<T, 3>& out;

  TW_INLINE int64_t rows() const { return x.size(1); }
  TW_INLINE int64_t cols() const { return x.size(2); }
  TW_INLINE bool is_small() const { return rows() <= kMost && cols() <= kMost; }
  TW_INLINE static int64_t lanes_of(int64_t columns, int64_t most) {
    int64_t lanes = 1;
    while (lanes < most && lanes < columns) lanes *= 2;
    return lanes;
  }

  TW_INLINE tile::Plan plan() const {
    const int64_t elements = rows() * cols(), matrices = elements > 0 ? x.size(0) : 0;
    if (is_small()) return tile::plan_of(matrices).over_threads(lanes_of(cols(), kMost));
    return tile::plan_of(matrices, (elements + kMostThreads) * int64_t{sizeof(float)})
        .over(elements);
  }

#if defined(__CUDACC__)
  __device__ __forceinline__ void operator()(P p) const {
    if (!is_small()) return in_scratch(p);
    if (rows() <= 4) return in_registers<4>(p);
    if (rows() <= 8) return in_registers<8>(p);
    in_registers<kMost>(p);
  }

 private:
  /// Lanes of the instance in a warp.
  __device__ __forceinline__ static int lanes(P p) { return p.threads() < 32 ? p.threads() : 32; }
  /// Combines each value with those of the other lanes.
  template <int kCount, class F>
  __device__ __forceinline__ static void over_lanes(P p, float (&values)[kCount], F&& combine) {
    TW_ROLLED
    for (int lane = lanes(p) / 2; lane > 0; lane /= 2) {
      TW_UNROLL
      for (float& v : values) v = combine(v, __shfl_xor_sync(p.mask(), v, lane));
    }
  }
  static __device__ __forceinline__ float add(float a, float b) { return a + b; }
  /// Of numbers that are not NaN.
  static __device__ __forceinline__ float greater(float a, float b) { return b > a ? b : a; }

  template <int kRows>
  __device__ __noinline__ void in_registers(P p) const {
    const int c = p.thread(), count = int(rows());
    const bool is_column = c < cols();
    float m[kRows], sums[kRows];
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) {
      m[r] = r < count && is_column ? float(x(p.index(), r, c)) : -__builtin_inff();
      sums[r] = greater(-__builtin_inff(), m[r]);
    }
    over_lanes(p, sums, greater);
    TW_UNROLL
    for (int r = 0; r < kRows; ++r)
      m[r] = r < count && is_column ? tile::exp(m[r] - sums[r]) : 0.0f;
    TW_ROLLED
    for (int64_t i = 0; i < iterations; ++i) {
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) sums[r] = m[r];
      over_lanes(p, sums, add);
      float sum = 0;
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) {
        if (r < count) m[r] /= sums[r] + eps;
        sum += m[r];
      }
      if (!is_column) continue;
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) m[r] /= sum + eps;
    }
    TW_UNROLL
    for (int r = 0; r < kRows; ++r)
      if (r < count && is_column) out(p.index(), r, c) = T(m[r]);
  }

  __device__ __noinline__ void in_scratch(P p) const {
    float* const m = p.template scratch<float>();
    const auto row = [&](int64_t r) { return view(m + r * cols(), cols()); };
    each_row(p, [&](int64_t r) {
      const View<const T, 1> from = x[p.index()][r];
      float high[1] = {-__builtin_inff()};
      each_column(p, [&](int64_t c) { high[0] = greater(high[0], float(from(c))); });
      over_lanes(p, high, greater);
      each_column(p, [&](int64_t c) { row(r)(c) = tile::exp(float(from(c)) - high[0]); });
    });
    for (int64_t i = 0; i < iterations; ++i) {
      each_row(p, [&](int64_t r) {
        float sum[1] = {0};
        each_column(p, [&](int64_t c) { sum[0] += row(r)(c); });
        over_lanes(p, sum, add);
        each_column(p, [&](int64_t c) { row(r)(c) /= sum[0] + eps; });
      });
      p.sync();
      divide_columns(p, m);
      p.sync();
    }
    each_row(p, [&](int64_t r) {
      const View<T, 1> to = out[p.index()][r];
      each_column(p, [&](int64_t c) { to(c) = T(row(r)(c)); });
    });
  }
  /// f of the rows of a warp, which all its lanes share.
  template <class F>
  __device__ __forceinline__ void each_row(P p, F&& f) const {
    for (int64_t r = p.thread() / lanes(p); r < rows(); r += p.threads() / lanes(p)) f(r);
  }
  template <class F>
  __device__ __forceinline__ void each_column(P p, F&& f) const {
    for (int64_t c = p.thread() & (lanes(p) - 1); c < cols(); c += lanes(p)) f(c);
  }
  /// Threads side by side have columns side by side; of few columns each has a share of the rows.
  __device__ __forceinline__ void divide_columns(P p, float* m) const {
    const int threads = p.threads();
    int shares = 1;
    while (threads % (2 * shares) == 0 && threads / (2 * shares) >= cols()) shares *= 2;
    const int across = threads / shares, share = p.thread() / across;
    float* const sums = m + rows() * cols();
    for (int64_t first = 0; first < cols(); first += across) {
      const int64_t c = first + p.thread() % across;
      float sum = 0;
      for (int64_t r = share; r < rows() && c < cols(); r += shares) sum += m[r * cols() + c];
      if (shares > 1) {  // and all columns go at once
        sums[p.thread()] = sum;
        p.sync();
        sum = 0;
        for (int s = 0; s < shares; ++s) sum += sums[s * across + p.thread() % across];
      }
      for (int64_t r = share; r < rows() && c < cols(); r += shares) m[r * cols() + c] /= sum + eps;
    }
  }
#endif
};

}  // namespace tw::kernels
