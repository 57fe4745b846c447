// Operands of attention whose queries lie across (attention_across_sm90.h): queries, and the scales
// of keys and values.
#pragma once

#include "tilewright/kernels/attention_block_sm90.h"
#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/tile/compute_type.h"

namespace tw::kernels {

namespace attention_across {

/// The thread's place among those that multiply, for structs that inherit it.
struct Place {
  /// Behind the warpgroup that loads.
  TW_PTX static int warp() { return int(threadIdx.x) / 32 - 4; }
  TW_PTX static int lane() { return int(threadIdx.x) % 32; }
  /// Row of a left operand's upper half, column of a right one; the other is 8 rows further on.
  TW_PTX static int group() { return lane() / 4; }
  /// Sums have columns 2 member() and the one after it.
  TW_PTX static int member() { return lane() % 4; }
};

TW_PTX float max_over_groups(float x) {
  TW_UNROLL
  for (int step = 4; step < 32; step *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
TW_PTX float sum_over_groups(float x) {
  TW_UNROLL
  for (int step = 4; step < 32; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

/// 16 bytes become words of an array.
template <int kWords>
TW_PTX void put_words(uint32_t (&words)[kWords], int first, const uint4& from) {
  words[first] = from.x, words[first + 1] = from.y;
  words[first + 2] = from.z, words[first + 3] = from.w;
}

/// Rows of queries as right operands of f16, and what products with them are to be multiplied by.
template <class T, int kSteps>
struct Queries : Place {
  uint32_t words[kSteps][2];
  float factor;  // of row group()

  /// From a row in shared memory, whose 16 bytes are turned by `turn`: the lane's are 4 kSteps
  /// dims, in order.
  template <int kChunkBytes>
  TW_PTX void load(const char* row, int turn) {
    constexpr int kUnits = kSteps / 2;  // of 16 bytes
    uint32_t raw[4 * kUnits];
    TW_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      const int unit = member() * kUnits + i;
      put_words(
          raw, 4 * i,
          *reinterpret_cast<const uint4*>(row + unit / 8 * kChunkBytes + (unit % 8 ^ turn) * 16));
    }
    factor = 1;
    if constexpr (tile::same_type<T, bf16>) narrow(raw);
    TW_UNROLL
    for (int i = 0; i < 2 * kSteps; ++i) words[i / 2][i % 2] = raw[i];
  }

 private:
  /// bf16 to f16, of which the row's largest gets 2^8: what is 2^-32 of that is lost.
  template <int kWords>
  TW_PTX void narrow(uint32_t (&pairs)[kWords]) {
    constexpr int kExponent = 127 + 8, kLeast = kExponent - 126, kInfinite = 255;
    float most = 0;
    TW_UNROLL
    for (const uint32_t pair : pairs)
      most = fmaxf(most, fmaxf(fabsf(low(pair)), fabsf(high(pair))));
    most = attention_sm90::max_over_quad(most);
    const int exponent = int(__float_as_uint(most) >> 23);
    const int from = exponent == kInfinite ? kExponent : max(exponent, kLeast);
    const float scale = __uint_as_float(uint32_t(127 + kExponent - from) << 23);
    factor = __uint_as_float(uint32_t(127 + from - kExponent) << 23);
    TW_UNROLL
    for (uint32_t& pair : pairs)
      pair = tile::cuda::pack<f16>(low(pair) * scale, high(pair) * scale);
  }
  TW_PTX static float low(uint32_t pair) { return __uint_as_float(pair << 16); }
  TW_PTX static float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
};

}  // namespace attention_across

/// What keys and values are to be multiplied with: of a warp's keys in lanes 0 to 15, of the same
/// keys' values in the others. The next block's are on their way, and the pages of those after
/// them.
template <class Arguments, AttentionBuild kBuild>
class AttentionAcrossScales : attention_across::Place {
 public:
  static constexpr int kOfWarp = 16;  // keys of a block, and as many values

  /// From block `block` on, towards the first.
  TW_PTX AttentionAcrossScales(const Arguments& given, const AttentionTile& tile, int block)
      : from_(lane() < kOfWarp ? given.k_scale : given.v_scale),
        exist_(given.k_scale.data != nullptr || given.v_scale.data != nullptr),
        kv_head_(tile.head / given.heads_per_kv),
        key_(block * kKeys + warp() * kOfWarp + lane() % kOfWarp),
        row_(tile.kv_base + key_),
        outer_(tile.kv_outer) {
    if (given.table) {
      page_ = key_ / given.page_keys;
      row_ = key_ - page_ * given.page_keys;
      pages_back_ = kKeys / given.page_keys;
      rows_back_ = pages_back_ > 0 ? 0 : kKeys;
    }
    find(given, tile);
    advance(given, tile);
  }
  TW_PTX float next(const Arguments& given, const AttentionTile& tile) {
    const float out = loaded_;
    advance(given, tile);
    return out;
  }

 private:
  static constexpr int kKeys = kBuild.keys;

  TW_PTX void advance(const Arguments& given, const AttentionTile& tile) {
    loaded_ = is_there_ ? from_.at(outer_, row_, kv_head_) : 1.0f;
    key_ -= kKeys;
    row_ -= rows_back_;
    page_ -= pages_back_;
    if (row_ < 0 && given.table) row_ += given.page_keys, --page_;
    find(given, tile);
  }
  TW_PTX void find(const Arguments& given, const AttentionTile& tile) {
    is_there_ = exist_ && key_ >= tile.first_block * kKeys && key_ < tile.kv_len;
    if (is_there_ && given.table) outer_ = given.table(tile.batch, page_);
  }

  AttentionScales from_;
  bool exist_, is_there_;
  int kv_head_, key_, row_, outer_;
  int page_ = 0, pages_back_ = 0, rows_back_ = kKeys;  // from a block to the one before
  float loaded_;
};

}  // namespace tw::kernels
