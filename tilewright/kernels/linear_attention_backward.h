// Gradients of linear attention (kernels/linear_attention.h, whose names these are). With dS what
// reaches the state after a step, P = exp(g) S its state before the change, and e = v - P^T k:
//
//   dS += scale q do^T       dd = dS^T k        dbeta = dd . e     dv = beta dd    m = -beta dd
//   dq = scale (P + k d^T) do     dk = dS d + P m     dg = rows of (dS + k m^T) . P
//   dS before the step = exp(g) (dS + k m^T)
//
// and without beta d = v, dv = dd and m = 0. One program per head of q goes back through time. It
// needs the states that going forth made: a first pass keeps every sqrt(L)th, and each stretch
// between two of them is walked again before its gradients, which keeps all of it. On a GPU a
// program has some columns, unless there are very many rows (linear_attention_backward_gpu.h);
// there, many steps of 16-bit tensors are multiplied by chunks
// (linear_attention_backward_chunks.h).
#pragma once

#include "tilewright/kernels/linear_attention.h"
#include "tilewright/kernels/linear_attention_backward_chunks_gpu.h"
#include "tilewright/kernels/linear_attention_backward_sums_gpu.h"

namespace tw::kernels {

/// The gradient of a state, and the loops over it.
template <class P>
struct LinearStateGrad {
  using V = typename P::template Vec<float>;
  LinearState<P> slopes;

  /// slopes += query out_grad^T; change_grad = slopes^T key.
  TW_FLATTEN __attribute__((noinline)) TW_DEVICE void by_columns(StepRows step,
                                                                 const float* out_grad,
                                                                 float* change_grad) const {
    const LinearState<P> s = slopes;  // in registers
    tile::for_row<float, 4>(s.p, s.columns, [&](auto at) {
      using Wide = typename decltype(at)::Vec;
      const Wide out = tile::load(view(out_grad, s.columns), at);
      Wide sum{};
      for (int64_t d = 0; d < s.dims; ++d) {
        const Wide slope =
            tile::fma(tile::splat<Wide>(step.query[d]), out, tile::load(s.row(d), at));
        tile::store_cached(s.row(d), at, slope);
        sum = tile::fma(tile::splat<Wide>(step.key[d]), slope, sum);
      }
      tile::store_cached(view(change_grad, s.columns), at, sum);
    });
  }

  /// What has a number for each column: of one step.
  struct Columns {
    const float *out_grad, *change, *held_grad;
  };
  /// Rows of q's, k's and g's gradients; then slopes = decay (slopes + key held_grad^T). Those of q
  /// are not yet scaled. `seen` is out_grad . change.
  TW_FLATTEN __attribute__((noinline)) TW_DEVICE void by_rows(StepRows step, LinearState<P> past,
                                                              Columns of, float seen, float* q_row,
                                                              float* k_row, float* g_row) const {
    const LinearState<P> s = slopes;  // in registers
    const auto out_grad = view(of.out_grad, s.columns), change = view(of.change, s.columns),
               held_grad = view(of.held_grad, s.columns);
    for (int64_t d = 0; d < s.dims; ++d) {
      const View<float, 1> slopes_row = s.row(d), states_row = past.row(d);
      const float decay = step.decay[d], key = step.key[d];
      const auto by_state = tile::sum_two(s.p, states_row, [&](auto at) {
        const V kept = tile::load(states_row, at) * decay;
        return tile::Two<V>{kept * tile::load(out_grad, at), kept * tile::load(held_grad, at)};
      });
      const auto by_slope = tile::sum_two(s.p, slopes_row, [&](auto at) {
        const V slope = tile::load(slopes_row, at);
        return tile::Two<V>{slope * tile::load(change, at),
                            slope * (tile::load(states_row, at) * decay)};
      });
      q_row[d] = by_state.first + key * seen;
      k_row[d] = by_slope.first + by_state.second;
      g_row[d] = by_slope.second + key * by_state.second;
      tile::for_row(s.p, s.columns, [&](auto at) {
        const V slope =
            tile::fma(tile::splat<V>(key), tile::load(held_grad, at), tile::load(slopes_row, at));
        tile::store_cached(slopes_row, at, slope * decay);
      });
    }
  }
};

template <class T, class U>
struct LinearAttentionBackward {
  /// The first way goes step by step, the others are LinearBackwardChunksOnGpu's.
  static constexpr int kGpuWays = sizeof(T) == 2 ? 1 + LinearBackwardChunksOnGpu::kWays : 1;
  static constexpr int kGpuRegisters = 128;
  static constexpr bool kIsBackward = true;

  View<const T, 4> grad;           // [B, L, Hv, Dv]
  View<const T, 4> q;              // [B, L, H, D]
  View<const T, 4> k;              // [B, L, H, D]
  View<const T, 4> v;              // [B, L, Hv, Dv], Hv a multiple of H
  View<const U, 4> g;              // [B, L, Hv, D]
  View<const U, 3> beta;           // [B, L, Hv], or no data
  View<const U, 4> initial_state;  // [B, Hv, D, Dv], or no data: 0
  View<const U, 4> final_grad;     // [B, Hv, D, Dv], of the state after all steps; no data: 0
  tile::compute_t<T> scale;        // 0: 1 / sqrt(D)
  View<T, 4> q_grad;               // [B, L, H, D]
  View<T, 4> k_grad;               // [B, L, H, D]
  View<T, 4> v_grad;               // [B, L, Hv, Dv]
  View<U, 4> g_grad;               // [B, L, Hv, D]
  View<U, 3> beta_grad;            // [B, L, Hv], or no data
  View<U, 4> initial_grad;         // [B, Hv, D, Dv], or no data

  TW_INLINE int64_t length() const { return v.size(1); }
  TW_INLINE int64_t group() const { return v.size(2) / (q.size(2) > 0 ? q.size(2) : 1); }
  TW_INLINE int way(const Machine& machine) const {
    return 1 + LinearBackwardChunksOnGpu::way(*this, machine.l1d_bytes);
  }
  TW_INLINE float score_scale() const {
    return scale != 0 ? scale : tile::rsqrt(static_cast<float>(q.size(3)));
  }
  TW_INLINE int64_t stretch() const {
    int64_t steps = 1;
    while (steps * steps < length()) ++steps;
    return steps;
  }
  TW_INLINE int64_t stretches() const { return (length() + stretch() - 1) / stretch(); }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
    if constexpr (P::kOnGpu) {
      if (way(machine) > 0) return LinearBackwardChunksOnGpu::of(*this).plan(machine.l1d_bytes);
      if (LinearBackwardOnGpu::takes(q.size(3))) return on_gpu().plan(q.size(2));
    }
    const int64_t dims = q.size(3), columns = v.size(3), steps = stretch();
    const int64_t floats = dims * columns * (2 + steps + stretches()) + columns * (steps + 5) +
                           6 * dims + (group() > 1 ? 2 * length() * dims : 0);
    return tile::plan_of(q.size(0) * q.size(2), floats * int64_t{sizeof(float)}).over(columns);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    if constexpr (tile::cuda::way_of_program<P>() > 0)
      return LinearBackwardChunksOnGpu::run<tile::cuda::way_of_program<P>() - 1, T, U>(p, *this);
    if (LinearBackwardOnGpu::takes(q.size(3))) return run_columns(p);
#endif
    const int64_t b = index_quotient(p.index(), q.size(2)), head = p.index() - b * q.size(2);
    for (int64_t h = head * group(); h < (head + 1) * group(); ++h) {
      const Head<P> one{p, *this, b, head, h};
      one.walk();
      for (int64_t n = stretches() - 1; n >= 0; --n) one.gradients(n);
      if (initial_grad) one.state_grad().store(initial_grad[b][h], 0);
    }
    const auto clear = [&](const View<T, 1>& row) {
      tile::for_row(p, row,
                    [&](auto at) { tile::store(p, row, at, typename P::template Vec<float>{}); });
    };
    for (int64_t t = 0; t < length() && group() == 0; ++t) {  // no value asks this head
      clear(q_grad[b][t][head]);
      clear(k_grad[b][t][head]);
    }
  }

 private:
  using Kernel = LinearAttentionBackward;

  TW_INLINE LinearBackwardOnGpu on_gpu() const {
    return {v.size(0), length(), v.size(2), q.size(3), v.size(3)};
  }
#if defined(__CUDACC__)
  template <class P>
  __device__ __forceinline__ void run_columns(P p) const {
    const LinearBackwardOnGpu with = on_gpu();
    if (p.phase() > 0) return LinearBackwardSums<P, T, U, Kernel>{p, *this, with}.run();
    LinearBackwardOnGpu::with_layout<T>(q.size(3), [&](auto layout) {
      if (beta)
        StateWalkBack<P, T, U, Kernel, decltype(layout), true>::run(p, *this, with);
      else
        StateWalkBack<P, T, U, Kernel, decltype(layout), false>::run(p, *this, with);
    });
  }
#endif

  /// One head of v, and where it has its scratch.
  template <class P>
  struct Head {
    using V = typename P::template Vec<float>;
    P p;
    const Kernel& kernel;
    int64_t b, head, h;

    TW_INLINE int64_t dims() const { return kernel.q.size(3); }
    TW_INLINE int64_t columns() const { return kernel.v.size(3); }
    /// States by number: the present one, its gradient, those of a stretch, the firsts of all.
    TW_INLINE LinearState<P> state(int64_t i) const {
      return {p, p.template scratch<float>() + i * dims() * columns(), dims(), columns()};
    }
    TW_INLINE LinearState<P> state_grad() const { return state(1); }
    TW_INLINE LinearState<P> before(int64_t i) const { return state(2 + i); }
    TW_INLINE LinearState<P> first(int64_t n) const { return state(2 + kernel.stretch() + n); }
    TW_INLINE View<float, 1> column_row(int64_t i) const {
      return view(first(kernel.stretches()).data + i * columns(), columns());
    }
    TW_INLINE View<float, 1> change() const { return column_row(0); }       // d
    TW_INLINE View<float, 1> change_grad() const { return column_row(1); }  // dd
    TW_INLINE View<float, 1> held_grad() const { return column_row(2); }    // m
    TW_INLINE View<float, 1> out_grad() const { return column_row(3); }     // do
    TW_INLINE View<float, 1> spare() const { return column_row(4); }
    TW_INLINE View<float, 1> error(int64_t i) const { return column_row(5 + i); }  // e
    TW_INLINE View<float, 1> dim_row(int64_t i) const {
      return view(error(kernel.stretch()).data + i * dims(), dims());
    }
    TW_INLINE StepRows step_rows() const {
      return {dim_row(0).data, dim_row(1).data, dim_row(2).data};
    }
    /// Of q (0) or k (1), from the heads of v before this one.
    TW_INLINE View<float, 1> sums(int64_t which, int64_t t) const {
      return view(dim_row(6).data + (which * kernel.length() + t) * dims(), dims());
    }
    TW_INLINE float beta(int64_t t) const {
      return kernel.beta ? float(kernel.beta(b, t, h)) : 1.0f;
    }

    /// to = from, both states.
    TW_INLINE void copy(const LinearState<P>& from, const LinearState<P>& to) const {
      to.load(View<const float, 2>{from.data, {dims(), columns()}, {columns(), 1}}, 0);
    }
    __attribute__((noinline)) TW_DEVICE void load_rows(int64_t t) const {
      load_step(p, step_rows(), kernel.q[b][t][head], kernel.k[b][t][head], kernel.g[b][t][h],
                kernel.score_scale());
    }
    TW_INLINE void set_change(int64_t t, const View<float, 1>& e) const {
      const float factor = beta(t);
      tile::for_row(p, columns(),
                    [&](auto at) { tile::store_cached(change(), at, tile::load(e, at) * factor); });
    }
    /// Goes one step forth; keeps e.
    __attribute__((noinline)) TW_DEVICE void forth(int64_t t, View<float, 1> e) const {
      load_rows(t);
      widen(p, kernel.v[b][t][h], e);
      if (kernel.beta) state(0).correct(step_rows(), 1.0f, e.data, e.data);
      set_change(t, e);
      state(0).advance(step_rows(), change().data, spare().data);
    }
    /// All steps, to keep the first state of each stretch.
    TW_INLINE void walk() const {
      state(0).load(kernel.initial_state ? kernel.initial_state[b][h] : View<const U, 2>{}, 0);
      state_grad().load(kernel.final_grad ? kernel.final_grad[b][h] : View<const U, 2>{}, 0);
      for (int64_t t = 0; t < kernel.length(); ++t) {
        if (t % kernel.stretch() == 0) copy(state(0), first(t / kernel.stretch()));
        forth(t, error(0));
      }
    }
    /// Those of stretch n.
    TW_INLINE void gradients(int64_t n) const {
      const int64_t begin = n * kernel.stretch(), rest = kernel.length() - begin;
      const int64_t count = rest < kernel.stretch() ? rest : kernel.stretch();
      copy(first(n), state(0));
      for (int64_t i = 0; i < count; ++i) {
        copy(state(0), before(i));
        forth(begin + i, error(i));
      }
      for (int64_t i = count - 1; i >= 0; --i) back(begin + i, error(i), before(i));
    }

    /// One step back.
    TW_INLINE void back(int64_t t, const View<float, 1>& e, const LinearState<P>& past) const {
      const LinearStateGrad<P> slopes{state_grad()};
      const float factor = beta(t), held = kernel.beta ? -factor : 0.0f;
      load_rows(t);
      widen(p, kernel.grad[b][t][h], out_grad());
      set_change(t, e);
      slopes.by_columns(step_rows(), out_grad().data, change_grad().data);
      const auto to = kernel.v_grad[b][t][h];
      tile::for_row(p, columns(), [&](auto at) {
        const V slope = tile::load(change_grad(), at);
        tile::store_cached(held_grad(), at, slope * held);
        tile::store(p, to, at, slope * factor);
      });
      if (kernel.beta_grad) {
        const float sum = dot(change_grad(), e);
        kernel.beta_grad(b, t, h) = U(sum);
      }
      const float seen = dot(out_grad(), change());
      slopes.by_rows(step_rows(), past, {out_grad().data, change().data, held_grad().data}, seen,
                     dim_row(3).data, dim_row(4).data, dim_row(5).data);
      tile::sync(p);
      add(0, t, kernel.score_scale(), kernel.q_grad[b][t][head]);
      add(1, t, 1, kernel.k_grad[b][t][head]);
      narrow(p, dim_row(5), kernel.g_grad[b][t][h]);
    }
    /// Adds row 3 or 4 to the sum over the heads of v, whose last one writes it.
    __attribute__((noinline)) TW_DEVICE void add(int64_t which, int64_t t, float factor,
                                                 View<T, 1> to) const {
      const int64_t place = h - head * kernel.group();
      const bool is_first = place == 0, is_last = place + 1 == kernel.group();
      tile::for_row(p, dims(), [&](auto at) {
        V sum = tile::load(dim_row(3 + which), at) * factor;
        if (!is_first) sum = sum + tile::load(sums(which, t), at);
        if (is_last)
          tile::store(p, to, at, sum);
        else
          tile::store_cached(sums(which, t), at, sum);
      });
    }
    TW_INLINE float dot(const View<float, 1>& x, const View<float, 1>& y) const {
      return tile::reduce_row(p, tile::Sum{}, columns(),
                              [&](auto at) { return tile::load(x, at) * tile::load(y, at); });
    }
  };
};

}  // namespace tw::kernels
