// The second phase of linear_attention_backward by chunks on a GPU
// (linear_attention_backward_chunks.h): states go forth, what reaches them goes back, and both are
// kept for the third phase.
#pragma once

#include "tilewright/kernels/linear_attention_backward_chunks.h"
#include "tilewright/kernels/linear_attention_group_gpu.h"
#if defined(__CUDACC__)

namespace tw::kernels {

template <class P, class T, class U, class Kernel, int kDims, bool kHasOneGate, bool kIsCorrected>
struct LinearKeepingGroup : LinearChunkGroup<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected> {
  using Base = LinearChunkGroup<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>;
  using Base::column, Base::group, Base::kColumns, Base::kOwnDims, Base::kSteps, Base::kTiles,
      Base::lane, Base::p, Base::part, Base::state;
  using typename Base::Sums;

  LinearBackwardChunks back;

  __device__ __forceinline__ LinearKeepingGroup(P program, const Kernel& kernel,
                                                const LinearBackwardChunks& chunks, int64_t index)
      : Base(program, kernel, chunks.chunks, index), back(chunks) {}

 protected:
  /// Of all tiles of columns.
  __device__ __forceinline__ int64_t tile() const { return column / kColumns + group(); }
  __device__ __forceinline__ bool is_there() const { return tile() < back.tiles(); }
  /// The state, or what reaches it, at `chunk` of those in the workspace from `begin` on.
  __device__ __forceinline__ void keep_state(int64_t begin, int64_t chunk) const {
    if (!is_there()) return;
    float* const to = reinterpret_cast<float*>(p.template workspace<char>() + begin) +
                      this->place_of(chunk) * back.state_floats() +
                      (tile() * (kDims / 8) + part() * (kOwnDims / 8)) * back.kTile;
    TW_UNROLL
    for (int n = 0; n < kOwnDims / 8; ++n) {
      TW_UNROLL
      for (int e = 0; e < 2; ++e)
        *reinterpret_cast<float2*>(to + n * back.kTile + (this->pair() + e) * 16 + lane() / 4 * 2) =
            make_float2(state[n][e], state[n][2 + e]);
    }
  }
  /// The warp's steps, in terms.
  template <int kTerms>
  __device__ __forceinline__ void keep_terms(int64_t begin, int64_t chunk, const Sums& of) const {
    if (!is_there()) return;
    float own[4];
    take_own(of, own);
    bf16* const to = reinterpret_cast<bf16*>(p.template workspace<char>() + begin) +
                     this->place_of(chunk) * back.terms_size(kTerms) +
                     (tile() * kTiles + part()) * kTerms * back.kTile;
    TW_UNROLL
    for (int e = 0; e < 2; ++e) {
      const PairTerms<kTerms> pair(own[e], own[2 + e]);
      TW_UNROLL
      for (int t = 0; t < kTerms; ++t)
        *reinterpret_cast<uint32_t*>(to + t * back.kTile +
                                     2 * ((this->pair() + e) * 8 + lane() / 4)) = pair.term[t];
    }
  }
  __device__ __forceinline__ void take_own(const Sums& all, float (&own)[4]) const {
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      TW_UNROLL
      for (int i = 0; i < 4; ++i) own[i] = n == 0 || n == part() ? all[n][i] : own[i];
    }
  }
  /// What the state holds against keys; `add_told` has it once the warps have met.
  template <int kTerms>
  __device__ __forceinline__ void tell_held(const bf16* keys) const {
    Sums own = {};
    const bf16* const begin = keys + Base::Rows::of_columns(lane());
    TW_UNROLL
    for (int d = 0; d < kOwnDims; d += 16) {
      const auto left = LeftTerms<Base::kStateTerms>::of(state[d / 8], state[d / 8 + 1]);
      TW_UNROLL
      for (int s = 0; s < kSteps; s += 16)
        multiply<Base::kStateTerms>(own[s / 8], own[s / 8 + 1], left,
                                    Base::Rows::template columns<kTerms>(begin, Base::kRows, s, d));
    }
    this->tell(0, own);
  }
  /// In all warps.
  template <int kTerms>
  __device__ __forceinline__ void hold(const bf16* keys, Sums& held) const {
    tell_held<kTerms>(keys);
    this->meet();
    this->add_told(0, held);
  }
};

/// States, and changes without their betas.
template <class P, class T, class U, class Kernel, int kDims, bool kHasOneGate, bool kIsCorrected>
struct LinearStatesForth : LinearKeepingGroup<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected> {
  using Base = LinearKeepingGroup<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>;
  using Base::back, Base::factors, Base::kGivenTerms, Base::kKeyTerms, Base::kQueryTerms,
      Base::kRows, Base::kStateTerms, Base::kSteps, Base::of, Base::stage, Base::values, Base::with;
  using Base::Base;
  using typename Base::Sums;
  static constexpr int kKept = kIsCorrected ? kStateTerms : kGivenTerms;
  static constexpr int kChangeTerms = kIsCorrected || kHasOneGate ? kStateTerms : kGivenTerms;

  __device__ __forceinline__ void go() {
    if (of.initial_state) this->load_state(of.initial_state[this->b][this->h]);
    this->template each_chunk<false>([&](int64_t chunk, int to) { bring_chunk(chunk, to); },
                                     [&](int64_t chunk, int which) { take(chunk, which); });
  }

 private:
  /// Of the record all but weights, and queries.
  __device__ __forceinline__ void bring_chunk(int64_t chunk, int to) const {
    const bf16* const record = this->record(chunk);
    this->bring(stage(to), record + with.weights_size(), with.made_size() - with.weights_size());
    const int64_t skipped = kQueryTerms * kRows;
    if (this->reads_rows())
      this->bring_rows(of.k, chunk * kSteps, factors(to) + skipped);
    else
      this->bring(factors(to) + skipped, record + with.made_size() + skipped,
                  with.factors_size() - skipped);
    this->bring_values(of.v, with.copies_values, chunk * kSteps, values(to));
  }
  __device__ __forceinline__ void take(int64_t chunk, int which) {
    const float* const decays = reinterpret_cast<const float*>(stage(which));
    const float* const betas = decays + with.decays_size() / 2;
    const bf16* const keys = factors(which) + kQueryTerms * kRows + this->part() * Base::kOwnDims;
    Sums change;
    this->keep_state(back.records_bytes(), chunk);
    if constexpr (kIsCorrected) {
      this->template hold<kKeyTerms>(kHasOneGate ? keys : keys + kKeyTerms * kRows, change);
      if constexpr (kHasOneGate) this->scale_steps(change, decays);
      this->correct(values(which), reinterpret_cast<const bf16*>(betas + kSteps), change);
    } else {
      this->load_values(values(which), change);
    }
    this->template keep_terms<kKept>(back.changes_begin(), chunk, change);
    if constexpr (kIsCorrected) this->scale_steps(change, betas);
    if constexpr (kHasOneGate) this->scale_steps(change, decays + kSteps);
    this->decay(decays);
    this->template advance<kChangeTerms, kKeyTerms>(change, keys);
  }
};

/// What reaches states, and gradients of v.
template <class P, class T, class U, class Kernel, int kDims, bool kHasOneGate, bool kIsCorrected>
struct LinearStatesBack : LinearKeepingGroup<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected> {
  using Base = LinearKeepingGroup<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>;
  using Base::back, Base::factors, Base::kGivenTerms, Base::kKeyTerms, Base::kQueryTerms,
      Base::kRows, Base::kStateTerms, Base::kSteps, Base::lane, Base::of, Base::stage, Base::values,
      Base::with;
  using Base::Base;
  using typename Base::Square, typename Base::Sums;

  __device__ __forceinline__ void go() {
    if (of.final_grad) this->load_state(of.final_grad[this->b][this->h]);
    this->template each_chunk<true>([&](int64_t chunk, int to) { bring_chunk(chunk, to); },
                                    [&](int64_t chunk, int which) { take(chunk, which); });
    if (of.initial_grad) this->store_state(of.initial_grad[this->b][this->h]);
  }

 private:
  __device__ __forceinline__ void bring_chunk(int64_t chunk, int to) const {
    this->bring(stage(to), this->record(chunk), with.staged_size());
    this->bring_factors(chunk, factors(to));
    this->bring_values(of.grad, back.copies_grads, chunk * kSteps, values(to));
  }
  __device__ __forceinline__ void take(int64_t chunk, int which) {
    const bf16* const weights = stage(which);
    const float* const decays = reinterpret_cast<const float*>(weights + with.weights_size());
    const float* const betas = decays + with.decays_size() / 2;
    const bf16* const queries = factors(which) + this->part() * Base::kOwnDims;
    const bf16* const keys = queries + kQueryTerms * kRows;
    Sums out;
    this->keep_state(back.records_bytes() + back.states_bytes(), chunk);
    this->load_values(values(which), out);
    this->template keep_terms<kGivenTerms>(back.outs_begin(), chunk, out);
    if constexpr (kIsCorrected) {
      Sums slopes, before = {};
      this->template hold<kKeyTerms>(keys, slopes);
      if constexpr (kHasOneGate) this->scale_steps(slopes, decays + kSteps);
      add_later<kGivenTerms>(weights, out, slopes);
      add_later<kStateTerms>(weights + kStateTerms * Base::kSquare, slopes, before);
      this->template keep_terms<kStateTerms>(back.slopes_begin(), chunk, before);
      this->scale_steps(before, betas);
      float own[4];
      this->take_own(before, own);
      this->store(own, chunk * kSteps, of.v_grad);
      advance_state(decays, queries, out);
      advance_corrected(decays, keys, before);
    } else {
      this->template tell_held<kKeyTerms>(keys);
      float own[4] = {};
      add_own_later(weights, out, own);
      advance_state(decays, queries, out);
      this->meet();  // as late as others are needed
      add_held(decays + kSteps, own);
      this->store(own, chunk * kSteps, of.v_grad);
    }
  }
  /// What reaches the state before the chunk, by outputs.
  __device__ __forceinline__ void advance_state(const float* decays, const bf16* queries,
                                                Sums& out) {
    this->decay(decays);
    if constexpr (kHasOneGate) {
      this->scale_steps(out, decays);
      scale_all(out, this->scale);
    }
    this->template advance<kHasOneGate ? kStateTerms : kGivenTerms, kQueryTerms>(out, queries);
  }
  /// And by what keys hold of it.
  __device__ __forceinline__ void advance_corrected(const float* decays, const bf16* keys,
                                                    Sums& v_grad) {
    if constexpr (kHasOneGate) this->scale_steps(v_grad, decays);
    scale_all(v_grad, -1.0f);
    this->template advance<kStateTerms, kKeyTerms>(v_grad,
                                                   kHasOneGate ? keys : keys + kKeyTerms * kRows);
  }
  /// Of the warp's steps, what the state has for their keys.
  __device__ __forceinline__ void add_held(const float* after, float (&own)[4]) const {
    float held[4];
    this->add_told(0, this->part(), held);
    tile::Pack<float, 2> by{1.0f, 1.0f};
    if constexpr (kHasOneGate) by = this->two_of(after + 8 * this->part());
    TW_UNROLL
    for (int i = 0; i < 4; ++i) own[i] = tile::fma(by[i % 2], held[i], own[i]);
  }
  /// The same of later outputs of the chunk, by their weights of the step.
  __device__ __forceinline__ void add_own_later(const bf16* weights, const Sums& out,
                                                float (&own)[4]) const {
    const bf16* const begin = weights + Square::at(lane(), 8 * this->part());
    const auto right = Square::template rows<kStateTerms>(begin, Base::kSquare, 0, 0);
    TW_UNROLL
    for (int s = 0; s < kSteps; s += 16) {
      const auto left = LeftTerms<kGivenTerms>::of(out[s / 8], out[s / 8 + 1]);
      TW_UNROLL
      for (int r = 0; r < kStateTerms; ++r) {
        const auto& four = right.term[r];
        const uint32_t half[2] = {four[s / 8], four[s / 8 + 1]};
        TW_UNROLL
        for (int l = 0; l < kGivenTerms && l + r < kStateTerms; ++l)
          tile::cuda::mma(own, left.term[l], half, bf16{});
      }
    }
  }
  __device__ __forceinline__ static void scale_all(Sums& sums, float by) {
    TW_UNROLL
    for (int i = 0; i < 4 * Base::kTiles; ++i) sums[i / 4][i % 4] *= by;
  }
  /// Of each step, what later ones and itself have times their weights of it.
  template <int kTerms>
  __device__ __forceinline__ void add_later(const bf16* weights, const Sums& later,
                                            Sums& to) const {
    const bf16* const begin = weights + Square::of_rows(lane());
    TW_UNROLL
    for (int s = 0; s < kSteps; s += 16) {
      const auto left = LeftTerms<kTerms>::of(later[s / 8], later[s / 8 + 1]);
      TW_UNROLL
      for (int e = 0; e <= s; e += 16)
        multiply<kStateTerms>(to[e / 8], to[e / 8 + 1], left,
                              Square::template rows<kStateTerms>(begin, Base::kSquare, s, e));
    }
  }
};

}  // namespace tw::kernels
#endif
