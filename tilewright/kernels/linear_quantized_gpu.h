// linear_quantized on a GPU. Phase 0 packs the tokens in tiles of eight, the second operands of the
// matrix instruction, with their scales; phase 1 is one program per pair of panels and group of
// tokens. Of its warps each has a panel and a part of k, whose sums are added in order: a row's
// bits depend on K alone.
#pragma once

#include "tilewright/kernels/linear_quantized_tile_gpu.h"
#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/linear_quantized_dot_gpu.h"
#endif

namespace tw::kernels {

/// How a call is cut; rows are the tokens' digits.
struct QuantizedGpuSchedule {
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  static constexpr int64_t kColumns = 8192;  // that make a plan have so many threads
  static constexpr int kTile = QuantizedTile::kRows;
  static constexpr int kGroup = kTile * QuantizedTile::kMost;  // rows of a program
  static constexpr int kParts = kWarps / 2;                    // of k
  static constexpr int64_t kSpan = 64;                         // blocks of a program of phase 0
  static constexpr int64_t kScratchBytes =
      int64_t{kWarps} * kGroup * kQuantizedRows * int64_t{sizeof(float)};

  int64_t rows, blocks, panels;
  QuantizedCompute compute;

  TW_INLINE int64_t tiles() const { return (rows + kTile - 1) / kTile; }
  TW_INLINE int64_t spans() const { return (blocks + kSpan - 1) / kSpan; }
  TW_INLINE int64_t groups() const { return (rows + kGroup - 1) / kGroup; }
  TW_INLINE int64_t pairs() const { return (panels + 1) / 2; }
  TW_INLINE int record_bytes() const { return QuantizedTile::record_bytes(compute); }
  TW_INLINE int64_t tile_bytes() const { return blocks * record_bytes(); }
  /// Blocks of a part: whole chunks.
  TW_INLINE int64_t part() const { return (blocks + 8 * kParts - 1) / (8 * kParts) * 8; }

  TW_INLINE tile::Plan plan() const {
    tile::Plan plan;
    plan.phases = 2;
    plan.grid[0] = tiles() * kTile * spans();
    plan.grid[1] = groups() * pairs();
    plan.workspace_bytes = tiles() * tile_bytes();
    plan.scratch_bytes = kScratchBytes;
    return plan.over(kColumns);
  }
};

}  // namespace tw::kernels

#if defined(__CUDACC__)
namespace tw::kernels {

/// `Linear` has LinearQuantized's arguments.
template <class Linear, class T>
struct LinearQuantizedGpu {
  using Schedule = QuantizedGpuSchedule;
  using P = tile::cuda::Program;
  const Linear& given;
  const Schedule s;
  const int digits;

  TW_PTX void operator()(P p) const {
    if (p.phase() == 0)
      pack_tokens(p);
    else
      multiply(p);
  }

 private:
  /// One span of a row, a warp a block.
  TW_PTX void pack_tokens(P p) const {
    const int64_t row = p.index() / s.spans();
    const int warp = p.thread() / 32, lane = p.thread() % 32;
    const int64_t first = p.index() % s.spans() * s.kSpan;
    const int64_t last = first + s.kSpan < s.blocks ? first + s.kSpan : s.blocks;
    char* const tile = p.workspace<char>() + row / s.kTile * s.tile_bytes();
    const int64_t token = row / digits;
    const int digit = int(row % digits);
    for (int64_t b = first + warp; b < last; b += s.kWarps) {
      float x = 0;  // of rows that fill up the last tile
      if (row < s.rows) x = float(given.x(token, b * kQuantizedBlock + lane));
      QuantizedRow to{tile + b * s.record_bytes(), int(row % s.kTile)};
      if (s.compute == QuantizedCompute::kF32)
        to.put(x);
      else if (s.compute == QuantizedCompute::kBf16)
        to.put(bf16(x));
      else
        to.round(x, digit, has_halves());
    }
  }
  TW_PTX QuantizedHeader header() const {
    return *reinterpret_cast<const QuantizedHeader*>(given.packed.data);
  }
  TW_PTX bool has_halves() const { return quantized_format(DType(header().dtype)).groups() == 2; }
  /// Whether the weights are what the other arguments say, which the host cannot look at.
  TW_PTX bool fits(const QuantizedHeader& h, int64_t panel_bytes) const {
    const int64_t rows = given.out.cols * (given.is_gated() ? 2 : 1);
    return h.magic == h.kMagic && h.version == h.kVersion && panel_bytes >= 0 &&
           h.k == given.x.cols && h.rows == rows && (h.is_gated != 0) == given.is_gated() &&
           given.packed.size(0) == int64_t{sizeof(h)} + s.panels * panel_bytes;
  }

  TW_PTX void multiply(P p) const {
    const QuantizedHeader h = header();
    const QuantizedFormat f = quantized_format(DType(h.dtype));
    const int64_t panel_bytes = f.low_bits == 0 ? -1 : f.panel_bytes(s.blocks);
    tile::require_index(p, fits(h, panel_bytes) ? 0 : 1, 1);
    const int64_t pair = p.index() % s.pairs(), first = p.index() / s.pairs() * s.kGroup;
    const int count = int(s.rows - first < s.kGroup ? s.rows - first : s.kGroup);
    const int warp = tile::cuda::uniform(p.thread() / 32);
    const int64_t panel = 2 * pair + warp % 2, begin = warp / 2 * s.part();
    const int64_t end = begin + s.part() < s.blocks ? begin + s.part() : s.blocks;
    float* const sums = p.scratch<float>();
    const QuantizedPart part{given.packed.data + sizeof h + panel * panel_bytes,
                             p.workspace<char>() + first / s.kTile * s.tile_bytes(),
                             s.tile_bytes(),
                             int(begin),
                             int(panel < s.panels ? end : begin),
                             (count + s.kTile - 1) / s.kTile,
                             sums + warp * s.kGroup * kQuantizedRows};
    multiply_quantized(DType(h.dtype), s.compute, part);
    p.sync();
    const int columns = given.is_gated() ? kQuantizedRows : 2 * kQuantizedRows;
    for (int i = p.thread(); i < count / digits * columns; i += s.kThreads) {
      const int t = i / columns, c = i % columns;
      const int64_t column = pair * columns + c;
      if (column < given.out.cols) finish(sums, first / digits + t, t, column, c);
    }
  }

  /// The sum of a token of the group and a row of the pair.
  TW_PTX float sum_of(const float* sums, int token, int row) const {
    float sum = 0;
    for (int digit = 0; digit < digits; ++digit) {
      float of_digit = 0;
      for (int part = 0; part < s.kParts; ++part) {
        const int warp = 2 * part + row / kQuantizedRows;
        of_digit += sums[(warp * s.kGroup + token * digits + digit) * kQuantizedRows +
                         row % kQuantizedRows];
      }
      sum += of_digit;
    }
    return sum;
  }
  TW_PTX void finish(const float* sums, int64_t token, int t, int64_t column, int c) const {
    float v = sum_of(sums, t, c);
    if (given.is_gated()) {
      v = given.activation == Linear::kSiluAndMul ? Silu{}(v) : GeluTanh{}(v);
      v *= sum_of(sums, t, c + kQuantizedRows);
    } else {
      if (given.bias) v += float(given.bias(column));
      with_activation(Activation(given.activation), [&](auto activate) { v = activate(v); });
    }
    if (given.residual) v += float(given.residual(token, column));
    given.out(token, column) = T(v);
  }
};

}  // namespace tw::kernels
#endif
