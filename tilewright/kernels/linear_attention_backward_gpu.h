// The schedule of linear_attention_backward (linear_attention_backward.h) on a GPU. A block has
// some columns of one head's states and of their gradients, in registers as linear_attention_gpu.h
// has them; what it keeps of states are copies of these registers, in the workspace. Sums over
// columns meet in shared memory after each step, and over blocks and heads in a second phase
// (linear_attention_backward_sums_gpu.h).
#pragma once

#include "tilewright/kernels/linear_attention_gpu.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/copy_async.h"
#endif

namespace tw::kernels {

/// How the work is laid out: what plans ask, and programs.
struct LinearBackwardOnGpu {
  static constexpr int64_t kMostDims = 256, kBatch = 8, kStateFloats = 32, kSums = 3;
  static constexpr int64_t kFoldedRows = 16;  // of a program that adds up
  TW_INLINE static bool takes(int64_t dims) { return dims > 0 && dims <= kMostDims; }

  int64_t batch, steps, heads, dims, columns;  // heads and columns of v
  int64_t lanes, threads = 128;

  TW_INLINE LinearBackwardOnGpu(int64_t batches, int64_t length, int64_t value_heads,
                                int64_t rows_of_state, int64_t columns_of_state)
      : batch(batches),
        steps(length),
        heads(value_heads),
        dims(rows_of_state),
        columns(columns_of_state),
        lanes(dims <= 64    ? 8
              : dims <= 128 ? 16
                            : 32) {
    if (columns > block_columns()) threads = 256;
  }
  /// f of how states lie in registers.
  template <class T, class F>
  TW_INLINE static void with_layout(int64_t dims, F&& f) {
    if (dims <= 64) return f(StateInRegisters<T, 8, 8, 4>{});
    if (dims <= 128) return f(StateInRegisters<T, 16, 8, 4>{});
    return f(StateInRegisters<T, 32, 8, 4>{});
  }
  TW_INLINE int64_t groups() const { return index_quotient(threads, lanes); }
  TW_INLINE int64_t block_columns() const { return groups() * 4; }
  TW_INLINE int64_t parts() const {
    return index_quotient(columns + block_columns() - 1, block_columns());
  }
  TW_INLINE int64_t programs() const { return batch * heads * parts(); }
  /// Steps between two states that are kept: about the root of all, in whole batches.
  TW_INLINE int64_t stretch() const {
    int64_t n = kBatch;
    while (n * n < steps) n += kBatch;
    return n;
  }
  TW_INLINE int64_t stretches() const { return index_quotient(steps + stretch() - 1, stretch()); }
  TW_INLINE int64_t state_floats() const { return threads * kStateFloats; }
  TW_INLINE int64_t kept_floats() const { return state_floats() * (stretches() + stretch()); }
  /// What a block adds up of a step: rows of q's, k's and g's gradients, and beta's.
  TW_INLINE int64_t row_floats() const { return kSums * dims + 1; }
  TW_INLINE int64_t batch_floats() const {
    return kBatch * (3 * lanes * 8 + 2 * block_columns() + 4);
  }
  TW_INLINE int64_t sum_floats() const { return groups() * (kSums * lanes * 8 + 4); }

  TW_INLINE tile::Plan plan(int64_t query_heads) const {
    const int64_t floats = batch_floats() + 2 * sum_floats() + 2 * state_floats();
    tile::Plan plan =
        tile::plan_of(programs(), floats * int64_t{sizeof(float)}).over_threads(threads);
    plan.phases = 2;
    const int64_t rows = batch * steps * query_heads;
    plan.grid[1] = index_quotient(rows + kFoldedRows - 1, kFoldedRows);
    plan.workspace_bytes =
        (programs() * kept_floats() + parts() * batch * steps * heads * row_floats()) *
        int64_t{sizeof(float)};
    return plan;
  }
};

#if defined(__CUDACC__)

/// One block of columns, there and back.
template <class P, class T, class U, class Kernel, class S, bool kHasBeta>
struct StateWalkBack : StateColumns<P, U, S, kHasBeta> {
  using Columns = StateColumns<P, U, S, kHasBeta>;
  using Columns::begin, Columns::p, Columns::lane, Columns::own, Columns::state;
  static constexpr int kBatch = int(LinearBackwardOnGpu::kBatch), kDims = S::kDims;
  static constexpr int kOwn = S::kOwn, kSums = int(LinearBackwardOnGpu::kSums);
  static constexpr int kFour = 4, kVector = 8;
  static_assert(kOwn == kFour && S::kRows * kOwn == LinearBackwardOnGpu::kStateFloats);

  const Kernel& of;
  Columns slopes;  // the gradient of the state
  int64_t b, h, head, stretch, stretches;
  float *firsts, *sums_of_rows;  // in the workspace

  __device__ __noinline__ static void run(P p, const Kernel& of, const LinearBackwardOnGpu& with) {
    StateWalkBack walk(p, of, with);
    walk.go();
  }

 private:
  __device__ __forceinline__ StateWalkBack(P program, const Kernel& kernel,
                                           const LinearBackwardOnGpu& with)
      : Columns{program, 0}, of(kernel), slopes{program, 0} {
    const int64_t parts = with.parts(), row = index_quotient(p.index(), parts);
    const int64_t part = p.index() - row * parts;
    b = index_quotient(row, with.heads);
    h = row - b * with.heads;
    head = index_quotient(h, of.group());
    begin = slopes.begin = part * columns();
    stretch = with.stretch();
    stretches = with.stretches();
    firsts = p.template workspace<float>() + p.index() * with.kept_floats();
    sums_of_rows = p.template workspace<float>() + with.programs() * with.kept_floats() +
                   ((part * with.batch + b) * with.steps * with.heads + h) * with.row_floats();
  }

  /// Of the block.
  __device__ __forceinline__ int groups() const { return p.threads() / S::kLanes; }
  __device__ __forceinline__ int columns() const { return groups() * kOwn; }
  /// The scratch: two states on their way back, a batch of steps, and what groups add up of two
  /// steps.
  __device__ __forceinline__ float* ring() const { return p.template scratch<float>(); }
  __device__ __forceinline__ float* rows() const {
    return ring() + 2 * int(LinearBackwardOnGpu::kStateFloats) * p.threads();
  }
  __device__ __forceinline__ float* values() const { return rows() + 3 * kBatch * kDims; }
  __device__ __forceinline__ float* out_grads() const { return values() + kBatch * columns(); }
  __device__ __forceinline__ float* betas() const { return out_grads() + kBatch * columns(); }
  __device__ __forceinline__ float* sums(int which) const {
    return betas() + kBatch * kFour + which * groups() * (kSums * kDims + kFour);
  }
  /// In the workspace, after the first states of the stretches: those of a stretch.
  __device__ __forceinline__ float* kept_states() const {
    return firsts + stretches * LinearBackwardOnGpu::kStateFloats * p.threads();
  }

  __device__ __forceinline__ void go() {
    if (of.initial_state) this->load_state(of.initial_state[b][h]);
    if (of.final_grad) slopes.load_state(of.final_grad[b][h]);
    const int64_t last = (stretches - 1) * stretch;
    TW_ROLLED
    for (int64_t first = 0; first < of.length(); first += kBatch) {
      if (index_quotient(first, stretch) * stretch == first) keep(firsts, first / stretch);
      if (first >= last) break;
      bring(first, false);
      TW_ROLLED
      for (int s = 0; s < kBatch; ++s) forth(s);
    }
    TW_ROLLED
    for (int64_t n = stretches - 1; n >= 0; --n) gradients(n * stretch, n);
    if (of.initial_grad) slopes.store_state(of.initial_grad[b][h]);
  }
  /// Those of a stretch.
  __device__ __forceinline__ void gradients(int64_t from, int64_t n) {
    const int count = int(tile::lesser(of.length() - from, stretch));
    TW_UNROLL
    for (int r = 0; r < S::kRows; ++r) {
      const auto four = load_floats<kFour>(place(firsts, n, r));
      TW_UNROLL
      for (int c = 0; c < kOwn; ++c) state[r][c] = four[c];
    }
    TW_ROLLED
    for (int first = 0; first < count; first += kBatch) {
      bring(from + first, false);
      TW_ROLLED
      for (int s = 0; s < kBatch && first + s < count; ++s) {
        keep(kept_states(), first + s);
        forth(s);
      }
    }
    int i = count - 1;
    fetch(i);
    TW_ROLLED
    while (i >= 0) {
      const int first = i / kBatch * kBatch;
      bring(from + first, true);
      TW_ROLLED
      for (; i >= first; --i) {
        fetch(i - 1);
        back(from + i, i);
      }
    }
  }
  __device__ __forceinline__ void forth(int s) {
    float unused[kOwn] = {};
    this->step(step_at(s), unused);
  }

  /// Of state i in the workspace, the thread's row r.
  __device__ __forceinline__ float* place(float* states, int64_t i, int r) const {
    return states + ((i * S::kRows + r) * p.threads() + p.thread()) * kFour;
  }
  __device__ __forceinline__ void keep(float* states, int64_t i) const {
    TW_UNROLL
    for (int r = 0; r < S::kRows; ++r) {
      const tile::Pack<float, kFour> four{state[r][0], state[r][1], state[r][2], state[r][3]};
      tile::Raw<float, kFour>::narrow(four).store(place(states, i, r));
    }
  }
  /// Begins to bring state i back; the last but one has been waited for.
  __device__ __forceinline__ void fetch(int i) const {
    TW_UNROLL
    for (int r = 0; r < S::kRows && i >= 0; ++r) {
      const float* const from = place(kept_states(), i, r);
      float* const to = place(ring(), i & 1, r);
      if (p.shared_scratch() > 0)
        tile::cuda::copy_async<16>(to, from);
      else
        tile::Raw<float, kFour>::load(from).store(to);
    }
    tile::cuda::commit_copies();
  }

  /// Steps from `first` on, as many as there are, into shared memory.
  __device__ __forceinline__ void bring(int64_t first, bool has_grads) const {
    const int64_t left = of.length() - first;
    p.sync();  // the batch before has been read
    TW_ROLLED
    for (int i = p.thread(); i < kBatch * kDims / kVector; i += p.threads()) {
      const int s = i / (kDims / kVector), d = i % (kDims / kVector) * kVector;
      tile::Raw<T, kVector> q{}, k{};
      tile::Raw<U, kVector> g{};
      if (s < left && d < of.q.size(3)) {
        q = decltype(q)::of_row(of.q[b][first + s][head], d);
        k = decltype(k)::of_row(of.k[b][first + s][head], d);
        g = decltype(g)::of_row(of.g[b][first + s][h], d);
      }
      put(rows(), i, tile::exp(g.template widen<float>()));
      put(rows() + kBatch * kDims, i, k.template widen<float>());
      put(rows() + 2 * kBatch * kDims, i, q.template widen<float>() * of.score_scale());
    }
    TW_ROLLED
    for (int i = p.thread(); i < kBatch * groups(); i += p.threads()) {
      const int s = i / groups();
      const int64_t column = begin + (i - s * groups()) * kFour;
      tile::Raw<T, kFour> v{}, grad{};
      if (s < left && column < of.v.size(3)) {
        v = decltype(v)::of_row(of.v[b][first + s][h], column);
        if (has_grads) grad = decltype(grad)::of_row(of.grad[b][first + s][h], column);
      }
      put(values(), i, v.template widen<float>());
      put(out_grads(), i, grad.template widen<float>());
    }
    if (kHasBeta && p.thread() < kBatch)
      betas()[p.thread()] = p.thread() < left ? float(of.beta(b, first + p.thread(), h)) : 0.0f;
    p.sync();
  }
  template <int kN>
  __device__ __forceinline__ static void put(float* to, int i, const tile::Pack<float, kN>& v) {
    tile::Raw<float, kN>::narrow(v).store(to + i * kN);
  }
  __device__ __forceinline__ StepInShared step_at(int s) const {
    const float* const decays = rows() + s * kDims;
    return {decays, decays + kBatch * kDims, decays + 2 * kBatch * kDims, values() + s * columns(),
            kHasBeta ? betas()[s] : 1.0f};
  }

  /// What has a number for each of the thread's columns.
  struct OfColumns {
    float out_grad[kOwn], change[kOwn], held_grad[kOwn];  // do, d, m
  };

  /// Step t, which is number i of its stretch.
  __device__ __forceinline__ void back(int64_t t, int i) {
    const StepInShared at = step_at(i % kBatch);
    tile::cuda::wait_copy_groups<1>();
    const float* const before = place(ring(), i & 1, 0);
    OfColumns with;
    const auto out_grad = load_floats<kFour>(out_grads() + i % kBatch * columns() + own());
    TW_UNROLL
    for (int c = 0; c < kOwn; ++c) with.out_grad[c] = out_grad[c];
    const float error_grad = by_columns(at, before, t, with);
    float* const to = sums(i & 1);
    by_rows(at, before, with, to + p.thread() / S::kLanes * kSums * kDims);
    if (lane() == 0) to[groups() * kSums * kDims + p.thread() / S::kLanes] = error_grad;
    p.sync();  // who writes here again has met all once more by then
    add_groups(to, t);
  }
  /// slopes += query out_grad^T; v's gradient; the thread's columns of dd . e.
  __device__ __forceinline__ float by_columns(const StepInShared& at, const float* before,
                                              int64_t t, OfColumns& with) {
    constexpr int kN = kHasBeta ? 2 * kOwn : kOwn;
    float sum[kN] = {};  // over the rows: dS^T k, and P^T k
    TW_UNROLL
    for (int r = 0; r < S::kRows; r += kFour) {
      const int d = kFour * lane() + r * S::kLanes;
      const auto decay = load_floats<kFour>(at.decays + d), key = load_floats<kFour>(at.keys + d);
      const auto query = load_floats<kFour>(at.queries + d);
      TW_UNROLL
      for (int e = 0; e < kFour; ++e) {
        const auto past = load_floats<kFour>(before + (r + e) * p.threads() * kFour);
        const float held = key[e] * decay[e];
        TW_UNROLL
        for (int c = 0; c < kOwn; ++c) {
          float& slope = slopes.state[r + e][c];
          slope = tile::fma(query[e], with.out_grad[c], slope);
          sum[c] = tile::fma(key[e], slope, sum[c]);
          if (kHasBeta) sum[kN - kOwn + c] = tile::fma(held, past[c], sum[kN - kOwn + c]);
        }
      }
    }
    const float mine = add_lanes<S::kLanes>(sum, lane());
    const auto value = load_floats<kFour>(at.values + own());
    tile::Pack<float, kOwn> v_grad;
    float error_grad = 0;
    TW_UNROLL
    for (int c = 0; c < kOwn; ++c) {
      constexpr int kEach = S::kLanes / kN;
      const float slope = __shfl_sync(0xffffffffu, mine, c * kEach, S::kLanes);
      float error = value[c];
      if (kHasBeta) error -= __shfl_sync(0xffffffffu, mine, (kOwn + c) * kEach, S::kLanes);
      v_grad[c] = at.beta * slope;
      with.change[c] = at.beta * error;
      with.held_grad[c] = kHasBeta ? -v_grad[c] : 0.0f;
      error_grad = tile::fma(slope, error, error_grad);
    }
    if (lane() == 0 && begin + own() < of.v.size(3))
      tile::Raw<T, kOwn>::narrow(v_grad).to_row(of.v_grad[b][t][h], begin + own());
    return error_grad;
  }
  /// What the thread's columns add to rows of q's, k's and g's gradients; slopes = decay (slopes +
  /// key held_grad^T).
  __device__ __forceinline__ void by_rows(const StepInShared& at, const float* before,
                                          const OfColumns& with, float* to) {
    TW_UNROLL
    for (int r = 0; r < S::kRows; r += kFour) {
      const int d = kFour * lane() + r * S::kLanes;
      const auto decay = load_floats<kFour>(at.decays + d), key = load_floats<kFour>(at.keys + d);
      tile::Pack<float, kFour> q{}, k{}, g{};
      TW_UNROLL
      for (int e = 0; e < kFour; ++e) {
        const auto past = load_floats<kFour>(before + (r + e) * p.threads() * kFour);
        TW_UNROLL
        for (int c = 0; c < kOwn; ++c) {
          float& slope = slopes.state[r + e][c];
          const float kept = past[c] * decay[e];
          q[e] = tile::fma(tile::fma(key[e], with.change[c], kept), with.out_grad[c], q[e]);
          k[e] = tile::fma(slope, with.change[c], k[e]);
          if (kHasBeta) {
            k[e] = tile::fma(kept, with.held_grad[c], k[e]);
            slope = tile::fma(key[e], with.held_grad[c], slope);
          }
          g[e] = tile::fma(kept, slope, g[e]);
          slope *= decay[e];
        }
      }
      put(to + d, 0, q);
      put(to + kDims + d, 0, k);
      put(to + 2 * kDims + d, 0, g);
    }
  }
  /// The sums of all threads' columns, to the workspace.
  __device__ __forceinline__ void add_groups(const float* from, int64_t t) const {
    const int dims = int(of.q.size(3));
    float* const to = sums_of_rows + t * of.v.size(2) * (kSums * dims + 1);
    TW_ROLLED
    for (int i = p.thread(); i < kSums * kDims; i += p.threads()) {
      const int d = i % kDims, which = i / kDims;
      if (d >= dims) continue;
      float sum = 0;
      TW_UNROLL_4
      for (int n = 0; n < groups(); ++n) sum += from[n * kSums * kDims + i];
      to[which * dims + d] = which == 0 ? sum * of.score_scale() : sum;
    }
    if (!of.beta_grad || p.thread() > 0) return;
    float sum = 0;
    for (int n = 0; n < groups(); ++n) sum += from[groups() * kSums * kDims + n];
    to[kSums * dims] = sum;
  }
};

#endif

}  // namespace tw::kernels
