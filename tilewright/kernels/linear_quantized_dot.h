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

// ---- one token: straight from the panel ----------------------------------------------------
/// Bytes to ask for memory ahead of the block at hand: what arrives during most of a miss. The core
/// itself runs some blocks ahead; twice as far costs a seventh of the bandwidth on Zen 3.
TW_INLINE int64_t stream_ahead(const Machine& machine) {
  constexpr double kNanoseconds = 64;
  const double bytes = machine.dram_read_gbs * kNanoseconds;
  return bytes < 1024 ? 1024 : bytes > 4096 ? 4096 : int64_t(bytes) / 64 * 64;
}

/// acc[0 .. 16) = panel . x. Reads memory in order and once.
template <class P, QuantizedFormat kF>
__attribute__((noinline)) void dot_panel(P p, const uint8_t* panel, int64_t blocks,
                                         const uint8_t* x, float* acc) {
  using F = typename P::f32;
  using I = typename P::i32;
  constexpr int kVecs = kRowVecs<P>, kN = P::template kLanes<float>;
  constexpr ActivationSpec kSpec = activation_spec<P>(kF);
  using Dot = tile::DotSteps<P, value_range<P>(kF)>;
  constexpr int kGroups = kF.groups();
  constexpr int kFormatSteps = kF.group / 4;
  constexpr int kRun = Dot::kSteps < kFormatSteps ? Dot::kSteps : kFormatSteps;
  const int64_t ahead = stream_ahead(p.machine());

  F sum[kVecs];
  for (F& s : sum) s = F{};
  for_blocks<kF>(panel, 0, blocks, [&](const uint8_t* block, const uint8_t* scales, int b) {
    const F d = tile::splat<F>(tile::load_bits<float>(x + kQuantizedBlock));
    TW_UNROLL
    for (int h = 0; h < kGroups; ++h) {
      const uint8_t* aux = x + kQuantizedBlock + 4 + 4 * h;
      I dots[kVecs];
      const I start = kSpec.offset ? tile::splat<I>(tile::load_bits<int32_t>(aux)) : I{};
      TW_UNROLL
      for (int v = 0; v < kVecs; ++v) dots[v] = start;
      TW_UNROLL
      for (int r = 0; r < kFormatSteps; r += kRun) {
        typename Dot::Part part[kVecs] = {};
        TW_UNROLL
        for (int i = 0; i < kRun; ++i) {
          const int g = h * kFormatSteps + r + i;
          prefetch_ahead<kF>(block, b, g, ahead);
          const auto codes = tile::splat4<P>(x + 4 * g);
          TW_UNROLL
          for (int v = 0; v < kVecs; ++v)
            part[v] = Dot::add(part[v], read_values<P, kF>(block, g, v), codes);
        }
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v) dots[v] += Dot::widen(part[v]);
      }
      TW_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        const auto w = read_scale<P, kF>(scales, b * kGroups + h, v);
        sum[v] = tile::fma(w.scale * d, tile::convert<F>(dots[v]), sum[v]);
        if constexpr (kF.has_min)
          sum[v] = tile::fma(w.min, tile::splat<F>(tile::load_bits<float>(aux)), sum[v]);
      }
    }
    x += kSpec.block_bytes();
  });
  TW_UNROLL
  for (int v = 0; v < kVecs; ++v) tile::store(acc + v * kN, sum[v]);
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

/// The token's part of a tile's results: registers, or the memory they came from.
template <class P, int kTokens, bool kKeep>
struct TileResults {
  using F = typename P::f32;
  static constexpr int kVecs = kRowVecs<P>, kN = P::template kLanes<float>;
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

/// acc[t][0 .. 16) += panel piece . x[t] for the kTokens tokens of a tile.
template <class P, UnpackedFormat kU, int kTokens>
__attribute__((noinline)) void dot_tile(P, UnpackedPanel panel, const uint8_t* x, int64_t blocks,
                                        float* acc) {
  using F = typename P::f32;
  using I = typename P::i32;
  constexpr int kVecs = kRowVecs<P>, kN = P::template kLanes<float>;
  using Dot = tile::DotSteps<P, kU.range>;
  constexpr int kGroups = kU.groups(), kSteps = kU.group / 4;
  constexpr int kRun = Dot::kSteps < kSteps ? Dot::kSteps : kSteps;
  // Results stay in registers where they fit beside the sums.
  TileResults<P, kTokens, 2 * kTokens * kVecs + 4 <= P::kRegisters> results{acc, {}};
  results.load();
  const uint8_t* codes = panel.codes;
  const float* scales = panel.scales;
  for (int64_t b = 0; b < blocks; ++b) {
    const uint8_t* d = x + kTokens * kQuantizedBlock;
    TW_UNROLL
    for (int h = 0; h < kGroups; ++h) {
      const uint8_t* aux = d + 4 * kTokens * (1 + h);
      const auto start = [&](int t) {
        return kU.has_offset ? tile::splat<I>(tile::load_bits<int32_t>(aux + 4 * t)) : I{};
      };
      I dots[kTokens][kVecs];
      TW_UNROLL
      for (int r = 0; r < kSteps; r += kRun) {
        typename Dot::Part part[kTokens][kVecs];
        TW_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          TW_UNROLL
          for (int v = 0; v < kVecs; ++v) {
            if constexpr (P::kHasVnni)
              part[t][v] = start(t);  // costs nothing as a first addend
            else
              part[t][v] = typename Dot::Part{};
          }
        }
        TW_UNROLL
        for (int i = r; i < r + kRun; ++i) {
          tile::Bytes<P> w[kVecs];
          TW_UNROLL
          for (int v = 0; v < kVecs; ++v) w[v] = load_plane<P>(codes, i, v);
          TW_UNROLL
          for (int t = 0; t < kTokens; ++t) {
            const auto q = tile::splat4<P>(x + t * kQuantizedBlock + h * kU.group + 4 * i);
            TW_UNROLL
            for (int v = 0; v < kVecs; ++v) part[t][v] = Dot::add(part[t][v], w[v], q);
          }
        }
        TW_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          TW_UNROLL
          for (int v = 0; v < kVecs; ++v)
            dots[t][v] = r == 0 ? Dot::widen(part[t][v]) : dots[t][v] + Dot::widen(part[t][v]);
        }
      }
      TW_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        const F scale = tile::load<F>(scales + v * kN);
        TW_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          const F dot = tile::convert<F>(P::kHasVnni ? dots[t][v] : dots[t][v] + start(t));
          const F factor = scale * tile::splat<F>(tile::load_bits<float>(d + 4 * t));
          results.update(t, v, [&](F r) {
            r = tile::fma(factor, dot, r);
            if constexpr (kU.has_min)
              r = tile::fma(tile::load<F>(scales + kQuantizedRows + v * kN),
                            tile::splat<F>(tile::load_bits<float>(aux + 4 * t)), r);
            return r;
          });
        }
      }
      codes += 64 * kU.group / 4;
      scales += (1 + kU.has_min) * kQuantizedRows;
    }
    x += kTokens * (kQuantizedBlock + 4 + 4 * kGroups);
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
  TileResults<P, kTokens, true> results{acc, {}};
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
