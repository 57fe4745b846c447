// The inner loops of linear_quantized. Whatever the schedule or the instruction set, one output
// sees the same operations: per group of k, in order,
//
//   acc = fma(scale_w * d_x, float(sum q_w q_x), acc)        the sum is an exact integer
//   acc = fma(min_w, d_x * sum q_x, acc)                     formats with a min
//
// so its bits do not depend on how many tokens or rows are computed at once.
#pragma once

#include "tilewright/kernels/linear_quantized_codes.h"
#include "tilewright/kernels/quantize_rows.h"

namespace tw::kernels {

template <class P>
TW_INLINE constexpr ActivationSpec activation_spec(QuantizedFormat f) {
  return {f.groups(), f.has_min, value_offset<P>(f)};
}

// ---- what both schedules do with a group of k ----------------------------------------------
/// The results of a tile, kTokens x kVecs vectors: registers, or the memory they came from.
template <class P, int kTokens, int kVecs, bool kKeep>
struct TileResults {
  using F = typename P::f32;
  static constexpr int kN = P::template kLanes<float>;
  float* memory;  // rows kResultStride apart
  F kept[kKeep ? kTokens : 1][kVecs];

  TW_INLINE float* at(int t, int v) const { return memory + t * kResultStride + v * kN; }
  TW_INLINE void load() {
    if constexpr (kKeep) {
      TW_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v) kept[t][v] = tile::load<F>(at(t, v));
      }
    }
  }
  TW_INLINE void store() {
    if constexpr (kKeep) {
      TW_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v) tile::store(at(t, v), kept[t][v]);
      }
    }
  }
  template <class Update>
  TW_INLINE void update(int t, int v, Update&& f) {
    if constexpr (kKeep)
      kept[t][v] = f(kept[t][v]);
    else
      tile::store(at(t, v), f(tile::load<F>(at(t, v))));
  }
};

/// dots[t][v] = start of t + weights(step, v) . x[t] over kSteps steps of four k, x being codes of
/// tokens one after the other. Starts are those at `starts`, if there are any.
template <class P, class Dot, int kSteps, int kTokens, int kVecs, class Weights>
TW_INLINE void dot_group(const uint8_t* x, const uint8_t* starts, Weights&& weights,
                         typename P::i32 (&dots)[kTokens][kVecs]) {
  using I = typename P::i32;
  constexpr int kRun = Dot::kSteps < kSteps ? Dot::kSteps : kSteps;
  const auto add = [&](int step, auto& sums) TW_INLINED {
    tile::Bytes<P> w[kVecs];
    TW_UNROLL
    for (int v = 0; v < kVecs; ++v) w[v] = weights(step, v);
    TW_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const auto codes = tile::splat4<P>(x + t * kQuantizedBlock + 4 * step);
      TW_UNROLL
      for (int v = 0; v < kVecs; ++v) sums[t][v] = Dot::add(sums[t][v], w[v], codes);
    }
  };
  TW_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const I start = starts ? tile::splat<I>(tile::load_bits<int32_t>(starts + 4 * t)) : I{};
    TW_UNROLL
    for (int v = 0; v < kVecs; ++v) dots[t][v] = start;
  }
  TW_UNROLL
  for (int r = 0; r < kSteps; r += kRun) {
    if constexpr (!Dot::kNarrow) {
      TW_UNROLL
      for (int i = r; i < r + kRun; ++i) add(i, dots);
    } else {
      typename Dot::Part part[kTokens][kVecs] = {};
      TW_UNROLL
      for (int i = r; i < r + kRun; ++i) add(i, part);
      TW_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v) dots[t][v] += Dot::widen(part[t][v]);
      }
    }
  }
}

/// results[t][v] += scale(v) d[t] dots[t][v], and the mins times the sums of x.
template <class P, bool kHasMin, int kTokens, int kVecs, class Scale, class Results>
TW_INLINE void scale_group(const typename P::i32 (&dots)[kTokens][kVecs], const uint8_t* d,
                           const uint8_t* sums, Scale&& scale, Results& results) {
  using F = typename P::f32;
  TW_UNROLL
  for (int v = 0; v < kVecs; ++v) {
    const ScaleAndMin<P> w = scale(v);
    TW_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const F factor = w.scale * tile::splat<F>(tile::load_bits<float>(d + 4 * t));
      results.update(t, v, [&](F r) {
        r = tile::fma(factor, tile::convert<F>(dots[t][v]), r);
        if constexpr (kHasMin)
          r = tile::fma(w.min, tile::splat<F>(tile::load_bits<float>(sums + 4 * t)), r);
        return r;
      });
    }
  }
}

// ---- few tokens: straight from the panel ---------------------------------------------------
/// Bytes to ask for memory ahead of the block at hand: what arrives during most of a miss. The core
/// itself runs some blocks ahead; twice as far costs a seventh of the bandwidth on Zen 3. With
/// vectors of 64 bytes, codes of fewer than 8 bits gain as much from it on Zen 4.
template <class P, QuantizedFormat kF>
TW_INLINE int64_t stream_ahead(const Machine& machine) {
  constexpr bool kFar = P::kVectorBytes == 64 && !kByteCodes<kF>;
  constexpr double kNanoseconds = kFar ? 160 : 64;
  const double bytes = machine.dram_read_gbs * kNanoseconds;
  return bytes < 1024 ? 1024 : bytes > 4096 ? 4096 : int64_t(bytes) / 64 * 64;
}

/// acc[t][0 .. 16) = panel . x[t] for a tile of kTokens. Reads memory in order and once.
template <class P, QuantizedFormat kF, int kTokens>
__attribute__((noinline)) void dot_panel(P p, const uint8_t* panel, int64_t blocks,
                                         const uint8_t* x, float* acc) {
  constexpr int kVecs = kRowVecs<P>, kGroups = kF.groups(), kSteps = kF.group / 4;
  constexpr ActivationSpec kSpec = activation_spec<P>(kF);
  using Dot = tile::DotSteps<P, value_range<P>(kF)>;
  const int64_t ahead = stream_ahead<P, kF>(p.machine());
  TileResults<P, kTokens, kVecs, true> results{acc, {}};
  for_blocks<kF>(panel, 0, blocks, [&](const uint8_t* block, const uint8_t* scales, int b) {
    const uint8_t* const d = x + kTokens * kQuantizedBlock;
    TW_UNROLL
    for (int h = 0; h < kGroups; ++h) {
      const uint8_t* const sums = d + 4 * kTokens * (1 + h);
      typename P::i32 dots[kTokens][kVecs];
      dot_group<P, Dot, kSteps>(
          x + h * kF.group, kSpec.offset ? sums : nullptr,
          [&](int step, int v) TW_INLINED {
            const int g = h * kSteps + step;
            if (v == 0) prefetch_ahead<kF>(block, b, g, ahead);
            return read_values<P, kF>(block, g, v);
          },
          dots);
      scale_group<P, kF.has_min>(
          dots, d, sums,
          [&](int v) TW_INLINED { return read_scale<P, kF>(scales, b * kGroups + h, v); }, results);
    }
    x += kTokens * kSpec.block_bytes();
  });
  results.store();
}

// ---- many tokens: a panel is taken apart once, then multiplied with tiles of tokens ---------
/// What remains of a format once its codes are bytes: formats that share it share the code.
struct UnpackedFormat {
  uint8_t group;
  bool has_min;
  bool has_offset;
  tile::CodeRange range;
  bool is_signed = false;  // offsets are taken from the codes, which are signed bytes then

  TW_INLINE constexpr int groups() const { return kQuantizedBlock / group; }
};

template <class P>
TW_INLINE constexpr UnpackedFormat unpacked_format(QuantizedFormat f) {
  tile::CodeRange range = value_range<P>(f);
  if (P::kHasVnni)
    range = {};  // any code will do
  else if (range.pairs() >= 8)
    range.max_code = 15;
  else if (range.pairs() >= 4)
    range.max_code = 31;
  return {f.group, f.has_min, value_offset<P>(f) != 0, range};
}

/// The same with signed codes: what tiles multiply.
TW_INLINE constexpr UnpackedFormat signed_format(QuantizedFormat f) {
  return {f.group, f.has_min, false, {}, true};
}

/// A piece of a panel as bytes: codes [8 k-groups][64] per block, and scales, in the scratch
/// memory.
struct UnpackedPanel {
  uint8_t* codes;
  float* scales;
};

template <class P, QuantizedFormat kF, bool kSigned>
__attribute__((noinline)) void unpack_panel(P, const uint8_t* panel, int64_t begin, int64_t end,
                                            UnpackedPanel to) {
  constexpr int kVecs = kRowVecs<P>, kN = P::template kLanes<float>, kR = kQuantizedRows;
  constexpr int kGroups = kF.groups();
  constexpr int64_t kAhead = 8192;  // the next piece arrives while this one is multiplied
  uint8_t* codes = to.codes;
  float* scales = to.scales;
  for_blocks<kF>(panel, begin, end, [&](const uint8_t* block, const uint8_t* chunk, int b) {
    TW_UNROLL
    for (int g = 0; g < 8; ++g) prefetch_ahead<kF>(block, b, g, kAhead);
    TW_UNROLL
    for (int v = 0; v < kVecs; ++v) {
      tile::Bytes<P> values[8];
      TW_UNROLL
      for (int g = 0; g < 8; ++g) {
        values[g] = read_values<P, kF>(block, g, v);
        if constexpr (kSigned) values[g] -= tile::splat<tile::Bytes<P>>(value_offset<P>(kF));
      }
      TW_UNROLL
      for (int g = 0; g < 8; ++g) tile::store(codes + 64 * g + v * P::kVectorBytes, values[g]);
      TW_UNROLL
      for (int h = 0; h < kGroups; ++h) {
        const auto w = read_scale<P, kF>(chunk, b * kGroups + h, v);
        float* at = scales + h * (1 + kF.has_min) * kR + v * kN;
        tile::store(at, w.scale);
        if constexpr (kF.has_min) tile::store(at + kR, w.min);
      }
    }
    codes += 8 * 64;
    scales += kGroups * (1 + kF.has_min) * kR;
  });
}

/// Panels that a register tile multiplies. With vectors of a whole panel it takes both of a pair
/// and half of the tokens: 6 x 2 sums need 8 loads for 12 products, 12 x 1 need 13, and more than
/// two loads in a cycle is what no core has.
template <class P>
inline constexpr int kTilePanels = kRowVecs<P> == 1 && P::kRegisters == 32 ? 2 : 1;

/// acc[t][16 i + 0 .. 16) += piece i of panels . x[t] for the tokens [first, first + kTokens) of a
/// tile of kStride.
template <class P, UnpackedFormat kU, int kStride, int kTokens, int kPanels>
__attribute__((noinline)) void dot_tile(P, const UnpackedPanel* panels, const uint8_t* x, int first,
                                        int64_t blocks, float* acc) {
  constexpr int kRow = kRowVecs<P>, kVecs = kPanels * kRow, kN = P::template kLanes<float>;
  constexpr int kGroups = kU.groups(), kSteps = kU.group / 4;
  using F = typename P::f32;
  using Dot = tile::DotSteps<P, kU.range>;
  // Results stay in registers where they fit beside the sums.
  constexpr bool kKeep = 2 * kTokens * kVecs + 4 <= P::kRegisters;
  TileResults<P, kTokens, kVecs, kKeep> results{acc + first * kResultStride, {}};
  results.load();
  const uint8_t* codes[kPanels];
  const float* scales[kPanels];
  TW_UNROLL
  for (int i = 0; i < kPanels; ++i) codes[i] = panels[i].codes, scales[i] = panels[i].scales;
  // Of a block: codes of all tokens, their scales, and what belongs to a group of k.
  const uint8_t* d = x + kStride * kQuantizedBlock + 4 * first;
  x += first * kQuantizedBlock;
  constexpr int64_t kBlockBytes = kStride * (kQuantizedBlock + 4 + 4 * kGroups);
  for (int64_t b = 0; b < blocks; ++b, x += kBlockBytes, d += kBlockBytes) {
    TW_UNROLL
    for (int h = 0; h < kGroups; ++h) {
      const uint8_t* const sums = d + 4 * kStride * (1 + h);
      typename P::i32 dots[kTokens][kVecs];
      dot_group<P, Dot, kSteps>(
          x + h * kU.group, kU.has_offset ? sums : nullptr,
          [&](int step, int v)
              TW_INLINED { return load_plane<P>(codes[v / kRow], step, v % kRow); },
          dots);
      scale_group<P, kU.has_min>(
          dots, d, sums,
          [&](int v) TW_INLINED -> ScaleAndMin<P> {
            const float* const at = scales[v / kRow] + v % kRow * kN;
            return {tile::load<F>(at), kU.has_min ? tile::load<F>(at + kQuantizedRows) : F{}};
          },
          results);
      TW_UNROLL
      for (int i = 0; i < kPanels; ++i) {
        codes[i] += 64 * kU.group / 4;
        scales[i] += (1 + kU.has_min) * kQuantizedRows;
      }
    }
  }
  results.store();
}

// ---- weights as floats ---------------------------------------------------------------------
/// out[k][16] = the blocks [begin, end) of a panel, rounded to bf16 or what core/block_formats.h's
/// dequantize gives, bit for bit (all products are exact).
template <class P, QuantizedFormat kF>
__attribute__((noinline)) void dequantize_panel(P, const uint8_t* panel, int64_t begin, int64_t end,
                                                bool rounded, float* out) {
  using F = typename P::f32;
  using I = typename P::i32;
  constexpr int kN = P::template kLanes<float>, kGroups = kF.groups();
  for_blocks<kF>(panel, begin, end, [&](const uint8_t* block, const uint8_t* chunk, int b) {
    for (int v = 0; v < kRowVecs<P>; ++v) {
      for (int h = 0; h < kGroups; ++h) {
        const auto w = read_scale<P, kF>(chunk, b * kGroups + h, v);
        for (int g = h * kF.group / 4; g < (h + 1) * kF.group / 4; ++g) {
          const I values = tile::bit_cast<I>(read_values<P, kF>(block, g, v));
          TW_UNROLL
          for (int i = 0; i < 4; ++i) {
            const I value = value_range<P>(kF).is_signed ? (values << (24 - 8 * i)) >> 24
                                                         : ((values >> (8 * i)) & 255);
            F weight = w.scale * tile::convert<F>(value - value_offset<P>(kF));
            if constexpr (kF.has_min) weight += w.min;
            tile::store(out + (4 * g + i) * kQuantizedRows + v * kN, weight);
          }
        }
      }
    }
    if (rounded)
      for (int i = 0; i < kQuantizedBlock * kQuantizedRows; ++i) out[i] = float(bf16(out[i]));
    out += kQuantizedBlock * kQuantizedRows;
  });
}

/// acc[t][0 .. 16) += weights[k][16] . x[k][t], one chain of fused multiply-adds per result.
template <class P, int kTokens>
__attribute__((noinline)) void float_tile(P, const float* weights, const float* x, int64_t k,
                                          float* acc) {
  using F = typename P::f32;
  constexpr int kVecs = kRowVecs<P>, kN = P::template kLanes<float>;
  TileResults<P, kTokens, kVecs, true> results{acc, {}};
  results.load();
  for (int64_t i = 0; i < k; ++i) {
    F w[kVecs];
    TW_UNROLL
    for (int v = 0; v < kVecs; ++v) w[v] = tile::load<F>(weights + v * kN);
    TW_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const F unit = tile::splat<F>(x[t]);
      TW_UNROLL
      for (int v = 0; v < kVecs; ++v)
        results.kept[t][v] = tile::fma(unit, w[v], results.kept[t][v]);
    }
    weights += kQuantizedRows;
    x += kTokens;
  }
  results.store();
}

}  // namespace tw::kernels
