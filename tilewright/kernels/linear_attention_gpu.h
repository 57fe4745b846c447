// The schedule of linear_attention (linear_attention.h) on a GPU: the state stays in registers. A
// few lanes of a warp share two or four columns of it, a lane has some of their rows; sums over all
// rows meet by shuffles, of several steps at once where no step waits for them. The block's
// threads bring q, k, g and v of a batch of steps into shared memory, as float32, while the batch
// before it is walked.
#pragma once

#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// How a state of up to kDims rows lies in registers, for tensors of T.
template <class T, int kLanesOfColumn, int kRowsOfLane, int kColumnsOfLane>
struct StateInRegisters {
  static constexpr int kLanes = kLanesOfColumn, kRows = kRowsOfLane, kOwn = kColumnsOfLane;
  static constexpr int kDims = kLanes * kRows, kThreads = 128;
  static constexpr int kColumns = kThreads / kLanes * kOwn;  // of a block
  /// Of a batch, of which each thread brings a vector of q, of k and of g, and some of v.
  static constexpr int kVector = sizeof(T) > 2 ? 4 : 8, kVectors = kDims / kVector;
  static constexpr int kSteps = kThreads / kVectors;
  static constexpr int kValues = kSteps * kColumns > kThreads ? kSteps* kColumns / kThreads : 1;
  /// Steps whose sums meet together: no more sums than lanes. With a beta registers are scarce.
  template <bool kHasBeta>
  static constexpr int kTogether = int(tile::lesser(kSteps, kHasBeta || kLanes < 4 * kOwn ? 2 : 4));
  /// A batch in shared memory: decays, keys and queries, [kSteps, kDims] each, then values, betas.
  static constexpr int kRowFloats = kSteps * kDims;
  static constexpr int kFloats = 3 * kRowFloats + kSteps * kColumns + (kSteps + 3) / 4 * 4;
};

struct LinearAttentionOnGpu {
  static constexpr int64_t kMostDims = 512;
  TW_INLINE static bool takes(int64_t dims) { return dims > 0 && dims <= kMostDims; }

  /// f of how a state of so many rows lies.
  template <class T, class F>
  TW_INLINE static auto with_layout(int64_t dims, F&& f) {
    if (dims <= 64) return f(StateInRegisters<T, 8, 8, 4>{});
    if (dims <= 128) return f(StateInRegisters<T, 16, 8, 4>{});
    if (dims <= 256) return f(StateInRegisters<T, 32, 8, 4>{});
    return f(StateInRegisters<T, 32, 16, 2>{});
  }
  /// Of so many states.
  template <class T>
  TW_INLINE static tile::Plan plan(int64_t states, int64_t dims, int64_t columns) {
    return with_layout<T>(dims, [&](auto layout) {
      using S = decltype(layout);
      const int64_t blocks = index_quotient(columns + S::kColumns - 1, S::kColumns);
      return tile::plan_of(states * blocks, 2 * S::kFloats * int64_t{sizeof(float)})
          .over_threads(S::kThreads);
    });
  }
};

#if defined(__CUDACC__)

/// Sums of kN numbers each over kLanes lanes: a lane has that of number lane * kN / kLanes.
template <int kLanes, int kN>
__device__ __forceinline__ float add_lanes(const float (&v)[kN], int lane) {
  constexpr int kBy = kLanes / 2, kLeft = kN > 1 ? kN / 2 : 1;
  static_assert(kN <= kLanes);
  if constexpr (kLanes == 1) {
    return v[0];
  } else {
    float sums[kLeft];
    TW_UNROLL
    for (int i = 0; i < kLeft; ++i) {
      const float low = v[i], high = v[kN / 2 + i];
      const bool is_upper = kN > 1 && (lane & kBy) != 0;
      sums[i] = (is_upper ? high : low) + __shfl_xor_sync(0xffffffffu, is_upper ? low : high, kBy);
    }
    return add_lanes<kBy>(sums, lane);
  }
}

template <int kN>
__device__ __forceinline__ tile::Pack<float, kN> load_floats(const float* at) {
  return tile::Raw<float, kN>::load(at).template widen<float>();
}

/// A step in shared memory: of kDims rows exp(g), k and scale * q; v of the block's columns.
struct StepInShared {
  const float *decays, *keys, *queries, *values;
  float beta;
};

/// The columns of a state that a thread has rows of. S: StateInRegisters.
template <class P, class U, class S, bool kHasBeta>
struct StateColumns {
  P p;
  int64_t begin;  // the block's first column
  float state[S::kRows][S::kOwn] = {};

  __device__ __forceinline__ int lane() const { return p.thread() % S::kLanes; }
  /// The first of the thread's columns, in the block.
  __device__ __forceinline__ int own() const { return p.thread() / S::kLanes * S::kOwn; }
  /// Rows lie so that lanes side by side read shared memory in order.
  __device__ __forceinline__ int row(int r) const {
    return 4 * (lane() + r / 4 * S::kLanes) + r % 4;
  }

  __device__ __forceinline__ void load_state(const View<const U, 2>& from) {
    if (begin + own() >= from.size(1)) return;
    TW_UNROLL
    for (int r = 0; r < S::kRows; ++r) {
      if (row(r) >= from.size(0)) continue;
      const auto v = tile::Raw<U, S::kOwn>::of_row(from[row(r)], begin + own());
      const auto wide = v.template widen<float>();
      TW_UNROLL
      for (int c = 0; c < S::kOwn; ++c) state[r][c] = wide[c];
    }
  }
  __device__ __forceinline__ void store_state(const View<U, 2>& to) const {
    if (begin + own() >= to.size(1)) return;
    TW_UNROLL
    for (int r = 0; r < S::kRows; ++r) {
      if (row(r) >= to.size(0)) continue;
      tile::Pack<float, S::kOwn> v;
      TW_UNROLL
      for (int c = 0; c < S::kOwn; ++c) v[c] = state[r][c];
      tile::Raw<U, S::kOwn>::narrow(v).to_row(to[row(r)], begin + own());
    }
  }

  /// A step; adds what the thread's rows of state^T query are to `sums`.
  __device__ __forceinline__ void step(const StepInShared& at, float* sums) {
    const int first = 4 * lane();
    const float *const decays = at.decays + first, *const keys = at.keys + first;
    const float* const queries = at.queries + first;
    float change[S::kOwn], held[S::kOwn] = {};
    if (!kHasBeta) {
      const auto value = load_floats<S::kOwn>(at.values + own());
      TW_UNROLL
      for (int c = 0; c < S::kOwn; ++c) change[c] = value[c];
    }
    TW_UNROLL
    for (int r = 0; r < S::kRows; r += 4) {
      const auto decay = load_floats<4>(decays + r * S::kLanes),
                 key = load_floats<4>(keys + r * S::kLanes);
      TW_UNROLL
      for (int i = 0; i < 4 * S::kOwn; ++i) {
        float& x = state[r + i / S::kOwn][i % S::kOwn];
        x *= decay[i / S::kOwn];
        if (kHasBeta) held[i % S::kOwn] = tile::fma(key[i / S::kOwn], x, held[i % S::kOwn]);
      }
    }
    if (kHasBeta) correct(at, held, change);
    TW_UNROLL
    for (int r = 0; r < S::kRows; r += 4) {
      const auto key = load_floats<4>(keys + r * S::kLanes),
                 query = load_floats<4>(queries + r * S::kLanes);
      TW_UNROLL
      for (int i = 0; i < 4 * S::kOwn; ++i) {
        float& x = state[r + i / S::kOwn][i % S::kOwn];
        x = tile::fma(key[i / S::kOwn], change[i % S::kOwn], x);
        sums[i % S::kOwn] = tile::fma(query[i / S::kOwn], x, sums[i % S::kOwn]);
      }
    }
  }
  /// change = beta (value - held), where held is yet to be added up over the lanes.
  __device__ __forceinline__ void correct(const StepInShared& at, float (&held)[S::kOwn],
                                          float (&change)[S::kOwn]) const {
    constexpr int kEach = S::kLanes / S::kOwn;
    const float value = at.values[own() + lane() / kEach];
    const float mine = at.beta * (value - add_lanes<S::kLanes>(held, lane()));
    TW_UNROLL
    for (int c = 0; c < S::kOwn; ++c)
      change[c] = __shfl_sync(0xffffffffu, mine, c * kEach, S::kLanes);
  }
};

/// Goes through time.
template <class P, class T, class U, class Kernel, class S, bool kHasBeta>
struct StateWalk : StateColumns<P, U, S, kHasBeta> {
  using Columns = StateColumns<P, U, S, kHasBeta>;
  using Columns::begin, Columns::p, Columns::lane, Columns::own;
  const Kernel& of;
  static constexpr int kTogether = S::template kTogether<kHasBeta>;
  int64_t b, h, head;
  float scale;

  __device__ __forceinline__ StateWalk(P program, const Kernel& kernel)
      : Columns{program, 0}, of(kernel), scale(kernel.score_scale()) {
    const int64_t blocks = index_quotient(of.v.size(3) + S::kColumns - 1, S::kColumns);
    const int64_t row = index_quotient(p.index(), blocks);
    begin = (p.index() - row * blocks) * S::kColumns;
    b = index_quotient(row, of.v.size(2));
    h = row - b * of.v.size(2);
    head = index_quotient(h, index_quotient(of.v.size(2), of.q.size(2)));
  }

  __device__ __noinline__ static void run(P p, const Kernel& of) {
    StateWalk walk(p, of);
    walk.go();
  }
  __device__ __forceinline__ void go() {
    if (of.initial_state) this->load_state(of.initial_state[b][h]);
    const int64_t length = of.length();
    int64_t to_keep = of.states ? 0 : int64_t{1} << 62, kept = 0;  // steps until a state is kept
    Batch next = fetch(0);
    int turn = 0;
    TW_ROLLED
    for (int64_t first = 0; first < length; first += S::kSteps, turn ^= 1) {
      float* const batch = shared() + turn * S::kFloats;
      put(next, batch);
      next = fetch(first + S::kSteps);
      p.sync();  // who writes this batch's place again has met all once more by then
      const int count = int(tile::lesser(length - first, S::kSteps));
      TW_ROLLED
      for (int s = 0; s < count;) {
        if (to_keep == 0) {
          this->store_state(of.states[b][h][kept++]);
          to_keep = of.chunk_size;
        }
        const bool is_many = s + kTogether <= count && to_keep >= kTogether;
        if (is_many)
          advance<kTogether>(batch, s, first + s);
        else
          advance<1>(batch, s, first + s);
        const int steps = is_many ? kTogether : 1;
        s += steps;
        to_keep -= steps;
      }
    }
    if (of.states) this->store_state(of.states[b][h][of.chunks()]);
    this->store_state(of.final_state[b][h]);
  }

 private:
  /// The program has a block, of which it fits the shared memory on any GPU.
  __device__ __forceinline__ static float* shared() {
    return reinterpret_cast<float*>(tile::cuda::shared_scratch);
  }
  /// What a thread brings of a batch, on its way.
  struct Batch {
    tile::Raw<T, S::kVector> q, k;
    tile::Raw<U, S::kVector> g;
    tile::Raw<T, S::kValues> v;
    float beta;
  };
  __device__ __forceinline__ Batch fetch(int64_t first) const {
    Batch out{};
    const int64_t length = of.length();
    const int64_t t = first + p.thread() / S::kVectors;
    const int64_t d = p.thread() % S::kVectors * S::kVector;
    if (t < length && d < of.q.size(3)) {
      out.q = decltype(out.q)::of_row(of.q[b][t][head], d);
      out.k = decltype(out.k)::of_row(of.k[b][t][head], d);
      out.g = decltype(out.g)::of_row(of.g[b][t][h], d);
    }
    const int value = p.thread() * S::kValues;
    const int64_t column = begin + value % S::kColumns, its = first + value / S::kColumns;
    if (value < S::kSteps * S::kColumns && its < length && column < of.v.size(3))
      out.v = decltype(out.v)::of_row(of.v[b][its][h], column);
    if (kHasBeta && p.thread() < S::kSteps && first + p.thread() < length)
      out.beta = float(of.beta(b, first + p.thread(), h));
    return out;
  }
  __device__ __forceinline__ void put(const Batch& from, float* batch) const {
    const auto q = from.q.template widen<float>() * scale;
    const auto g = tile::exp(from.g.template widen<float>());
    float* const to = batch + p.thread() * S::kVector;
    tile::Raw<float, S::kVector>::narrow(g).store(to);
    tile::Raw<float, S::kVector>::narrow(from.k.template widen<float>()).store(to + S::kRowFloats);
    tile::Raw<float, S::kVector>::narrow(q).store(to + 2 * S::kRowFloats);
    float* const values = batch + 3 * S::kRowFloats;
    const int value = p.thread() * S::kValues;
    if (value < S::kSteps * S::kColumns)
      tile::Raw<float, S::kValues>::narrow(from.v.template widen<float>()).store(values + value);
    if (kHasBeta && p.thread() < S::kSteps)
      values[S::kSteps * S::kColumns + p.thread()] = from.beta;
  }

  __device__ __forceinline__ static StepInShared step_at(const float* batch, int s) {
    const float *const decays = batch + s * S::kDims, *const values = batch + 3 * S::kRowFloats;
    return {decays, decays + S::kRowFloats, decays + 2 * S::kRowFloats, values + s * S::kColumns,
            kHasBeta ? values[S::kSteps * S::kColumns + s] : 0.0f};
  }
  /// kN steps, of which the first is number s of the batch, and their outputs.
  template <int kN>
  __device__ __forceinline__ void advance(const float* batch, int s, int64_t t) {
    float sums[kN * S::kOwn] = {};
    TW_UNROLL
    for (int i = 0; i < kN; ++i) this->step(step_at(batch, s + i), sums + i * S::kOwn);
    constexpr int kEach = S::kLanes / (kN * S::kOwn);  // lanes that have the same sum
    const float sum = add_lanes<S::kLanes>(sums, lane());
    const int which = lane() / kEach;
    const int64_t column = begin + own() + which % S::kOwn;
    if (lane() % kEach == 0 && column < of.out.size(3))
      of.out(b, t + which / S::kOwn, h, column) = T(sum);
  }
};

#endif

}  // namespace tw::kernels
