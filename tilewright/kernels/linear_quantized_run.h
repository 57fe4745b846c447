// The schedules of linear_quantized, without what depends on the type of its activations: packed
// tokens in, float32 sums out. See linear_quantized.h.
#pragma once

#include "tilewright/kernels/linear_quantized_amx.h"
#include "tilewright/kernels/linear_quantized_pairs.h"

namespace tw::kernels {

/// How it does.
enum class QuantizedPath : uint8_t {
  kStream,     // int8, few tokens, straight from the panels
  kDots,       // int8, 8-bit dot products
  kByteTiles,  // int8, AMX
  kPairTiles,  // bf16, AMX
  kFloats,     // float32 multiply-adds; of rounded operands for bf16
};

/// Tokens of the tallest register tile; smaller ones are powers of two below.
template <class P>
TW_INLINE constexpr int tallest_tile(QuantizedPath path) {
  if (path == QuantizedPath::kPairTiles) return kPairTokens;
  if (path == QuantizedPath::kByteTiles) return tile::kTileRows;
  return P::kRegisters == 32 ? 12 : 4;
}

/// The most that are multiplied straight from the panels, all at once.
template <class P>
inline constexpr int kStreamTokens = P::kRegisters == 32 ? 4 : 2;

/// Consecutive tokens.
struct TokenRange {
  int64_t first;
  int count;
};

/// The sums of one program: tokens x columns of the output, rows kResultStride apart; a lone token
/// may have several pairs of panels. Of a gated weight, columns [0, 16) of a pair are gates and
/// [16, 32) what they multiply.
struct QuantizedResults {
  float* sums;
  TokenRange tokens;
  int64_t column;  // the first one in the output
  int64_t pairs;
};

/// What becomes of sums, which only the caller knows: before consecutive tokens get their last
/// addends it may ask for memory, and then it takes them.
struct QuantizedTaker {
  const void* self;
  void (*expect)(const void* self, TokenRange tokens);
  void (*take)(const void* self, TokenRange tokens);
};

/// How a call is cut. Sizes in bytes unless they say otherwise; a block is 32 k.
struct QuantizedSchedule {
  int64_t tokens, blocks, panels, pairs;  // a pair is two panels: 32 rows
  int64_t token_bytes;                    // of a packed token
  int64_t spans;                          // programs of phase 0 per token, kSpan blocks each
  int64_t group, groups;                  // tokens of a program of phase 1
  int64_t programs;                       // of phase 1 per group: they share the pairs evenly
  int64_t piece;                          // blocks of a panel taken apart at a time
  int64_t results_bytes, codes_bytes, scales_bytes;  // scratch of phase 1
  QuantizedPath path;
  int tallest;  // tokens of a register tile

  static constexpr int64_t kSpan = 64;
};

struct QuantizedProduct {
  const uint8_t* packed;  // header and panels
  int64_t tokens;
  QuantizedCompute compute;

  TW_INLINE QuantizedHeader header() const { return tile::load_bits<QuantizedHeader>(packed); }
  TW_INLINE QuantizedFormat format() const { return quantized_format(DType(header().dtype)); }

  template <class P>
  TW_INLINE QuantizedSchedule schedule(const Machine& machine) const {
    const QuantizedHeader h = header();
    const QuantizedFormat f = format();
    constexpr int64_t kMostTokens = 512;  // what taking weights apart costs no longer shows
    using enum QuantizedPath;
    QuantizedSchedule s{};
    s.tokens = tokens;
    s.blocks = h.k / kQuantizedBlock;
    s.panels = quantized_panels(h.rows, h.is_gated != 0);
    s.pairs = (s.panels + 1) / 2;
    s.path = path<P>(machine, f);
    s.token_bytes = s.blocks * (s.path == kFloats      ? 4 * kQuantizedBlock
                                : s.path == kPairTiles ? 2 * kQuantizedBlock
                                                       : activation_spec<P>(f).block_bytes());
    s.spans = (s.blocks + s.kSpan - 1) / s.kSpan;
    const bool streams = s.path == kStream;
    s.programs =
        streams ? programs_of_stream(s.pairs, 2 * f.panel_bytes(s.blocks), machine) : s.pairs;

    // The tokens of a program stay in half of L2 while it walks the panels.
    s.tallest = streams ? int(tokens) : tallest_tile<P>(s.path);
    const int64_t most_tiles = kMostTokens / s.tallest;
    int64_t tiles = machine.l2_bytes / 2 / (s.tallest * s.token_bytes + 1);
    tiles = tiles < 1 ? 1 : tiles > most_tiles ? most_tiles : tiles;
    s.group = tiles * s.tallest;
    s.groups = (tokens + s.group - 1) / s.group;
    const int64_t most = s.group < tokens ? s.group : tokens;
    s.results_bytes = (s.path == kPairTiles ? pair_rows(most) : most) * kResultStride * 4;
    if (streams) {
      if (tokens == 1) s.results_bytes *= s.pairs / (s.programs > 0 ? s.programs : 1) + 1;
      return s;
    }
    const int64_t longest = longest_piece(s.path);
    const int64_t pieces = (s.blocks + longest - 1) / longest;
    s.piece = pieces > 0 ? (s.blocks + pieces - 1) / pieces : 0;
    const int bytes = s.path == kFloats ? 4 : s.path == kPairTiles ? 2 : 1;
    s.codes_bytes = s.piece * kQuantizedBlock * kQuantizedRows * bytes;
    if (bytes == 1) s.scales_bytes = s.piece * f.groups() * (1 + f.has_min) * kQuantizedRows * 4;
    return s;
  }

  /// Bytes of all packed tokens, and of what is read past them.
  TW_INLINE int64_t packed_bytes(const QuantizedSchedule& s) const {
    if (s.path == QuantizedPath::kPairTiles) return pair_rows(tokens) * s.token_bytes;
    return tokens * s.token_bytes + (s.path == QuantizedPath::kByteTiles ? kTileOverrun : 0);
  }

  /// The tile that holds `token`: full ones first, the rest in falling powers of two.
  TW_INLINE TokenRange tile_of(int64_t token, int tallest) const {
    TokenRange tile{token / tallest * tallest, tallest};
    if (tile.first + tallest <= tokens) return tile;
    for (;;) {
      const int64_t rest = tokens - tile.first;
      tile.count = rest >= 8 ? 8 : rest >= 4 ? 4 : rest >= 2 ? 2 : 1;
      if (token < tile.first + tile.count) return tile;
      tile.first += tile.count;
    }
  }

  /// What program p.index() of phase 1 computes, and where.
  template <class P>
  TW_INLINE QuantizedResults results(P p, const QuantizedSchedule& s) const {
    const int64_t program = p.index() % s.programs, first = p.index() / s.programs * s.group;
    const int64_t pair = program * s.pairs / s.programs, rest = s.tokens - first;
    return {p.template scratch<float>(),
            {first, int(s.group < rest ? s.group : rest)},
            pair * columns_of_pair(),
            (program + 1) * s.pairs / s.programs - pair};
  }

  /// Columns of the output that come from a pair of panels.
  TW_INLINE int64_t columns_of_pair() const {
    return header().is_gated ? kQuantizedRows : kResultStride;
  }

  /// Computes them.
  template <class P>
  __attribute__((noinline)) void run(P p, const QuantizedSchedule& s, const QuantizedResults& out,
                                     const QuantizedTaker& taker) const {
    switch (DType(header().dtype)) {
#define TW_CASE(id, ...)                                          \
  case DType::id:                                                 \
    run_format<P, quantized_format(DType::id)>(p, s, out, taker); \
    break;
      TW_FOR_EACH_BLOCK_DTYPE(TW_CASE)
#undef TW_CASE
      default:
        __builtin_unreachable();
    }
  }

 private:
  template <class P>
  TW_INLINE QuantizedPath path(const Machine& machine, QuantizedFormat f) const {
    using enum QuantizedPath;
    if (compute == QuantizedCompute::kBf16 && P::kHasAmx) return kPairTiles;
    if (compute == QuantizedCompute::kBf16 || compute == QuantizedCompute::kF32) return kFloats;
    if (tokens >= 1 && tokens <= kStreamTokens<P>) return kStream;
    return P::kHasAmx && prefers_tiles(machine, f, tokens) ? kByteTiles : kDots;
  }

  /// Blocks of a panel taken apart at a time: 8 KiB of codes or of weights; 12 of codes for tiles,
  /// which take longer to begin, and 8 of bf16, beside as much for each 16 tokens.
  TW_INLINE static int64_t longest_piece(QuantizedPath path) {
    if (path == QuantizedPath::kFloats) return 4;
    if (path == QuantizedPath::kPairTiles) return 8;
    return path == QuantizedPath::kByteTiles ? 24 : 16;
  }

  /// Programs that stream `pairs` pairs of panels: each some microseconds long, so that what it
  /// costs to start one does not show, and enough to share evenly.
  TW_INLINE static int64_t programs_of_stream(int64_t pairs, int64_t pair_bytes,
                                              const Machine& machine) {
    constexpr int64_t kBytes = 128 << 10, kMostPairs = 32, kPerThread = 8;
    int64_t most = kBytes / (pair_bytes + 1);
    most = most < 1 ? 1 : most < kMostPairs ? most : kMostPairs;
    int64_t programs = (pairs + most - 1) / most;
    if (machine.threads > 1 && programs < machine.threads * kPerThread)
      programs = machine.threads * kPerThread;
    return programs < pairs ? programs : pairs;
  }

  template <class P, QuantizedFormat kF>
  __attribute__((noinline)) void run_format(P p, const QuantizedSchedule& s,
                                            const QuantizedResults& out,
                                            const QuantizedTaker& taker) const {
    const int64_t pair = out.column / columns_of_pair();
    const int64_t bytes = kF.panel_bytes(s.blocks), left = s.panels - 2 * pair;
    const uint8_t* panel = packed + sizeof(QuantizedHeader) + 2 * pair * bytes;
    const int count = int(left < 2 * out.pairs ? left : 2 * out.pairs);
    if (s.path == QuantizedPath::kStream) {
      const auto stream = [&]<int kTokens>() {
        for (int i = 0; i < count; ++i)
          dot_panel<P, kF, kTokens>(p, panel + i * bytes, s.blocks, p.template workspace<uint8_t>(),
                                    out.sums + i * kQuantizedRows);
      };
      constexpr int kMost = kStreamTokens<P>;
      if (out.tokens.count == 1)
        stream.template operator()<1>();
      else if (out.tokens.count == 2)
        stream.template operator()<2>();
      else if (out.tokens.count == 3)
        stream.template operator()<(kMost < 3 ? 1 : 3)>();
      else
        stream.template operator()<(kMost < 4 ? 1 : 4)>();
      taker.take(taker.self, out.tokens);
      return;
    }
    for (int64_t i = 0; i < int64_t{out.tokens.count} * kResultStride;
         i += P::template kLanes<float>)
      tile::store(out.sums + i, typename P::f32{});
    if (s.blocks == 0) return taker.take(taker.self, out.tokens);
    if (s.path == QuantizedPath::kDots) multiply<P, kF, false>(p, s, panel, count, out, taker);
    if constexpr (P::kHasAmx && kF.groups() == 1) {
      if (s.path == QuantizedPath::kByteTiles) {
        const tile::TileScope scope(quantized_tiles());
        multiply<P, kF, true>(p, s, panel, count, out, taker);
      }
    }
    if (s.path == QuantizedPath::kDots || s.path == QuantizedPath::kByteTiles) return;
#if defined(__AMX_BF16__)
    if (s.path == QuantizedPath::kPairTiles) multiply_pairs<P, kF>(p, s, panel, count, out, taker);
#endif
    if (s.path == QuantizedPath::kFloats) {
      taker.expect(taker.self, out.tokens);
      multiply_floats<P, kF>(p, s, panel, count, out);
    }
    taker.take(taker.self, out.tokens);
  }

#if defined(__AMX_BF16__)
  /// Tiles of 32 tokens times both panels.
  template <class P, QuantizedFormat kF>
  TW_INLINE void multiply_pairs(P p, const QuantizedSchedule& s, const uint8_t* panel, int count,
                                const QuantizedResults& out, const QuantizedTaker& taker) const {
    uint32_t* const weights = p.template scratch<uint32_t>() + s.results_bytes / 4;
    const auto tile_at = [&](int64_t t) {
      const int64_t rest = out.tokens.count - t;
      return TokenRange{out.tokens.first + t, int(rest < kPairTokens ? rest : kPairTokens)};
    };
    const tile::TileScope scope(tile::product_tiles(kPairTokens));
    for (int64_t b = 0; b < s.blocks; b += s.piece) {
      const int64_t end = b + s.piece < s.blocks ? b + s.piece : s.blocks;
      for (int i = 0; i < count; ++i)  // without a second one, nobody reads its results
        pack_panel_pairs<P, kF>(p, panel + i * kF.panel_bytes(s.blocks), b, end,
                                weights + i * kQuantizedRows);
      const bool last = end == s.blocks;
      for (int64_t t = 0; t < out.tokens.count; t += kPairTokens) {
        if (last) taker.expect(taker.self, tile_at(t));
        multiply_pair_tile(p, p.template workspace<uint8_t>(), s.token_bytes, tokens,
                           out.tokens.first + t, b, end, weights, out.sums + t * kResultStride);
      }
    }
  }
#endif

  template <class P, QuantizedFormat kF, bool kTiled>
  TW_INLINE void multiply(P p, const QuantizedSchedule& s, const uint8_t* panel, int count,
                          const QuantizedResults& out, const QuantizedTaker& taker) const {
    uint8_t* const scratch = p.template scratch<uint8_t>() + s.results_bytes;
    UnpackedPanel piece[2];
    for (int i = 0; i < 2; ++i) {
      uint8_t* at = scratch + i * (s.codes_bytes + s.scales_bytes);
      piece[i] = {at, reinterpret_cast<float*>(at + s.codes_bytes)};
    }
    for (int64_t b = 0; b < s.blocks; b += s.piece) {
      const int64_t end = b + s.piece < s.blocks ? b + s.piece : s.blocks;
      for (int i = 0; i < count; ++i)
        unpack_panel<P, kF, kTiled>(p, panel + i * kF.panel_bytes(s.blocks), b, end, piece[i]);
      constexpr UnpackedFormat kU = kTiled ? signed_format(kF) : unpacked_format<P>(kF);
      dot_tiles<P, kU>(p, s, piece, count, b, end, out, end == s.blocks ? &taker : nullptr);
    }
  }

  /// All tiles of a program times a piece of its panels, the last one if there is a taker.
  template <class P, UnpackedFormat kU>
  __attribute__((noinline)) void dot_tiles(P p, const QuantizedSchedule& s,
                                           const UnpackedPanel (&piece)[2], int count,
                                           int64_t begin, int64_t end, const QuantizedResults& out,
                                           const QuantizedTaker* taker) const {
    constexpr auto kPath = kU.is_signed ? QuantizedPath::kByteTiles : QuantizedPath::kDots;
    for_tiles<tallest_tile<P>(kPath)>(out.tokens, [&]<int kTokens>(int64_t token) {
      constexpr int64_t kBytes = kQuantizedBlock + 4 + 4 * kU.groups();  // of a token's block
      const uint8_t* x =
          p.template workspace<uint8_t>() + token * s.token_bytes + begin * kBytes * kTokens;
      float* to = out.sums + (token - out.tokens.first) * kResultStride;
      if (taker) taker->expect(taker->self, {token, kTokens});
      if constexpr (kU.is_signed) {
        for (int i = 0; i < count; ++i)
          dot_tile_amx<P, kU, kTokens>(p, piece[i], x, end - begin, to + i * kQuantizedRows);
      } else if (kTilePanels<P> == 2 && count == 2) {
        constexpr int kPart = kTilePanels<P> == 2 && kTokens > 6 ? kTokens / 2 : kTokens;
        for (int t = 0; t < kTokens; t += kPart)
          dot_tile<P, kU, kTokens, kPart, kTilePanels<P>>(p, piece, x, t, end - begin, to);
      } else {
        for (int i = 0; i < count; ++i)
          dot_tile<P, kU, kTokens, kTokens, 1>(p, piece + i, x, 0, end - begin,
                                               to + i * kQuantizedRows);
      }
      if (taker) taker->take(taker->self, {token, kTokens});
    });
  }

  template <class P, QuantizedFormat kF>
  TW_INLINE void multiply_floats(P p, const QuantizedSchedule& s, const uint8_t* panel, int count,
                                 const QuantizedResults& out) const {
    float* const weights = p.template scratch<float>() + s.results_bytes / 4;
    for (int64_t b = 0; b < s.blocks; b += s.piece) {
      const int64_t end = b + s.piece < s.blocks ? b + s.piece : s.blocks;
      for (int i = 0; i < count; ++i)
        dequantize_panel<P, kF>(p, panel + i * kF.panel_bytes(s.blocks), b, end,
                                compute == QuantizedCompute::kBf16,
                                weights + i * s.codes_bytes / 4);
      float_tiles(p, s, weights, count, b * kQuantizedBlock, end * kQuantizedBlock, out);
    }
  }

  template <class P>
  __attribute__((noinline)) void float_tiles(P p, const QuantizedSchedule& s, const float* weights,
                                             int count, int64_t begin, int64_t end,
                                             const QuantizedResults& out) const {
    for_tiles<tallest_tile<P>(QuantizedPath::kFloats)>(out.tokens, [&]<int kTokens>(int64_t token) {
      const float* x = p.template workspace<float>() + token * s.token_bytes / 4 + begin * kTokens;
      float* to = out.sums + (token - out.tokens.first) * kResultStride;
      for (int i = 0; i < count; ++i)
        float_tile<P, kTokens>(p, weights + i * s.codes_bytes / 4, x, end - begin,
                               to + i * kQuantizedRows);
    });
  }

  /// Calls f.operator()<tokens>(first token) for every tile of a range.
  template <int kMax, class F>
  TW_INLINE void for_tiles(TokenRange range, F&& f) const {
    for (int64_t t = range.first; t < range.first + range.count;) {
      const int count = tile_of(t, kMax).count;
      if (count == kMax)
        f.template operator()<kMax>(t);
      else if (count == 8)
        f.template operator()<(kMax > 8 ? 8 : 1)>(t);
      else if (count == 4)
        f.template operator()<4>(t);
      else if (count == 2)
        f.template operator()<2>(t);
      else
        f.template operator()<1>(t);
      t += count;
    }
  }
};

}  // namespace tw::kernels
