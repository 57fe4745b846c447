// Attention in the primitives of the tile language alone: one program per query and head, over
// blocks of keys with a running maximum. Correct on every target, quick on none; what it is for are
// targets and shapes that have no schedule of their own, such as a GPU's few rows.
#pragma once

#include "tilewright/kernels/attention_score.h"

namespace tw::kernels::attention_neutral {

template <class T>
TW_INLINE int64_t queries(const View<const T, 4>& q) {
  return q.size(0) * q.size(1);
}
template <class T>
TW_INLINE int64_t queries(const View<const T, 3>& q) {
  return q.size(0);
}

template <class K>
TW_INLINE tile::Plan make_plan(const K& kernel) {
  const AttentionShape shape = kernel.shape();
  return tile::plan_of(queries(kernel.q) * shape.q_heads,
                       (kKeyBlock + shape.value_dims) * int64_t{sizeof(float)})
      .over(1024);
}

/// One query of one head.
template <class P, class T, class U>
struct Query {
  P p;
  const AttentionSequence<T, U>& sequence;
  const AttentionShape& shape;
  const AttentionOptions& options;
  int64_t query, q_head;
  float scale;
  ChangedScore<P, T> changed;

  TW_INLINE int64_t kv_head() const { return q_head / shape.group(); }
  TW_INLINE static float exp_of(float x) {
    return tile::first_lane(tile::exp(tile::splat<typename P::template Vec<float>>(x)));
  }

  /// By one thread, or in vectors: on a GPU the lanes have a key each.
  template <class E>
  TW_SHARED float dot(const View<const T, 1>& row, const KeySource<E>& keys, int64_t key) const {
    const KeySegment<E> at = keys.head(kv_head()).at(key, key + 1);
    if constexpr (P::kOnGpu) {
      float sum = 0;
      for (int64_t d = 0; d < row.size(0); ++d)
        sum += float(row(d)) * float(at.data[d * at.dim_stride]);
      return sum;
    } else {
      const View<const E, 1> other{at.data, {row.size(0)}, {at.dim_stride}};
      return tile::reduce_row(p, tile::Sum{}, row.size(0), [&](auto span) {
        return tile::load(row, span) * tile::load(other, span);
      });
    }
  }
  /// The scale of each part of a key's dims.
  TW_INLINE float scale_of(const KeySource<float>& scales, int64_t key, int64_t part) const {
    const KeySegment<float> at = scales.head(kv_head()).at(key, key + 1);
    return at.data[part * at.dim_stride];
  }
  TW_INLINE float scaled_dot(const View<const T, 1>& row, int64_t key) const {
    if (!sequence.k_scale) return dot(row, sequence.k, key);
    const int64_t dims = row.size(0) / sequence.scale_parts;
    float sum = 0;
    for (int64_t part = 0; part < sequence.scale_parts; ++part)
      sum += scale_of(sequence.k_scale, key, part) *
             dot(rows_from(row, part * dims, dims), sequence.k.from_dim(part * dims), key);
    return sum;
  }
  TW_INLINE float score(int64_t key) const {
    float sum = scaled_dot(sequence.q[query][q_head], key);
    if (sequence.k_pe) sum += dot(sequence.q_pe[query][q_head], sequence.k_pe, key);
    return changed(sum * scale, key);
  }

  /// acc = keep * acc + sum over keys of weights * values.
  TW_INLINE void add_values(const View<float, 1>& acc, const float* weights, int64_t first,
                            int64_t count, float keep) const {
    const int64_t dims = shape.value_dims / sequence.scale_parts;
    for (int64_t part = 0; part < sequence.scale_parts; ++part)
      add_values(rows_from(acc, part * dims, dims), weights, first, count, keep, part);
  }
  /// Of a part of the dims.
  TW_INLINE void add_values(const View<float, 1>& acc, const float* weights, int64_t first,
                            int64_t count, float keep, int64_t part) const {
    using V = typename P::template Vec<float>;
    const int64_t dims = acc.size(0);
    const KeySource<U> values = sequence.v.head(kv_head()).from_dim(part * dims);
    tile::for_row(p, dims, [&](auto at) {
      V sum = tile::load(acc, at) * keep;
      for (int64_t j = first; j < first + count; ++j) {
        const KeySegment<U> v = values.at(j, j + 1);
        float weight = weights[j - first];
        if (sequence.v_scale) weight *= scale_of(sequence.v_scale, j, part);
        const View<const U, 1> row{v.data, {dims}, {v.dim_stride}};
        sum = tile::fma(tile::splat<V>(weight), tile::load(row, at), sum);
      }
      tile::store_cached(acc, at, sum);
    });
  }

  TW_SHARED void run() const {
    constexpr float kLow = -__builtin_inff();
    float* const scores = p.template scratch<float>();
    const auto acc = view(scores + kKeyBlock, shape.value_dims);
    tile::for_row(p, shape.value_dims, [&](auto at) {
      tile::store_cached(acc, at, tile::splat<typename P::template Vec<float>>(0.0f));
    });
    float high = options.sinks ? options.sinks(q_head) : kLow, total = options.sinks ? 1.0f : 0.0f;
    const KeyRange keys = options.mask(sequence.q_len(), sequence.kv_len).keys(query);
    for (int64_t first = keys.begin; first < keys.end; first += kKeyBlock) {
      const int64_t rest = keys.end - first, count = rest < kKeyBlock ? rest : kKeyBlock;
      const auto row = view(scores, count);
      if constexpr (P::kOnGpu) {
        tile::for_row(p, count, [&](auto at) {
          for (int i = 0; i < at.count; ++i) scores[at.offset + i] = score(first + at.offset + i);
        });
      } else {
        for (int64_t i = 0; i < count; ++i) scores[i] = score(first + i);
      }
      tile::sync(p);
      const float before = high;
      high = tile::Max::combine(high, tile::reduce_row(p, tile::Max{}, count, [&](auto at) {
                                  return tile::load(row, at);
                                }));
      const float base = high == kLow ? 0.0f : high;  // -inf - -inf is NaN, but these weigh nothing
      const float keep = exp_of(before - base);
      tile::sync(p);
      total = total * keep + tile::reduce_row(p, tile::Sum{}, count, [&](auto at) {
                const auto weight = tile::exp(tile::load(row, at) - base);
                tile::store_cached(row, at, weight);
                return weight;
              });
      tile::sync(p);
      add_values(acc, scores, first, count, keep);
      tile::sync(p);
    }
    const float inverse = total == 0 ? 0.0f : 1 / total;
    const auto to = sequence.out[query][q_head];
    tile::for_row(p, shape.value_dims,
                  [&](auto at) { tile::store(p, to, at, tile::load(acc, at) * inverse); });
    if (sequence.lse)
      sequence.lse(q_head, query) =
          high + tile::first_lane(tile::log(tile::splat<typename P::template Vec<float>>(total)));
  }
};

template <class T, class U, class P, class K>
TW_INLINE void run(P p, const K& kernel) {
  const AttentionShape shape = kernel.shape();
  const AttentionOptions options = kernel.options();
  const SequenceLengths lengths = kernel.lengths();
  const int64_t query = p.index() / shape.q_heads;
  int64_t b = 0;
  while (b < lengths.sequences && lengths.first_query(b + 1) <= query) ++b;
  if (b == lengths.sequences || query < lengths.first_query(b)) return;  // of no sequence
  const AttentionSequence<T, U> sequence = kernel.sequence(b);
  const int64_t of_sequence = query - lengths.first_query(b), q_head = p.index() % shape.q_heads;
  const float scale = score_scale(sequence, shape, options, q_head / shape.group());
  const ChangedScore<P, T> changed(sequence, options, q_head, of_sequence);
  Query<P, T, U>{p, sequence, shape, options, of_sequence, q_head, scale, changed}.run();
}

}  // namespace tw::kernels::attention_neutral
