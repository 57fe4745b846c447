// The products of linear_quantized_gpu.h: a warp multiplies a part of a panel's k with tiles of
// eight tokens, whose records lie as linear_quantized_tile_gpu.h says.
#pragma once

#include "tilewright/kernels/linear_quantized_tile_gpu.h"
#include "tilewright/kernels/linear_quantized_words_gpu.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/mma.h"

namespace tw::kernels {

/// One row of a tile's record, which a warp writes, a lane one k each.
struct QuantizedRow {
  char* record;
  int row;

  /// float32 and bf16 as they are; of bf16 the eight values of a lane of the matrix instruction lie
  /// side by side.
  TW_PTX void put(float x) const { at<float>()[threadIdx.x % 32] = x; }
  TW_PTX void put(bf16 x) const {
    const int k = int(threadIdx.x % 32);
    at<bf16>()[k % 16 / 4 * 8 + k / 16 * 4 + k % 4] = x;
  }
  /// Rounded to int8 as quantize_rows.h does; the second digit is of what the first one lacks.
  TW_PTX void round(float x, int digit, bool has_halves) const {
    constexpr unsigned kAll = 0xffffffffu;
    constexpr float kSmallest = 1e-36f;  // above 127 / FLT_MAX
    const int k = int(threadIdx.x % 32);
    float d = 0;
    int q = 0;
    for (int i = 0; i <= digit; ++i) {
      if (i > 0) x = __fmaf_rn(-d, float(q), x);
      // As bits: a NaN is larger than anything else.
      const float range =
          __uint_as_float(__reduce_max_sync(kAll, __float_as_uint(x) & 0x7fffffffu));
      const float inverse = range > kSmallest ? __fdiv_rn(127.0f, range) : 0.0f;
      d = range * (1.0f / 127.0f);
      q = inverse != 0 ? __float2int_rn(x * inverse) : 0;
    }
    const int sum = __reduce_add_sync(kAll, q), first = __reduce_add_sync(kAll, k < 16 ? q : 0);
    const int word = k / 4;
    at<int8_t>()[(word % 4 * 2 + word / 4) * 4 + k % 4] = int8_t(q);
    if (k > 0) return;
    float* const scales = reinterpret_cast<float*>(record + QuantizedTile::kElements) + row;
    scales[0] = d;
    scales[QuantizedTile::kRows] = d * float(has_halves ? first : sum);
    scales[2 * QuantizedTile::kRows] = d * float(sum - first);
  }

 private:
  template <class E>
  TW_PTX E* at() const {
    return reinterpret_cast<E*>(record) + row * kQuantizedBlock;
  }
};

/// What a warp multiplies.
struct QuantizedPart {
  static constexpr int kTiles = QuantizedTile::kMost;
  const uint8_t* panel;
  const char* tokens;  // the first tile
  int64_t tile_bytes;  // from one to the next
  int begin, end;      // blocks
  int tiles;
  float* sums;  // [kTiles * kRows][16], of the warp alone
};

/// Sums of the matrix instruction: of rows 2 (l / 4) and the next, and tokens 2 (l % 4) and the
/// next.
using QuantizedSums = float[QuantizedPart::kTiles][4];

TW_PTX void put_sums(const QuantizedPart& part, const QuantizedSums& sums) {
  const int lane = int(threadIdx.x % 32);
  TW_UNROLL
  for (int t = 0; t < part.kTiles; ++t) {
    if (t >= part.tiles) break;
    TW_UNROLL
    for (int j = 0; j < 2; ++j) {
      float* const to =
          part.sums + (t * QuantizedTile::kRows + lane % 4 * 2 + j) * kQuantizedRows + lane / 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(sums[t][j], sums[t][2 + j]);
    }
  }
}

/// Calls f(loads, block) for each block of a part, several of them on their way at once.
template <class Format, class F>
TW_PTX void for_quantized_blocks(const Format& format, const QuantizedPart& part, F&& f) {
  constexpr int kAtOnce = 4;
  for (int first = part.begin; first < part.end; first += kAtOnce) {
    QuantizedLoads<Format> loads[kAtOnce];
    TW_UNROLL
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i < part.end) loads[i].load(format, part.panel, first + i);
    TW_UNROLL
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i < part.end) f(loads[i], first + i);
  }
}

template <QuantizedFormat kF>
__device__ __noinline__ void multiply_bytes(const uint8_t* panel, const char* tokens,
                                            int64_t tile_bytes, int begin, int end, int tiles,
                                            float* of_warp) {
  const QuantizedPart part{panel, tokens, tile_bytes, begin, end, tiles, of_warp};
  constexpr KnownFormat<kF> format;
  // 1.5 * 2^23: an integer of 22 bits added to its bits is added to the float, which takes one
  // cheap instruction to undo where a conversion takes a dear one.
  constexpr int kZero = 0x4b400000;
  constexpr int kRecord = QuantizedTile::record_bytes(QuantizedCompute::kInt8);
  const int lane = int(threadIdx.x % 32);
  QuantizedSums sums = {};
  for_quantized_blocks(format, part, [&](const auto& loads, int b) {
    QuantizedWords w;
    loads.values(format, w);
    const char* record = part.tokens + b * kRecord;
    TW_UNROLL
    for (int t = 0; t < part.kTiles; ++t, record += part.tile_bytes) {
      if (t >= part.tiles) break;
      const uint2 x = *reinterpret_cast<const uint2*>(record + lane * 8);
      const float2* const scales =
          reinterpret_cast<const float2*>(record + QuantizedTile::kElements);
      const float2 d = scales[lane % 4];
      TW_UNROLL
      for (int h = 0; h < kF.groups(); ++h) {
        int dots[4] = {kZero, kZero, kZero, kZero};
        if constexpr (kF.groups() == 1)
          tile::cuda::mma_bytes(dots, w, {x.x, x.y});
        else
          tile::cuda::mma_bytes(dots, w[2 * h], w[2 * h + 1], h == 0 ? x.x : x.y);
        TW_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float scale = loads.scale(format, h, i / 2) * (i % 2 == 0 ? d.x : d.y);
          sums[t][i] =
              __fmaf_rn(scale, __int_as_float(dots[i]) - __int_as_float(kZero), sums[t][i]);
        }
        if constexpr (kF.has_min) {
          const float2 of_x = scales[4 * (1 + h) + lane % 4];
          TW_UNROLL
          for (int i = 0; i < 4; ++i)
            sums[t][i] =
                __fmaf_rn(loads.min(format, h, i / 2), i % 2 == 0 ? of_x.x : of_x.y, sums[t][i]);
        }
      }
    }
  });
  put_sums(part, sums);
}

/// The weights of a lane: eight values of k of both rows, as dequantize gives them.
TW_PTX void quantized_floats(const AnyFormat& format, const QuantizedLoads<AnyFormat>& loads,
                             float (&to)[2][8]) {
  QuantizedWords w;
  loads.values(format, w);
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = i % 2, half = i / 2;
    TW_UNROLL
    for (int j = 0; j < 4; ++j) {
      float v = loads.scale(format, half, row) * float(int8_t(w[i] >> (8 * j)));
      if (format.get().has_min) v = __fadd_rn(v, loads.min(format, half, row));
      to[row][4 * half + j] = v;
    }
  }
}

static __device__ __noinline__ void multiply_bf16(DType dtype, const uint8_t* panel,
                                                  const char* tokens, int64_t tile_bytes, int begin,
                                                  int end, int tiles, float* of_warp) {
  const QuantizedPart part{panel, tokens, tile_bytes, begin, end, tiles, of_warp};
  const AnyFormat format{quantized_format(dtype)};
  constexpr int kRecord = QuantizedTile::record_bytes(QuantizedCompute::kBf16);
  const int lane = int(threadIdx.x % 32);
  QuantizedSums sums = {};
  for_quantized_blocks(format, part, [&](const auto& loads, int b) {
    float v[2][8];
    quantized_floats(format, loads, v);
    uint32_t w[2][4];
    TW_UNROLL
    for (int half = 0; half < 2; ++half) TW_UNROLL
    for (int i = 0; i < 4; ++i)
      w[half][i] = tile::cuda::pack<bf16>(v[i % 2][4 * half + i / 2 * 2],
                                          v[i % 2][4 * half + i / 2 * 2 + 1]);
    const char* record = part.tokens + b * kRecord + lane * 16;
    TW_UNROLL
    for (int t = 0; t < part.kTiles; ++t, record += part.tile_bytes) {
      if (t >= part.tiles) break;
      const uint4 x = *reinterpret_cast<const uint4*>(record);
      tile::cuda::mma(sums[t], w[0], {x.x, x.y}, bf16{});
      tile::cuda::mma(sums[t], w[1], {x.z, x.w}, bf16{});
    }
  });
  put_sums(part, sums);
}

/// Without matrix instructions, a tile after the other.
static __device__ __noinline__ void multiply_floats(DType dtype, const uint8_t* panel,
                                                    const char* tokens, int64_t tile_bytes,
                                                    int begin, int end, int tiles, float* of_warp) {
  const QuantizedPart part{panel, tokens, tile_bytes, begin, end, tiles, of_warp};
  const AnyFormat format{quantized_format(dtype)};
  constexpr int kRecord = QuantizedTile::record_bytes(QuantizedCompute::kF32);
  constexpr int kRows = QuantizedTile::kRows;
  const int lane = int(threadIdx.x % 32);
  for (int t = 0; t < part.tiles; ++t) {
    float sums[kRows][2] = {};
    for (int b = part.begin; b < part.end; ++b) {
      QuantizedLoads<AnyFormat> loads;
      loads.load(format, part.panel, b);
      float v[2][8];
      quantized_floats(format, loads, v);
      const char* const record = part.tokens + t * part.tile_bytes + b * kRecord;
      TW_UNROLL
      for (int row = 0; row < kRows; ++row) {
        const float4* const x = reinterpret_cast<const float4*>(record) + row * 8 + lane % 4;
        const float4 of[] = {x[0], x[4]};
        TW_UNROLL
        for (int i = 0; i < 2; ++i) TW_UNROLL
        for (int half = 0; half < 2; ++half) {
          sums[row][i] = __fmaf_rn(v[i][4 * half], of[half].x, sums[row][i]);
          sums[row][i] = __fmaf_rn(v[i][4 * half + 1], of[half].y, sums[row][i]);
          sums[row][i] = __fmaf_rn(v[i][4 * half + 2], of[half].z, sums[row][i]);
          sums[row][i] = __fmaf_rn(v[i][4 * half + 3], of[half].w, sums[row][i]);
        }
      }
    }
    TW_UNROLL
    for (int row = 0; row < kRows; ++row) TW_UNROLL
    for (int i = 0; i < 2; ++i) {
      float sum = sums[row][i];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (lane % 4 == row / 2)
        part.sums[(t * kRows + row) * kQuantizedRows + lane / 4 * 2 + i] = sum;
    }
  }
}

/// Leaves the sums of a part in part.sums. A call per format, whose arguments are in registers: all
/// in one function would share what registers the largest needs.
TW_PTX void multiply_quantized(DType dtype, QuantizedCompute compute, const QuantizedPart& of) {
  if (compute == QuantizedCompute::kF32)
    return multiply_floats(dtype, of.panel, of.tokens, of.tile_bytes, of.begin, of.end, of.tiles,
                           of.sums);
  if (compute == QuantizedCompute::kBf16)
    return multiply_bf16(dtype, of.panel, of.tokens, of.tile_bytes, of.begin, of.end, of.tiles,
                         of.sums);
  switch (dtype) {
#define TW_CASE(id, ...)                                                                   \
  case DType::id:                                                                          \
    return multiply_bytes<quantized_format(DType::id)>(of.panel, of.tokens, of.tile_bytes, \
                                                       of.begin, of.end, of.tiles, of.sums);
    TW_FOR_EACH_BLOCK_DTYPE(TW_CASE)
#undef TW_CASE
    default:
      break;
  }
}

}  // namespace tw::kernels
