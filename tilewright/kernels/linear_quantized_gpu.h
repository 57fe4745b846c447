// linear_quantized on a GPU. Phase 0 packs the tokens in tiles of eight, the second operands of the
// matrix instruction, with their scales; phase 1 is one program per stripe of panels and group of
// tokens. Sums of the parts of k are added in order, whoever has them: a row's bits depend on K
// alone.
#pragma once

#include "tilewright/kernels/linear_quantized_tile_gpu.h"
#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/linear_quantized_dot_gpu.h"
#endif

namespace tw::kernels {

/// How a call is cut; rows are the tokens' digits. K is summed in parts. Where there is little to
/// do, the warps of a program have two panels and a part each; where there is more, eight panels,
/// and all parts of k one after the other, so that more tokens share what was taken apart.
struct QuantizedGpuSchedule {
  static constexpr int kWarps = QuantizedTile::kWarps, kThreads = kWarps * 32;
  static constexpr int64_t kColumns = 8192;  // that make a plan have so many threads
  static constexpr int kTile = QuantizedTile::kRows;
  static constexpr int kParts = 4;         // of k
  static constexpr int64_t kSpan = 8;      // blocks of a program of phase 0
  static constexpr int64_t kEnough = 192;  // programs, of a GPU

  int64_t rows, blocks, panels;
  QuantizedCompute compute;

  TW_INLINE int64_t tiles() const { return (rows + kTile - 1) / kTile; }
  TW_INLINE int64_t spans() const { return (blocks + kSpan - 1) / kSpan; }
  TW_INLINE bool is_wide() const {
    const int64_t programs = (tiles() + QuantizedTile::kMost - 1) / QuantizedTile::kMost * panels;
    return compute != QuantizedCompute::kF32 && tiles() > 2 && programs >= kEnough * kWarps;
  }
  /// Panels of a program, and tiles.
  TW_INLINE int stripe() const { return is_wide() ? kWarps : kWarps / kParts; }
  TW_INLINE int tiles_of() const {
    return is_wide() ? QuantizedTile::kMost : compute == QuantizedCompute::kF32 ? 1 : 2;
  }
  TW_INLINE int64_t groups() const { return (tiles() + tiles_of() - 1) / tiles_of(); }
  TW_INLINE int64_t stripes() const { return (panels + stripe() - 1) / stripe(); }
  TW_INLINE int record_bytes() const { return QuantizedTile::record_bytes(compute); }
  TW_INLINE int64_t tile_bytes() const { return blocks * record_bytes(); }
  /// Blocks of a part: whole chunks.
  TW_INLINE int64_t part() const { return (blocks + 8 * kParts - 1) / (8 * kParts) * 8; }

  TW_INLINE tile::Plan plan() const {
    tile::Plan plan;
    plan.phases = 2;
    plan.grid[0] = tiles() * kTile * spans();
    plan.grid[1] = groups() * stripes();
    plan.workspace_bytes = tiles() * tile_bytes();
    plan.scratch_bytes = QuantizedTile::kRingBytes;
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
    const int64_t row = index_quotient(p.index(), s.spans());
    const int warp = p.thread() / 32, lane = p.thread() % 32;
    const int64_t first = (p.index() - row * s.spans()) * s.kSpan;
    const int64_t last = first + s.kSpan < s.blocks ? first + s.kSpan : s.blocks;
    char* const tile = p.workspace<char>() + row / s.kTile * s.tile_bytes();
    const int64_t token = row / digits;
    const int digit = int(row % digits);
    const bool has_halves = quantized_format(DType(header().dtype)).groups() == 2;
    for (int64_t b = first + warp; b < last; b += s.kWarps) {
      float x = 0;  // of rows that fill up the last tile
      if (row < s.rows) x = float(given.x(token, b * kQuantizedBlock + lane));
      QuantizedRow to{tile + b * s.record_bytes(), int(row % s.kTile)};
      if (s.compute == QuantizedCompute::kF32)
        to.put(x);
      else if (s.compute == QuantizedCompute::kBf16)
        to.put(bf16(x));
      else
        to.round(x, digit, has_halves);
    }
  }
  TW_PTX QuantizedHeader header() const {
    return *reinterpret_cast<const QuantizedHeader*>(given.packed.data);
  }
  /// Whether the header is what the other arguments say, which the host cannot look at; how many
  /// bytes follow it, QuantizedRing checks, which knows the format.
  TW_PTX bool fits(const QuantizedHeader& h) const {
    const int64_t rows = given.out.cols * (given.is_gated() ? 2 : 1);
    return h.magic == h.kMagic && h.version == h.kVersion && h.k == given.x.cols &&
           h.rows == rows && (h.is_gated != 0) == given.is_gated() &&
           quantized_format(DType(h.dtype)).low_bits != 0;
  }

  TW_PTX void multiply(P p) const {
    const QuantizedHeader h = header();
    tile::require_index(p, fits(h) ? 0 : 1, 1);
    const int stripe = s.stripe(), at_once = s.kWarps / stripe;
    const int64_t group = index_quotient(p.index(), s.stripes());
    const int64_t first = (p.index() - group * s.stripes()) * stripe, tile = group * s.tiles_of();
    const int64_t rest = s.tiles() - tile;
    const int warp = tile::cuda::uniform(p.thread() / 32);
    // Warps without a panel of their own have the last one; nobody asks for their sums.
    const int64_t panel = first + warp % stripe;
    const QuantizedWork work{given.packed.data,
                             given.packed.size(0),
                             int(panel < s.panels ? panel : s.panels - 1),
                             int(s.panels),
                             p.workspace<char>() + tile * s.tile_bytes(),
                             s.tile_bytes(),
                             int(s.blocks),
                             int(s.part()),
                             warp / stripe * (s.kParts / at_once),
                             s.kParts / at_once,
                             int(rest < s.tiles_of() ? rest : s.tiles_of()),
                             stripe};
    multiply_quantized(DType(h.dtype), s.compute, work);
    p.sync();
    const int64_t row = tile * s.kTile;
    const int rows = work.tiles * s.kTile;
    const int tokens = int(s.rows - row < rows ? s.rows - row : rows) / digits;
    const int columns = (given.is_gated() ? stripe / 2 : stripe) * kQuantizedRows;
    const int64_t column = first / stripe * columns;
    for (int i = p.thread(); i < tokens * columns; i += s.kThreads) {
      const int t = i / columns, c = i % columns;
      if (column + c < given.out.cols) finish(work, row / digits + t, t, column + c, c);
    }
  }

  /// The sum of a token of the group and a row of a panel of the stripe.
  TW_PTX float sum_of(const QuantizedWork& work, int token, int panel, int row) const {
    float sum = 0;
    for (int digit = 0; digit < digits; ++digit) {
      float of_digit = 0;
      for (int warp = panel; warp < s.kWarps; warp += work.stripe)
        of_digit += sums_of(work, warp, token * digits + digit)[row];
      sum += of_digit;
    }
    return sum;
  }
  TW_PTX void finish(const QuantizedWork& work, int64_t token, int t, int64_t column, int c) const {
    const int panel = c / kQuantizedRows, row = c % kQuantizedRows;
    float v = sum_of(work, t, given.is_gated() ? 2 * panel : panel, row);
    if (given.is_gated()) {
      v = given.activation == Linear::kSiluAndMul ? Silu{}(v) : GeluTanh{}(v);
      v *= sum_of(work, t, 2 * panel + 1, row);
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
