// The second phase of linear_attention by chunks on a GPU (linear_attention_chunks.h): what a state
// holds against queries and keys, a chunk's changes, of which each warp has all, and the outputs of
// a quarter of its steps.
#pragma once

#include "tilewright/kernels/linear_attention_group_gpu.h"
#if defined(__CUDACC__)

namespace tw::kernels {

template <class P, class T, class U, class Kernel, int kDims, bool kHasOneGate, bool kIsCorrected>
struct LinearChunkWalk : LinearChunkGroup<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected> {
  using Base = LinearChunkGroup<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>;
  using Base::add_told, Base::b, Base::factors, Base::h, Base::kGivenTerms, Base::kKeyTerms,
      Base::kOutTerms, Base::kOwnDims, Base::kQueryTerms, Base::kRows, Base::kSquare,
      Base::kStateTerms, Base::kSteps, Base::kTiles, Base::lane, Base::of, Base::part, Base::stage,
      Base::state, Base::tell, Base::told, Base::values, Base::with;
  using typename Base::Rows, typename Base::Square, typename Base::Sums;
  static constexpr int kChangeTerms = kIsCorrected || kHasOneGate ? kStateTerms : kGivenTerms;
  static constexpr int kHeldTerms = kIsCorrected ? kStateTerms : kOutTerms;

  __device__ __forceinline__ LinearChunkWalk(P program, const Kernel& kernel,
                                             const LinearChunks& chunks)
      : Base(program, kernel, chunks, program.index()) {}

  __device__ __forceinline__ void go() {
    if (of.initial_state) this->load_state(of.initial_state[b][h]);
    this->template each_chunk<false>(
        [&](int64_t chunk, int to) { bring_chunk(chunk, to); },
        [&](int64_t chunk, int which) {
          const int64_t first = chunk * kSteps;
          if (of.states && index_quotient(first, of.chunk_size) * of.chunk_size == first)
            this->store_state(of.states[b][h][index_quotient(first, of.chunk_size)]);
          take(which, first);
        });
    if (of.states) this->store_state(of.states[b][h][of.chunks()]);
    this->store_state(of.final_state[b][h]);
  }

 private:
  __device__ __forceinline__ void bring_chunk(int64_t chunk, int to) const {
    this->bring(stage(to), this->record(chunk), with.staged_size());
    this->bring_factors(chunk, factors(to));
    this->bring_values(of.v, with.copies_values, chunk * kSteps, values(to));
  }

  /// A chunk's outputs, and the state after it.
  __device__ __forceinline__ void take(int which, int64_t first) {
    const bf16* const weights = stage(which);
    const float* const decays = reinterpret_cast<const float*>(weights + with.weights_size());
    const bf16* const queries = factors(which) + part() * kOwnDims;
    const bf16* const keys = queries + kQueryTerms * kRows;
    tell_held(queries, kHasOneGate ? keys : keys + kKeyTerms * kRows);
    Sums change;
    float out[4] = {};
    if constexpr (kIsCorrected) {
      this->meet();
      add_held(decays, out);
      add_told(1, change);
      if constexpr (kHasOneGate) this->scale_steps(change, decays);
      this->correct(values(which), weights + kOutTerms * kSquare, change);
    } else {
      this->load_values(values(which), change);
    }
    add_earlier(weights, change, out);
    if constexpr (!kIsCorrected) {  // the state goes on before others are waited for
      advance_state(decays, keys, change);
      this->meet();
      add_held(decays, out);
    }
    this->store(out, first, of.out);
    if constexpr (kIsCorrected) advance_state(decays, keys, change);
  }
  __device__ __forceinline__ void advance_state(const float* decays, const bf16* keys,
                                                Sums& change) {
    if constexpr (kHasOneGate) this->scale_steps(change, decays + kSteps);
    this->decay(decays);
    this->template advance<kChangeTerms, kKeyTerms>(change, keys);
  }
  /// What queries find in the state before the chunk, and keys hold of it.
  __device__ __forceinline__ void tell_held(const bf16* queries, const bf16* keys) const {
    Sums outs = {}, held = {};
    const int begin = Rows::of_columns(lane());
    TW_UNROLL
    for (int d = 0; d < kOwnDims; d += 16) {
      const auto left = LeftTerms<kHeldTerms>::of(state[d / 8], state[d / 8 + 1]);
      TW_UNROLL
      for (int s = 0; s < kSteps; s += 16) {
        multiply<kOutTerms>(outs[s / 8], outs[s / 8 + 1], left,
                            Rows::template columns<kQueryTerms>(queries + begin, kRows, s, d));
        if constexpr (kIsCorrected)
          multiply<kStateTerms>(held[s / 8], held[s / 8 + 1], left,
                                Rows::template columns<kKeyTerms>(keys + begin, kRows, s, d));
      }
    }
    tell(0, outs);
    if constexpr (kIsCorrected) tell(1, held);
  }
  /// Of the warp's steps.
  __device__ __forceinline__ void add_held(const float* decays, float (&out)[4]) const {
    float held[4];
    add_told(0, part(), held);
    tile::Pack<float, 2> by{1.0f, 1.0f};
    if constexpr (kHasOneGate) by = this->two_of(decays + 8 * part()) * this->scale;
    TW_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = tile::fma(by[i % 2], held[i], out[i]);
  }
  /// Outputs of the warp's steps, of changes in the chunk.
  __device__ __forceinline__ void add_earlier(const bf16* weights, const Sums& change,
                                              float (&out)[4]) const {
    float other[4] = {};
    const bf16* const begin = weights + Square::at(8 * part() + lane() % 8, lane() / 8 * 8);
    const auto first = LeftTerms<kOutTerms>::of(change[0], change[1]);
    const auto second = LeftTerms<kOutTerms>::of(change[2], change[3]);
    const auto right = Square::template columns<kOutTerms>(begin, kSquare, 0, 0);
    TW_UNROLL
    for (int r = 0; r < kOutTerms; ++r) {
      const auto& four = right.term[r];
      const uint32_t halves[2][2] = {{four[0], four[1]}, {four[2], four[3]}};
      TW_UNROLL
      for (int l = 0; l + r < kOutTerms; ++l) {
        tile::cuda::mma(out, first.term[l], halves[0], bf16{});
        tile::cuda::mma(other, second.term[l], halves[1], bf16{});
      }
    }
    TW_UNROLL
    for (int i = 0; i < 4; ++i) out[i] += other[i];
  }
};

}  // namespace tw::kernels
#endif
