// Linear attention with gates, and with the delta rule where there is a beta.
//
//   S_t = diag(exp(g_t)) S_{t-1} + k_t d_t^T         d_t = v_t, or with the delta rule
//   o_t = scale S_t^T q_t                            d_t = beta_t (v_t - (exp(g_t) S_{t-1})^T k_t)
//
// Gated linear attention (Yang et al., arXiv:2312.06635), DeltaNet (arXiv:2406.06484), Gated
// DeltaNet (arXiv:2412.06464, gates equal for all key dimensions), Kimi Delta Attention
// (arXiv:2510.26692), and the state-space duality of Mamba-2 (Dao & Gu, arXiv:2405.21060), whose
// q, k and v are C, B and dt x.
//
// Columns of the state do not depend on each other: a program has a few of one head and goes
// through time. What it keeps of the state is in the nearest cache, where this recurrence needs no
// more operations than the forms that multiply chunks. State and sums are float32. On a GPU it is
// in registers (linear_attention_gpu.h), unless it has very many rows; there, many steps of 16-bit
// tensors are multiplied by chunks (linear_attention_chunks.h).
#pragma once

#include "tilewright/kernels/linear_attention_chunks_gpu.h"
#include "tilewright/kernels/linear_attention_gpu.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Columns of the state that a program has.
template <class P>
inline constexpr int64_t kStateColumns = 4 * P::template kLanes<float>;

/// What one step multiplies the rows of a state with.
struct StepRows {
  float *decay, *key, *query;  // [D] each: exp(g), k, scale * q
};

/// to = from, in float32.
template <class P, class T>
TW_INLINE void widen(P p, const View<const T, 1>& from, const View<float, 1>& to) {
  tile::for_row(p, to, [&](auto at) { tile::store_cached(to, at, tile::load(from, at)); });
}
template <class P, class T>
TW_INLINE void narrow(P p, const View<float, 1>& from, const View<T, 1>& to) {
  tile::for_row(p, to, [&](auto at) { tile::store(p, to, at, tile::load(from, at)); });
}

/// The state of one head, or some columns of it, in scratch. Its loops know nothing of the types of
/// tensors, so that they are compiled once for all.
template <class P>
struct LinearState {
  using V = typename P::template Vec<float>;
  P p;
  float* data;  // [dims, columns]
  int64_t dims, columns;

  TW_INLINE View<float, 1> row(int64_t d) const { return view(data + d * columns, columns); }
  TW_INLINE float* end() const { return data + dims * columns; }

  /// Columns from `begin` on of a tensor's state; zero where there is none.
  template <class U>
  TW_FLATTEN __attribute__((noinline)) TW_DEVICE void load(View<const U, 2> from,
                                                           int64_t begin) const {
    for (int64_t d = 0; d < dims; ++d) {
      if (from)
        widen(p, from[d].part(begin, columns), row(d));
      else
        tile::for_row(p, columns, [&](auto at) { tile::store_cached(row(d), at, V{}); });
    }
  }
  template <class U>
  TW_FLATTEN __attribute__((noinline)) TW_DEVICE void store(View<U, 2> to, int64_t begin) const {
    for (int64_t d = 0; d < dims; ++d) narrow(p, row(d), to[d].part(begin, columns));
  }

  /// delta = beta (value - (decay state)^T key); value and delta have a number for each column.
  TW_FLATTEN __attribute__((noinline)) TW_DEVICE void correct(StepRows step, float beta,
                                                              const float* value,
                                                              float* delta) const {
    const LinearState s = *this;  // in registers: stores might change what `this` points at
    tile::for_row<float, 4>(s.p, s.columns, [&](auto at) {
      using Wide = typename decltype(at)::Vec;
      Wide held{};
      for (int64_t d = 0; d < s.dims; ++d)
        held = tile::fma(tile::splat<Wide>(step.decay[d] * step.key[d]), tile::load(s.row(d), at),
                         held);
      tile::store_cached(view(delta, s.columns), at,
                         (tile::load(view(value, s.columns), at) - held) * beta);
    });
  }
  /// state = decay state + key delta^T; out = state^T query.
  TW_FLATTEN __attribute__((noinline)) TW_DEVICE void advance(StepRows step, const float* delta,
                                                              float* out) const {
    const LinearState s = *this;
    tile::for_row<float, 4>(s.p, s.columns, [&](auto at) {
      using Wide = typename decltype(at)::Vec;
      const Wide change = tile::load(view(delta, s.columns), at);
      Wide sum{};
      for (int64_t d = 0; d < s.dims; ++d) {
        const Wide next = tile::fma(tile::splat<Wide>(step.key[d]), change,
                                    tile::load(s.row(d), at) * step.decay[d]);
        tile::store_cached(s.row(d), at, next);
        sum = tile::fma(tile::splat<Wide>(step.query[d]), next, sum);
      }
      tile::store_cached(view(out, s.columns), at, sum);
    });
  }
};

/// Widens what a step needs of q, k and g into scratch.
template <class P, class T, class U>
TW_INLINE void load_step(P p, const StepRows& to, const View<const T, 1>& q,
                         const View<const T, 1>& k, const View<const U, 1>& g, float scale) {
  const int64_t n = q.size(0);
  tile::sync(p);  // the step before reads the same memory
  tile::for_row(p, n, [&](auto at) {
    tile::store_cached(view(to.query, n), at, tile::load(q, at) * scale);
    tile::store_cached(view(to.key, n), at, tile::load(k, at));
    tile::store_cached(view(to.decay, n), at, tile::exp(tile::load(g, at)));
  });
  tile::sync(p);
}

template <class T, class U>
struct LinearAttention {
  /// The first way goes step by step, the others are LinearChunksOnGpu's.
  static constexpr int kGpuWays = sizeof(T) == 2 ? 1 + LinearChunksOnGpu::kWays : 1;
  static constexpr int kGpuRegisters = 128;
  static constexpr bool kIsBackward = false;

  View<const T, 4> q;              // [B, L, H, D]
  View<const T, 4> k;              // [B, L, H, D]
  View<const T, 4> v;              // [B, L, Hv, Dv], Hv a multiple of H
  View<const U, 4> g;              // [B, L, Hv, D], log of the decay
  View<const U, 3> beta;           // [B, L, Hv], or no data: no delta rule
  View<const U, 4> initial_state;  // [B, Hv, D, Dv], or no data: 0
  tile::compute_t<T> scale;        // 0: 1 / sqrt(D)
  int64_t chunk_size;              // steps between two of `states`
  View<T, 4> out;                  // [B, L, Hv, Dv]
  View<U, 4> final_state;          // [B, Hv, D, Dv]
  View<U, 5>
      states;  // [B, Hv, chunks + 1, D, Dv], before each chunk and after the last; or no data

  TW_INLINE int64_t length() const { return v.size(1); }
  TW_INLINE int64_t chunks() const { return (length() + chunk_size - 1) / chunk_size; }
  TW_INLINE tile::compute_t<T> score_scale() const {
    return scale != 0 ? scale : tile::rsqrt(static_cast<float>(q.size(3)));
  }

  TW_INLINE int way(const Machine& machine) const {
    return 1 + LinearChunksOnGpu::way(*this, machine.l1d_bytes);
  }

  template <tile::Program P>
  TW_DEVICE int64_t blocks() const {
    return (v.size(3) + kStateColumns<P> - 1) / kStateColumns<P>;
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
    if constexpr (P::kOnGpu) {
      if (way(machine) > 0) return LinearChunksOnGpu::of(*this).plan(machine.l1d_bytes);
      if (LinearAttentionOnGpu::takes(q.size(3)))
        return LinearAttentionOnGpu::plan<T>(v.size(0) * v.size(2), q.size(3), v.size(3));
    }
    const int64_t floats = (q.size(3) + 2) * kStateColumns<P> + 3 * q.size(3);
    return tile::plan_of(v.size(0) * v.size(2) * blocks<P>(), floats * int64_t{sizeof(float)})
        .over(kStateColumns<P>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    if constexpr (tile::cuda::way_of_program<P>() > 0)
      return LinearChunksOnGpu::run<tile::cuda::way_of_program<P>() - 1, T, U>(p, *this);
    if (LinearAttentionOnGpu::takes(q.size(3)))
      return LinearAttentionOnGpu::with_layout<T>(q.size(3), [&](auto layout) {
        if (beta)
          StateWalk<P, T, U, LinearAttention, decltype(layout), true>::run(p, *this);
        else
          StateWalk<P, T, U, LinearAttention, decltype(layout), false>::run(p, *this);
      });
#endif
    const int64_t row = index_quotient(p.index(), blocks<P>());
    const int64_t b = index_quotient(row, v.size(2)), h = row - b * v.size(2);
    const int64_t begin = (p.index() - row * blocks<P>()) * kStateColumns<P>;
    const int64_t rest = v.size(3) - begin, dims = q.size(3), head = h / (v.size(2) / q.size(2));
    const int64_t n = rest < kStateColumns<P> ? rest : kStateColumns<P>;
    const LinearState<P> state{p, p.template scratch<float>(), dims, n};
    const StepRows step{state.end(), state.end() + dims, state.end() + 2 * dims};
    const View<float, 1> change = view(state.end() + 3 * dims, n), sum = view(change.data + n, n);
    const float factor = score_scale();
    state.load(initial_state ? initial_state[b][h] : View<const U, 2>{}, begin);
    for (int64_t t = 0; t < length(); ++t) {
      if (states && t % chunk_size == 0) state.store(states[b][h][t / chunk_size], begin);
      load_step(p, step, q[b][t][head], k[b][t][head], g[b][t][h], factor);
      widen(p, v[b][t][h].part(begin, n), change);
      if (beta) state.correct(step, float(beta(b, t, h)), change.data, change.data);
      state.advance(step, change.data, sum.data);
      narrow(p, sum, out[b][t][h].part(begin, n));
    }
    if (states) state.store(states[b][h][chunks()], begin);
    state.store(final_state[b][h], begin);
  }
};

}  // namespace tw::kernels
