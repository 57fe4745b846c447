// The products of a warp of attention_tile_gpu.h: 16 rows of queries with 32 keys, and the keys'
// weights with up to 128 dims of values. Of 16-bit operands by the matrix instruction, else by
// multiply-adds of float32.
#pragma once

#include "tilewright/kernels/attention_tiles_gpu.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/mma.h"

namespace tw::kernels {

/// By the matrix instruction (tile/cuda/mma.h): a lane has two rows, of each pairs of neighbours.
template <class E>
struct AttentionProducts {
  static constexpr int kRows = 2, kKeys = 8, kValues = 32;  // of a lane
  static constexpr int kLanes = 4;                          // that share a row
  static constexpr int kAdjacent = 2;                       // values

  struct Scores {
    float four[kKeys / 2][4] = {};
    TW_INLINE float& operator()(int i, int j) { return four[j / 2][2 * i + j % 2]; }
  };
  struct Sums {
    float four[kValues / 2][4] = {};
    TW_INLINE float& operator()(int i, int j) { return four[j / 2][2 * i + j % 2]; }
  };

  int lane;

  /// Of the warp's rows, the block's keys and the slice's values.
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
  /// kColumns of the values' dims.
  template <int kColumns>
  __device__ __forceinline__ void add(Sums& sums, Scores& weights, float*, const E* values,
                                      int pitch) const {
    const E* from = values + lane % 16 * pitch + lane / 16 * 8;
    TW_UNROLL
    for (int k = 0; k < kKeys / 4; ++k) {
      const auto &low = weights.four[2 * k], &high = weights.four[2 * k + 1];
      const uint32_t left[4] = {
          tile::cuda::pack<E>(low[0], low[1]), tile::cuda::pack<E>(low[2], low[3]),
          tile::cuda::pack<E>(high[0], high[1]), tile::cuda::pack<E>(high[2], high[3])};
      TW_UNROLL
      for (int c = 0; c < kColumns / 16; ++c) {
        uint32_t right[4];
        tile::cuda::load_matrices_transposed(right, from + k * 16 * pitch + c * 16);
        tile::cuda::mma(sums.four[2 * c], left, {right[0], right[1]}, E{});
        tile::cuda::mma(sums.four[2 * c + 1], left, {right[2], right[3]}, E{});
      }
    }
  }

 private:
  TW_INLINE int pair(int j) const { return j / 2 * 8 + lane % 4 * 2 + j % 2; }
};

/// Of float32: a lane has four rows, of each every eighth key and four values of every 32.
template <>
struct AttentionProducts<float> {
  static constexpr int kRows = 4, kKeys = 4, kValues = 16;
  static constexpr int kLanes = 8;
  static constexpr int kAdjacent = 4;

  struct Scores {
    float each[kRows][kKeys] = {};
    TW_INLINE float& operator()(int i, int j) { return each[i][j]; }
  };
  struct Sums {
    float each[kRows][kValues] = {};
    TW_INLINE float& operator()(int i, int j) { return each[i][j]; }
  };

  int lane;

  TW_INLINE int row(int i) const { return lane / 8 + 4 * i; }
  TW_INLINE int key(int j) const { return lane % 8 + 8 * j; }
  TW_INLINE int value(int j) const { return lane % 8 * 4 + j / 4 * 32 + j % 4; }

  __device__ __forceinline__ void multiply(Scores& scores, const float* queries, int query_pitch,
                                           const float* keys, int key_pitch, int dims) const {
    const float* const a = queries + row(0) * query_pitch;
    const float* const b = keys + key(0) * key_pitch;
    TW_ROLLED
    for (int d = 0; d < dims; d += 4) {
      float4 q[kRows];
      TW_UNROLL
      for (int i = 0; i < kRows; ++i) q[i] = four(a + i * 4 * query_pitch + d);
      TW_UNROLL
      for (int j = 0; j < kKeys; ++j) {
        const float4 k = four(b + j * 8 * key_pitch + d);
        TW_UNROLL
        for (int part = 0; part < 4; ++part) TW_UNROLL
        for (int i = 0; i < kRows; ++i) scores.each[i][j] += of(q[i], part) * of(k, part);
      }
    }
  }
  /// Through `staged`, the warp's: lanes have keys of a row each, and need all.
  template <int kColumns>
  __device__ __forceinline__ void add(Sums& sums, Scores& weights, float* staged,
                                      const float* values, int pitch) const {
    constexpr int kPitch = AttentionTileSizes::kWeightPitch;
    TW_UNROLL
    for (int i = 0; i < kRows; ++i) TW_UNROLL
    for (int j = 0; j < kKeys; ++j) staged[row(i) * kPitch + key(j)] = weights.each[i][j];
    __syncwarp();
    const float *a = staged + row(0) * kPitch, *b = values + value(0);
    TW_ROLLED
    for (int k = 0; k < AttentionTileSizes::kKeys; k += 4) {
      float4 w[kRows];
      TW_UNROLL
      for (int i = 0; i < kRows; ++i) w[i] = four(a + i * 4 * kPitch + k);
      TW_UNROLL
      for (int part = 0; part < 4; ++part, b += pitch) TW_UNROLL
      for (int c = 0; c < kColumns / 32; ++c) {
        const float4 v = four(b + c * 32);
        TW_UNROLL
        for (int e = 0; e < 4; ++e) TW_UNROLL
        for (int i = 0; i < kRows; ++i) sums.each[i][4 * c + e] += of(w[i], part) * of(v, e);
      }
    }
    __syncwarp();
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
