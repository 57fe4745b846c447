// The third phase of linear_attention_backward by chunks on a GPU
// (linear_attention_backward_chunks.h), as far as the tensor cores go: a warp multiplies with 16
// dimensions of the states, and tiles of steps by steps are dealt to warps.
#pragma once

#include "tilewright/kernels/linear_attention_backward_chunks.h"
#include "tilewright/kernels/linear_attention_terms_gpu.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/math.h"

namespace tw::kernels {

/// Where a chunk's program has what: in the workspace, and in its scratch.
template <class P, class T, class U, class Kernel, int kDims, bool kHasOneGate, bool kIsCorrected>
struct LinearGradientPlaces {
  static constexpr int kSteps = LinearChunks::kSteps, kHalf = kSteps / 2;
  static constexpr int kThreads = 2 * kDims, kWarps = kThreads / 32, kPitch = kDims + 8;
  static constexpr int kSquarePitch = LinearChunks::kPitch, kTile = LinearBackwardChunks::kTile;
  static constexpr int kStateTerms = LinearChunks::kStateTerms;
  static constexpr int kOutTerms = tile::same_type<T, bf16> ? 1 : 2;
  static constexpr int kChangeTerms = kIsCorrected ? kStateTerms : kOutTerms;
  static constexpr int kProducts = kIsCorrected ? 3 : 2;

  P p;
  const Kernel& of;
  LinearBackwardChunks with;
  int64_t place, b, h, head, first;
  int count;  // steps

  __device__ __forceinline__ LinearGradientPlaces(P program, const Kernel& kernel,
                                                  const LinearBackwardChunks& chunks)
      : p(program), of(kernel), with(chunks) {
    place = p.index() * (p.threads() / kThreads) + beside();
    const int64_t row = index_quotient(place, with.chunks.chunks);
    first = (place - row * with.chunks.chunks) * kSteps;
    b = index_quotient(row, of.v.size(2));
    h = row - b * of.v.size(2);
    head = index_quotient(h, of.group());
    count = place < with.places() ? int(tile::lesser(of.length() - first, kSteps)) : 0;
  }

  __device__ __forceinline__ int beside() const { return p.thread() / kThreads; }
  __device__ __forceinline__ int thread() const { return p.thread() % kThreads; }
  __device__ __forceinline__ int lane() const { return thread() % 32; }
  __device__ __forceinline__ int warp() const { return thread() / 32; }
  __device__ __forceinline__ void sync() const { tile::cuda::sync_named(1 + beside(), kThreads); }

  const __device__ __forceinline__ float* states(bool of_slopes) const {
    const int64_t begin = with.records_bytes() + (of_slopes ? with.states_bytes() : 0);
    return reinterpret_cast<const float*>(p.template workspace<char>() + begin) +
           place * with.state_floats();
  }
  const __device__ __forceinline__ bf16* terms(int64_t begin, int count_of_terms) const {
    return reinterpret_cast<const bf16*>(p.template workspace<char>() + begin) +
           place * with.terms_size(count_of_terms);
  }
  const __device__ __forceinline__ bf16* outs() const {
    return terms(with.outs_begin(), kOutTerms);
  }
  const __device__ __forceinline__ bf16* changes() const {
    return terms(with.changes_begin(), kChangeTerms);
  }
  const __device__ __forceinline__ bf16* slopes() const {
    return terms(with.slopes_begin(), kStateTerms);
  }
  // Of the record: what one gate leaves before a step, then after it; betas; the gate's sums.
  const __device__ __forceinline__ bf16* record() const {
    return p.template workspace<bf16>() + place * with.chunks.record_size();
  }
  const __device__ __forceinline__ float* decays() const {
    return reinterpret_cast<const float*>(record() + with.chunks.weights_size());
  }
  const __device__ __forceinline__ float* kept_betas() const {
    return decays() + with.chunks.decays_size() / 2;
  }
  const __device__ __forceinline__ double* kept_sums() const {
    return reinterpret_cast<const double*>(record() + with.chunks.staged_size() +
                                           with.chunks.errors_size());
  }
  /// Rows of q's (0) or k's gradients, where heads share keys.
  __device__ __forceinline__ static float* sums(P p, const LinearBackwardChunks& with,
                                                int64_t place, int which) {
    return reinterpret_cast<float*>(p.template workspace<char>() + with.sums_begin()) +
           (2 * place + which) * kSteps * kDims;
  }

  // The scratch: products with states, of outputs, changes and slopes; squares; rows of the
  // halves; rows of dimensions; rows of steps.
  __device__ __forceinline__ float* product(int which) const {
    return reinterpret_cast<float*>(tile::cuda::shared_scratch + beside() * with.gradient_bytes()) +
           which * kSteps * kPitch;
  }
  __device__ __forceinline__ float* square(bool of_slopes) const {
    return product(kProducts) + (of_slopes ? kSteps * kSquarePitch : 0);
  }
  __device__ __forceinline__ float* told(int row) const {
    return product(kProducts) + 2 * kSteps * kSquarePitch + row * kDims;
  }
  __device__ __forceinline__ float* dims(int row) const {
    return told(LinearBackwardChunks::kToldRows + row);
  }
  __device__ __forceinline__ float* steps(int row) const {
    return dims(LinearBackwardChunks::kDimRows) + row * kSteps;
  }
  __device__ __forceinline__ float* betas() const { return steps(0); }
  __device__ __forceinline__ float* before() const { return steps(1); }
  __device__ __forceinline__ float* after() const { return steps(2); }
  __device__ __forceinline__ double* gate_sums() const {
    return reinterpret_cast<double*>(steps(3));
  }

  /// Betas and one gate.
  __device__ __forceinline__ void load_steps() const {
    const int i = thread();
    if (i >= kSteps) return;
    betas()[i] = kIsCorrected ? kept_betas()[i] : 1.0f;
    if constexpr (kHasOneGate) {
      before()[i] = decays()[i];
      after()[i] = decays()[kSteps + i];
      gate_sums()[i] = kept_sums()[i];
    }
  }
};

/// Products of the tensor cores.
template <class P, class T, class U, class Kernel, int kDims, bool kHasOneGate, bool kIsCorrected>
struct LinearGradientProducts
    : LinearGradientPlaces<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected> {
  using Base = LinearGradientPlaces<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>;
  using Base::Base;
  using Base::betas, Base::kChangeTerms, Base::kOutTerms, Base::kPitch, Base::kProducts,
      Base::kSquarePitch, Base::kStateTerms, Base::kSteps, Base::kTile, Base::lane, Base::of,
      Base::warp, Base::with;

 protected:
  /// Words of a tile: of a step, or dimension, four columns.
  __device__ __forceinline__ uint2 words(const bf16* tile) const {
    return *reinterpret_cast<const uint2*>(tile + 4 * lane());
  }
  /// Steps [16 half, 16 half + 16) of 16 columns as a left factor.
  template <int kTerms>
  __device__ __forceinline__ LeftTerms<kTerms> left(const bf16* from, int64_t tile,
                                                    int half) const {
    const bf16* const begin = from + (tile * (kSteps / 8) + 2 * half) * kTerms * kTile;
    LeftTerms<kTerms> out;
    TW_UNROLL
    for (int t = 0; t < kTerms; ++t) {
      const uint2 first = words(begin + t * kTile), second = words(begin + (kTerms + t) * kTile);
      out.term[t][0] = first.x;
      out.term[t][1] = second.x;
      out.term[t][2] = first.y;
      out.term[t][3] = second.y;
    }
    return out;
  }
  /// 16 dimensions of a state as a right factor.
  __device__ __forceinline__ static RightTerms<kStateTerms> right(const float4 (&of)[2]) {
    RightTerms<kStateTerms> out;
    TW_UNROLL
    for (int n = 0; n < 2; ++n) {
      const PairTerms<kStateTerms> x(of[n].x, of[n].y), y(of[n].z, of[n].w);
      TW_UNROLL
      for (int t = 0; t < kStateTerms; ++t) {
        out.term[t][2 * n] = x.term[t];
        out.term[t][2 * n + 1] = y.term[t];
      }
    }
    return out;
  }

  /// The warp's dimensions of outputs' gradients and slopes times states, and of changes times
  /// slopes of states; of those with states, too.
  __device__ __forceinline__ void multiply_states() const {
    float sums[kProducts][2][2][4] = {}, met[2] = {};  // [product, half, tile of dimensions]
    float4 next_state[2], next_slope[2];
    load_states(0, next_state, next_slope);
    TW_ROLLED
    for (int64_t c = 0; c < with.tiles(); ++c) {
      float4 of_state[2], of_slope[2];
      TW_UNROLL
      for (int n = 0; n < 2; ++n) {
        of_state[n] = next_state[n];
        of_slope[n] = next_slope[n];
        met[n] += of_state[n].x * of_slope[n].x + of_state[n].y * of_slope[n].y +
                  of_state[n].z * of_slope[n].z + of_state[n].w * of_slope[n].w;
      }
      if (c + 1 < with.tiles()) load_states(c + 1, next_state, next_slope);
      add<0, kOutTerms>(sums, this->outs(), c, right(of_state));
      if constexpr (kIsCorrected) add<2, kStateTerms>(sums, this->slopes(), c, right(of_state));
      add<1, kChangeTerms>(sums, this->changes(), c, right(of_slope));
    }
    TW_UNROLL
    for (int n = 0; n < 2; ++n) {
      float sum = met[n];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (lane() % 4 == 0) this->dims(0)[16 * warp() + 8 * n + lane() / 4] = sum;
    }
    TW_UNROLL
    for (int i = 0; i < kProducts * 8; ++i) {
      const int row = i / 4 % 2 * 16 + i / 2 % 2 * 8 + lane() / 4, n = i % 2;
      const float* const two = &sums[i / 8][i / 4 % 2][n][i / 2 % 2 * 2];
      *reinterpret_cast<float2*>(this->product(i / 8) + row * kPitch + 16 * warp() + 8 * n +
                                 lane() % 4 * 2) = make_float2(two[0], two[1]);
    }
  }
  __device__ __forceinline__ void load_states(int64_t tile, float4 (&state)[2],
                                              float4 (&slope)[2]) const {
    const int64_t at = (tile * (kDims / 8) + 2 * warp()) * kTile + 4 * lane();
    TW_UNROLL
    for (int n = 0; n < 2; ++n) {
      state[n] = *reinterpret_cast<const float4*>(this->states(false) + at + n * kTile);
      slope[n] = *reinterpret_cast<const float4*>(this->states(true) + at + n * kTile);
    }
  }
  template <int kWhich, int kTerms>
  __device__ __forceinline__ void add(float (&sums)[kProducts][2][2][4], const bf16* from,
                                      int64_t tile, const RightTerms<kStateTerms>& by) const {
    TW_UNROLL
    for (int half = 0; half < 2; ++half)
      multiply<kStateTerms>(sums[kWhich][half][0], sums[kWhich][half][1],
                            left<kTerms>(from, tile, half), by);
  }

  /// Of a step and those before it, or itself: outputs' gradients, or slopes, times changes. Tiles
  /// of 16 steps by 8 are dealt to warps.
  __device__ __forceinline__ void multiply_steps() const {
    TW_ROLLED
    for (int job = warp(); job < (kIsCorrected ? 16 : 8); job += Base::kWarps) {
      const int half = job / 4 % 2, tile = job % 4;
      if (tile > 2 * half + 1) continue;  // after the step
      if (job < 8)
        put<false>(half, tile, dots<kOutTerms>(this->outs(), half, tile));
      else if constexpr (kIsCorrected)
        put<true>(half, tile, dots<kStateTerms>(this->slopes(), half, tile));
    }
  }
  template <int kTerms>
  __device__ __forceinline__ float4 dots(const bf16* from, int half, int tile) const {
    float sum[4] = {};
    TW_ROLLED
    for (int64_t c = 0; c < with.tiles(); ++c) {
      const auto steps = left<kTerms>(from, c, half);
      const bf16* const earlier =
          this->changes() + (c * (kSteps / 8) + tile) * kChangeTerms * kTile;
      TW_UNROLL
      for (int r = 0; r < kChangeTerms; ++r) {
        const uint2 two = words(earlier + r * kTile);
        const uint32_t factor[2] = {two.x, two.y};
        TW_UNROLL
        for (int l = 0; l < kTerms; ++l)
          if (l + r < kStateTerms) tile::cuda::mma(sum, steps.term[l], factor, bf16{});
      }
    }
    return make_float4(sum[0], sum[1], sum[2], sum[3]);
  }
  template <bool kOfSlopes>
  __device__ __forceinline__ void put(int half, int tile, float4 four) const {
    const float sums[4] = {four.x, four.y, four.z, four.w};
    TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int step = 16 * half + lane() / 4 + i / 2 * 8, at = 8 * tile + lane() % 4 * 2 + i % 2;
      float left = betas()[at];
      if constexpr (kHasOneGate)
        left *=
            tile::exp(at <= step ? float(this->gate_sums()[step] - this->gate_sums()[at]) : 0.0f);
      this->square(kOfSlopes)[step * kSquarePitch + at] =
          (kOfSlopes ? left : left * of.score_scale()) * sums[i];
      if (kOfSlopes && at == step && step < this->count && of.beta_grad)
        of.beta_grad(this->b, this->first + step, this->h) = U(sums[i]);
    }
  }
};

}  // namespace tw::kernels
#endif
