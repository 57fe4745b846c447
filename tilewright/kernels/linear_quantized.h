// Linear layer with block-quantised weights (the formats of GGUF, core/block_formats.h).
//
//   out[m, n] = activation(sum over k of x[m, k] * w[n, k] + bias[n]) + residual[m, n]
//   gated:  out[m, n] = activation(gate[m, n]) * up[m, n] + residual[m, n]
//
// Of `compute`, int8 rounds x to int8 per 32 k (quantize_rows.h) and sums exact integers within
// such a block; int16 adds what a second digit gives, computed as another row; bf16 rounds x and
// the weights to bf16, which errs less and is what AMX multiplies fastest; f32 multiplies float32
// with the weights' exact values in one chain over k. Weights are repacked beforehand
// (linear_quantized_format.h); interleaving their rows follows ggml's repacked formats and
// ik_llama.cpp's row-interleaved quants in idea.
//
// Phase 0 packs the tokens; phase 1 is one program per 32 rows and group of tokens. A few tokens
// multiply panels as they stream from memory; more tokens take a piece of a panel apart in L1 and
// run register tiles over it, or tiles of AMX. Bits depend on none of it (linear_quantized_dot.h),
// but those of bf16 on whether there is AMX, which sums pairs. linear_quantized_gpu.h says how on a
// GPU.
#pragma once

#include "tilewright/kernels/linear_quantized_gpu.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/linear_epilogue.h"
#include "tilewright/kernels/linear_quantized_run.h"
#endif

namespace tw::kernels {

#if !defined(__CUDACC__)
static_assert(kResultStride == tile::kPanelWidth, "LinearEpilogue reads the results");
#endif

template <class T>
struct LinearQuantized {
  static constexpr int kGpuRegisters = 128;

  Rows<const T> x;                // [*, k]
  View<const uint8_t, 1> packed;  // header and panels, contiguous
  View<const T, 1> bias;          // [n], or absent; never with a gated activation
  Rows<const T> residual;         // [*, n], or absent
  int activation;                 // an Activation, then kSiluAndMul, kGeluTanhAndMul
  int compute;                    // a QuantizedCompute
  int64_t out_features;           // n, or -1: what packed says
  Rows<T> out;                    // [*, n], may alias residual

  static constexpr int kSiluAndMul = 5, kGeluTanhAndMul = 6;
  TW_INLINE bool is_gated() const { return activation >= kSiluAndMul; }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
    if constexpr (P::kOnGpu) {
      return gpu_schedule().plan();
    } else {
#if !defined(__CUDACC__)
      return cpu_plan<P>(machine);
#endif
    }
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu) {
#if defined(__CUDACC__)
      LinearQuantizedGpu<LinearQuantized, T>{*this, gpu_schedule(), digits()}(p);
#endif
    } else {
#if !defined(__CUDACC__)
      run(p);
#endif
    }
  }

 private:
  /// Rows of 8-bit codes for each token.
  TW_INLINE int digits() const { return compute == int(QuantizedCompute::kInt16) ? 2 : 1; }
  TW_INLINE QuantizedGpuSchedule gpu_schedule() const {
    return {x.rows * digits(), x.cols / kQuantizedBlock,
            quantized_panels(out.cols * (is_gated() ? 2 : 1), is_gated()),
            QuantizedCompute(compute)};
  }

#if !defined(__CUDACC__)
  template <class P>
  tile::Plan cpu_plan(const Machine& machine) const {
    const QuantizedSchedule s = product().template schedule<P>(machine);
    tile::Plan plan;
    plan.phases = 2;
    plan.grid[0] = x.rows * s.spans;
    plan.grid[1] = s.groups * s.programs;
    plan.workspace_bytes = product().packed_bytes(s);
    plan.scratch_bytes = s.results_bytes + 2 * (s.codes_bytes + s.scales_bytes);
    return plan;
  }

  template <class P>
  TW_INLINE void run(P p) const {
    const QuantizedSchedule s = product().template schedule<P>(p.machine());
    if (p.phase() == 0) {
      pack_tokens(p, s);
      return;
    }
    QuantizedResults results = product().results(p, s);
    if (s.path != QuantizedPath::kStream || results.tokens.count == 1) {
      compute_results(p, s, results);
      return;
    }
    const int64_t columns = product().columns_of_pair(), pairs = results.pairs;
    results.pairs = 1;  // a pair of panels at a time
    for (int64_t i = 0; i < pairs; ++i, results.column += columns) compute_results(p, s, results);
  }

  TW_INLINE QuantizedProduct product() const {
    return {packed.data, x.rows * digits(), QuantizedCompute(compute)};
  }

  /// One span of one token.
  template <class P>
  TW_INLINE void pack_tokens(P p, const QuantizedSchedule& s) const {
    const int64_t token = p.index() / s.spans;
    const int64_t begin = p.index() % s.spans * s.kSpan;
    const int64_t end = begin + s.kSpan < s.blocks ? begin + s.kSpan : s.blocks;
    const View<const T, 1> row = x.row(token);
    uint8_t* const packed_tokens = p.template workspace<uint8_t>();
#if defined(__AMX_BF16__)
    if (s.path == QuantizedPath::kPairTiles) {
      pack_token_pairs(p, row, token, s.tokens, begin, end, s.token_bytes, packed_tokens);
      return;
    }
#endif
    const TokenRange tile = product().tile_of(token * digits(), s.tallest);
    uint8_t* const to = packed_tokens + tile.first * s.token_bytes;
    const int slot = int(token * digits() - tile.first);
    if (s.path != QuantizedPath::kFloats) {
      const ActivationSpec spec = activation_spec<P>(product().format());
      if (digits() == 2)
        quantize_row<2>(p, row, begin, end, spec, to, tile.count, slot);
      else
        quantize_row<1>(p, row, begin, end, spec, to, tile.count, slot);
      return;
    }
    const bool rounded = compute == int(QuantizedCompute::kBf16);
    float* units = reinterpret_cast<float*>(to) + slot;
    for (int64_t k = begin * kQuantizedBlock; k < end * kQuantizedBlock; ++k)
      units[k * tile.count] = rounded ? float(bf16(float(row(k)))) : float(row(k));
  }

  /// Computes results and puts them into `out`.
  template <class P>
  TW_INLINE void compute_results(P p, const QuantizedSchedule& s, const QuantizedResults& r) const {
    struct Self {
      P p;
      const LinearQuantized& linear;
      const QuantizedResults& results;

      TW_INLINE static QuantizedResults of(const void* self, TokenRange tokens) {
        QuantizedResults r = static_cast<const Self*>(self)->results;
        r.sums += (tokens.first - r.tokens.first) * kResultStride;
        r.tokens = tokens;
        return r;
      }
      static void expect(const void* self, TokenRange tokens) {
        static_cast<const Self*>(self)->linear.prefetch(of(self, tokens));
      }
      static void take(const void* self, TokenRange tokens) {
        const Self& me = *static_cast<const Self*>(self);
        me.linear.finish(me.p, of(self, tokens));
      }
    };
    const Self self{p, *this, r};
    product().run(p, s, r, QuantizedTaker{&self, Self::expect, Self::take});
  }

  /// Two lines in each of some rows: they arrive while the results are computed.
  TW_INLINE void prefetch(const QuantizedResults& r) const {
    const int64_t rest = out.cols - r.column, width = product().columns_of_pair();
    const int64_t columns = width < rest ? width : rest;
    const int64_t first = r.tokens.first / digits();
    const int count = r.tokens.count / digits();
    tile::prefetch_tile(first, count, r.column, columns, out);
    if (residual && residual.data != out.data)
      tile::prefetch_tile(first, count, r.column, columns, residual);
  }

  /// Puts results into `out`.
  template <class P>
  TW_INLINE void finish(P p, QuantizedResults r) const {
    if (digits() == 2) add_digits(p, r);
    Activation after = Activation::kNone;
    int64_t columns = out.cols - r.column;
    if (is_gated()) {
      if (activation == kSiluAndMul)
        gate(p, r, Silu{});
      else
        gate(p, r, GeluTanh{});
      columns = columns < r.pairs * kQuantizedRows ? columns : r.pairs * kQuantizedRows;
    } else {
      after = Activation(activation);
      columns = columns < r.pairs * kResultStride ? columns : r.pairs * kResultStride;
    }
    LinearEpilogue<T>{bias, residual, after, out}(p, r.sums, r.tokens.first, r.tokens.count,
                                                  r.column, columns);
  }

  /// Two rows for each token become one.
  template <class P>
  TW_INLINE void add_digits(P, QuantizedResults& r) const {
    using F = typename P::f32;
    r.tokens = {r.tokens.first / 2, r.tokens.count / 2};
    for (int t = 0; t < r.tokens.count; ++t) {
      const float* const from = r.sums + 2 * t * kResultStride;
      for (int c = 0; c < kResultStride; c += P::template kLanes<float>)
        tile::store(r.sums + t * kResultStride + c,
                    tile::load<F>(from + c) + tile::load<F>(from + kResultStride + c));
    }
  }

  /// Columns [0, 16) of every row, or of every pair of the only one, become
  /// activate(columns [0, 16)) * columns [16, 32); those of several pairs move together.
  template <class P, class A>
  TW_INLINE void gate(P, const QuantizedResults& r, A activate) const {
    using F = typename P::f32;
    const int64_t steps = r.tokens.count * r.pairs;
    const int64_t stride = r.pairs > 1 ? kQuantizedRows : kResultStride;
    for (int64_t i = 0; i < steps; ++i) {
      const float* from = r.sums + i * kResultStride;
      for (int c = 0; c < kQuantizedRows; c += P::template kLanes<float>)
        tile::store(r.sums + i * stride + c,
                    activate(tile::load<F>(from + c)) * tile::load<F>(from + kQuantizedRows + c));
    }
  }
#endif
};

}  // namespace tw::kernels
