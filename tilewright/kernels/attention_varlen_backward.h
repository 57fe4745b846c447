// Gradients of attention (kernels/attention_backward.h) over sequences of different lengths, one
// after the other in one tensor without padding. Rows outside all sequences have gradient 0.
//
// On a CPU a program has one sequence and one head of its keys, with all heads of queries that ask
// it; one more program clears the rows outside. On a GPU a program has a row, as without sequences.
#pragma once

#include "tilewright/kernels/attention_backward.h"

namespace tw::kernels {

template <class T>
struct AttentionVarlenBackward {
  View<const T, 3> grad;                 // [N, Hq, Dv]
  View<const T, 3> q;                    // [N, Hq, D]
  View<const T, 3> k;                    // [M, H, D]
  View<const T, 3> v;                    // [M, H, Dv]
  View<const T, 3> output;               // [N, Hq, Dv]
  View<const float, 2> lse;              // [Hq, N]
  View<const int32_t, 1> cu_seqlens_q;   // [B + 1], sequence b is q[cu[b] .. cu[b + 1])
  View<const int32_t, 1> cu_seqlens_kv;  // [B + 1]
  tile::compute_t<T> scale;              // 0: 1 / sqrt(D)
  bool causal;
  int64_t window_left, window_right;  // < 0: unlimited
  tile::compute_t<T> softcap;         // 0: none
  View<T, 3> q_grad;                  // as q
  View<T, 3> k_grad;                  // as k
  View<T, 3> v_grad;                  // as v

  TW_INLINE AttentionShape shape() const { return {q.size(1), k.size(1), q.size(2), v.size(2)}; }
  TW_INLINE AttentionOptions options() const {
    return {{}, float(scale), causal, window_left, window_right, float(softcap)};
  }
  TW_INLINE int64_t sequences() const { return cu_seqlens_q.size(0) - 1; }

  /// Sequence b alone.
  TW_INLINE AttentionBackward<T> sequence(int64_t b) const {
    const int64_t first = cu_seqlens_q(b), rows = cu_seqlens_q(b + 1) - first;
    const int64_t first_key = cu_seqlens_kv(b), keys = cu_seqlens_kv(b + 1) - first_key;
    return {part(grad, first, rows),
            part(q, first, rows),
            part(k, first_key, keys),
            part(v, first_key, keys),
            part(output, first, rows),
            {lse.data + first * lse.stride(1),
             {1, lse.size(0), rows},
             {0, lse.stride(0), lse.stride(1)}},
            {},
            scale,
            causal,
            window_left,
            window_right,
            softcap,
            part(q_grad, first, rows),
            part(k_grad, first_key, keys),
            part(v_grad, first_key, keys)};
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
#if !defined(__CUDACC__)
    if constexpr (!P::kOnGpu) {
      using namespace attention_backward;
      const Layout l = layout(q.size(0), k.size(0), sequences(), q.size(0));
      tile::Plan out = tile::plan_of(sequences() * k.size(1) + 1, scratch_bytes<P, T>(l, machine));
      out.workspace_bytes = l.origin * int64_t{sizeof(float)};
      return out;
    }
#endif
    return attention_backward_neutral::make_plan(shape(), q.size(0), k.size(0));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (p.index() == sequences() * k.size(1)) return clear_outside(p);
    const int64_t b = p.index() / k.size(1);
    attention_backward::with_blocks<P, T>(
        p.machine(), [&]<class E>(E) { walk<E>(p, sequence(b), b, p.index() % k.size(1)); });
#else
    const bool of_keys = p.phase() == 1;
    const int64_t heads = of_keys ? k.size(1) : q.size(1);
    const int64_t row = index_quotient(p.index(), heads), head = p.index() - row * heads;
    const View<const int32_t, 1>& offsets = of_keys ? cu_seqlens_kv : cu_seqlens_q;
    const int64_t b = sequence_of(offsets, row);
    if (b == sequences()) {
      if (p.phase() == 2) clear(p, q_grad[row][head]);
      if (p.phase() == 1) clear(p, k_grad[row][head]);
      if (p.phase() == 1) clear(p, v_grad[row][head]);
      return;
    }
    const AttentionBackward<T> here = sequence(b);
    const attention_backward_neutral::Task<T, P, AttentionBackward<T>> task{
        p,
        here,
        shape(),
        0,
        here.mask(0),
        attention_backward_neutral::scale_of(here),
        int64_t{cu_seqlens_q(b)} * q.size(1)};
    task.run(head, row - offsets(b));
#endif
  }

 private:
  template <class U>
  TW_INLINE static View<U, 4> part(const View<U, 3>& x, int64_t first, int64_t count) {
    return {x.data + first * x.stride(0),
            {1, count, x.size(1), x.size(2)},
            {0, x.stride(0), x.stride(1), x.stride(2)}};
  }
  /// The sequence that has the row; sequences() for none.
  TW_INLINE int64_t sequence_of(const View<const int32_t, 1>& offsets, int64_t row) const {
    int64_t low = 0, high = sequences();  // the first sequence that ends after the row
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (offsets(middle + 1) > row)
        high = middle;
      else
        low = middle + 1;
    }
    return low < sequences() && offsets(low) <= row ? low : sequences();
  }
  template <class P>
  TW_INLINE static void clear(P p, const View<T, 1>& row) {
    tile::for_row(p, row, [&](auto at) {
      tile::store(p, row, at, tile::splat<typename P::template Vec<float>>(0.0f));
    });
  }

#if !defined(__CUDACC__)
  /// How a sequence of so many rows and keys is cut whose rows begin at `first`; no sequence takes
  /// more of the workspace than its rows' numbers, rounded up, and its blocks of rows.
  TW_INLINE attention_backward::Layout layout(int64_t rows, int64_t keys, int64_t b,
                                              int64_t first) const {
    using attention_backward::kRows;
    struct Sizes {
      View<const T, 4> q, k, v;
    };
    const auto alone = [](const View<const T, 3>& x, int64_t count) { return part(x, 0, count); };
    attention_backward::Layout out =
        attention_backward::Layout::of(Sizes{alone(q, rows), alone(k, keys), alone(v, keys)}, 1);
    const int64_t blocks = (first + (kRows - 1) * b) / kRows;  // of the sequences before, at most
    out.origin = q.size(1) * (first + blocks * out.q_block_size());
    out.origin = (out.origin + 15) / 16 * 16 + 16 * b;
    return out;
  }
  /// The gradients that one head of keys has a part in, of sequence b.
  template <class E, class P>
  TW_INLINE void walk(P p, const AttentionBackward<T>& here, int64_t b, int64_t kv_head) const {
    using namespace attention_backward;
    const Layout l = layout(here.q.size(1), here.k.size(1), b, cu_seqlens_q(b));
    const float scale_here = attention_backward_neutral::scale_of(here);
    const auto for_blocks = [&](auto&& f) {
      const int64_t group = l.heads / l.kv_heads;
      for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
        for (int64_t block = 0; block < l.q_blocks; ++block) f(h, block);
    };
    for_blocks([&](int64_t h, int64_t block) { deltas(p, here, l, 0, h, block * kRows); });
    Buffers<E> buffers;
    Buffers<E>::size(l, &buffers, p.template scratch<float>());
    if (l.chunks > 0)
      Task<E, T, P, AttentionBackward<T>>{here, l, buffers, here.mask(0), 0, kv_head, 0, scale_here}
          .run(p);
    for_blocks([&](int64_t h, int64_t block) { fold<E>(p, here, l, 0, h, block, scale_here); });
  }
  template <class P>
  TW_INLINE void clear_outside(P p) const {
    const auto rows = [&](const View<T, 3>& x, const View<const int32_t, 1>& offsets) {
      for (int64_t i = 0; i < x.size(0); ++i) {
        if (i == offsets(0)) i = offsets(sequences());
        for (int64_t h = 0; h < x.size(1) && i < x.size(0); ++h) clear(p, x[i][h]);
      }
    };
    rows(q_grad, cu_seqlens_q);
    rows(k_grad, cu_seqlens_kv);
    rows(v_grad, cu_seqlens_kv);
  }
#endif
};

}  // namespace tw::kernels
