// Attention's backward in the primitives of the tile language alone: one program per key, which
// adds up over blocks of queries, then one per query over blocks of keys. Correct on every target,
// quick on none.
#pragma once

#include "tilewright/kernels/attention_blocks.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels::attention_backward_neutral {

inline constexpr int64_t kPairs = kKeyBlock;  // pairs of a query and a key at a time

/// Phase 0: grad · output of every row, phase 1: gradients of keys and values, phase 2: of queries.
TW_INLINE tile::Plan make_plan(const AttentionShape& shape, int64_t queries, int64_t keys) {
  const int64_t rows = queries * shape.q_heads;
  tile::Plan out =
      tile::plan_of(rows, (2 * kPairs + shape.dims + shape.value_dims) * int64_t{sizeof(float)})
          .over(1024);
  out.phases = 3;
  out.grid[1] = keys * shape.kv_heads;
  out.grid[2] = rows;
  out.workspace_bytes = rows * int64_t{sizeof(float)};
  return out;
}

template <class T, class P, class K>
struct Task {
  using V = typename P::template Vec<float>;

  P p;
  const K& kernel;
  AttentionShape shape;
  int64_t batch;
  AttentionMask mask;
  float scale;
  int64_t origin = 0;  // of the workspace's part

  TW_INLINE static float exp_of(float x) { return tile::first_lane(tile::exp(tile::splat<V>(x))); }
  TW_INLINE int64_t row(int64_t head, int64_t query) const {
    return origin + (batch * shape.q_heads + head) * kernel.q.size(1) + query;
  }
  TW_INLINE float* weights() const { return p.template scratch<float>(); }
  TW_INLINE float* slopes() const { return weights() + kPairs; }

  /// Weight and slope of a pair that see each other.
  TW_INLINE void weigh(int64_t head, int64_t query, int64_t key, float& weight,
                       float& slope) const {
    const int64_t kv_head = head / shape.group();
    float score = 0, product = 0;
    for (int64_t d = 0; d < shape.dims; ++d)
      score += float(kernel.q(batch, query, head, d)) * float(kernel.k(batch, key, kv_head, d));
    for (int64_t d = 0; d < shape.value_dims; ++d)
      product +=
          float(kernel.grad(batch, query, head, d)) * float(kernel.v(batch, key, kv_head, d));
    score *= scale;
    float bend = 1;
    if (kernel.softcap > 0) {
      const float t = tile::first_lane(tile::tanh(tile::splat<V>(score / kernel.softcap)));
      score = kernel.softcap * t;
      bend = 1 - t * t;
    }
    const float lse = kernel.lse(batch, head, query);
    weight = lse == -__builtin_inff() ? 0.0f : exp_of(score - lse);
    slope = weight * bend * (product - p.template workspace<float>()[row(head, query)]);
  }

  /// Weights and slopes of `count` pairs: of(i, query, key) says which.
  template <class F>
  TW_INLINE void weigh_all(int64_t head, int64_t count, F&& of) const {
    tile::sync(p);
    tile::for_row(p, count, [&](auto at) {
      for (int i = 0; i < at.count; ++i) {
        int64_t query, key;
        of(at.offset + i, query, key);
        weigh(head, query, key, weights()[at.offset + i], slopes()[at.offset + i]);
      }
    });
    tile::sync(p);
  }

  /// sum += sum over i of factors[i] * row_of(i).
  template <class F>
  TW_INLINE void add(float* sum, int64_t dims, const float* factors, int64_t count,
                     F&& row_of) const {
    const auto acc = view(sum, dims);
    tile::for_row(p, dims, [&](auto at) {
      V total = tile::load(acc, at);
      for (int64_t i = 0; i < count; ++i)
        total = tile::fma(tile::splat<V>(factors[i]), tile::load(row_of(i), at), total);
      tile::store_cached(acc, at, total);
    });
  }
  TW_INLINE void zero(float* sum, int64_t dims) const {
    tile::for_row(p, dims,
                  [&](auto at) { tile::store_cached(view(sum, dims), at, tile::splat<V>(0.0f)); });
  }
  TW_INLINE void put(const float* sum, float factor, const View<T, 1>& to) const {
    tile::for_row(p, to.size(0), [&](auto at) {
      tile::store(p, to, at, tile::load(view(sum, to.size(0)), at) * factor);
    });
  }

  TW_INLINE void delta(int64_t head, int64_t query) const {
    const auto grad = kernel.grad[batch][query][head], output = kernel.output[batch][query][head];
    p.template workspace<float>()[row(head, query)] =
        tile::reduce_row(p, tile::Sum{}, shape.value_dims,
                         [&](auto at) { return tile::load(grad, at) * tile::load(output, at); });
  }

  TW_INLINE void key(int64_t kv_head, int64_t key) const {
    float *const k_sum = slopes() + kPairs, *const v_sum = k_sum + shape.dims;
    zero(k_sum, shape.dims);
    zero(v_sum, shape.value_dims);
    const KeyRange seeing = mask.queries(key);
    const int64_t first_head = kv_head * shape.group();
    for (int64_t head = first_head; head < first_head + shape.group(); ++head)
      for (int64_t first = seeing.begin; first < seeing.end; first += kPairs) {
        const int64_t rest = seeing.end - first, count = rest < kPairs ? rest : kPairs;
        weigh_all(head, count, [&](int64_t i, int64_t& query, int64_t& its) {
          query = first + i;
          its = key;
        });
        add(k_sum, shape.dims, slopes(), count,
            [&](int64_t i) { return kernel.q[batch][first + i][head]; });
        add(v_sum, shape.value_dims, weights(), count,
            [&](int64_t i) { return kernel.grad[batch][first + i][head]; });
      }
    put(k_sum, scale, kernel.k_grad[batch][key][kv_head]);
    put(v_sum, 1, kernel.v_grad[batch][key][kv_head]);
  }

  TW_INLINE void query(int64_t head, int64_t query) const {
    float* const sum = slopes() + kPairs;
    zero(sum, shape.dims);
    const KeyRange seen = mask.keys(query);
    for (int64_t first = seen.begin; first < seen.end; first += kPairs) {
      const int64_t rest = seen.end - first, count = rest < kPairs ? rest : kPairs;
      weigh_all(head, count, [&](int64_t i, int64_t& its, int64_t& key) {
        its = query;
        key = first + i;
      });
      add(sum, shape.dims, slopes(), count,
          [&](int64_t i) { return kernel.k[batch][first + i][head / shape.group()]; });
    }
    put(sum, scale, kernel.q_grad[batch][query][head]);
  }

  /// The head's part of the present phase: `place` is a query, or a key.
  TW_INLINE void run(int64_t head, int64_t place) const {
    if (p.phase() == 0) delta(head, place);
    if (p.phase() == 1) key(head, place);
    if (p.phase() == 2) query(head, place);
  }
};

template <class K>
TW_INLINE float scale_of(const K& kernel) {
  return kernel.scale != 0 ? kernel.scale : tile::rsqrt(static_cast<float>(kernel.shape().dims));
}

template <class T, class P, class K>
TW_INLINE void run(P p, const K& kernel) {
  const AttentionShape shape = kernel.shape();
  const bool of_keys = p.phase() == 1;
  const int64_t heads = of_keys ? shape.kv_heads : shape.q_heads;
  const int64_t head = p.index() % heads, at = p.index() / heads;
  const int64_t length = of_keys ? kernel.k.size(1) : kernel.q.size(1);
  const int64_t batch = at / length, place = at % length;
  Task<T, P, K>{p, kernel, shape, batch, kernel.mask(batch), scale_of(kernel)}.run(head, place);
}

}  // namespace tw::kernels::attention_backward_neutral
