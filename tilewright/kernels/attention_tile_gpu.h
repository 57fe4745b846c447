// A tile of attention on a GPU: the rows' scores over block after block of keys with a running
// maximum (FlashAttention-2, arXiv:2307.08691), whose sums of values stay in registers. Keys and
// values come in steps, of which one is on its way while the one before is multiplied.
#pragma once

#include "tilewright/kernels/attention_products_gpu.h"
#include "tilewright/kernels/attention_score.h"
#include "tilewright/kernels/attention_tile_steps_gpu.h"

namespace tw::kernels {

template <class P, class T, class U, AttentionCut kCut>
struct AttentionTile {
  using Tiles = AttentionTiles<T, U>;
  using E = typename Tiles::E;
  using Products = AttentionProducts<E, kCut.warp_keys(), kCut.warp_values()>;
  using Scores = typename Products::Scores;
  using Steps = AttentionTileSteps<P, T, U, kCut>;
  using Shared = typename Steps::Shared;
  static constexpr int kOwn = Products::kRows, kKeys = kCut.keys, kAcross = kCut.across;
  static constexpr int kWarpRows = 16, kWeightPitch = Steps::kWeightPitch, kNarrowPitch = kKeys + 8;
  /// Weights of a row are in the registers of the lanes that multiply them.
  static constexpr bool kKeepsWeights = !Tiles::kIsFloat && kAcross == 1;
  static constexpr float kLow = -__builtin_inff();

  /// Maxima and totals of rows are in shared memory: registers are the sums'.
  static constexpr bool kParks = Tiles::kIsFloat;

  /// Of a lane's rows.
  struct State {
    float high[kOwn], total[kOwn];
    typename Products::Sums sums;
  };

  const typename Tiles::Call& call;
  const Tiles& tiles = call.tiles;
  const AttentionTilePlace& place = call.place;
  const AttentionSequence<T, U>& sequence = call.sequence;
  const AttentionOptions& options = call.options;
  const Steps steps{call};

  /// A function that is called, so that it has the registers to itself.
  __device__ __noinline__ static void run() {
    char* const memory = tile::cuda::shared_scratch;
    const auto& call = *reinterpret_cast<const typename Tiles::Call*>(memory);
    if (call.place.sequence >= 0) AttentionTile{call}.walk(memory + sizeof(call));
  }

 private:
  __device__ __forceinline__ void walk(char* memory) const {
    Shared shared = steps.cut(memory);
    const StackedRows& rows = place.rows;
    const AttentionMask mask = options.mask(sequence.q_len(), sequence.kv_len);
    if (P::thread() < Tiles::kRows) {
      const int r = P::thread();
      const bool is_there = r < rows.count;
      const int64_t query = is_there ? rows.query(r) : 0;
      shared.rows[r] = {is_there ? mask.keys(query) : KeyRange{0, 0}, query,
                        is_there ? rows.q_head(r) : 0};
    }
    const int64_t last_query = rows.query(rows.count - 1);
    const KeyRange any = mask.keys(rows.first_query, last_query);
    const KeyRange all{mask.keys(last_query).begin, mask.keys(rows.first_query).end};
    const int64_t first_block = any.empty() ? any.end : any.begin / kKeys * kKeys;
    steps.find_keys(shared.block, any, first_block);
    P::sync();
    State state = begin(shared);
    if (first_block < any.end) {
      if (tiles.holds_queries())
        steps.load_queries(shared.queries, shared, 0, int(tiles.shape.dims));
      steps.start_keys(shared, 0);
    }
    const bool changes = ChangedScore<P, T>::changes(sequence, options);
    TW_ROLLED
    for (int64_t first = first_block; first < any.end; first += kKeys) {
      Scores scores = multiply(shared, any, first);
      scale_by_keys(scores, shared);
      if (changes)
        change(scores, shared, first);
      else if (first < all.begin || first + kKeys > all.end)
        hide(scores, shared, first);
      weigh(scores, state, shared);
      stage(scores, shared);
      add_values(state, scores, shared, first + kKeys < any.end);
    }
    store(shared, state);
  }

  TW_INLINE Products products() const { return {P::thread() % 32}; }
  TW_INLINE int first_row() const { return P::thread() / 32 % 4 * kWarpRows; }
  TW_INLINE int row(int i) const { return first_row() + products().row(i); }
  /// Among the warps that share rows.
  TW_INLINE int rank() const { return kAcross == 1 ? 0 : P::thread() / 128; }
  TW_INLINE int key(int j) const { return rank() * kCut.warp_keys() + products().key(j); }

  __device__ __forceinline__ State begin(const Shared& shared) const {
    State out{};
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const bool sinks = options.sinks && row(i) < place.rows.count;
      out.high[i] = sinks ? options.sinks(shared.rows[row(i)].q_head) : kLow;
      out.total[i] = sinks && (kParks || key(0) == 0) ? 1.0f : 0.0f;
    }
    park(out, shared);
    return out;
  }
  __device__ __forceinline__ void park(const State& state, const Shared& shared) const {
    if constexpr (kParks) {
      __syncwarp();  // what was there has been read
      TW_UNROLL
      for (int i = 0; i < kOwn; ++i) {
        if (key(0) != 0) continue;
        shared.told[row(i)] = state.high[i];
        shared.told[Tiles::kRows + row(i)] = state.total[i];
      }
      __syncwarp();
    }
  }
  __device__ __forceinline__ void unpark(State& state, const Shared& shared) const {
    TW_UNROLL
    for (int i = 0; i < kOwn && kParks; ++i) {
      state.high[i] = shared.told[row(i)];
      state.total[i] = shared.told[Tiles::kRows + row(i)];
    }
  }

  /// The warp's products of a block of keys; the last step begins to bring the values.
  __device__ __forceinline__ Scores multiply(Shared& shared, const KeyRange& seen,
                                             int64_t block) const {
    Scores scores;
    const int dims = int(tiles.shape.dims), pitch = int(tiles.query_pitch());
    const int key_pitch = int(tiles.key_pitch());
    const bool holds = tiles.holds_queries();
    int first = 0;
    TW_ROLLED
    do {
      steps.turn(shared);
      if (first == 0) steps.find_keys(steps.other_block(shared), seen, block + kKeys);
      if (first + kCut.dims < dims)
        steps.start_keys(shared, first + kCut.dims);
      else
        steps.start_values(shared, 0);
      const E* const queries =
          shared.queries + (holds ? first : shared.at * Tiles::kRows * pitch) + first_row() * pitch;
      products().multiply(scores, queries, pitch,
                          steps.present(shared) + rank() * kCut.warp_keys() * key_pitch, key_pitch,
                          int(Tiles::padded(tile::lesser(dims - first, kCut.dims))));
      first += kCut.dims;
    } while (first < dims);
    return scores;
  }
  /// Weights to where all lanes that multiply them find them.
  __device__ __forceinline__ void stage(Scores& weights, const Shared& shared) const {
    if constexpr (Tiles::kIsFloat)
      products().stage(weights, shared.weights + first_row() * kWeightPitch, kWeightPitch);
    else if constexpr (!kKeepsWeights)
      products().stage(weights, narrow_weights(shared) + rank() * kCut.warp_keys(), kNarrowPitch);
  }
  TW_INLINE E* narrow_weights(const Shared& shared) const {
    return reinterpret_cast<E*>(shared.weights) + first_row() * kNarrowPitch;
  }
  /// The last step begins to bring the next block's keys, if there is one.
  __device__ __forceinline__ void add_values(State& state, Scores& weights, Shared& shared,
                                             bool goes_on) const {
    TW_UNROLL
    for (int step = 0; step < Steps::kValueSteps; ++step) {
      steps.turn(shared);
      if (step + 1 < Steps::kValueSteps) {
        steps.start_values(shared, step + 1);
      } else {
        shared.block = steps.other_block(shared);
        if (goes_on) steps.start_keys(shared, 0);
      }
      add_step(state, weights, shared, step);
    }
  }
  __device__ __forceinline__ void add_step(State& state, Scores& weights, const Shared& shared,
                                           int step) const {
    const Products lanes = products();
    const int pitch = int(tiles.value_pitch());
    if constexpr (Tiles::kIsFloat) {
      lanes.template add_staged<kKeys>(state.sums, step * Products::kValues / Steps::kValueSteps,
                                       shared.weights + first_row() * kWeightPitch, kWeightPitch,
                                       steps.present(shared), pitch);
    } else {
      constexpr int kColumns = kCut.warp_values();
      const int first = rank() * kColumns, columns = int(tiles.value_columns()) - first;
      const auto add = [&]<int kCount>() {
        const E* const values = steps.present(shared) + first;
        if constexpr (kKeepsWeights)
          lanes.template add<kCount>(state.sums, weights, values, pitch);
        else
          lanes.template add_staged<kCount, kKeys>(state.sums, narrow_weights(shared), kNarrowPitch,
                                                   values, pitch);
      };
      if (columns > kColumns / 2)
        add.template operator()<kColumns>();
      else if (columns > 0)
        add.template operator()<kColumns / 2>();
    }
  }

  __device__ __forceinline__ void scale_by_keys(Scores& scores, const Shared& shared) const {
    TW_UNROLL
    for (int j = 0; j < Products::kKeys; ++j) {
      const float factor = shared.block[key(j)].factor;
      TW_UNROLL
      for (int i = 0; i < kOwn; ++i) scores(i, j) *= factor;
    }
  }
  __device__ __forceinline__ void hide(Scores& scores, const Shared& shared, int64_t first) const {
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const KeyRange seen = shared.rows[row(i)].seen;
      TW_UNROLL
      for (int j = 0; j < Products::kKeys; ++j) {
        const int64_t at = first + key(j);
        if (at < seen.begin || at >= seen.end) scores(i, j) = kLow;
      }
    }
  }
  /// One by one, through the memory of weights: a loop, where a copy of it for each score would be
  /// most of the kernel. Lanes read back what they wrote.
  __device__ __forceinline__ void change(Scores& scores, const Shared& shared,
                                         int64_t first) const {
    const auto for_all = [&](auto&& f) {
      TW_UNROLL
      for (int i = 0; i < kOwn; ++i) TW_UNROLL
      for (int j = 0; j < Products::kKeys; ++j)
        f(scores(i, j), shared.weights[row(i) * kWeightPitch + key(j)]);
    };
    for_all([](float score, float& kept) { kept = score; });
    TW_ROLLED
    for (int i = 0; i < kOwn; ++i) {
      const int r = row(i);
      const typename Tiles::Row& its = shared.rows[r];
      const KeyRange seen = its.seen;
      const ChangedScore<P, T> changed(sequence, options, its.q_head, its.query);
      TW_ROLLED
      for (int j = 0; j < Products::kKeys; ++j) {
        const int64_t at = first + key(j);
        float& score = shared.weights[r * kWeightPitch + key(j)];
        score = at >= seen.begin && at < seen.end ? changed(score, at) : kLow;
      }
    }
    for_all([](float& score, float kept) { score = kept; });
    __syncwarp();  // before others' weights are written there
  }

  /// Of each of a lane's rows, f over the lanes, and then the warps, that share it.
  template <class F>
  __device__ __forceinline__ void combine_rows(float (&of_rows)[kOwn], const Shared& shared,
                                               F&& f) const {
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) TW_UNROLL
    for (int lane = 1; lane < Products::kLanes; lane *= 2) {
      const int other = Tiles::kIsFloat ? 2 * lane : lane;
      of_rows[i] = f(of_rows[i], __shfl_xor_sync(0xffffffffu, of_rows[i], other));
    }
    if constexpr (kAcross > 1) {
      TW_UNROLL
      for (int i = 0; i < kOwn; ++i)
        if (products().key(0) == 0) shared.told[rank() * Tiles::kRows + row(i)] = of_rows[i];
      P::sync();
      TW_UNROLL
      for (int i = 0; i < kOwn; ++i) {
        of_rows[i] = shared.told[row(i)];
        TW_UNROLL
        for (int other = 1; other < kAcross; ++other)
          of_rows[i] = f(of_rows[i], shared.told[other * Tiles::kRows + row(i)]);
      }
    }
  }
  /// Scores to weights. The totals are of a lane's own keys, unless they are parked.
  __device__ __forceinline__ void weigh(Scores& scores, State& state, const Shared& shared) const {
    float highs[kOwn], totals[kOwn] = {};
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      highs[i] = scores(i, 0);
      TW_UNROLL
      for (int j = 1; j < Products::kKeys; ++j) highs[i] = fmaxf(highs[i], scores(i, j));
    }
    combine_rows(highs, shared, [](float a, float b) { return fmaxf(a, b); });
    unpark(state, shared);
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const float before = state.high[i], high = fmaxf(highs[i], before);
      const float base = high == kLow ? 0.0f : high;  // -inf - -inf is NaN, but these weigh nothing
      const float keep = tile::exp(before - base);
      TW_UNROLL
      for (int j = 0; j < Products::kKeys; ++j) {
        scores(i, j) = tile::exp_below(scores(i, j), base);
        totals[i] += scores(i, j);
      }
      state.high[i] = high;
      state.total[i] *= keep;
      TW_UNROLL
      for (int j = 0; j < Products::kValues; ++j) state.sums(i, j) *= keep;
    }
    if constexpr (kParks) combine_rows(totals, shared, [](float a, float b) { return a + b; });
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) state.total[i] += totals[i];
    park(state, shared);
  }

  __device__ __forceinline__ void store(const Shared& shared, State& state) const {
    unpark(state, shared);
    if constexpr (!kParks)
      combine_rows(state.total, shared, [](float a, float b) { return a + b; });
    const int64_t first = place.first_value + rank() * kCut.warp_values();
    const int columns =
        int(tile::lesser(steps.value_columns() - rank() * kCut.warp_values(), kCut.warp_values()));
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const float total = state.total[i];
      const int r = row(i);
      if (r >= place.rows.count) continue;
      const float inverse = total == 0 ? 0.0f : 1 / total;
      const int64_t query = shared.rows[r].query, head = shared.rows[r].q_head;
      const auto to = sequence.out[query][head];
      store_sums(products(), state.sums, i, inverse, &to(first), to.stride(0), columns);
      if (sequence.lse && place.first_value == 0 && key(0) == 0)
        sequence.lse(head, query) = state.high[i] + tile::log(total);
    }
  }
};

/// Program p of the tiles of a kernel.
template <class T, class U, class P, class K>
__device__ __forceinline__ void run_attention_tile(P p, const K& kernel,
                                                   const AttentionTiles<T, U>& tiles) {
  using Call = typename AttentionTiles<T, U>::Call;
  Call& call = *reinterpret_cast<Call*>(tile::cuda::shared_scratch);
  if (p.thread() == 0) {
    call.tiles = tiles;
    call.place = tiles.place(p.index());
    if (call.place.sequence >= 0) {
      call.sequence = kernel.sequence(call.place.sequence);
      call.options = kernel.options();
      call.scale = score_scale(call.sequence, tiles.shape, call.options, call.place.rows.kv_head);
    }
  }
  p.sync();
  using Tiles = AttentionTiles<T, U>;
  if (tiles.is_large)
    AttentionTile<P, T, U, Tiles::kLargeCut>::run();
  else
    AttentionTile<P, T, U, Tiles::kCut>::run();
}

}  // namespace tw::kernels
