// The third and fourth phase of linear_attention_backward by chunks on a GPU
// (linear_attention_backward_chunks.h), after the products of
// linear_attention_gradient_products_gpu.h: a thread has one dimension of half a chunk's steps, and
// meets each pair of them with what gates leave between the two. Between halves gates go into the
// factors, as in linear_attention_gated_weights_gpu.h; gates of all dimensions are in the squares
// of steps.
#pragma once

#include "tilewright/kernels/linear_attention_gradient_products_gpu.h"
#if defined(__CUDACC__)

namespace tw::kernels {

template <class P, class T, class U, class Kernel, int kDims, bool kHasOneGate, bool kIsCorrected>
struct LinearChunkGradients
    : LinearGradientProducts<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected> {
  using Base = LinearGradientProducts<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>;
  using Base::b, Base::betas, Base::count, Base::dims, Base::first, Base::h, Base::head,
      Base::kHalf, Base::kPitch, Base::kSquarePitch, Base::kSteps, Base::of, Base::square,
      Base::sync, Base::told, Base::with;
  using Base::Base;

  __device__ __forceinline__ void go() const {
    if (count == 0) return;  // there is no such chunk
    this->load_steps();
    sync();
    this->multiply_states();
    this->multiply_steps();
    of_dimension();
  }

 private:
  using Half = float[kHalf];  // a number for each of the thread's steps

  __device__ __forceinline__ int dim() const { return this->thread() % kDims; }
  __device__ __forceinline__ int half() const { return this->thread() / kDims; }
  __device__ __forceinline__ bool has_dim() const { return dim() < of.q.size(3); }
  __device__ __forceinline__ int begin() const { return half() * kHalf; }
  __device__ __forceinline__ float weight(bool of_slopes, int step, int at) const {
    return square(of_slopes)[step * kSquarePitch + at];
  }
  /// Of all steps before they are waited for.
  template <class E>
  __device__ __forceinline__ void load(const View<const E, 4>& from, int64_t of_head,
                                       Half& to) const {
    E given[kHalf];
    const E* at =
        has_dim() ? &from(b, first, of_head, dim()) + begin() * from.stride(1) : from.data;
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i, at += from.stride(1))
      given[i] = has_dim() && begin() + i < count ? *at : E(0.0f);
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i) to[i] = float(given[i]);
  }

  __device__ __forceinline__ void of_dimension() const {
    Half queries, keys, gates, k_grads = {};
    load(of.q, head, queries);
    load(of.k, head, keys);
    if constexpr (!kHasOneGate) {
      load(of.g, h, gates);
      TW_UNROLL
      for (int i = 0; i < kHalf; ++i) gates[i] = tile::exp(gates[i]);
    }
    const float all = tell(queries, keys, gates);
    sync();
    const float other = kHasOneGate ? 1.0f : dims(2 - half())[dim()];
    if (half() == 0) add_later_half(gates, k_grads);
    add_pairs(gates, keys, queries, k_grads, half() > 0 ? other : 1.0f);
    const float met = finish_keys(gates, keys, queries, k_grads, half() > 0 ? 1.0f : other);
    float sum = 0;
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i) sum += queries[i];
    dims(3 + half())[dim()] = sum;
    dims(5 + half())[dim()] = met;
    sync();
    const float kept = (kHasOneGate ? this->before()[kSteps - 1] : all * other) * dims(0)[dim()];
    put_gates(queries, kept + dims(5)[dim()] + dims(6)[dim()]);
  }

  /// What the other half needs: keys, or queries and keys, with the gates between them and where
  /// the later half begins. Returns what gates of the half leave together.
  __device__ __forceinline__ float tell(const Half& queries, const Half& keys,
                                        const Half& gates) const {
    float left = 1;
    TW_UNROLL
    for (int n = 0; n < kHalf; ++n) {
      if (half() > 0) {
        if constexpr (!kHasOneGate) left *= gates[n];
        told(kHalf + n)[dim()] = queries[n] * left;
        if constexpr (kIsCorrected)
          told(2 * kHalf + n)[dim()] = betas()[kHalf + n] * keys[n] * left;
      } else {
        told(kHalf - 1 - n)[dim()] = keys[kHalf - 1 - n] * left;
        if constexpr (!kHasOneGate) left *= gates[kHalf - 1 - n];
      }
    }
    if constexpr (!kHasOneGate) dims(1 + half())[dim()] = left;
    return left;
  }
  /// Of the earlier half's keys, what the later half adds.
  __device__ __forceinline__ void add_later_half(const Half& gates, Half& k_grads) const {
    TW_ROLLED
    for (int i = 0; i < kHalf; ++i) {
      const float query = told(kHalf + i)[dim()];
      const float key = kIsCorrected ? told(2 * kHalf + i)[dim()] : 0.0f;
      TW_UNROLL
      for (int j = 0; j < kHalf; ++j) {
        k_grads[j] = tile::fma(weight(false, kHalf + i, j), query, k_grads[j]);
        if constexpr (kIsCorrected)
          k_grads[j] = tile::fma(-weight(true, kHalf + i, j), key, k_grads[j]);
      }
    }
    if constexpr (!kHasOneGate) {
      float left = 1;
      TW_UNROLL
      for (int j = kHalf - 1; j >= 0; --j) {
        k_grads[j] *= left;
        left *= gates[j];
      }
    }
  }
  /// Pairs of steps in the half, and the later half's with the earlier's; q's gradients, which
  /// become those of gates: queries = q dq + 2 k (what k's has of states it is held against).
  __device__ __forceinline__ void add_pairs(const Half& gates, const Half& keys, Half& queries,
                                            Half& k_grads, float earlier) const {
    const int begins = begin();
    float from_half = 1;
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i) {
      const int step = begins + i;
      const float query = queries[i], key = betas()[step] * keys[i];
      float q_grad = 0, held = 0, left = 1;
      TW_UNROLL
      for (int j = i; j >= 0; --j) {
        const float weight_of = weight(false, step, begins + j), by = left * keys[j];
        float change = weight_of * query;
        q_grad = tile::fma(weight_of, by, q_grad);
        if (kIsCorrected && j < i) {
          const float of_slopes = weight(true, step, begins + j);
          held = tile::fma(of_slopes, by, held);
          change = tile::fma(-of_slopes, key, change);
        }
        k_grads[j] = tile::fma(left, change, k_grads[j]);
        if constexpr (!kHasOneGate) left *= gates[j];
      }
      if constexpr (!kHasOneGate) from_half *= gates[i];
      if (half() > 0) add_earlier_half(step, from_half, q_grad, held);
      const float from_chunk = kHasOneGate ? this->before()[step] : from_half * earlier;
      q_grad =
          tile::fma(of.score_scale() * from_chunk, this->product(0)[step * kPitch + dim()], q_grad);
      float key_grad = 0;
      if constexpr (kIsCorrected) {
        held = tile::fma(from_chunk, this->product(2)[step * kPitch + dim()], held);
        key_grad = -betas()[step] * held;
        k_grads[i] += key_grad;
      }
      put(0, i, q_grad);
      queries[i] = tile::fma(query, q_grad, 2 * keys[i] * key_grad);
    }
  }
  __device__ __forceinline__ void add_earlier_half(int step, float from_half, float& q_grad,
                                                   float& held) const {
    float q_sum = 0, held_sum = 0;
    TW_UNROLL
    for (int j = 0; j < kHalf; ++j) {
      const float key = told(j)[dim()];
      q_sum = tile::fma(weight(false, step, j), key, q_sum);
      if constexpr (kIsCorrected) held_sum = tile::fma(weight(true, step, j), key, held_sum);
    }
    q_grad = tile::fma(from_half, q_sum, q_grad);
    held = tile::fma(from_half, held_sum, held);
  }
  /// k's gradients, from the state after the chunk, too; the half's sum of those times k.
  __device__ __forceinline__ float finish_keys(const Half& gates, const Half& keys, Half& queries,
                                               Half& k_grads, float later) const {
    float left = later, met = 0;
    TW_UNROLL
    for (int j = kHalf - 1; j >= 0; --j) {
      const int step = begin() + j;
      if constexpr (kHasOneGate) left = this->after()[step];
      const float of_state = left * betas()[step] * this->product(1)[step * kPitch + dim()];
      k_grads[j] += of_state;
      met = tile::fma(keys[j], of_state, met);
      queries[j] = tile::fma(-keys[j], k_grads[j], queries[j]);
      put(1, j, k_grads[j]);
      if constexpr (!kHasOneGate) left *= gates[j];
    }
    return met;
  }
  /// Of q (0) or k.
  __device__ __forceinline__ void put(int which, int i, float value) const {
    const int step = begin() + i;
    if (with.shares_keys())
      Base::sums(this->p, with, this->place, which)[step * kDims + dim()] = value;
    else if (has_dim() && step < count)
      (which == 0 ? of.q_grad : of.k_grad)(b, first + step, head, dim()) = T(value);
  }
  /// Sums over later steps.
  __device__ __forceinline__ void put_gates(const Half& of_steps, float of_chunk) const {
    float sum = of_chunk + (half() == 0 ? dims(4)[dim()] : 0.0f);
    TW_UNROLL
    for (int i = kHalf - 1; i >= 0; --i) {
      sum += of_steps[i];
      if (has_dim() && begin() + i < count) of.g_grad(b, first + begin() + i, h, dim()) = U(sum);
    }
  }
};

/// Adds up what heads that share keys have of some rows.
template <class Places, class T, class P, class Kernel>
__device__ __forceinline__ void add_heads(P p, const Kernel& of, const LinearBackwardChunks& with) {
  constexpr int kSteps = LinearChunks::kSteps;
  const int64_t begin = p.index() * with.kFoldedRows, heads = of.q.size(2);
  const int dims = int(of.q.size(3));
  const int rows = int(tile::lesser(with.rows - begin, with.kFoldedRows));
  TW_ROLLED
  for (int i = p.thread(); i < rows * dims; i += p.threads()) {
    const int n = i / dims, d = i - n * dims;
    const int64_t row = index_quotient(begin + n, heads), head = begin + n - row * heads;
    const int64_t b = index_quotient(row, of.length()), t = row - b * of.length();
    const int64_t chunk = t / kSteps, at = (t % kSteps) * with.chunks.dims + d;
    float q = 0, k = 0;
    for (int64_t h = head * of.group(); h < (head + 1) * of.group(); ++h) {
      const int64_t place = (b * of.v.size(2) + h) * with.chunks.chunks + chunk;
      q += Places::sums(p, with, place, 0)[at];
      k += Places::sums(p, with, place, 1)[at];
    }
    of.q_grad(b, t, head, d) = T(q);
    of.k_grad(b, t, head, d) = T(k);
  }
}

}  // namespace tw::kernels
#endif
