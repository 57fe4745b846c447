// The products of linear_quantized_gpu.h: a warp multiplies parts of a panel's k with tiles of
// eight tokens, whose records lie as linear_quantized_tile_gpu.h says.
#pragma once

#include "tilewright/kernels/linear_quantized_ring_gpu.h"
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

/// Sums of the matrix instruction: of rows 2 (l / 4) and the next, and tokens 2 (l % 4) and the
/// next.
using QuantizedSums = float[QuantizedTile::kMost][4];

/// Sums of the parts, one part after the other.
template <int kTiles, int kSums>
TW_PTX void end_part(float (&part)[kTiles][kSums], float (&total)[kTiles][kSums]) {
  TW_UNROLL
  for (int t = 0; t < kTiles; ++t) TW_UNROLL
  for (int i = 0; i < kSums; ++i) total[t][i] += part[t][i], part[t][i] = 0;
}

/// Where a warp leaves its sums of a row of the tiles, and of the panel's rows one after the other.
TW_PTX float* sums_of(const QuantizedWork& work, int warp, int row) {
  return reinterpret_cast<float*>(quantized_ring()) +
         (warp * work.tiles * QuantizedTile::kRows + row) * kQuantizedRows;
}
TW_PTX void put_sums(const QuantizedWork& work, const QuantizedSums& sums) {
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
  TW_UNROLL
  for (int t = 0; t < QuantizedTile::kMost; ++t) {
    if (t >= work.tiles) break;
    TW_UNROLL
    for (int j = 0; j < 2; ++j) {
      float* const to =
          sums_of(work, warp, t * QuantizedTile::kRows + lane % 4 * 2 + j) + lane / 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(sums[t][j], sums[t][2 + j]);
    }
  }
}

/// The weights of a lane: eight values of k of both rows, as dequantize gives them.
template <class Format>
TW_PTX void quantized_floats(const Format& format, const QuantizedLoads<Format>& loads,
                             float (&to)[2][8]) {
  QuantizedWords w;
  loads.values(format, w);
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = i % 2, half = i / 2;
    const float scale = loads.scale(format, half, row) * quantized_unit(format.get());
    const float min = format.get().has_min ? loads.min(format, half, row) : 0;
    TW_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float v = scale * float(int8_t(w[i] >> (8 * j)));
      to[row][4 * half + j] = format.get().has_min ? __fadd_rn(v, min) : v;
    }
  }
}

/// What the bytes of a block are multiplied with, and what is then added, of both rows and one or
/// two groups of k.
template <QuantizedFormat kF>
struct ByteBlock {
  static constexpr int kGroups = kF.groups();
  // 1.5 * 2^23: an integer of 22 bits added to its bits is added to the float, which takes one
  // cheap instruction to undo where a conversion takes a dear one.
  static constexpr int kZero = 0x4b400000;
  static constexpr float kZeroFloat = 12582912, kUnit = quantized_unit(kF);
  QuantizedWords words;
  float scale[kGroups][2], min[kGroups][2];

  TW_PTX void load(const QuantizedStage& stage, int i) {
    constexpr KnownFormat<kF> format;
    QuantizedLoads<KnownFormat<kF>> loads;
    loads.load(format, stage.weights, stage.block, i);
    loads.values(format, words);
    TW_UNROLL
    for (int h = 0; h < kGroups; ++h) TW_UNROLL
    for (int row = 0; row < 2; ++row) {
      scale[h][row] = loads.scale(format, h, row);
      if (kF.has_min) min[h][row] = loads.min(format, h, row);
    }
  }
  TW_PTX void multiply(const char* record, float (&sums)[4]) const {
    const int lane = int(threadIdx.x % 32);
    const uint2 x = *reinterpret_cast<const uint2*>(record + lane * 8);
    const float2* const of_tokens =
        reinterpret_cast<const float2*>(record + QuantizedTile::kElements) + lane % 4;
    const float2 d = of_tokens[0];
    TW_UNROLL
    for (int h = 0; h < kGroups; ++h) {
      int dots[4] = {kZero, kZero, kZero, kZero};
      if constexpr (kGroups == 1)
        tile::cuda::mma_bytes(dots, words, {x.x, x.y});
      else
        tile::cuda::mma_bytes(dots, words[2 * h], words[2 * h + 1], h == 0 ? x.x : x.y);
      TW_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float dot = __fmaf_rn(__int_as_float(dots[j]), kUnit, -kZeroFloat * kUnit);  // exact
        sums[j] = __fmaf_rn(scale[h][j / 2] * (j % 2 == 0 ? d.x : d.y), dot, sums[j]);
      }
      if constexpr (kF.has_min) {
        const float2 of_x = of_tokens[4 * (1 + h)];
        TW_UNROLL
        for (int j = 0; j < 4; ++j)
          sums[j] = __fmaf_rn(min[h][j / 2], j % 2 == 0 ? of_x.x : of_x.y, sums[j]);
      }
    }
  }
};

/// The same of bf16: the first operands of two matrix instructions.
template <QuantizedFormat kF>
struct Bf16Block {
  uint32_t words[2][4];

  TW_PTX void load(const QuantizedStage& stage, int i) {
    constexpr KnownFormat<kF> format;
    QuantizedLoads<KnownFormat<kF>> loads;
    loads.load(format, stage.weights, stage.block, i);
    float v[2][8];
    quantized_floats(format, loads, v);
    TW_UNROLL
    for (int half = 0; half < 2; ++half) TW_UNROLL
    for (int j = 0; j < 4; ++j)
      words[half][j] = tile::cuda::pack<bf16>(v[j % 2][4 * half + j / 2 * 2],
                                              v[j % 2][4 * half + j / 2 * 2 + 1]);
  }
  TW_PTX void multiply(const char* record, float (&sums)[4]) const {
    const uint4 x = reinterpret_cast<const uint4*>(record)[threadIdx.x % 32];
    tile::cuda::mma(sums, words[0], {x.x, x.y}, bf16{});
    tile::cuda::mma(sums, words[1], {x.z, x.w}, bf16{});
  }
};

/// With matrix instructions. The blocks of a stage are taken apart together, so that none waits for
/// another.
template <QuantizedFormat kF, template <QuantizedFormat> class Block, int kRecord>
__device__ __noinline__ void multiply_blocks(const QuantizedWork work) {
  constexpr int kBlocks = QuantizedTile::kStageBlocks;
  constexpr KnownFormat<kF> format;
  QuantizedSums sums = {}, total = {};
  QuantizedRing<KnownFormat<kF>, kRecord>(format, work)
      .for_each(
          [&](const QuantizedStage& stage) {
            Block<kF> blocks[kBlocks];
            TW_UNROLL
            for (int i = 0; i < kBlocks; ++i) blocks[i].load(stage, i);
            TW_UNROLL
            for (int t = 0; t < QuantizedTile::kMost; ++t) {
              if (t > 0 && t >= work.tiles) break;
              TW_UNROLL
              for (int i = 0; i < kBlocks; ++i)
                blocks[i].multiply(stage.tokens + (t * kBlocks + i) * kRecord, sums[t]);
            }
          },
          [&] { end_part(sums, total); });
  put_sums(work, total);
}

/// Without matrix instructions, of one tile; the format is read as it runs, since exact products
/// are seldom asked for.
static __device__ __noinline__ void multiply_floats(DType dtype, const QuantizedWork work) {
  const AnyFormat format{quantized_format(dtype)};
  constexpr int kRecord = QuantizedTile::record_bytes(QuantizedCompute::kF32);
  constexpr int kRows = QuantizedTile::kRows;
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
  float sums[kRows][2] = {}, total[kRows][2] = {};
  const auto multiply = [&](const QuantizedStage& stage, int block) {
    QuantizedLoads<AnyFormat> loads;
    loads.load(format, stage.weights, stage.block, block);
    float v[2][8];
    quantized_floats(format, loads, v);
    TW_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const float4* const x =
          reinterpret_cast<const float4*>(stage.tokens + block * kRecord) + row * 8 + lane % 4;
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
  };
  QuantizedRing<AnyFormat, kRecord>(format, work)
      .for_each(
          [&](const QuantizedStage& stage) {
            TW_NO_UNROLL
            for (int i = 0; i < QuantizedTile::kStageBlocks; ++i) multiply(stage, i);
          },
          [&] { end_part(sums, total); });
  TW_UNROLL
  for (int row = 0; row < kRows; ++row) TW_UNROLL
  for (int i = 0; i < 2; ++i) {
    float sum = total[row][i];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (lane % 4 == row / 2) sums_of(work, warp, row)[lane / 4 * 2 + i] = sum;
  }
}

/// Leaves the sums of a program's warps where sums_of says. A function per format: all in one would
/// share what registers the largest needs.
TW_PTX void multiply_quantized(DType dtype, QuantizedCompute compute, const QuantizedWork& work) {
  if (compute == QuantizedCompute::kF32) return multiply_floats(dtype, work);
  constexpr auto kBf16 = QuantizedCompute::kBf16, kInt8 = QuantizedCompute::kInt8;
  switch (dtype) {
#define TW_CASE(id, ...)                                                                   \
  case DType::id: {                                                                        \
    constexpr QuantizedFormat kF = quantized_format(DType::id);                            \
    return compute == kBf16                                                                \
               ? multiply_blocks<kF, Bf16Block, QuantizedTile::record_bytes(kBf16)>(work)  \
               : multiply_blocks<kF, ByteBlock, QuantizedTile::record_bytes(kInt8)>(work); \
  }
    TW_FOR_EACH_BLOCK_DTYPE(TW_CASE)
#undef TW_CASE
    default:
      break;
  }
}

}  // namespace tw::kernels
