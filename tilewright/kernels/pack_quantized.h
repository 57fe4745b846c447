// A block-quantised weight in panels, as linear_quantized_format.h says: one program per panel; the
// first writes the header. Codes and scales move, no value changes.
#pragma once

#include "tilewright/core/block_formats.h"
#include "tilewright/kernels/linear_quantized_format.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {
namespace packing {

constexpr int kR = kQuantizedRows;

// Codes travel four at a time, one per byte of a word: word g of a sub-block holds its codes
// [4 g, 4 g + 4), as a k-group of a panel does.
TW_INLINE uint32_t word(const void* bytes, int i) {
  uint32_t out;
  __builtin_memcpy(&out, static_cast<const uint8_t*>(bytes) + 4 * i, 4);
  return out;
}
TW_INLINE uint32_t fields(uint32_t bytes, int shift, uint32_t mask) {
  return (bytes >> shift) & (mask * 0x01010101u);
}
/// Bit i of a nibble to byte i.
TW_INLINE uint32_t spread(uint32_t nibble) {
  return (nibble * 0x00204081u) & 0x01010101u;
}
TW_INLINE uint32_t nibbles32(const uint8_t (&qs)[16], int g) {
  return fields(word(qs, g % 4), g / 4 * 4, 15);
}

// Word g of the codes of sub-block `sub` (32 weights).
TW_INLINE uint32_t codes(const Block<DType::kQ4_0>& b, int, int g) {
  return nibbles32(b.qs, g);
}
TW_INLINE uint32_t codes(const Block<DType::kQ4_1>& b, int, int g) {
  return nibbles32(b.qs, g);
}
TW_INLINE uint32_t codes(const Block<DType::kIq4Nl>& b, int, int g) {
  return nibbles32(b.qs, g);
}
TW_INLINE uint32_t codes(const Block<DType::kMxfp4>& b, int, int g) {
  return nibbles32(b.qs, g);
}
TW_INLINE uint32_t codes(const Block<DType::kQ5_0>& b, int, int g) {
  return nibbles32(b.qs, g) | spread((word(b.qh, 0) >> (4 * g)) & 15) << 4;
}
TW_INLINE uint32_t codes(const Block<DType::kQ5_1>& b, int, int g) {
  return nibbles32(b.qs, g) | spread((word(b.qh, 0) >> (4 * g)) & 15) << 4;
}
TW_INLINE uint32_t codes(const Block<DType::kQ8_0>& b, int, int g) {
  return word(b.qs, g);
}
TW_INLINE uint32_t codes(const Block<DType::kQ2K>& b, int sub, int g) {
  return fields(word(b.qs, 8 * (sub / 4) + g), 2 * (sub % 4), 3);
}
TW_INLINE uint32_t codes(const Block<DType::kQ3K>& b, int sub, int g) {
  return fields(word(b.qs, 8 * (sub / 4) + g), 2 * (sub % 4), 3) | fields(word(b.hmask, g), sub, 1)
                                                                       << 2;
}
TW_INLINE uint32_t codes(const Block<DType::kQ4K>& b, int sub, int g) {
  return fields(word(b.qs, 8 * (sub / 2) + g), 4 * (sub % 2), 15);
}
TW_INLINE uint32_t codes(const Block<DType::kQ5K>& b, int sub, int g) {
  return fields(word(b.qs, 8 * (sub / 2) + g), 4 * (sub % 2), 15) | fields(word(b.qh, g), sub, 1)
                                                                        << 4;
}
TW_INLINE uint32_t codes(const Block<DType::kQ6K>& b, int sub, int g) {
  const int half = sub / 4, run = sub % 4;
  return fields(word(b.ql, 16 * half + 8 * (run % 2) + g), 4 * (run / 2), 15) |
         fields(word(b.qh, 8 * half + g), 2 * run, 3) << 4;
}
TW_INLINE uint32_t codes(const Block<DType::kIq4Xs>& b, int sub, int g) {
  return fields(word(b.qs, 4 * sub + g % 4), g / 4 * 4, 15);
}

/// Row r's words of the planes of one block at `to`.
TW_INLINE void store_codes(const QuantizedFormat& f, const uint32_t (&w)[8], uint8_t* to, int r) {
  const auto put = [&](int plane, uint32_t value) {
    __builtin_memcpy(to + 64 * plane + 4 * r, &value, 4);
  };
  const auto pairs_of_bits = [&](int plane, int shift) {
    for (int p = 0; p < 2; ++p) {
      uint32_t out = 0;
      for (int i = 0; i < 4; ++i) out |= fields(w[4 * p + i], shift, 3) << (2 * i);
      put(plane + p, out);
    }
  };
  const int low = f.low_bits;
  if (low == 8) {
    for (int g = 0; g < 8; ++g) put(g, w[g]);
  } else if (low == 4) {
    for (int p = 0; p < 4; ++p) put(p, fields(w[p], 0, 15) | fields(w[p + 4], 0, 15) << 4);
  } else {
    pairs_of_bits(0, 0);
  }
  if (f.high_bits == 2) pairs_of_bits(low, low);
  if (f.high_bits == 1) {
    uint32_t out = 0;
    for (int g = 0; g < 8; ++g) out |= fields(w[g], low, 1) << g;
    put(low, out);
  }
}

// Scales: `to` is a chunk, i the number of the block (32 or 256 weights) within it.
template <class V>
TW_INLINE void put(uint8_t* to, int index, V value) {
  __builtin_memcpy(to + index * int(sizeof(V)), &value, sizeof(V));
}
template <class B>
  requires requires(B b) { b.m; }
TW_INLINE void store_scales(const B& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  put(to, kR + r, b.m);
}
TW_INLINE void store_scales(const Block<DType::kMxfp4>& b, uint8_t* to, int i, int r) {
  to[kR * i + r] = b.e;
}
template <class B>
  requires requires(B b) { b.d; } && (sizeof(B) < 64) && (!requires(B b) { b.m; })
TW_INLINE void store_scales(const B& b, uint8_t* to, int i, int r) {
  put(to, kR * i + r, b.d);
}
template <class B>
TW_INLINE void store_k_scales(const B& b, uint8_t* to, int r) {
  put(to, r, b.d);
  put(to, kR + r, b.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin pair = k_scale_min(b.scales, s);
    to[64 + kR * s + r] = pair.scale;
    to[64 + 8 * kR + kR * s + r] = pair.min;
  }
}
TW_INLINE void store_scales(const Block<DType::kQ4K>& b, uint8_t* to, int, int r) {
  store_k_scales(b, to, r);
}
TW_INLINE void store_scales(const Block<DType::kQ5K>& b, uint8_t* to, int, int r) {
  store_k_scales(b, to, r);
}
TW_INLINE void store_scales(const Block<DType::kQ2K>& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  put(to, kR + r, b.dmin);
  for (int s = 0; s < 16; ++s) to[64 + kR * s + r] = b.scales[s];
}
TW_INLINE void store_scales(const Block<DType::kQ3K>& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  for (int s = 0; s < 16; ++s) to[32 + kR * s + r] = uint8_t(q3_k_scale(b.scales, s));
}
TW_INLINE void store_scales(const Block<DType::kQ6K>& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  for (int s = 0; s < 16; ++s) to[32 + kR * s + r] = uint8_t(b.scales[s]);
}
TW_INLINE void store_scales(const Block<DType::kIq4Xs>& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  for (int s = 0; s < 8; ++s) {
    const int low = (b.scales_l[s / 2] >> (4 * (s % 2))) & 15;
    const int high = (b.scales_h >> (2 * s)) & 3;
    to[32 + kR * s + r] = uint8_t((low | (high << 4)) - 32);
  }
}

/// A row of blocks whose bytes are `stride` apart; `bytes` is null past the last row.
struct BlockRow {
  const uint8_t* bytes;
  int64_t stride;

  template <class B>
  TW_INLINE B block(int64_t index) const {
    constexpr int64_t kBytes = sizeof(B);
    B out;
    if (stride == 1) {
      __builtin_memcpy(&out, bytes + index * kBytes, sizeof(B));
      return out;
    }
    uint8_t gathered[sizeof(B)];
    for (int64_t i = 0; i < kBytes; ++i) gathered[i] = bytes[(index * kBytes + i) * stride];
    __builtin_memcpy(&out, gathered, sizeof(B));
    return out;
  }
};

/// One panel from the blocks of its rows; a null row stays as it is. Block by block, so that the
/// lines which the rows share are written while they are in L1.
template <DType kType>
TW_INLINE void pack_blocks(const BlockRow (&rows)[kR], int64_t blocks, uint8_t* panel) {
  constexpr QuantizedFormat kF = quantized_format(kType);
  constexpr int kSubs = info(kType).block_elements / kQuantizedBlock;
  for (int64_t b = 0; b < blocks; b += kSubs) {
    uint8_t* chunk = panel + b / kF.chunk_blocks * kF.chunk_bytes();
    const int in_chunk = int(b % kF.chunk_blocks);
    for (int r = 0; r < kR && rows[r].bytes != nullptr; ++r) {
      const auto block = rows[r].template block<Block<kType>>(b / kSubs);
      store_scales(block, chunk, in_chunk, r);
      for (int sub = 0; sub < kSubs; ++sub) {
        uint32_t w[8];
        for (int g = 0; g < 8; ++g) w[g] = codes(block, sub, g);
        store_codes(kF, w, chunk + kF.scale_bytes + (in_chunk + sub) * kF.block_bytes(), r);
      }
    }
  }
}

}  // namespace packing

/// One panel of a weight of the format `dtype`, of `blocks` blocks of 32 k.
TW_INLINE void pack_quantized_panel(DType dtype, const packing::BlockRow (&rows)[kQuantizedRows],
                                    int64_t blocks, uint8_t* panel) {
  const QuantizedFormat layout = quantized_format(dtype);
  const bool has_gaps = blocks % layout.chunk_blocks != 0 || layout.scales == ScaleKind::kSuper16 ||
                        layout.scales == ScaleKind::kSuper32;
  // Zero scales make the rows past the last one zero, and no byte stays undefined.
  if (rows[kQuantizedRows - 1].bytes == nullptr || has_gaps)
    __builtin_memset(panel, 0, static_cast<size_t>(layout.panel_bytes(blocks)));
  switch (dtype) {
#define TW_CASE(id, ...)                                  \
  case DType::id:                                         \
    packing::pack_blocks<DType::id>(rows, blocks, panel); \
    break;
    TW_FOR_EACH_BLOCK_DTYPE(TW_CASE)
#undef TW_CASE
    default:
      break;
  }
}

/// Of a block as it lies in a file. Not by info(), whose table every build would define.
struct BlockSize {
  int64_t elements, bytes;
};
TW_INLINE constexpr BlockSize block_size(DType dtype) {
  switch (dtype) {
#define TW_CASE(id, name, elements, bytes) \
  case DType::id:                          \
    return {elements, bytes};
    TW_FOR_EACH_BLOCK_DTYPE(TW_CASE)
#undef TW_CASE
    default:
      return {1, 1};
  }
}

struct PackQuantized {
  View<const uint8_t, 2> blocks;  // [n, bytes of a row]
  View<const uint8_t, 2> up;      // [n, bytes of a row], or absent: blocks are a gate then
  int format;                     // a block format, from the first one
  View<uint8_t, 1> packed;        // [P]

  TW_INLINE DType dtype() const { return DType(int(kFirstBlockDType) + format); }
  TW_INLINE int64_t k() const {
    const BlockSize block = block_size(dtype());
    return blocks.size(1) / block.bytes * block.elements;
  }
  TW_INLINE int64_t rows() const { return blocks.size(0) * (up ? 2 : 1); }
  TW_INLINE int64_t panels() const { return quantized_panels(rows(), bool(up)); }
  TW_INLINE int64_t panel_bytes() const {
    return quantized_format(dtype()).panel_bytes(k() / kQuantizedBlock);
  }

  template <tile::Program P>
  tile::Plan plan(const Machine&) const {
    return tile::plan_of(panels() > 0 ? panels() : 1, packed.stride(0) == 1 ? 0 : panel_bytes());
  }

  template <tile::Program P>
  void operator()(P p) const {
    const QuantizedHeader header = quantized_header(dtype(), rows(), k(), bool(up), packed.size(0));
    if (p.index() == 0) put(0, reinterpret_cast<const uint8_t*>(&header), sizeof header);
    if (p.index() >= panels()) return;
    packing::BlockRow from[kQuantizedRows];
    for (int r = 0; r < kQuantizedRows; ++r) from[r] = row(p.index(), r);
    const int64_t first = int64_t{sizeof header} + p.index() * panel_bytes();
    const bool in_place = packed.stride(0) == 1;
    uint8_t* const panel = in_place ? packed.data + first : p.template scratch<uint8_t>();
    pack_quantized_panel(dtype(), from, k() / kQuantizedBlock, panel);
    if (!in_place) put(first, panel, panel_bytes());
  }

 private:
  /// Panels of a gated weight alternate between its halves.
  TW_INLINE packing::BlockRow row(int64_t panel, int r) const {
    const View<const uint8_t, 2>& half = up && panel % 2 == 1 ? up : blocks;
    const int64_t at = (up ? panel / 2 : panel) * kQuantizedRows + r;
    if (at >= half.size(0)) return {nullptr, 1};
    return {half.data + at * half.stride(0), half.stride(1)};
  }
  TW_INLINE void put(int64_t first, const uint8_t* bytes, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) packed(first + i) = bytes[i];
  }
};

}  // namespace tw::kernels
