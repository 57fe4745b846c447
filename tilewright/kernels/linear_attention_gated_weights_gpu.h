// The first phase of linear_attention by chunks on a GPU where each dimension of a key has gates of
// its own (linear_attention_weights_gpu.h): between the halves of a chunk gates go into the
// factors, from where the later half begins, so that none is larger than 1; in each half they are
// multiplied step by step.
#pragma once

#include "tilewright/kernels/linear_attention_weights_gpu.h"
#if defined(__CUDACC__)

namespace tw::kernels {

template <class P, class T, class U, class Kernel, int kDims, bool kIsCorrected>
struct LinearChunkGatedWeights : LinearChunkRecord<P, T, U, Kernel, kDims, kIsCorrected> {
  using Base = LinearChunkRecord<P, T, U, Kernel, kDims, kIsCorrected>;
  using Base::b, Base::count, Base::first, Base::h, Base::head, Base::kHalf, Base::kRows,
      Base::kSteps, Base::kOutTerms, Base::kStateTerms, Base::lane, Base::of, Base::warp,
      Base::with;
  using typename Base::Rows;
  static constexpr int kSlab = LinearChunks::kSlab, kSlabPitch = LinearChunks::kSlabPitch;
  static constexpr int kHalfSlab = kHalf * int(LinearChunks::padded(kSlab));
  using Slab = PaddedRows<kSlab / 8>;

  __device__ __forceinline__ LinearChunkGatedWeights(P program, const Kernel& kernel,
                                                     const LinearChunks& chunks)
      : Base(program, kernel, chunks) {}

  __device__ __forceinline__ void go() const {
    if (this->count == 0) return;  // there is no such chunk
    float inside[kHalf] = {}, between[2][4] = {};
    this->load_betas();
    TW_ROLLED
    for (int begin = 0; begin < kDims; begin += kSlab) {
      this->sync();  // the slab before has been read
      load_slab(begin);
      this->sync();
      add_inside(inside);
      if (warp() < (kIsCorrected ? 2 : 1)) add_between(between);
    }
    put_inside(inside);
    put_between(between);
    if constexpr (kIsCorrected) this->transform_steps();
  }

 private:
  __device__ __forceinline__ bf16* kept_keys() const { return this->queries() + kOutTerms * kRows; }
  __device__ __forceinline__ bf16* held_keys() const { return kept_keys() + kStateTerms * kRows; }
  // Of a slab: queries, keys and what gates leave in a step, [step, dimension]; gates of either
  // half together; factors of the products between them, in terms.
  __device__ __forceinline__ float* slab(int which) const {
    return static_cast<float*>(this->large()) + which * kSteps * kSlabPitch;
  }
  __device__ __forceinline__ float* half_gates() const { return slab(3); }
  __device__ __forceinline__ bf16* across(int which) const {
    return reinterpret_cast<bf16*>(half_gates() + 2 * kSlab) + which * kStateTerms * kHalfSlab;
  }

  /// A thread has a dimension of half the steps.
  __device__ __forceinline__ void load_slab(int begin) const {
    const int col = this->thread() % kSlab, half = this->thread() / kSlab * kHalf, d = begin + col;
    float gates[kHalf], queries[kHalf], keys[kHalf];
    load(of.g, h, d, half, gates);
    load(of.q, head, d, half, queries);
    load(of.k, head, d, half, keys);
    float all = 1;  // that they leave together
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i) {
      gates[i] = tile::exp(gates[i]);
      all *= gates[i];
      const int at = (half + i) * kSlabPitch + col;
      slab(0)[at] = queries[i];
      slab(1)[at] = keys[i];
      slab(2)[at] = gates[i];
    }
    half_gates()[this->thread()] = all;
    this->sync();
    const float other = half_gates()[this->thread() ^ kSlab];
    put_before(begin, col, half, gates, queries, keys, half > 0 ? other : 1.0f);
    put_after(begin, col, half, gates, keys, half > 0 ? 1.0f : other);
    if (half == 0) this->decays()[d] = all * other;
  }
  /// A dimension of steps from `half` on, of which all are asked for before any is waited for.
  template <class E>
  __device__ __forceinline__ void load(const View<const E, 4>& from, int64_t of_head, int d,
                                       int half, float (&to)[kHalf]) const {
    E given[kHalf];
    const bool is_there = d < of.q.size(3);
    const E* at = is_there ? &from(b, first, of_head, d) + half * from.stride(1) : from.data;
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i, at += from.stride(1))
      given[i] = is_there && half + i < count ? *at : E(0.0f);
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i) to[i] = float(given[i]);
  }
  /// Of queries and keys with the gates up to their step, from the chunk's begin or the half's.
  using OfHalf = float[kHalf];  // a dimension's
  __device__ __forceinline__ void put_before(int begin, int col, int half, const OfHalf& gates,
                                             const OfHalf& queries, const OfHalf& keys,
                                             float earlier) const {
    const float scale = of.score_scale();
    float left = 1;
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i) {
      left *= gates[i];
      const float query = queries[i] * left, key = keys[i] * left;
      const int at = Rows::at(half + i, begin + col);
      put_one<kOutTerms>(this->queries() + at, kRows, scale * query * earlier);
      if constexpr (kIsCorrected) put_one<kStateTerms>(held_keys() + at, kRows, key * earlier);
      if (half == 0) continue;
      put_one<kOutTerms>(across(0) + Slab::at(i, col), kHalfSlab, query);
      if constexpr (kIsCorrected)
        put_one<kStateTerms>(across(1) + Slab::at(i, col), kHalfSlab, key);
    }
  }
  /// Of keys with the gates after their step.
  __device__ __forceinline__ void put_after(int begin, int col, int half, const OfHalf& gates,
                                            const OfHalf& keys, float later) const {
    float left = 1;
    TW_UNROLL
    for (int i = kHalf - 1; i >= 0; --i) {
      const float key = keys[i] * left;
      put_one<kStateTerms>(kept_keys() + Rows::at(half + i, begin + col), kRows, key * later);
      if (half == 0) put_one<kStateTerms>(across(2) + Slab::at(i, col), kHalfSlab, key);
      left *= gates[i];
    }
  }
  template <int kTerms>
  __device__ __forceinline__ static void put_one(bf16* to, int stride, float x) {
    const PairTerms<kTerms> pair(x, 0.0f);
    TW_UNROLL
    for (int t = 0; t < kTerms; ++t) to[t * stride] = bf16::from_bits(uint16_t(pair.term[t]));
  }

  /// A lane has a step of a half, as a query or a key, and all of the half before it.
  __device__ __forceinline__ int half() const { return warp() % 2 * kHalf; }
  __device__ __forceinline__ void add_inside(float (&sums)[kHalf]) const {
    const int step = lane() % kHalf, begin = warp() / 2 * (kSlab / 2);
    const float* const row = slab(lane() / kHalf) + (half() + step) * kSlabPitch;
    TW_ROLLED
    for (int d = begin; d < begin + kSlab / 2; d += 4) {
      const auto own = tile::Raw<float, 4>::load(row + d).template widen<float>();
      float left[4];
      TW_UNROLL
      for (int j = kHalf - 1; j >= 0; --j) {
        const int at = (half() + j) * kSlabPitch + d;
        const auto key = tile::Raw<float, 4>::load(slab(1) + at).template widen<float>();
        tile::Pack<float, 4> gate{};
        if (j + 1 < kHalf)
          gate = tile::Raw<float, 4>::load(slab(2) + at + kSlabPitch).template widen<float>();
        TW_UNROLL
        for (int e = 0; e < 4; ++e) {
          left[e] = j + 1 < kHalf && j < step ? left[e] * gate[e] : own[e];
          sums[j] = tile::fma(left[e], key[e], sums[j]);
        }
      }
    }
  }
  /// Of the later half's queries, or keys, and the earlier half's keys: one warp's.
  __device__ __forceinline__ void add_between(float (&sums)[2][4]) const {
    if (warp() == 0)
      add_between<kOutTerms>(sums, across(0));
    else
      add_between<kStateTerms>(sums, across(1));
  }
  template <int kOf>
  __device__ __forceinline__ void add_between(float (&sums)[2][4], const bf16* later) const {
    TW_UNROLL
    for (int d = 0; d < kSlab; d += 16) {
      const auto left = Slab::template left<kOf>(later + Slab::of_rows(lane()), kHalfSlab, 0, d);
      multiply<kOf>(
          sums[0], sums[1], left,
          Slab::template columns<kOf>(across(2) + Slab::of_columns(lane()), kHalfSlab, 0, d));
    }
  }

  /// Adds up what two warps have, and puts it in its place.
  __device__ __forceinline__ void put_inside(const float (&sums)[kHalf]) const {
    float* const met = slab(0) + half() * 32 + lane();  // [half, step, lane]
    this->sync();
    TW_UNROLL
    for (int j = 0; j < kHalf; ++j)
      if (warp() >= 2) met[32 * j] = sums[j];
    this->sync();
    if (warp() >= 2) return;
    const int step = half() + lane() % kHalf;
    TW_UNROLL
    for (int j = 0; j < kHalf; j += 2) {
      const float x = sums[j] + met[32 * j], y = sums[j + 1] + met[32 * (j + 1)];
      if (lane() < kHalf)
        this->put_weights(step, half() + j, of.score_scale() * x, of.score_scale() * y);
      else if (kIsCorrected)
        this->put_lower(step, half() + j, x, y);
    }
  }
  __device__ __forceinline__ void put_between(const float (&sums)[2][4]) const {
    if (warp() >= 2) return;
    TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = lane() / 4 + i % 2 * 8, at = i / 2 * 8 + lane() % 4 * 2;
      const float x = sums[i / 2][i % 2 * 2], y = sums[i / 2][i % 2 * 2 + 1];
      if (warp() == 0) {
        this->put_weights(kHalf + row, at, of.score_scale() * x, of.score_scale() * y);
        this->put_weights(row, kHalf + at, 0.0f, 0.0f);
      } else if (kIsCorrected) {
        this->put_lower(kHalf + row, at, x, y);
        this->put_lower(row, kHalf + at, 0.0f, 0.0f);
      }
    }
  }
};

}  // namespace tw::kernels
#endif
