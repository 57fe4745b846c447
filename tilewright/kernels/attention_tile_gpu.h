// A tile of attention on a GPU: the rows' scores over block after block of keys with a running
// maximum (FlashAttention-2, arXiv:2307.08691), whose sums of values stay in registers. A warp has
// 16 rows.
#pragma once

#include "tilewright/kernels/attention_load_gpu.h"
#include "tilewright/kernels/attention_products_gpu.h"
#include "tilewright/kernels/attention_score.h"

namespace tw::kernels {

template <class P, class T, class U>
struct AttentionTile {
  using Tiles = AttentionTiles<T, U>;
  using E = typename Tiles::E;
  using Products = AttentionProducts<E>;
  using Scores = typename Products::Scores;
  static constexpr int kOwn = Products::kRows, kKeys = Tiles::kKeys;
  static constexpr int kWarpRows = 16, kWeightPitch = Tiles::kWeightPitch;
  static constexpr float kLow = -__builtin_inff();

  /// What the block shares.
  struct Shared {
    E *queries, *keys, *values;
    typename Tiles::Row* rows;
    typename Tiles::Key* block;  // of two: the one that is worked on, then the next
    float* weights;
  };
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

  /// A function that is called, so that it has the registers to itself.
  __device__ __noinline__ static void run() {
    char* const memory = tile::cuda::shared_scratch;
    const auto& call = *reinterpret_cast<const typename Tiles::Call*>(memory);
    if (call.place.sequence >= 0) AttentionTile{call}.walk(memory + sizeof(call));
  }

 private:
  __device__ __forceinline__ void walk(char* memory) const {
    Shared shared = cut(memory);
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
    find_keys(shared.block, any, first_block);
    P::sync();
    State state = begin(shared);
    if (tiles.holds_queries()) load_queries(shared, 0, int(tiles.shape.dims));

    const bool changes = ChangedScore<P, T>::changes(sequence, options);
    TW_ROLLED
    for (int64_t first = first_block; first < any.end; first += kKeys) {
      Scores scores = multiply(shared, any, first);
      scale_by_keys(scores, shared);
      if (changes)
        change(scores, shared, first);
      else if (first < all.begin || first + kKeys > all.end)
        hide(scores, shared, first);
      weigh(scores, state);
      add_values(state, scores, shared);
      shared.block = other_block(shared);
    }
    store(shared, state);
  }

  TW_INLINE Products products() const { return {P::thread() % 32}; }
  TW_INLINE int first_row() const { return P::thread() / 32 * kWarpRows; }
  TW_INLINE int row(int i) const { return first_row() + products().row(i); }
  /// Of the program's slice.
  TW_INLINE int value_columns() const {
    return int(tile::lesser(tiles.shape.value_dims - place.first_value, Tiles::kValueDims));
  }

  __device__ __forceinline__ Shared cut(char* memory) const {
    Shared out;
    out.queries = reinterpret_cast<E*>(memory);
    out.keys = out.queries + Tiles::kRows * tiles.query_pitch();
    out.values = out.keys + kKeys * tiles.key_pitch();
    out.rows = reinterpret_cast<typename Tiles::Row*>(out.queries + tiles.operand_elements());
    out.block = reinterpret_cast<typename Tiles::Key*>(out.rows + Tiles::kRows);
    out.weights = reinterpret_cast<float*>(out.block + 2 * kKeys);
    return out;
  }

  __device__ __forceinline__ State begin(const Shared& shared) const {
    State out{};
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const bool sinks = options.sinks && row(i) < place.rows.count;
      out.high[i] = sinks ? options.sinks(shared.rows[row(i)].q_head) : kLow;
      out.total[i] = sinks && products().key(0) == 0 ? 1.0f : 0.0f;
    }
    return out;
  }

  /// Where the keys of the block are that begins with key `first`.
  __device__ __forceinline__ void find_keys(typename Tiles::Key* block, const KeyRange& seen,
                                            int64_t first) const {
    if (P::thread() >= kKeys) return;
    const int64_t key = first + P::thread();
    typename Tiles::Key out{nullptr, nullptr, call.scale, 1};
    if (key >= seen.begin && key < seen.end) {
      const auto find = [&](const auto& from) {
        return from.head(place.rows.kv_head).at(key, key + 1).data;
      };
      out.key = find(sequence.k);
      out.value = find(sequence.v);
      if (sequence.k_scale) out.factor *= *find(sequence.k_scale);
      if (sequence.v_scale) out.value_factor = *find(sequence.v_scale);
    }
    block[P::thread()] = out;
  }
  __device__ __forceinline__ typename Tiles::Key* other_block(const Shared& shared) const {
    typename Tiles::Key* const one =
        reinterpret_cast<typename Tiles::Key*>(shared.rows + Tiles::kRows);
    return shared.block == one ? one + kKeys : one;
  }

  /// Dims [first, first + count) of the tile's queries.
  __device__ __forceinline__ void load_queries(const Shared& shared, int first, int count) const {
    const View<const T, 3>& q = sequence.q;
    const AttentionLoad<E> load{P::thread(), shared.queries, int(tiles.query_pitch()),
                                int(Tiles::padded(count)), count};
    load.template run<T, Tiles::kRows>(
        load.is_whole(q.data, q.stride(2), q.stride(0), q.stride(1)), q.stride(2), [&](int r) {
          const auto& row = shared.rows[r];
          return r < place.rows.count ? q.data + row.query * q.stride(0) +
                                            row.q_head * q.stride(1) + first * q.stride(2)
                                      : nullptr;
        });
  }
  /// Dims [first, first + count) of the block's keys.
  __device__ __forceinline__ void load_keys(const Shared& shared, int first, int count) const {
    const KeySource<U>& k = sequence.k;
    const AttentionLoad<E> load{P::thread(), shared.keys, int(tiles.key_pitch()),
                                int(Tiles::padded(count)), count};
    load.template run<U, kKeys>(load.is_whole(k), k.dim_stride, [&](int r) {
      const U* const from = shared.block[r].key;
      return from != nullptr ? from + first * k.dim_stride : nullptr;
    });
  }
  __device__ __forceinline__ void load_values(const Shared& shared) const {
    const KeySource<U>& v = sequence.v;
    const AttentionLoad<E> load{P::thread(), shared.values, int(tiles.value_pitch()),
                                int(tiles.value_columns()), value_columns()};
    const auto row = [&](int r) {
      const U* const from = shared.block[r].value;
      return from != nullptr ? from + place.first_value * v.dim_stride : nullptr;
    };
    if (sequence.v_scale)
      load.template run<U, kKeys>(load.is_whole(v), v.dim_stride, row,
                                  [&](int r) { return shared.block[r].value_factor; });
    else
      load.template run<U, kKeys>(load.is_whole(v), v.dim_stride, row);
  }
  /// Brings a block of keys, as many dims at a time as shared memory has room for, and of values;
  /// gives the tile's products with the keys.
  __device__ __forceinline__ Scores multiply(const Shared& shared, const KeyRange& seen,
                                             int64_t block) const {
    Scores scores;
    const int dims = int(tiles.shape.dims);
    const bool holds = tiles.holds_queries();
    TW_ROLLED
    for (int first = 0; first < dims; first += Tiles::kDims) {
      const int count = dims - first < Tiles::kDims ? dims - first : Tiles::kDims;
      P::sync();  // what was there has been read
      load_keys(shared, first, count);
      if (!holds) load_queries(shared, first, count);
      if (first == 0) {
        load_values(shared);
        find_keys(other_block(shared), seen, block + kKeys);
      }
      P::sync();
      const int pitch = int(tiles.query_pitch());
      products().multiply(scores, shared.queries + first_row() * pitch + (holds ? first : 0), pitch,
                          shared.keys, int(tiles.key_pitch()), int(Tiles::padded(count)));
    }
    return scores;
  }
  __device__ __forceinline__ void add_values(State& state, Scores& weights,
                                             const Shared& shared) const {
    float* const staged = shared.weights + first_row() * kWeightPitch;
    const int pitch = int(tiles.value_pitch());
    if (tiles.value_columns() == Tiles::kValueDims)
      products().template add<Tiles::kValueDims>(state.sums, weights, staged, shared.values, pitch);
    else
      products().template add<Tiles::kValueDims / 2>(state.sums, weights, staged, shared.values,
                                                     pitch);
  }

  __device__ __forceinline__ void scale_by_keys(Scores& scores, const Shared& shared) const {
    TW_UNROLL
    for (int j = 0; j < Products::kKeys; ++j) {
      const float factor = shared.block[products().key(j)].factor;
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
        const int64_t key = first + products().key(j);
        if (key < seen.begin || key >= seen.end) scores(i, j) = kLow;
      }
    }
  }
  /// One by one, through the memory of weights: a loop, where a copy of it for each score would be
  /// most of the kernel. Lanes read back what they wrote.
  __device__ __forceinline__ void change(Scores& scores, const Shared& shared,
                                         int64_t first) const {
    const Products lanes = products();
    const auto for_all = [&](auto&& f) {
      TW_UNROLL
      for (int i = 0; i < kOwn; ++i) TW_UNROLL
      for (int j = 0; j < Products::kKeys; ++j)
        f(scores(i, j), shared.weights[row(i) * kWeightPitch + lanes.key(j)]);
    };
    for_all([](float score, float& place) { place = score; });
    TW_ROLLED
    for (int i = 0; i < kOwn; ++i) {
      const int r = row(i);
      const typename Tiles::Row& its = shared.rows[r];
      const KeyRange seen = its.seen;
      const ChangedScore<P, T> changed(sequence, options, its.q_head, its.query);
      TW_ROLLED
      for (int j = 0; j < Products::kKeys; ++j) {
        const int64_t key = first + lanes.key(j);
        float& score = shared.weights[r * kWeightPitch + lanes.key(j)];
        score = key >= seen.begin && key < seen.end ? changed(score, key) : kLow;
      }
    }
    for_all([](float& score, float place) { score = place; });
    __syncwarp();  // before others' weights are written there
  }

  /// f(mine, another lane's) over the lanes that share a row.
  template <class F>
  __device__ __forceinline__ static float combine_row(float value, F&& f) {
    TW_UNROLL
    for (int lane = 1; lane < Products::kLanes; lane *= 2)
      value = f(value, __shfl_xor_sync(0xffffffffu, value, lane));
    return value;
  }
  /// Scores to weights. The totals are of a lane's own keys.
  __device__ __forceinline__ void weigh(Scores& scores, State& state) const {
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const float before = state.high[i];
      float high = scores(i, 0);
      TW_UNROLL
      for (int j = 1; j < Products::kKeys; ++j) high = fmaxf(high, scores(i, j));
      high = combine_row(high, [](float a, float b) { return fmaxf(a, b); });
      high = fmaxf(high, before);
      const float base = high == kLow ? 0.0f : high;  // -inf - -inf is NaN, but these weigh nothing
      const float keep = tile::exp(before - base);
      float total = state.total[i] * keep;
      TW_UNROLL
      for (int j = 0; j < Products::kKeys; ++j) {
        scores(i, j) = tile::exp_below(scores(i, j), base);
        total += scores(i, j);
      }
      state.high[i] = high;
      state.total[i] = total;
      TW_UNROLL
      for (int j = 0; j < Products::kValues; ++j) state.sums(i, j) *= keep;
    }
  }

  __device__ __forceinline__ void store(const Shared& shared, State& state) const {
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const float total = combine_row(state.total[i], [](float a, float b) { return a + b; });
      const int r = row(i);
      if (r >= place.rows.count) continue;
      const float inverse = total == 0 ? 0.0f : 1 / total;
      const int64_t query = shared.rows[r].query, head = shared.rows[r].q_head;
      const auto to = sequence.out[query][head];
      store_sums(products(), state.sums, i, inverse, &to(place.first_value), to.stride(0),
                 value_columns());
      if (sequence.lse && place.first_value == 0 && products().key(0) == 0)
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
  AttentionTile<P, T, U>::run();
}

}  // namespace tw::kernels
