// The schedule of delta_rule_transform (delta_rule_transform.h) on a GPU. All weights of a chunk,
// w_ij = beta_i exp(G_i - G_j) k_i . k_j, at once: a thread has tiles of four rows by four columns,
// whose keys lie turned in shared memory. Then a thread has a column of the inverse, which depends
// on no other, and goes down it four rows at a time.
#pragma once

#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// The scratch of a chunk: gates up to each step; the weights, [column, row]; some dims of the
/// keys, [dim, step], and later the inverse, [row, column]; beta, and each step's gate.
struct DeltaRuleScratch {
  static constexpr int64_t kTile = 4, kVector = 8;
  static constexpr int64_t kMostThreads = 512;
  int64_t pitch;  // of all rows: a chunk's steps at most, in whole tiles

  TW_INLINE DeltaRuleScratch(int64_t chunk_size, int64_t length)
      : pitch((tile::lesser(chunk_size, length) + kTile - 1) / kTile * kTile) {}
  /// Of the keys at a time, in whole vectors.
  TW_INLINE int64_t dims() const { return pitch < kVector ? kVector : pitch / kVector * kVector; }
  TW_INLINE int64_t bytes() const {
    const int64_t floats = pitch * pitch + pitch * (pitch < kVector ? kVector : pitch) + 2 * pitch;
    return pitch * int64_t{sizeof(double)} + floats * int64_t{sizeof(float)};
  }
  /// One for each tile at or below the diagonal, or for each column.
  TW_INLINE int64_t threads() const {
    const int64_t side = pitch / kTile, tiles = side * (side + 1) / 2;
    return tile::lesser(tiles > pitch ? tiles : pitch, kMostThreads);
  }
  TW_INLINE tile::Plan plan(int64_t chunks) const {
    return tile::plan_of(chunks, bytes()).over(threads() * tile::Plan::kColumnsOfThread);
  }
};

#if defined(__CUDACC__)

template <class P, class T, class U, class Kernel>
struct DeltaRuleOnGpu {
  static constexpr int kTile = int(DeltaRuleScratch::kTile);
  static constexpr int kVector = int(DeltaRuleScratch::kVector);
  static constexpr int kWarp = 32;

  P p;
  const Kernel& of;
  int64_t b, h, first;
  int count, pitch, dims;  // steps of the chunk, and see DeltaRuleScratch
  double* sums;            // of gates
  float *weights, *keys, *betas, *gates;

  __device__ __forceinline__ DeltaRuleOnGpu(P program, const Kernel& kernel)
      : p(program), of(kernel) {
    const DeltaRuleScratch scratch(of.chunk_size, of.k.size(1));
    const int64_t row = index_quotient(p.index(), of.k.size(2));
    h = p.index() - row * of.k.size(2);
    b = index_quotient(row, of.chunks());
    first = (row - b * of.chunks()) * of.chunk_size;
    count = int(tile::lesser(of.k.size(1) - first, of.chunk_size));
    pitch = int(scratch.pitch);
    dims = int(scratch.dims());
    sums = p.template scratch<double>();
    betas = reinterpret_cast<float*>(sums + pitch);
    gates = betas + pitch;
    weights = gates + pitch;
    keys = weights + pitch * pitch;
  }

  __device__ __forceinline__ void run() const {
    load_gates();
    const int side = (count + kTile - 1) / kTile, tiles = side * (side + 1) / 2;
    TW_ROLLED
    for (int begin = 0; begin < tiles; begin += p.threads()) weigh(begin + p.thread(), side);
    p.sync();  // the inverse takes the place of the keys
    TW_ROLLED
    for (int64_t c = p.thread(); c < of.chunk_size; c += p.threads()) {
      if (c < count)
        invert(c);
      else
        for (int i = 0; i < count; ++i) of.out(b, first + i, h, c) = U(0.0f);
    }
  }

 private:
  /// Sums in float64: their differences are those of a few gates, of which one may be infinite.
  __device__ __forceinline__ void load_gates() const {
    constexpr float kLeast = -1e4f;  // exp of which, and of any sum with it, is 0
    TW_ROLLED
    for (int i = p.thread(); i < pitch; i += p.threads()) {
      const bool is_step = i < count;
      const float gate = is_step && of.g ? float(of.g(b, first + i, h)) : 0.0f;
      gates[i] = gate < kLeast ? kLeast : gate;
      betas[i] = is_step ? float(of.beta(b, first + i, h)) : 0.0f;
    }
    p.sync();
    TW_ROLLED
    for (int i = p.thread(); i < pitch; i += p.threads()) {
      double sum = 0;
      for (int j = 0; j < pitch; ++j) sum += j <= i ? double(gates[j]) : 0.0;
      sums[i] = sum;
    }
  }

  /// Dims from `begin` on of all keys. Threads side by side have steps side by side.
  __device__ __forceinline__ void load_keys(int64_t begin) const {
    using Raw = tile::Raw<T, kVector>;
    const int total = pitch * (dims / kVector);
    TW_ROLLED
    for (int i = p.thread(); i < total; i += p.threads()) {
      const int part = i / pitch, step = i - part * pitch;
      const int64_t d = begin + part * kVector;
      Raw raw{};
      if (step < count && d < of.k.size(3)) raw = Raw::of_row(of.k[b][first + step][h], d);
      const auto v = raw.template widen<float>();
      TW_UNROLL
      for (int e = 0; e < kVector; ++e) keys[(part * kVector + e) * pitch + step] = v[e];
    }
  }

  /// The tile of that number, counted down the rows of tiles. All threads bring the keys.
  __device__ __forceinline__ void weigh(int number, int side) const {
    int row = int((sqrtf(8.0f * float(number) + 1.0f) - 1.0f) * 0.5f);
    if (row * (row + 1) / 2 > number) --row;
    if ((row + 1) * (row + 2) / 2 <= number) ++row;
    const bool is_tile = row < side;
    const int i = is_tile ? row * kTile : 0;
    const int j = is_tile ? (number - row * (row + 1) / 2) * kTile : 0;
    float dot[kTile][kTile] = {};
    TW_ROLLED
    for (int64_t begin = 0; begin < of.k.size(3); begin += dims) {
      p.sync();  // what was here before has been read
      load_keys(begin);
      p.sync();
      const int n = int(tile::lesser(of.k.size(3) - begin, dims));
      TW_UNROLL_4
      for (int d = 0; d < n && is_tile; ++d) {
        const auto x = four(keys + d * pitch + i), y = four(keys + d * pitch + j);
        TW_UNROLL
        for (int e = 0; e < kTile * kTile; ++e)
          dot[e / kTile][e % kTile] =
              tile::fma(x[e / kTile], y[e % kTile], dot[e / kTile][e % kTile]);
      }
    }
    if (of.k.size(3) == 0) p.sync();  // the gates
    if (!is_tile) return;
    TW_UNROLL
    for (int c = 0; c < kTile; ++c) {
      tile::Pack<float, kTile> w;
      TW_UNROLL
      for (int r = 0; r < kTile; ++r) {
        const float decay = tile::exp(float(sums[i + r] - sums[j + c]));
        w[r] = i + r > j + c ? betas[i + r] * decay * dot[r][c] : 0.0f;
      }
      tile::Raw<float, kTile>::narrow(w).store(weights + (j + c) * pitch + i);
    }
  }

  /// Column c: x_i = [i = c] - sum of w_ij x_j, for j from c on.
  __device__ __forceinline__ void invert(int64_t c) const {
    float* const inverse = keys + c;
    TW_ROLLED
    for (int i = 0; i < count; i += kTile) {
      float x[kTile];
      TW_UNROLL
      for (int r = 0; r < kTile; ++r) x[r] = i + r == c ? 1.0f : 0.0f;
      TW_UNROLL_4
      for (int j = int(c) / kWarp * kWarp; j < i; ++j) {  // where the warp's first column begins
        const auto w = four(weights + j * pitch + i);
        if (j >= c) subtract(w, inverse[j * pitch], 0, x);
      }
      TW_UNROLL
      for (int r = 0; r < kTile; ++r) {
        inverse[(i + r) * pitch] = x[r];
        if (i + r < count) of.out(b, first + i + r, h, c) = U(x[r]);
        if (i + r >= c) subtract(four(weights + (i + r) * pitch + i), x[r], r + 1, x);
      }
    }
  }
  /// Rows from `row` on of x -= w by.
  __device__ __forceinline__ static void subtract(const tile::Pack<float, kTile>& w, float by,
                                                  int row, float (&x)[kTile]) {
    TW_UNROLL
    for (int r = 0; r < kTile; ++r)
      if (r >= row) x[r] = tile::fma(-w[r], by, x[r]);
  }
  __device__ __forceinline__ static tile::Pack<float, kTile> four(const float* at) {
    return tile::Raw<float, kTile>::load(at).template widen<float>();
  }
};

#endif

}  // namespace tw::kernels
