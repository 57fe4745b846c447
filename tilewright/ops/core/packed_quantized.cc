#include "tilewright/ops/core/packed_quantized.h"

#include <cstring>
#include <string>

#include "tilewright/core/checked.h"
#include "tilewright/kernels/pack_quantized.h"

namespace tw::ops {
namespace {

using kernels::QuantizedFormat;
using kernels::QuantizedHeader;
using kernels::ScaleKind;
using kernels::packing::fields;
using kernels::packing::word;
constexpr int kR = kernels::kQuantizedRows;

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

int64_t packed_quantized_bytes(DType dtype, int64_t rows, int64_t k, bool is_gated) {
  const QuantizedFormat layout = kernels::quantized_format(dtype);
  const int64_t blocks = k / 32;
  const int64_t panels =
      kernels::quantized_panels(checked_add(rows, 2 * kR, "rows") - 2 * kR, is_gated);
  const int64_t panel_bytes = checked_add(
      checked_mul(ceil_div(blocks, layout.chunk_blocks), layout.scale_bytes, "panel bytes"),
      checked_mul(blocks, layout.block_bytes(), "panel bytes"), "panel bytes");
  return checked_add(sizeof(QuantizedHeader), checked_mul(panels, panel_bytes, "packed bytes"));
}

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

  row_bytes_ = checked_mul(k / format.block_elements, format.block_bytes, "row bytes");
  const int64_t bytes = packed_quantized_bytes(dtype, rows, k, gated);
  panels_ = kernels::quantized_panels(rows, gated);
  packed_ = {dtype, rows, k, gated, Tensor::empty({bytes}, DType::kU8, arena)};
  const QuantizedHeader header = kernels::quantized_header(dtype, rows, k, gated, bytes);
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
  const int64_t blocks = packed_.k / 32;
  const int64_t panel_bytes = kernels::quantized_format(packed_.dtype).panel_bytes(blocks);
  uint8_t* const panels = static_cast<uint8_t*>(packed_.bytes.ref().data) + sizeof(QuantizedHeader);
  for (int64_t i = begin; i < end; ++i) {
    kernels::packing::BlockRow rows[kR];
    for (int r = 0; r < kR; ++r) rows[r] = {row(i, r), 1};
    kernels::pack_quantized_panel(packed_.dtype, rows, blocks, panels + i * panel_bytes);
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
