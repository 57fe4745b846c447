// A tile of the gradients of attention on a GPU (attention_backward_tiles_gpu.h): weights once more
// from queries, keys and lse (FlashAttention-2, arXiv:2307.08691, algorithm 2), 64 rows of one side
// by 32 of the other, whose operands come one after the other into the same shared memory. A warp
// has 16 rows.
#pragma once

#include "tilewright/kernels/attention_backward_tiles_gpu.h"
#include "tilewright/kernels/attention_load_gpu.h"
#include "tilewright/kernels/attention_products_gpu.h"
#include "tilewright/tile/math.h"

namespace tw::kernels {

/// Phase 0 or 1: `kOfKeys`.
template <class P, class K, bool kOfKeys>
struct AttentionBackwardTile {
  using Tiles = AttentionBackwardTiles<K>;
  using Call = typename Tiles::Call;
  using Row = typename Tiles::Row;
  using T = typename Tiles::T;
  using E = typename Tiles::E;
  using Products = AttentionProducts<E, Tiles::kKeys, Tiles::kColumns>;
  using Scores = typename Products::Scores;
  using Sums = typename Products::Sums;
  static constexpr int kOwn = Products::kRows, kRows = Tiles::kRows, kOthers = Tiles::kKeys;
  static constexpr int kWarpRows = 16, kWeightPitch = Tiles::kWeightPitch;

  const Call& call;
  const Tiles& tiles = call.tiles;
  const K& kernel = call.kernel;
  E *of_scores, *of_values, *others;  // operands: of the rows, and of a block of the other side
  Row* rows;
  Row* block;  // of two: the one that is worked on, then the next
  float* weights;

  /// A function that is called, so that it has the registers to itself.
  __device__ __noinline__ static void run() {
    char* const memory = tile::cuda::shared_scratch;
    AttentionBackwardTile(*reinterpret_cast<const Call*>(memory), memory + sizeof(Call)).walk();
  }

 private:
  __device__ __forceinline__ AttentionBackwardTile(const Call& given, char* memory)
      : call(given), of_scores(reinterpret_cast<E*>(memory)) {
    of_values = of_scores + kRows * tiles.pitch(tiles.shape.dims);
    others = of_values + kRows * tiles.pitch(tiles.shape.value_dims);
    rows = reinterpret_cast<Row*>(of_scores + tiles.operand_elements());
    block = rows + kRows;
    weights = reinterpret_cast<float*>(block + 2 * kOthers);
  }

  TW_INLINE Products products() const { return {P::thread() % 32}; }
  TW_INLINE int first_row() const { return P::thread() / 32 * kWarpRows; }
  TW_INLINE float* staged() const { return weights + first_row() * kWeightPitch; }
  TW_INLINE Row* other_block() const {
    return block == rows + kRows ? block + kOthers : rows + kRows;
  }
  /// Of a gradient of so many dims, those of the program.
  TW_INLINE int columns(int64_t dims) const {
    const int64_t left = dims - call.first_dim;
    return int(tile::lesser(left < 0 ? 0 : left, Tiles::kColumns));
  }

  TW_INLINE int64_t query_of(int64_t row) const { return index_quotient(row, tiles.shape.group()); }
  TW_INLINE int64_t head_of(int64_t row) const {
    const int64_t group = tiles.shape.group();
    return call.kv_head * group + row - query_of(row) * group;
  }
  template <class V>
  TW_INLINE auto row_of(const V& x, int64_t row) const {
    return x[call.batch][query_of(row)][head_of(row)];
  }
  /// Where gradients and rows have their number: rows of queries are stacked.
  TW_INLINE float& delta_of(int64_t row) const {
    return call.deltas[head_of(row) * tiles.queries + query_of(row)];
  }

  /// A row that sees nothing has an lse that makes all weights 0.
  __device__ __forceinline__ Row find_query(int64_t row) const {
    Row out{nullptr, nullptr, 0, 0, __builtin_inff(), 0};
    if (row >= tiles.rows()) return out;
    out.of_scores = row_of(kernel.q, row).data;
    out.of_values = row_of(kernel.grad, row).data;
    const KeyRange seen = call.mask.keys(query_of(row));
    out.first = seen.begin;
    out.end = seen.end;
    const float lse = kernel.lse(call.batch, head_of(row), query_of(row));
    if (lse != -__builtin_inff()) out.lse = lse;
    if constexpr (kOfKeys) out.delta = delta_of(row);
    return out;
  }
  __device__ __forceinline__ Row find_key(int64_t key) const {
    Row out{nullptr, nullptr, key, 0, 0, 0};
    if (key >= call.mask.kv_len) return out;
    out.of_scores = kernel.k[call.batch][key][call.kv_head].data;
    out.of_values = kernel.v[call.batch][key][call.kv_head].data;
    return out;
  }
  __device__ __forceinline__ Row find(int64_t i, bool of_keys) const {
    return of_keys ? find_key(i) : find_query(i);
  }
  /// What the rows see on the other side, stacked.
  __device__ __forceinline__ KeyRange range() const {
    const int64_t first = call.first_row, last = first + kRows - 1;
    const int64_t group = tiles.shape.group();
    if constexpr (!kOfKeys)
      return call.mask.keys(query_of(first), query_of(tile::lesser(last, tiles.rows() - 1)));
    if (first >= call.mask.kv_len) return {0, 0};
    const int64_t last_key = tile::lesser(last, call.mask.kv_len - 1);
    return {call.mask.queries(first).begin * group, call.mask.queries(last_key).end * group};
  }

  /// grad · output of the warp's rows, which phase 1 finds in the workspace.
  __device__ __forceinline__ void find_deltas() const {
    const int lane = P::thread() % 32;
    TW_ROLLED
    for (int r = first_row(); r < first_row() + kWarpRows; ++r) {
      const int64_t row = call.first_row + r;
      if (row >= tiles.rows()) return;
      const View<const T, 1> grad = row_of(kernel.grad, row), output = row_of(kernel.output, row);
      float sum = 0;
      for (int64_t d = lane; d < tiles.shape.value_dims; d += 32)
        sum += float(grad(d)) * float(output(d));
      TW_UNROLL
      for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
      if (lane != 0) continue;
      rows[r].delta = sum;
      if (call.first_dim == 0) delta_of(row) = sum;
    }
  }

  /// Of kCount rows that `from` tells of, their operands of scores, or of the scores' gradients.
  template <int kCount>
  __device__ __forceinline__ void load(E* to, int64_t pitch, const Row* from, bool is_of_keys,
                                       bool is_of_scores) const {
    const View<const T, 4>& x =
        is_of_scores ? (is_of_keys ? kernel.k : kernel.q) : (is_of_keys ? kernel.v : kernel.grad);
    const int dims = int(x.size(3));
    const AttentionLoad<E, Tiles::kThreads> load{P::thread(), to, int(pitch),
                                                 int(tiles.padded(dims)), dims};
    load.template run<T, kCount>(
        load.is_whole(x.data, x.stride(3), x.stride(0) | x.stride(1), x.stride(2)), x.stride(3),
        [&](int r) { return is_of_scores ? from[r].of_scores : from[r].of_values; });
  }
  __device__ __forceinline__ void load_others(bool is_of_scores) const {
    P::sync();  // what was there has been read
    load<kOthers>(others, tiles.pitch(tiles.most_dims()), block, !kOfKeys, is_of_scores);
  }
  /// What was loaded is there.
  __device__ __forceinline__ static void settle() {
    tile::cuda::wait_copies();
    P::sync();
  }
  __device__ __forceinline__ Scores multiply(const E* operands, int64_t dims) const {
    Scores out;
    const int pitch = int(tiles.pitch(dims));
    products().multiply(out, operands + first_row() * pitch, pitch, others,
                        int(tiles.pitch(tiles.most_dims())), int(tiles.depth(dims)));
    return out;
  }
  __device__ __forceinline__ void add(Sums& sums, Scores& factors) const {
    const E* const from = others + call.first_dim;
    const int pitch = int(tiles.pitch(tiles.most_dims()));
    if constexpr (tile::same_type<E, float>) {
      products().stage(factors, staged(), kWeightPitch);
      __syncwarp();
      products().template add_staged<kOthers>(sums, 0, staged(), kWeightPitch, from, pitch);
      __syncwarp();
    } else {
      products().template add<Tiles::kColumns>(sums, factors, from, pitch);
    }
  }

  /// Products to weights, and products of gradients and values to the scores' gradients.
  __device__ __forceinline__ void weigh(Scores& scores, Scores& slopes) const {
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const Row& row = rows[first_row() + products().row(i)];
      TW_UNROLL
      for (int j = 0; j < Products::kKeys; ++j) {
        const Row& other = block[products().key(j)];
        const Row &query = kOfKeys ? other : row, &key = kOfKeys ? row : other;
        float score = scores(i, j) * call.scale, bend = 1;
        if (kernel.softcap > 0) {
          const float t = tile::tanh(score / kernel.softcap);
          score = kernel.softcap * t;
          bend = 1 - t * t;
        }
        const bool is_seen = key.first >= query.first && key.first < query.end;
        const float weight = is_seen ? tile::exp_below(score, query.lse) : 0.0f;
        scores(i, j) = weight;
        slopes(i, j) = is_seen ? weight * bend * (slopes(i, j) - query.delta) : 0.0f;
      }
    }
  }

  __device__ __forceinline__ void walk() {
    const KeyRange any = range();
    if (P::thread() < kRows) rows[P::thread()] = find(call.first_row + P::thread(), kOfKeys);
    if (P::thread() < kOthers) block[P::thread()] = find(any.begin + P::thread(), !kOfKeys);
    P::sync();
    if constexpr (!kOfKeys) find_deltas();
    if (!any.empty()) {
      load<kRows>(of_scores, tiles.pitch(tiles.shape.dims), rows, kOfKeys, true);
      load<kRows>(of_values, tiles.pitch(tiles.shape.value_dims), rows, kOfKeys, false);
    }
    Sums of_rows, values;  // gradients of the rows, and of their values
    TW_ROLLED
    for (int64_t first = any.begin; first < any.end; first += kOthers) {
      load_others(false);
      if (P::thread() < kOthers)
        other_block()[P::thread()] = find(first + kOthers + P::thread(), !kOfKeys);
      settle();
      Scores slopes = multiply(of_values, tiles.shape.value_dims);
      load_others(true);
      settle();
      Scores scores = multiply(of_scores, tiles.shape.dims);
      weigh(scores, slopes);
      if (columns(tiles.shape.dims) > 0) add(of_rows, slopes);
      if (kOfKeys && columns(tiles.shape.value_dims) > 0) {
        load_others(false);
        settle();
        add(values, scores);
      }
      block = other_block();
    }
    if constexpr (kOfKeys) {
      store(of_rows, call.scale, kernel.k_grad);
      store(values, 1, kernel.v_grad);
    } else {
      store(of_rows, call.scale, kernel.q_grad);
    }
  }

  __device__ __forceinline__ void store(Sums& sums, float factor, const View<T, 4>& to) const {
    const int count = columns(to.size(3));
    TW_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int64_t r = call.first_row + first_row() + products().row(i);
      if (r >= (kOfKeys ? tiles.keys : tiles.rows()) || count == 0) continue;
      View<T, 1> row;
      if constexpr (kOfKeys)
        row = to[call.batch][r][call.kv_head];
      else
        row = row_of(to, r);
      store_sums(products(), sums, i, factor, &row(call.first_dim), row.stride(0), count);
    }
  }
};

/// Program p of the tiles of a kernel.
template <class P, class K>
__device__ __forceinline__ void run_attention_backward_tile(P p, const K& kernel,
                                                            const AttentionBackwardTiles<K>& tiles,
                                                            float scale) {
  auto& call =
      *reinterpret_cast<typename AttentionBackwardTiles<K>::Call*>(tile::cuda::shared_scratch);
  if (p.thread() == 0) {
    const int64_t slices = tiles.slices(p.phase()), count = tiles.tiles(p.phase());
    const int64_t tile = index_quotient(p.index(), slices), head = index_quotient(tile, count);
    call.tiles = tiles;
    call.kernel = kernel;
    call.scale = scale;
    call.batch = index_quotient(head, tiles.shape.kv_heads);
    call.kv_head = head - call.batch * tiles.shape.kv_heads;
    call.mask = kernel.mask(call.batch);
    call.deltas = p.template workspace<float>() + call.batch * tiles.shape.q_heads * tiles.queries;
    call.first_row = (tile - head * count) * tiles.kRows;
    call.first_dim = int(p.index() - tile * slices) * tiles.kColumns;
  }
  p.sync();
  if (p.phase() == 0)
    AttentionBackwardTile<P, K, false>::run();
  else
    AttentionBackwardTile<P, K, true>::run();
}

}  // namespace tw::kernels
