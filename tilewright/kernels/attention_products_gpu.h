// The products of a warp of attention_tile_gpu.h: 16 rows of queries with keys, and the keys'
// weights with dims of values. Of 16-bit operands by the matrix instruction, else by multiply-adds
// of float32.
#pragma once

#include "tilewright/kernels/attention_tiles_gpu.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/mma.h"

namespace tw::kernels {

/// Numbers of a lane, one for each of its rows and columns.
template <int kRows, int kColumns>
struct LaneTile {
  float each[kRows][kColumns] = {};
  TW_INLINE float& operator()(int i, int j) { return each[i][j]; }
};
/// The same as the matrix instruction has them: of two rows, pairs of neighbours.
template <int kColumns>
struct LaneFragments {
  float four[kColumns / 2][4] = {};
  TW_INLINE float& operator()(int i, int j) { return four[j / 2][2 * i + j % 2]; }
};

/// By the matrix instruction (tile/cuda/mma.h): a lane has two rows, of each pairs of neighbours.
template <class E, int kWarpKeys, int kWarpValues>
struct AttentionProducts {
  static constexpr int kRows = 2, kKeys = kWarpKeys / 4, kValues = kWarpValues / 4;  // of a lane
  static constexpr int kLanes = 4;     // that share a row
  static constexpr int kAdjacent = 2;  // values
  using Scores = LaneFragments<kKeys>;
  using Sums = LaneFragments<kValues>;

  int lane;

  /// Of the warp's rows, keys and values.
  TW_INLINE int row(int i) const { return lane / 4 + 8 * i; }
  TW_INLINE int key(int j) const { return pair(j); }
  TW_INLINE int value(int j) const { return pair(j); }

  __device__ __forceinline__ void multiply(Scores& scores, const E* queries, int query_pitch,
                                           const E* keys, int key_pitch, int dims) const {
    const E* a = queries + lane % 16 * query_pitch + lane / 16 * 8;
    const E* b = keys + (lane / 16 * 8 + lane % 8) * key_pitch + lane / 8 % 2 * 8;
    TW_ROLLED
    for (int d = 0; d < dims; d += 16) {
      uint32_t left[4], right[4];
      tile::cuda::load_matrices(left, a + d);
      TW_UNROLL
      for (int j = 0; j < kKeys / 4; ++j) {
        tile::cuda::load_matrices(right, b + j * 16 * key_pitch + d);
        tile::cuda::mma(scores.four[2 * j], left, {right[0], right[1]}, E{});
        tile::cuda::mma(scores.four[2 * j + 1], left, {right[2], right[3]}, E{});
      }
    }
  }
  /// kColumns of the values' dims, weighted by the lane's own scores.
  template <int kColumns>
  __device__ __forceinline__ void add(Sums& sums, Scores& weights, const E* values,
                                      int pitch) const {
    TW_UNROLL
    for (int k = 0; k < kKeys / 4; ++k) {
      const auto &low = weights.four[2 * k], &high = weights.four[2 * k + 1];
      const uint32_t left[4] = {
          tile::cuda::pack<E>(low[0], low[1]), tile::cuda::pack<E>(low[2], low[3]),
          tile::cuda::pack<E>(high[0], high[1]), tile::cuda::pack<E>(high[2], high[3])};
      add_step<kColumns>(sums, left, values + k * 16 * pitch, pitch);
    }
  }
  /// The same, by weights of kCount keys that several warps have staged.
  template <int kColumns, int kCount>
  __device__ __forceinline__ void add_staged(Sums& sums, const E* weights, int weight_pitch,
                                             const E* values, int pitch) const {
    const E* const a = weights + lane % 16 * weight_pitch + lane / 16 * 8;
    TW_ROLLED
    for (int k = 0; k < kCount; k += 16) {
      uint32_t left[4];
      tile::cuda::load_matrices(left, a + k);
      add_step<kColumns>(sums, left, values + k * pitch, pitch);
    }
  }
  __device__ __forceinline__ void stage(Scores& weights, E* to, int pitch) const {
    TW_UNROLL
    for (int j = 0; j < kKeys; j += 2) TW_UNROLL
    for (int i = 0; i < kRows; ++i)
      *reinterpret_cast<uint32_t*>(to + row(i) * pitch + key(j)) =
          tile::cuda::pack<E>(weights(i, j), weights(i, j + 1));
  }

 private:
  TW_INLINE int pair(int j) const { return j / 2 * 8 + lane % 4 * 2 + j % 2; }
  /// Of 16 keys.
  template <int kColumns>
  __device__ __forceinline__ void add_step(Sums& sums, const uint32_t (&left)[4], const E* values,
                                           int pitch) const {
    const E* const from = values + lane % 16 * pitch + lane / 16 * 8;
    TW_UNROLL
    for (int c = 0; c < kColumns / 16; ++c) {
      uint32_t right[4];
      tile::cuda::load_matrices_transposed(right, from + c * 16);
      tile::cuda::mma(sums.four[2 * c], left, {right[0], right[1]}, E{});
      tile::cuda::mma(sums.four[2 * c + 1], left, {right[2], right[3]}, E{});
    }
  }
};

/// Of float32: a lane has every second row, of each every 16th key and four values of every 64.
/// Neighbouring lanes share keys, so that half a warp reads 128 bytes at a time.
template <int kWarpKeys, int kWarpValues>
struct AttentionProducts<float, kWarpKeys, kWarpValues> {
  static constexpr int kRows = 8, kKeys = kWarpKeys / 16, kValues = kWarpValues / 16;
  static constexpr int kLanes = 16;
  static constexpr int kAdjacent = 4;
  using Scores = LaneTile<kRows, kKeys>;
  using Sums = LaneTile<kRows, kValues>;

  int lane;

  TW_INLINE int row(int i) const { return lane % 2 + 2 * i; }
  TW_INLINE int key(int j) const { return lane / 2 + 16 * j; }
  TW_INLINE int value(int j) const { return lane / 2 * 4 + j / 4 * 64 + j % 4; }

  __device__ __forceinline__ void multiply(Scores& scores, const float* queries, int query_pitch,
                                           const float* keys, int key_pitch, int dims) const {
    const float* const a = queries + row(0) * query_pitch;
    const float* const b = keys + key(0) * key_pitch;
    TW_ROLLED
    for (int d = 0; d < dims; d += 4) {
      float4 k[kKeys];
      TW_UNROLL
      for (int j = 0; j < kKeys; ++j) k[j] = four(b + j * 16 * key_pitch + d);
      TW_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const float4 q = four(a + i * 2 * query_pitch + d);
        TW_UNROLL
        for (int part = 0; part < 4; ++part) TW_UNROLL
        for (int j = 0; j < kKeys; ++j) scores.each[i][j] += of(q, part) * of(k[j], part);
      }
    }
  }
  /// 64 of the values' dims from `first` of the lane's on, by weights of kCount keys that the warp
  /// has staged: lanes have keys of a row each, and need all.
  template <int kCount>
  __device__ __forceinline__ void add_staged(Sums& sums, int first, const float* weights,
                                             int weight_pitch, const float* values,
                                             int pitch) const {
    const float *a = weights + row(0) * weight_pitch, *b = values + value(0);
    TW_ROLLED
    for (int k = 0; k < kCount; k += 4) {
      float4 v[4];
      TW_UNROLL
      for (int part = 0; part < 4; ++part) v[part] = four(b + (k + part) * pitch);
      TW_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const float4 w = four(a + i * 2 * weight_pitch + k);
        TW_UNROLL
        for (int part = 0; part < 4; ++part) TW_UNROLL
        for (int e = 0; e < 4; ++e) sums.each[i][first + e] += of(w, part) * of(v[part], e);
      }
    }
  }
  __device__ __forceinline__ void stage(Scores& weights, float* to, int pitch) const {
    TW_UNROLL
    for (int i = 0; i < kRows; ++i) TW_UNROLL
    for (int j = 0; j < kKeys; ++j) to[row(i) * pitch + key(j)] = weights.each[i][j];
  }

 private:
  TW_INLINE static float4 four(const float* from) { return *reinterpret_cast<const float4*>(from); }
  TW_INLINE static float of(const float4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  }
};

/// The first `columns` sums of a lane's row i, times `factor`, to a row in memory.
template <class Products, class O>
__device__ __forceinline__ void store_sums(const Products& products, typename Products::Sums& sums,
                                           int i, float factor, O* to, int64_t stride,
                                           int columns) {
  constexpr int kN = Products::kAdjacent;
  using Some = tile::Raw<O, kN>;
  TW_UNROLL
  for (int j = 0; j < Products::kValues; j += kN) {
    const int c = products.value(j), left = columns - c;
    if (left <= 0) continue;
    tile::Pack<float, kN> some;
    TW_UNROLL
    for (int e = 0; e < kN; ++e) some[e] = sums(i, j + e) * factor;
    O* const at = to + c * stride;
    if (stride == 1 && left >= kN && Some::is_aligned(at))
      Some::narrow(some).store(at);
    else
      Some::narrow(some).scatter(at, stride, left < kN ? left : kN);
  }
}

}  // namespace tw::kernels
