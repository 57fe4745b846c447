// Linear layers with weights of 4 or 8 bits (linear_int.h) on a CPU. Every sum runs along k, as
// rows of weights lie in memory, one partial sum for each lane of a vector, and the lanes are added
// up at the end; so it has the same bits whatever the number of tokens. Weights become float32 in
// registers. Few tokens multiply them there. For many, four features at a time go by way of L1, a
// stretch of k after the other.
#pragma once

#include "tilewright/kernels/gemm.h"
#include "tilewright/kernels/linear_epilogue.h"
#include "tilewright/tile/cpu/pack.h"
#include "tilewright/tile/cpu/unpack.h"

namespace tw::kernels {

template <class T, int kBits>
struct LinearInt;

/// Weights of four features, a block of k at a time: a vector of them of 8 bits; two of 4 bits, the
/// even values of k and the odd ones.
template <class P, class T, int kBits>
struct IntStrip {
  using V = typename P::f32;
  static constexpr int kFeatures = 4, kN = tile::kLanesOf<V>, kVecs = 8 / kBits;
  static constexpr int64_t kBlock = kVecs * kN;
  /// Where a vector has all 16 weights that 4 bits can mean.
  static constexpr bool kLooksUp = kBits == 4 && kN == 16;

  const LinearInt<T, kBits>& layer;
  int64_t feature[kFeatures];  // those past the last one repeat it
  const int8_t* row[kFeatures];
  int64_t ahead;  // bytes to the weights that are wanted next

  TW_INLINE IntStrip(const LinearInt<T, kBits>& of, int64_t first)
      : layer(of), ahead(kFeatures * of.weight.stride(0)) {
    for (int i = 0; i < kFeatures; ++i) {
      feature[i] = first + i < of.out.cols ? first + i : of.out.cols - 1;
      row[i] = &of.weight(feature[i], 0);
    }
  }

  /// Whether no block but the last one of k has to be put together from several places.
  TW_INLINE static bool has_whole_blocks(const LinearInt<T, kBits>& layer) {
    return layer.weight.stride(1) == 1 &&
           (layer.group_size % kBlock == 0 || layer.group_size >= layer.x.cols);
  }

  /// f(i, at, weights) of feature i for every vector of k in [first, end), which packed tokens
  /// (pack_token) have at `at`. `first` is a multiple of kBlock; past `end` weights are any.
  template <class F>
  TW_INLINE void for_weights(int64_t first, int64_t end, F&& f) const {
    for (int64_t k = first; k < end;) {
      const int64_t group = k / layer.group_size, left = (group + 1) * layer.group_size - k;
      const int64_t whole = (left < end - k ? left : end - k) / kBlock * kBlock;
      if (whole > 0 && layer.weight.stride(1) == 1) [[likely]] {
        of_group(group, k, k + whole, f);
        k += whole;
      } else {
        of_block(k, end - k < kBlock ? end - k : kBlock, f);
        k += kBlock;
      }
    }
  }

 private:
  /// What makes weights of codes: (code - zero) scale, exact but for float32.
  static constexpr bool kExact = sizeof(T) < sizeof(float);
  static constexpr float kNoZero = kBits == 4 ? 8 : 0;
  TW_INLINE static V weights(V codes, V scale, V base) {
    return kExact ? tile::fma(codes, scale, base) : (codes - base) * scale;
  }
  TW_INLINE float scale(int i, int64_t group) const {
    return float(layer.scale(feature[i], group));
  }
  TW_INLINE float base(int i, int64_t group) const {
    const float zero = layer.zero ? float(layer.zero(feature[i], group)) : kNoZero;
    return kExact ? -(zero * scale(i, group)) : zero;
  }

  template <class F>
  TW_INLINE void of_group(int64_t group, int64_t k, int64_t end, F&& f) const {
    V scales[kFeatures], bases[kFeatures];
    TW_UNROLL
    for (int i = 0; i < kFeatures; ++i) {
      scales[i] = tile::splat<V>(scale(i, group));
      bases[i] = tile::splat<V>(base(i, group));
      if constexpr (kLooksUp) scales[i] = weights(tile::iota<V>(0), scales[i], bases[i]);
    }
    for (; k < end; k += kBlock) {
      const int64_t byte = k / kVecs;
      if (byte % tile::kLineBytes == 0) {
        TW_UNROLL
        for (int i = 0; i < kFeatures; ++i) tile::prefetch_l2(row[i] + byte + ahead);
      }
      TW_UNROLL
      for (int i = 0; i < kFeatures; ++i) {
        if constexpr (kLooksUp) {
          const auto codes =
              tile::widen_u8<typename P::i32>(reinterpret_cast<const uint8_t*>(row[i] + byte));
          f(i, k, tile::lookup(scales[i], codes));
          f(i, k + kN, tile::lookup(scales[i], codes >> 4));
        } else {
          of_bytes(row[i] + byte, [&](int v, V codes) TW_INLINED {
            f(i, k + v * kN, weights(codes, scales[i], bases[i]));
          });
        }
      }
    }
  }

  /// f(v, codes) of a block's bytes.
  template <class F>
  TW_INLINE static void of_bytes(const int8_t* bytes, F&& f) {
    if constexpr (kBits == 8) {
      f(0, tile::load<V>(bytes));
    } else {
      const auto codes = tile::widen_u8<typename P::i32>(reinterpret_cast<const uint8_t*>(bytes));
      f(0, tile::convert<V>(codes & 15));
      f(1, tile::convert<V>(codes >> 4));
    }
  }

  /// One block of several groups, of fewer than kBlock values of k, or of bytes apart.
  template <class F>
  TW_INLINE void of_block(int64_t k, int64_t count, F&& f) const {
    V scales[kFeatures][kVecs] = {}, bases[kFeatures][kVecs] = {};
    for (int64_t from = k; from < k + count;) {
      const int64_t group = from / layer.group_size;
      TW_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        const auto later = tile::iota<V>(0) * float(kVecs) + float(v) >= float(from - k);
        TW_UNROLL
        for (int i = 0; i < kFeatures; ++i) {
          scales[i][v] = tile::select(later, tile::splat<V>(scale(i, group)), scales[i][v]);
          bases[i][v] = tile::select(later, tile::splat<V>(base(i, group)), bases[i][v]);
        }
      }
      from = (group + 1) * layer.group_size;
    }
    const int64_t byte = k / kVecs;
    const bool adjacent = layer.weight.stride(1) == 1 && count == kBlock;
    TW_UNROLL
    for (int i = 0; i < kFeatures; ++i) {
      alignas(64) int8_t gathered[kN] = {};
      for (int64_t b = 0; !adjacent && b * kVecs < count; ++b)
        gathered[b] = layer.weight(feature[i], byte + b);
      of_bytes(adjacent ? row[i] + byte : gathered, [&](int v, V codes) TW_INLINED {
        f(i, k + v * kN, weights(codes, scales[i][v], bases[i][v]));
      });
    }
  }
};

template <class P, class T, int kBits>
struct LinearIntCpu {
  using Strip = IntStrip<P, T, kBits>;
  using V = typename P::f32;
  static constexpr int kN = Strip::kN, kFeatures = Strip::kFeatures;
  static constexpr int64_t kPanel = tile::kPanelWidth;
  /// Sums of so many tokens, a vector of each and one of weights fill the registers.
  static constexpr int64_t kMostRows = (P::kRegisters - 1) / (kFeatures + 1);
  /// Tiles of tokens up to which unpacking once for all is slower.
  static constexpr int64_t kFewTiles = P::kRegisters > 16 ? 4 : 2;
  static constexpr int64_t kStretch = 512;  // of k, whose weights of a strip stay in L1
  static constexpr int64_t kStripPitch = kStretch + kN;  // so that they lie in different sets

  const LinearInt<T, kBits>& layer;
  int64_t m, n, k;
  int64_t block_rows, row_blocks, block_panels, panel_blocks;
  bool few;  // weights are unpacked for each tile of tokens, straight into registers

  LinearIntCpu(const LinearInt<T, kBits>& of, const Machine& machine)
      : layer(of), m(of.x.rows), n(of.out.cols), k(of.x.cols) {
    using namespace gemm_detail;
    // A stretch of so many tokens and their sums of a panel share L2.
    constexpr int64_t kMostBlockRows = 128, kLeastBlockRows = 24;
    GemmShape shape{};
    shape.batch = 1;
    shape.m = m;
    shape.n = n;
    shape.k = k;
    shape.b_bytes = kBits / 8.0;
    shape.gflops = machine.f32_fma_gflops;
    const int64_t wanted = wanted_tasks(shape, machine), panels = blocks(n, kPanel);
    const int64_t cut = at_least(kLeastBlockRows, blocks(m, blocks(wanted, panels)));
    block_rows = even_step(m, at_most(kMostBlockRows, cut), 1);
    row_blocks = blocks(m, block_rows);
    block_panels = blocks(panels, at_most(blocks(wanted, row_blocks), panels));
    panel_blocks = blocks(panels, block_panels);
    few = m <= (Strip::has_whole_blocks(of) ? kFewTiles : 1) * kMostRows;
  }

  tile::Plan plan() const {
    tile::Plan out = tile::plan_of(row_blocks * panel_blocks);
    out.scratch_bytes = (token_floats() + tile_floats() + sum_floats() + kFeatures * kStripPitch) *
                        int64_t{sizeof(float)};
    return out;
  }

  __attribute__((noinline)) void run(P p) const {
    const int64_t row = p.index() % row_blocks * block_rows;
    const int64_t panel = p.index() / row_blocks * block_panels;
    const int64_t rows = gemm_detail::at_most(block_rows, m - row);
    const int64_t end = gemm_detail::at_most((panel + block_panels) * kPanel, n);
    float* const tokens = p.template scratch<float>();
    float* const tile = tokens + token_floats();
    for (int64_t r = 0; r < rows; ++r) pack_token(layer.x.row(row + r), tokens + r * pitch());
    const LinearEpilogue<T> epilogue{layer.bias, {}, Activation::kNone, layer.out};
    for (int64_t column = panel * kPanel; column < end; column += kPanel) {
      const int64_t columns = gemm_detail::at_most(kPanel, end - column);
      if (few)
        multiply_few(rows, tokens, column, columns, tile);
      else
        multiply_many(rows, tokens, column, columns, tile);
      epilogue(p, tile, row, int(rows), column, columns);
    }
  }

 private:
  /// So many values of k as whole blocks.
  static int64_t filled(int64_t count) {
    return gemm_detail::blocks(count, Strip::kBlock) * Strip::kBlock;
  }
  /// Of a packed token: whole blocks, and tokens lie in different sets.
  int64_t pitch() const { return filled(k) + kN; }
  int64_t token_floats() const { return block_rows * pitch(); }
  int64_t tile_floats() const { return block_rows * kPanel; }
  int64_t sum_floats() const { return few ? 0 : block_rows * kPanel * kN; }

  /// Tokens of a tile, of so many.
  static int64_t even_height(int64_t rows) { return gemm_detail::even_step(rows, kMostRows, 1); }

  /// A token as float32 in the order of a strip's vectors, filled up with zeros.
  void pack_token(const View<const T, 1>& token, float* to) const {
    const auto load = [&](int64_t at) TW_INLINED {
      const int64_t left = k - at;
      const T* const from = token.data + at * token.stride(0);
      if (left <= 0) return V{};
      if (token.stride(0) != 1)
        return tile::gather<V>(from, token.stride(0), int(left < kN ? left : kN));
      return left >= kN ? tile::load<V>(from) : tile::load_partial<V>(from, int(left));
    };
    for (int64_t at = 0; at < k; at += Strip::kBlock) {
      if constexpr (Strip::kVecs == 1) {
        tile::store(to + at, load(at));
      } else {
        const V a = load(at), b = load(at + kN);
        tile::store(to + at, tile::every_other<0>(a, b));
        tile::store(to + at + kN, tile::every_other<1>(a, b));
      }
    }
  }

  /// The lanes of four features' sums, added up.
  TW_INLINE static void put_sums(V (&sums)[kFeatures], float* to) {
    tile::transpose_quads(sums);
    tile::store(to, tile::add_quads((sums[0] + sums[1]) + (sums[2] + sums[3])));
  }

  void multiply_few(int64_t rows, const float* tokens, int64_t column, int64_t columns,
                    float* tile) const {
    const int64_t height = even_height(rows);
    for (int64_t c = 0; c < columns; c += kFeatures) {
      const Strip strip(layer, column + c);
      for (int64_t r = 0; r < rows; r += height)
        tile::with_rows<kMostRows>(int(gemm_detail::at_most(height, rows - r)), [&]<int kRows>() {
          multiply_strip<kRows>(strip, tokens + r * pitch(), tile + r * kPanel + c);
        });
    }
  }
  template <int kRows>
  __attribute__((noinline)) void multiply_strip(const Strip& strip, const float* tokens,
                                                float* tile) const {
    V sums[kRows][kFeatures] = {};
    const int64_t step = pitch();
    strip.for_weights(0, k, [&](int i, int64_t at, V weights) TW_INLINED {
      TW_UNROLL
      for (int r = 0; r < kRows; ++r)
        sums[r][i] = tile::fma(tile::load<V>(tokens + r * step + at), weights, sums[r][i]);
    });
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) put_sums(sums[r], tile + r * kPanel);
  }

  void multiply_many(int64_t rows, const float* tokens, int64_t column, int64_t columns,
                     float* tile) const {
    float* const sums = tile + tile_floats();
    float* const strip = sums + sum_floats();
    const int64_t height = even_height(rows);
    for (int64_t first = 0; first == 0 || first < k; first += kStretch) {
      const int64_t end = gemm_detail::at_most(first + kStretch, k);
      for (int64_t c = 0; c < columns; c += kFeatures) {
        unpack(Strip(layer, column + c), first, end, strip);
        for (int64_t r = 0; r < rows; r += height)
          tile::with_rows<kMostRows>(int(gemm_detail::at_most(height, rows - r)), [&]<int kRows>() {
            multiply_tile<kRows>(tokens + r * pitch() + first, strip, first, end,
                                 sums + (c * block_rows + r * kFeatures) * kN,
                                 tile + r * kPanel + c);
          });
      }
    }
  }
  __attribute__((noinline)) static void unpack(const Strip& strip, int64_t first, int64_t end,
                                               float* to) {
    strip.for_weights(first, end, [&](int i, int64_t at, V weights) TW_INLINED {
      tile::store(to + i * kStripPitch + at - first, weights);
    });
  }
  /// Those of k in [first, end) join the sums, which go to the tile when they are complete.
  template <int kRows>
  __attribute__((noinline)) void multiply_tile(const float* tokens, const float* strip,
                                               int64_t first, int64_t end, float* kept,
                                               float* tile) const {
    V sums[kRows][kFeatures];
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TW_UNROLL
      for (int i = 0; i < kFeatures; ++i)
        sums[r][i] = first > 0 ? tile::load<V>(kept + (r * kFeatures + i) * kN) : V{};
    }
    const int64_t step = pitch();
    for (int64_t at = 0; at < filled(end - first); at += kN) {
      V token[kRows];
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) token[r] = tile::load<V>(tokens + r * step + at);
      TW_UNROLL
      for (int i = 0; i < kFeatures; ++i) {
        const V weights = tile::load<V>(strip + i * kStripPitch + at);
        TW_UNROLL
        for (int r = 0; r < kRows; ++r) sums[r][i] = tile::fma(token[r], weights, sums[r][i]);
      }
    }
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (end == k) {
        put_sums(sums[r], tile + r * kPanel);
        continue;
      }
      TW_UNROLL
      for (int i = 0; i < kFeatures; ++i) tile::store(kept + (r * kFeatures + i) * kN, sums[r][i]);
    }
  }
};

}  // namespace tw::kernels
