#include "tilewright/ops/core/packed_quantized.h"

#include <cstring>
#include <string>

#include "tilewright/core/block_formats.h"
#include "tilewright/core/checked.h"

namespace tw::ops {
namespace {

using kernels::QuantizedFormat;
using kernels::QuantizedHeader;
using kernels::ScaleKind;
constexpr int kR = kernels::kQuantizedRows;

// Codes travel four at a time, one per byte of a word: word g of a sub-block holds its codes
// [4 g, 4 g + 4), as a k-group of a panel does.
uint32_t word(const void* bytes, int i) {
  uint32_t out;
  std::memcpy(&out, static_cast<const uint8_t*>(bytes) + 4 * i, 4);
  return out;
}
uint32_t fields(uint32_t bytes, int shift, uint32_t mask) {
  return (bytes >> shift) & (mask * 0x01010101u);
}
/// Bit i of a nibble to byte i.
uint32_t spread(uint32_t nibble) {
  return (nibble * 0x00204081u) & 0x01010101u;
}
uint32_t nibbles32(const uint8_t (&qs)[16], int g) {
  return fields(word(qs, g % 4), g / 4 * 4, 15);
}

// Word g of the codes of sub-block `sub` (32 weights).
uint32_t codes(const Block<DType::kQ4_0>& b, int, int g) {
  return nibbles32(b.qs, g);
}
uint32_t codes(const Block<DType::kQ4_1>& b, int, int g) {
  return nibbles32(b.qs, g);
}
uint32_t codes(const Block<DType::kIq4Nl>& b, int, int g) {
  return nibbles32(b.qs, g);
}
uint32_t codes(const Block<DType::kMxfp4>& b, int, int g) {
  return nibbles32(b.qs, g);
}
uint32_t codes(const Block<DType::kQ5_0>& b, int, int g) {
  return nibbles32(b.qs, g) | spread((word(b.qh, 0) >> (4 * g)) & 15) << 4;
}
uint32_t codes(const Block<DType::kQ5_1>& b, int, int g) {
  return nibbles32(b.qs, g) | spread((word(b.qh, 0) >> (4 * g)) & 15) << 4;
}
uint32_t codes(const Block<DType::kQ8_0>& b, int, int g) {
  return word(b.qs, g);
}
uint32_t codes(const Block<DType::kQ2K>& b, int sub, int g) {
  return fields(word(b.qs, 8 * (sub / 4) + g), 2 * (sub % 4), 3);
}
uint32_t codes(const Block<DType::kQ3K>& b, int sub, int g) {
  return fields(word(b.qs, 8 * (sub / 4) + g), 2 * (sub % 4), 3) | fields(word(b.hmask, g), sub, 1)
                                                                       << 2;
}
uint32_t codes(const Block<DType::kQ4K>& b, int sub, int g) {
  return fields(word(b.qs, 8 * (sub / 2) + g), 4 * (sub % 2), 15);
}
uint32_t codes(const Block<DType::kQ5K>& b, int sub, int g) {
  return fields(word(b.qs, 8 * (sub / 2) + g), 4 * (sub % 2), 15) | fields(word(b.qh, g), sub, 1)
                                                                        << 4;
}
uint32_t codes(const Block<DType::kQ6K>& b, int sub, int g) {
  const int half = sub / 4, run = sub % 4;
  return fields(word(b.ql, 16 * half + 8 * (run % 2) + g), 4 * (run / 2), 15) |
         fields(word(b.qh, 8 * half + g), 2 * run, 3) << 4;
}
uint32_t codes(const Block<DType::kIq4Xs>& b, int sub, int g) {
  return fields(word(b.qs, 4 * sub + g % 4), g / 4 * 4, 15);
}

/// Row r's words of the planes of one block at `to`.
inline void store_codes(const QuantizedFormat& f, const uint32_t (&w)[8], uint8_t* to, int r) {
  const auto put = [&](int plane, uint32_t value) {
    std::memcpy(to + 64 * plane + 4 * r, &value, 4);
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

/// Word g of row r of a block: the inverse of store_codes.
uint32_t load_codes(const QuantizedFormat& f, const uint8_t* from, int r, int g) {
  const auto get = [&](int plane) { return word(from + 64 * plane, r); };
  const int low = f.low_bits;
  uint32_t out = 0;
  if (low == 8)
    out = get(g);
  else if (low == 4)
    out = fields(get(g % 4), g / 4 * 4, 15);
  else
    out = fields(get(g / 4), 2 * (g % 4), 3);
  if (f.high_bits == 2) out |= fields(get(low + g / 4), 2 * (g % 4), 3) << low;
  if (f.high_bits == 1) out |= fields(get(low), g, 1) << low;
  return out;
}

// Scales: `to` is a chunk, i the number of the block (32 or 256 weights) within it.
template <class V>
void put(uint8_t* to, int index, V value) {
  std::memcpy(to + index * int(sizeof(V)), &value, sizeof(V));
}
template <class B>
  requires requires(B b) { b.m; }
void store_scales(const B& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  put(to, kR + r, b.m);
}
void store_scales(const Block<DType::kMxfp4>& b, uint8_t* to, int i, int r) {
  to[kR * i + r] = b.e;
}
template <class B>
  requires requires(B b) { b.d; } && (sizeof(B) < 64) && (!requires(B b) { b.m; })
void store_scales(const B& b, uint8_t* to, int i, int r) {
  put(to, kR * i + r, b.d);
}
template <class B>
void store_k_scales(const B& b, uint8_t* to, int r) {
  put(to, r, b.d);
  put(to, kR + r, b.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin pair = k_scale_min(b.scales, s);
    to[64 + kR * s + r] = pair.scale;
    to[64 + 8 * kR + kR * s + r] = pair.min;
  }
}
void store_scales(const Block<DType::kQ4K>& b, uint8_t* to, int, int r) {
  store_k_scales(b, to, r);
}
void store_scales(const Block<DType::kQ5K>& b, uint8_t* to, int, int r) {
  store_k_scales(b, to, r);
}
void store_scales(const Block<DType::kQ2K>& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  put(to, kR + r, b.dmin);
  for (int s = 0; s < 16; ++s) to[64 + kR * s + r] = b.scales[s];
}
void store_scales(const Block<DType::kQ3K>& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  for (int s = 0; s < 16; ++s) to[32 + kR * s + r] = uint8_t(q3_k_scale(b.scales, s));
}
void store_scales(const Block<DType::kQ6K>& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  for (int s = 0; s < 16; ++s) to[32 + kR * s + r] = uint8_t(b.scales[s]);
}
void store_scales(const Block<DType::kIq4Xs>& b, uint8_t* to, int, int r) {
  put(to, r, b.d);
  for (int s = 0; s < 8; ++s) {
    const int low = (b.scales_l[s / 2] >> (4 * (s % 2))) & 15;
    const int high = (b.scales_h >> (2 * s)) & 3;
    to[32 + kR * s + r] = uint8_t((low | (high << 4)) - 32);
  }
}

/// One panel from the blocks of its rows; a null row stays as it is. Block by block, so that the
/// lines which the rows share are written while they are in L1.
template <DType kType>
void pack_panel(const uint8_t* const (&rows)[kR], int64_t blocks, uint8_t* panel) {
  constexpr QuantizedFormat kF = kernels::quantized_format(kType);
  constexpr int kSubs = info(kType).block_elements / 32;
  Block<kType> block;
  for (int64_t b = 0; b < blocks; b += kSubs) {
    uint8_t* chunk = panel + b / kF.chunk_blocks * kF.chunk_bytes();
    const int in_chunk = int(b % kF.chunk_blocks);
    for (int r = 0; r < kR && rows[r] != nullptr; ++r) {
      std::memcpy(&block, rows[r] + b / kSubs * int64_t(sizeof(block)), sizeof(block));
      store_scales(block, chunk, in_chunk, r);
      for (int sub = 0; sub < kSubs; ++sub) {
        uint32_t w[8];
        for (int g = 0; g < 8; ++g) w[g] = codes(block, sub, g);
        store_codes(kF, w, chunk + kF.scale_bytes + (in_chunk + sub) * kF.block_bytes(), r);
      }
    }
  }
}

/// Scale and min of 16-row group `group` of a chunk, row r: what the kernels read.
struct RowScale {
  float scale, min;
};
RowScale load_scale(const QuantizedFormat& f, const uint8_t* chunk, int group, int r) {
  const auto half = [&](int i) {
    return float(f16::from_bits(uint16_t(chunk[2 * i] | (chunk[2 * i + 1] << 8))));
  };
  const auto byte = [&](int at) { return chunk[at + kR * group + r]; };
  switch (f.scales) {
    case ScaleKind::kHalf:
      return {half(kR * group + r), 0};
    case ScaleKind::kHalfMin:
      return {half(r), half(kR + r)};
    case ScaleKind::kSuper32Min:
      return {half(r) * float(byte(64)), half(kR + r) * -float(byte(64 + 8 * kR))};
    case ScaleKind::kSuper16Min:
      return {half(r) * float(byte(64) & 15), half(kR + r) * -float(byte(64) >> 4)};
    case ScaleKind::kSuper16:
    case ScaleKind::kSuper32:
      return {half(r) * float(int8_t(byte(32))), 0};
    case ScaleKind::kExponent:
      return {e8m0_half(byte(0)), 0};
  }
  return {};
}

int value_of(const QuantizedFormat& f, uint8_t code) {
  switch (f.codes) {
    case kernels::CodeKind::kUnsigned:
      return code;
    case kernels::CodeKind::kSigned:
      return int8_t(code);
    case kernels::CodeKind::kIq4Nl:
      return kIq4NlValues[code];
    case kernels::CodeKind::kMxfp4:
      return kMxfp4Values[code] + f.offset;
  }
  return 0;
}

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorKind::kInvalidArgument, "pack_quantized: " + message);
}

}  // namespace

QuantizedPacker::QuantizedPacker(DType dtype, std::span<const BlockRows> parts, int64_t k,
                                 bool gated, Arena* arena)
    : parts_(parts.begin(), parts.end()) {
  if (!is_block(dtype)) fail("dtype is " + std::string(name(dtype)) + ", which is no block format");
  const DTypeInfo& format = info(dtype);
  if (k < 0 || k % format.block_elements != 0)
    fail("k = " + std::to_string(k) + ", but " + std::string(format.name) + " comes in blocks of " +
         std::to_string(format.block_elements));
  int64_t rows = 0;
  for (const BlockRows& part : parts_) {
    if (part.rows < 0) fail("rows = " + std::to_string(part.rows) + " is negative");
    rows = checked_add(rows, part.rows, "rows");
  }
  if (gated && (parts_.size() != 2 || parts_[0].rows != parts_[1].rows))
    fail("a gated weight has two parts of equal rows");

  const QuantizedFormat layout = kernels::quantized_format(dtype);
  const int64_t blocks = k / 32;
  row_bytes_ = checked_mul(k / format.block_elements, format.block_bytes, "row bytes");
  panels_ = kernels::quantized_panels(checked_add(rows, 2 * kR, "rows") - 2 * kR, gated);
  const int64_t panel_bytes = checked_add(
      checked_mul(ceil_div(blocks, layout.chunk_blocks), layout.scale_bytes, "panel bytes"),
      checked_mul(blocks, layout.block_bytes(), "panel bytes"), "panel bytes");
  const int64_t bytes =
      checked_add(sizeof(QuantizedHeader), checked_mul(panels_, panel_bytes, "packed bytes"));
  packed_ = {dtype, rows, k, gated, Tensor::empty({bytes}, DType::kU8, arena)};
  QuantizedHeader header{};
  header.magic = QuantizedHeader::kMagic;
  header.version = QuantizedHeader::kVersion;
  header.dtype = uint8_t(dtype);
  header.is_gated = gated;
  header.rows = rows;
  header.k = k;
  header.total_bytes = bytes;
  std::memcpy(packed_.bytes.ref().data, &header, sizeof(header));
}

const uint8_t* QuantizedPacker::row(int64_t panel, int64_t r) const {
  if (packed_.is_gated) {
    const BlockRows& part = parts_[size_t(panel % 2)];
    const int64_t at = panel / 2 * kR + r;
    return at < part.rows ? static_cast<const uint8_t*>(part.blocks) + at * row_bytes_ : nullptr;
  }
  int64_t at = panel * kR + r;
  for (const BlockRows& part : parts_) {
    if (at < part.rows) return static_cast<const uint8_t*>(part.blocks) + at * row_bytes_;
    at -= part.rows;
  }
  return nullptr;
}

void QuantizedPacker::pack(int64_t begin, int64_t end) const {
  const QuantizedFormat layout = kernels::quantized_format(packed_.dtype);
  const int64_t blocks = packed_.k / 32, panel_bytes = layout.panel_bytes(blocks);
  uint8_t* const panels = static_cast<uint8_t*>(packed_.bytes.ref().data) + sizeof(QuantizedHeader);
  const bool has_gaps = blocks % layout.chunk_blocks != 0 || layout.scales == ScaleKind::kSuper16 ||
                        layout.scales == ScaleKind::kSuper32;
  for (int64_t i = begin; i < end; ++i) {
    uint8_t* const panel = panels + i * panel_bytes;
    // Zero scales make the rows past the last one zero, and no byte stays undefined.
    if (row(i, kR - 1) == nullptr || has_gaps) std::memset(panel, 0, size_t(panel_bytes));
    const uint8_t* rows[kR];
    for (int r = 0; r < kR; ++r) rows[r] = row(i, r);
    switch (packed_.dtype) {
#define TW_CASE(id, ...)                        \
  case DType::id:                               \
    pack_panel<DType::id>(rows, blocks, panel); \
    break;
      TW_FOR_EACH_BLOCK_DTYPE(TW_CASE)
#undef TW_CASE
      default:
        break;
    }
  }
}

PackedQuantized pack_quantized(DType dtype, std::span<const BlockRows> parts, int64_t k) {
  const QuantizedPacker packer(dtype, parts, k);
  packer.pack(0, packer.panels());
  return packer.packed();
}

PackedQuantized pack_quantized(DType dtype, const void* blocks, int64_t rows, int64_t k) {
  const BlockRows part{blocks, rows};
  return pack_quantized(dtype, std::span(&part, 1), k);
}

PackedQuantized pack_gated(DType dtype, const void* gate, const void* up, int64_t rows, int64_t k) {
  const BlockRows parts[] = {{gate, rows}, {up, rows}};
  const QuantizedPacker packer(dtype, parts, k, true);
  packer.pack(0, packer.panels());
  return packer.packed();
}

PackedQuantizedCheck check_packed_quantized(const uint8_t* data, int64_t bytes) {
  PackedQuantizedCheck out;
  QuantizedHeader& h = out.header;
  const auto no = [&](const std::string& reason) {
    out.reason = "packed " + reason;
    return out;
  };
  if (data == nullptr || bytes < int64_t(sizeof(h)))
    return no("has " + std::to_string(bytes) + " bytes, fewer than its header");
  std::memcpy(&h, data, sizeof(h));
  if (h.magic != QuantizedHeader::kMagic || h.version != QuantizedHeader::kVersion)
    return no("does not begin as pack_quantized's results do");
  if (h.dtype >= kDTypeCount || !is_block(DType(h.dtype)) || h.is_gated > 1)
    return no("names dtype " + std::to_string(h.dtype) + ", which is no block format");
  const DType dtype = DType(h.dtype);
  if (h.rows < 0 || h.k < 0 || h.k % info(dtype).block_elements != 0 ||
      (h.is_gated && h.rows % 2 != 0))
    return no("claims an impossible shape [" + std::to_string(h.rows) + ", " + std::to_string(h.k) +
              "] of " + std::string(name(dtype)));
  // A panel is at least as large as its k / 32, and rows fit into as many panels: no overflow
  // below.
  const QuantizedFormat layout = kernels::quantized_format(dtype);
  int64_t need = 0;
  const bool fits = h.k / 32 <= bytes && h.rows < (int64_t{1} << 62) &&
                    !__builtin_mul_overflow(layout.panel_bytes(h.k / 32),
                                            kernels::quantized_panels(h.rows, h.is_gated), &need) &&
                    need == bytes - int64_t(sizeof(h));
  if (!fits || h.total_bytes != bytes)
    return no("has " + std::to_string(bytes) + " bytes, which is not what a weight [" +
              std::to_string(h.rows) + ", " + std::to_string(h.k) + "] of " +
              std::string(name(dtype)) + " takes");
  return out;
}

void unpack_row(const uint8_t* data, int64_t row, float* out) {
  QuantizedHeader h;
  std::memcpy(&h, data, sizeof(h));
  const QuantizedFormat f = kernels::quantized_format(DType(h.dtype));
  const int64_t blocks = h.k / 32, half = h.rows / 2;
  const int64_t panel = !h.is_gated  ? row / kR
                        : row < half ? row / kR * 2
                                     : (row - half) / kR * 2 + 1;
  const int r = int((h.is_gated && row >= half ? row - half : row) % kR);
  const uint8_t* at = data + sizeof(h) + panel * f.panel_bytes(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    const uint8_t* chunk = at + b / f.chunk_blocks * f.chunk_bytes();
    const int in_chunk = int(b % f.chunk_blocks);
    for (int g = 0; g < 8; ++g) {
      const uint32_t w = load_codes(f, chunk + f.scale_bytes + in_chunk * f.block_bytes(), r, g);
      const RowScale s = load_scale(f, chunk, in_chunk * f.groups() + g * 4 / f.group, r);
      for (int i = 0; i < 4; ++i) {
        const float product = s.scale * float(value_of(f, uint8_t(w >> (8 * i))) - f.offset);
        out[32 * b + 4 * g + i] = f.has_min ? product + s.min : product;
      }
    }
  }
}

}  // namespace tw::ops
