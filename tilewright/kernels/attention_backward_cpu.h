// The schedule of attention's backward on the CPU.
//
// Phase 0: grad · output for every row. Phase 1: a task per sequence, kv head and chunk of keys
// walks its blocks of keys; the gradients of a block's keys and values stay in its scratch while
// all rows of queries that see the block pass by, and those of the queries are added to the chunk's
// own copy in the workspace. Phase 2 adds up the copies in the order of the chunks. The cut depends
// on the shape alone: the same bits for any number of threads.
#pragma once

#include "tilewright/kernels/attention_blocks.h"
#include "tilewright/kernels/block_gemm_cpu.h"
#if defined(__AMX_BF16__)
#include "tilewright/kernels/block_gemm_amx.h"
#endif
#if defined(__AVX512BF16__)
#include "tilewright/kernels/block_gemm_bf16.h"
#endif
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels::attention_backward {

inline constexpr int64_t kRows = 64;         // of queries in a block
inline constexpr int64_t kKeys = kKeyBlock;  // of keys in a block
inline constexpr int64_t kWantedTasks = 64;  // enough for any machine of today
inline constexpr int64_t kMostChunks = 8;    // copies of the queries' gradients

/// Calls f with the products that are quicker on this machine.
template <class P, class T, class F>
TW_INLINE auto with_blocks([[maybe_unused]] const Machine& machine, F&& f) {
#if defined(__AMX_BF16__)
  if constexpr (P::kHasAmx && tile::same_type<T, bf16>) {
    if (machine.prefers_bf16_tiles()) return f(block_gemm::Bf16Tiles{});
  }
#endif
#if defined(__AVX512BF16__)
  if constexpr (P::kHasBf16 && tile::same_type<T, bf16>) {
    if (machine.prefers_bf16_pairs()) return f(block_gemm::Bf16Pairs{});
  }
#endif
  return f(block_gemm::Floats{});
}

/// How a call is cut, and where its parts lie in the workspace and in a task's scratch (floats).
struct Layout {
  int64_t batch, rows, keys, heads, kv_heads, dims, value_dims;
  int64_t q_blocks, chunks, blocks_per_chunk;
  int64_t origin;  // of the workspace's part

  template <class K>
  TW_INLINE static Layout of(const K& k, int64_t most_chunks = kMostChunks) {
    Layout out{k.q.size(0),
               k.q.size(1),
               k.k.size(1),
               k.q.size(2),
               k.k.size(2),
               k.q.size(3),
               k.v.size(3),
               0,
               0,
               0,
               0};
    out.q_blocks = (out.rows + kRows - 1) / kRows;
    const int64_t blocks = key_blocks(out.keys), tasks = out.batch * out.kv_heads;
    int64_t wanted = tasks > 0 ? (kWantedTasks + tasks - 1) / tasks : 1;
    if (wanted > most_chunks) wanted = most_chunks;
    if (wanted > blocks) wanted = blocks > 0 ? blocks : 1;
    out.blocks_per_chunk = (blocks + wanted - 1) / wanted;
    if (out.blocks_per_chunk == 0) out.blocks_per_chunk = 1;
    out.chunks = blocks > 0 ? (blocks + out.blocks_per_chunk - 1) / out.blocks_per_chunk : 0;
    return out;
  }

  TW_INLINE int64_t padded(int64_t n) const { return block_gemm::panels(n) * block_gemm::kWidth; }
  TW_INLINE int64_t row_count() const { return batch * heads * rows; }
  TW_INLINE int64_t delta(int64_t b, int64_t h) const { return origin + (b * heads + h) * rows; }
  /// Floats of one block of queries' gradients: [panels of D][rows][32].
  TW_INLINE int64_t q_block_size() const { return padded(dims) * kRows; }
  TW_INLINE int64_t q_partial(int64_t chunk, int64_t b, int64_t h, int64_t block) const {
    const int64_t at = ((chunk * batch + b) * heads + h) * q_blocks + block;
    return origin + (row_count() + 15) / 16 * 16 + at * q_block_size();
  }
  TW_INLINE int64_t workspace() const { return q_partial(chunks, 0, 0, 0); }
};

/// A task's buffers, for operands of the products E.
template <class E>
struct Buffers {
  using Unit = typename E::Unit;
  using Value = typename E::Value;
  static_assert(sizeof(Unit) == sizeof(float));
  Unit *k, *v, *k_turned;                   // of the block of keys: right operands
  Unit *q, *grad, *q_turned, *grad_turned;  // of the block of queries: left and right operands
  Unit* left;                               // a left operand made of weights or slopes
  float *scores, *products;                 // [panels of keys][rows][32]
  Value *weights, *slopes;                  // [rows][kKeys]
  float *k_sum, *v_sum;                     // [panels of D][keys][32]

  TW_INLINE static int64_t size(const Layout& l, Buffers* out, float* base) {
    int64_t at = 0;
    const auto take = [&]<class U>(U* Buffers::* part, int64_t units) {
      if (out != nullptr) out->*part = reinterpret_cast<U*>(base + at);
      at += (units + 15) / 16 * 16;
    };
    take(&Buffers::k, E::right_units(kKeys, l.dims));
    take(&Buffers::v, E::right_units(kKeys, l.value_dims));
    take(&Buffers::k_turned, E::right_units(l.dims, kKeys));
    take(&Buffers::q, E::left_units(kRows, l.dims));
    take(&Buffers::grad, E::left_units(kRows, l.value_dims));
    take(&Buffers::q_turned, E::right_units(l.dims, kRows));
    take(&Buffers::grad_turned, E::right_units(l.value_dims, kRows));
    take(&Buffers::left, kRows * kKeys);
    for (auto part : {&Buffers::scores, &Buffers::products}) take(part, kRows * kKeys);
    for (auto part : {&Buffers::weights, &Buffers::slopes}) take(part, kRows * kKeys);
    take(&Buffers::k_sum, l.padded(l.dims) * kKeys);
    take(&Buffers::v_sum, l.padded(l.value_dims) * kKeys);
    return at;
  }
};

/// Bytes of a task's scratch.
template <class P, class T>
TW_INLINE int64_t scratch_bytes(const Layout& l, const Machine& machine) {
  return with_blocks<P, T>(machine, [&]<class E>(E) {
    return Buffers<E>::size(l, nullptr, nullptr) * int64_t{sizeof(float)};
  });
}

template <class T, class P, class K>
TW_INLINE tile::Plan plan(const K& kernel, const Machine& machine) {
  const Layout l = Layout::of(kernel);
  tile::Plan out;
  out.phases = 3;
  out.grid[0] = l.batch * l.heads * l.q_blocks;
  out.grid[1] = l.batch * l.kv_heads * l.chunks;
  out.grid[2] = l.batch * l.heads * l.q_blocks;
  out.workspace_bytes = l.workspace() * int64_t{sizeof(float)};
  out.scratch_bytes = scratch_bytes<P, T>(l, machine);
  return out;
}

/// Rows and columns of block_gemm's layout to a strided matrix.
template <class P, class T>
TW_INLINE void store_panels(P p, const float* from, int64_t rows, float factor,
                            const View<T, 2>& to) {
  for (int64_t r = 0; r < to.size(0); ++r)
    for (int64_t c = 0; c < to.size(1); c += block_gemm::kWidth) {
      const int64_t rest = to.size(1) - c;
      const int64_t n = rest < block_gemm::kWidth ? rest : block_gemm::kWidth;
      const View<const float, 1> row{from + c * rows + r * block_gemm::kWidth, {n}, {1}};
      const View<T, 1> target{to.data + r * to.stride(0) + c * to.stride(1), {n}, {to.stride(1)}};
      tile::for_row(p, n,
                    [&](auto at) { tile::store_cached(target, at, tile::load(row, at) * factor); });
    }
}

/// One head of a [B, N, H, D] tensor, elements [first, first + count) of N.
template <class T>
TW_INLINE View<T, 2> head_of(const View<T, 4>& x, int64_t b, int64_t h, int64_t first,
                             int64_t count) {
  return {x.data + b * x.stride(0) + first * x.stride(1) + h * x.stride(2),
          {count, x.size(3)},
          {x.stride(1), x.stride(3)}};
}
template <class T>
TW_INLINE block_gemm::Block<T> as_rows(const View<const T, 2>& x) {
  return {x.data, x.size(0), x.size(1), x.stride(0), x.stride(1)};
}
template <class T>
TW_INLINE block_gemm::Block<T> as_columns(const View<const T, 2>& x) {
  return {x.data, x.size(1), x.size(0), x.stride(1), x.stride(0)};
}

/// A task of phase 1.
template <class E, class T, class P, class K>
struct Task {
  const K& kernel;
  Layout l;
  Buffers<E> to;
  AttentionMask mask;
  int64_t b, kv_head, chunk;
  float scale;

  TW_INLINE float* workspace(P p) const { return p.template workspace<float>(); }

  void run(P p) const {
    [[maybe_unused]] const typename E::Scope scope{};
    const int64_t group = l.heads / l.kv_heads;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      zero(p, workspace(p) + l.q_partial(chunk, b, h, 0), l.q_blocks * l.q_block_size());
    const int64_t first = chunk * l.blocks_per_chunk, blocks = key_blocks(l.keys);
    for (int64_t i = first; i < first + l.blocks_per_chunk && i < blocks; ++i) block(p, i * kKeys);
  }

 private:
  static void zero(P p, float* at, int64_t count) {
    const View<float, 1> all{at, {count}, {1}};
    tile::for_row(p, count, [&](auto span) { tile::store_cached(all, span, typename P::f32{}); });
  }

  /// The block of keys from `first` on: all rows that see any of it.
  void block(P p, int64_t first) const {
    const int64_t rest = l.keys - first, count = rest < kKeys ? rest : kKeys;
    const int64_t there = mask.kv_len - first;  // keys of the block that are there
    const int64_t n = there < 0 ? 0 : there < count ? there : count;
    zero(p, to.k_sum, l.padded(l.dims) * E::rows(count));
    zero(p, to.v_sum, l.padded(l.value_dims) * E::rows(count));
    if (n > 0) {
      const auto k = head_of(kernel.k, b, kv_head, first, n);
      E::pack_right(p, as_rows<T>(k), to.k);
      E::pack_right(p, as_columns<T>(k), to.k_turned);
      E::pack_right(p, as_rows<T>(head_of(kernel.v, b, kv_head, first, n)), to.v);
      const int64_t group = l.heads / l.kv_heads;
      for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
        for (int64_t i = 0; i < l.q_blocks; ++i) queries(p, h, i * kRows, first, n, count);
    }
    store_panels(p, to.k_sum, E::rows(count), scale,
                 head_of(kernel.k_grad, b, kv_head, first, count));
    store_panels(p, to.v_sum, E::rows(count), 1, head_of(kernel.v_grad, b, kv_head, first, count));
  }

  /// Rows from `row` on of head h over n keys from `first` on; the sums have `count` rows.
  void queries(P p, int64_t h, int64_t row, int64_t first, int64_t n, int64_t count) const {
    const int64_t rest = l.rows - row, m = rest < kRows ? rest : kRows;
    const KeyRange seen = mask.keys(row, row + m - 1);
    if (seen.end <= first || seen.begin >= first + n) return;
    const auto q = head_of(kernel.q, b, h, row, m);
    const auto grad = head_of(kernel.grad, b, h, row, m);
    E::pack_left(p, as_rows<T>(q), to.q);
    E::pack_left(p, as_rows<T>(grad), to.grad);
    E::multiply(p, to.q, m, to.k, n, l.dims, to.scores, false);
    E::multiply(p, to.grad, m, to.v, n, l.value_dims, to.products, false);
    for (int64_t r = 0; r < m; ++r) slopes(p, h, row, r, m, first, n);

    using Values = block_gemm::Block<typename E::Value>;
    E::pack_left(p, Values{to.slopes, m, n, kKeys, 1}, to.left);
    float* const q_sum = workspace(p) + l.q_partial(chunk, b, h, row / kRows);
    E::multiply(p, to.left, m, to.k_turned, l.dims, n, q_sum, true);

    E::pack_right(p, as_columns<T>(q), to.q_turned);
    E::pack_left(p, Values{to.slopes, n, m, 1, kKeys}, to.left);
    add(p, n, count, m, to.q_turned, l.dims, to.k_sum);

    E::pack_right(p, as_columns<T>(grad), to.grad_turned);
    E::pack_left(p, Values{to.weights, n, m, 1, kKeys}, to.left);
    add(p, n, count, m, to.grad_turned, l.value_dims, to.v_sum);
  }

  /// sum += left · right, where sum has `count` rows, n of which take part.
  void add(P p, int64_t n, int64_t count, int64_t depth, const typename E::Unit* right,
           int64_t dims, float* sum) const {
    for (int64_t d = 0; d < dims; d += block_gemm::kWidth) {
      const int64_t rest = dims - d;
      E::multiply(p, to.left, n, right + E::right_units(d, depth),
                  rest < block_gemm::kWidth ? rest : block_gemm::kWidth, depth,
                  sum + d * E::rows(count), true);
    }
  }

  /// Weights and slopes of row r of the block.
  TW_INLINE void slopes(P p, int64_t h, int64_t row, int64_t r, int64_t m, int64_t first,
                        int64_t n) const {
    using V = typename P::f32;
    using I = typename P::i32;
    constexpr int64_t kN = P::template kLanes<float>;
    KeyRange seen = mask.keys(row + r);
    seen.begin -= first;
    seen.end -= first;
    const float lse = kernel.lse(b, h, row + r), cap = kernel.softcap;
    const float delta = workspace(p)[l.delta(b, h) + row + r];
    const bool sees_nothing = lse == -__builtin_inff();
    for (int64_t j = 0; j < n; j += kN) {
      const int64_t at = j / block_gemm::kWidth * block_gemm::kWidth * E::rows(m) +
                         r * block_gemm::kWidth + j % block_gemm::kWidth;
      V score = tile::load<V>(to.scores + at) * scale, bend = 1 + V{};
      if (cap > 0) {
        const V t = tile::tanh(score / cap);
        score = t * cap;
        bend = 1 - t * t;
      }
      const I column = tile::iota<I>(int32_t(j));
      const auto visible = (column >= int32_t(seen.begin < 0 ? 0 : seen.begin)) &
                           (column < int32_t(seen.end < n ? seen.end : n));
      V weight = tile::exp(score - lse);
      weight = tile::select(visible, weight, V{});
      if (sees_nothing) weight = V{};
      const V slope = weight * (tile::load<V>(to.products + at) - delta) * bend;
      tile::store(to.weights + r * kKeys + j, weight);
      tile::store(to.slopes + r * kKeys + j, tile::select(visible, slope, V{}));
    }
  }
};

/// Phase 0: grad · output for a block of rows.
template <class P, class K>
TW_INLINE void deltas(P p, const K& kernel, const Layout& l, int64_t b, int64_t h, int64_t row) {
  for (int64_t r = row; r < row + kRows && r < l.rows; ++r) {
    const auto grad = kernel.grad[b][r][h], output = kernel.output[b][r][h];
    p.template workspace<float>()[l.delta(b, h) + r] =
        tile::reduce_row(p, tile::Sum{}, l.value_dims,
                         [&](auto at) { return tile::load(grad, at) * tile::load(output, at); });
  }
}

/// Phase 2: the chunks' copies of a block of rows, added up into the first one.
template <class E, class P, class K>
TW_INLINE void fold(P p, const K& kernel, const Layout& l, int64_t b, int64_t h, int64_t block,
                    float scale) {
  const int64_t rest = l.rows - block * kRows, m = rest < kRows ? rest : kRows;
  float* const base = p.template workspace<float>();
  const auto part = [&](int64_t chunk) {
    return View<float, 1>{base + l.q_partial(chunk, b, h, block), {l.q_block_size()}, {1}};
  };
  const auto target = head_of(kernel.q_grad, b, h, block * kRows, m);
  if (l.chunks == 0) {
    for (int64_t r = 0; r < m; ++r)
      tile::for_row(p, l.dims,
                    [&](auto at) { tile::store_cached(target[r], at, typename P::f32{}); });
    return;
  }
  for (int64_t c = 1; c < l.chunks; ++c)
    tile::for_row(p, l.q_block_size(), [&](auto at) {
      tile::store_cached(part(0), at, tile::load(part(0), at) + tile::load(part(c), at));
    });
  store_panels(p, part(0).data, E::rows(m), scale, target);
}

template <class E, class T, class P, class K>
TW_INLINE void run_with(P p, const K& kernel) {
  const Layout l = Layout::of(kernel);
  const float scale = kernel.scale != 0 ? kernel.scale : tile::rsqrt(static_cast<float>(l.dims));
  if (p.phase() == 1) {
    const int64_t chunk = p.index() % l.chunks, at = p.index() / l.chunks;
    const int64_t b = at / l.kv_heads;
    Buffers<E> buffers;
    Buffers<E>::size(l, &buffers, p.template scratch<float>());
    const Task<E, T, P, K> task{kernel,          l,     buffers, kernel.mask(b), b,
                                at % l.kv_heads, chunk, scale};
    return task.run(p);
  }
  const int64_t block = p.index() % l.q_blocks, at = p.index() / l.q_blocks;
  const int64_t b = at / l.heads, h = at % l.heads;
  if (p.phase() == 0)
    deltas(p, kernel, l, b, h, block * kRows);
  else
    fold<E>(p, kernel, l, b, h, block, scale);
}
template <class T, class P, class K>
TW_INLINE void run(P p, const K& kernel) {
  with_blocks<P, T>(p.machine(), [&]<class E>(E) { run_with<E, T>(p, kernel); });
}

}  // namespace tw::kernels::attention_backward
