// Activations as int8 for quantised weights: one scale per 32 consecutive k,
//
//   d = max |x| / 127,   q = round(x * (127 / max |x|)) in [-127, 127], ties to even
//
// Finer than ggml's Q8_0 and Q8_1 only in that d stays float32. A block with a NaN or Inf gets
// d = NaN or Inf and q = 0, so that its products are NaN; a block whose 127 / max |x| would leave
// float32 counts as zeros.
//
// Tokens are packed in tiles, as the register tiles of the matrix multiplication take them. Per
// block of 32 k, a tile of n tokens holds
//
//   q     int8[n][32]
//   d     f32[n]
//   sums  [groups][n], 4 bytes each: f32 d * sum(q), or i32 -offset * sum(q)     (ActivationSpec)
#pragma once

#include "tilewright/kernels/linear_quantized_format.h"
#include "tilewright/tile/cpu/dot8.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// What a weight format needs to know about the codes of a block.
struct ActivationSpec {
  int groups;    // sums per block: over 32 or 2 x 16 codes
  bool has_min;  // sums are d * sum(q), to go with the weights' min; otherwise -offset * sum(q)
  int offset;

  TW_INLINE constexpr int64_t block_bytes() const {
    return kQuantizedBlock + 4 + 4 * groups;
  }  // one token
};

/// Where block `block` of one token lies in its tile.
struct ActivationSlot {
  int8_t* codes;
  float* scale;
  uint8_t* sums;
  int64_t sum_stride;  // bytes from one group to the next

  TW_INLINE static ActivationSlot at(uint8_t* tile, const ActivationSpec& spec, int tokens,
                                     int slot, int64_t block) {
    uint8_t* record = tile + block * spec.block_bytes() * tokens;
    uint8_t* scales = record + kQuantizedBlock * tokens;
    return {reinterpret_cast<int8_t*>(record) + kQuantizedBlock * slot,
            reinterpret_cast<float*>(scales) + slot, scales + 4 * (tokens + slot), 4 * tokens};
  }
};

namespace detail {

/// 32 consecutive elements of a row.
template <class V, class T>
TW_INLINE void load_block(const View<const T, 1>& row, int64_t k, V (&x)[32 / tile::kLanesOf<V>]) {
  constexpr int kN = tile::kLanesOf<V>;
  TW_UNROLL
  for (int i = 0; i < 32 / kN; ++i) {
    const T* from = row.data + (k + i * kN) * row.stride(0);
    x[i] = row.stride(0) == 1 ? tile::load<V>(from) : tile::gather<V>(from, row.stride(0));
  }
}

}  // namespace detail

/// Quantises 32 float32 values, the vectors x, into a slot. Leaves in x what the codes lack.
template <class P>
TW_INLINE void quantize_block(P, typename P::f32 (&x)[32 / P::template kLanes<float>],
                              const ActivationSpec& spec, const ActivationSlot& to) {
  using F32 = typename P::f32;
  using I32 = typename P::i32;
  constexpr int kVecs = 32 / P::template kLanes<float>;
  constexpr float kSmallest = 1e-36f;  // above 127 / FLT_MAX

  I32 largest{};  // as bits: a NaN is larger than anything else
  TW_UNROLL
  for (int i = 0; i < kVecs; ++i)
    largest = tile::max(largest, tile::bit_cast<I32>(x[i]) & 0x7fffffff);
  const float range = __builtin_bit_cast(float, tile::max_lanes(largest));
  const float d = range * (1.0f / 127.0f);

  I32 q[kVecs];
  int32_t sums[2] = {0, 0};
  const float inverse = range > kSmallest ? 127.0f / range : 0.0f;
  if (inverse != 0.0f) [[likely]] {
    TW_UNROLL
    for (int i = 0; i < kVecs; ++i) {
      const F32 rounded = tile::round(x[i] * tile::splat<F32>(inverse));
      q[i] = tile::convert<I32>(rounded);
      x[i] = tile::fma(tile::splat<F32>(-d), rounded, x[i]);
    }
    I32 half[2] = {q[0], q[kVecs / 2]};
    TW_UNROLL
    for (int i = 1; i < kVecs / 2; ++i) {
      half[0] += q[i];
      half[1] += q[kVecs / 2 + i];
    }
    sums[0] = tile::add_lanes(spec.groups == 1 ? half[0] + half[1] : half[0]);
    if (spec.groups == 2) sums[1] = tile::add_lanes(half[1]);
  } else {
    for (I32& v : q) v = I32{};
  }
  tile::store_i8(to.codes, q);
  *to.scale = d;
  for (int g = 0; g < spec.groups; ++g) {
    const float scaled = d * float(sums[g]);
    const int32_t start = -spec.offset * sums[g];
    __builtin_memcpy(to.sums + g * to.sum_stride,
                     spec.has_min ? static_cast<const void*>(&scaled) : &start, 4);
  }
}

/// Quantises the blocks [begin, end) of a row as token `slot` of a tile of `tokens`; the second of
/// two digits, of what the first lacks, is token slot + 1.
template <int kDigits, class P, class T>
TW_INLINE void quantize_row(P p, const View<const T, 1>& row, int64_t begin, int64_t end,
                            const ActivationSpec& spec, uint8_t* tile, int tokens, int slot) {
  for (int64_t b = begin; b < end; ++b) {
    typename P::f32 x[32 / P::template kLanes<float>];
    detail::load_block(row, b * kQuantizedBlock, x);
    TW_UNROLL
    for (int digit = 0; digit < kDigits; ++digit)
      quantize_block(p, x, spec, ActivationSlot::at(tile, spec, tokens, slot + digit, b));
  }
}

}  // namespace tw::kernels
