// What turns the steps of the delta rule inside a chunk into products of matrices (the UT transform
// of the WY form; Yang et al., arXiv:2406.06484, section 3; with gates arXiv:2412.06464):
//
//   A = (I + strictly lower part of diag(beta) (Gamma * K K^T))^-1,  Gamma_ij = exp(G_i - G_j)
//
// with G the sum of the chunk's gates up to each step. One program per chunk and head, by forward
// substitution: row i of A is row i of I, minus the rows before it, weighed. GPUs have a schedule
// of their own (delta_rule_transform_gpu.h).
#pragma once

#include "tilewright/kernels/delta_rule_transform_gpu.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, class U>
struct DeltaRuleTransform {
  static constexpr int kGpuRegisters = 128;

  View<const T, 4> k;     // [B, L, H, D]
  View<const U, 3> beta;  // [B, L, H]
  View<const U, 3> g;     // [B, L, H], log of the decay, or no data: 0
  int64_t chunk_size;
  View<U, 4> out;  // [B, L, H, chunk_size]; columns after the row's own are 0

  TW_INLINE int64_t chunks() const { return (k.size(1) + chunk_size - 1) / chunk_size; }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu)
      return DeltaRuleScratch(chunk_size, k.size(1)).plan(k.size(0) * chunks() * k.size(2));
    const int64_t floats = chunk_size * (chunk_size + 2);
    return tile::plan_of(k.size(0) * chunks() * k.size(2), floats * int64_t{sizeof(float)})
        .over(chunk_size);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    if constexpr (P::kOnGpu) return DeltaRuleOnGpu<P, T, U, DeltaRuleTransform>(p, *this).run();
#endif
    using V = typename P::template Vec<float>;
    const int64_t row = index_quotient(p.index(), k.size(2)), h = p.index() - row * k.size(2);
    const int64_t b = index_quotient(row, chunks()), first = (row - b * chunks()) * chunk_size;
    const int64_t rest = k.size(1) - first, count = rest < chunk_size ? rest : chunk_size;
    const View<float, 2> inverse = view(p.template scratch<float>(), chunk_size, chunk_size);
    const auto gates = view(inverse.data + chunk_size * chunk_size, chunk_size);  // after each step
    const auto decay = view(gates.data + chunk_size, chunk_size);
    for (int64_t i = 0; i < count; ++i) {
      const float gate = g ? float(g(b, first + i, h)) : 0.0f;
      tile::sync(p);  // the row before, and what it read
      tile::for_row(p, chunk_size, [&](auto at) {
        const V sum = i == 0 ? V{} : V(tile::load(gates, at) + gate);
        tile::store_cached(gates, at, sum);
        tile::store_cached(decay, at, tile::exp(sum));
        tile::store_cached(inverse[i], at, V{});
      });
      tile::sync(p);
      gates(i) = 0;
      inverse(i, i) = 1;
      for (int64_t j = 0; j < i; ++j) {
        const float weight = float(beta(b, first + i, h)) * decay(j) *
                             dot(p, k[b][first + i][h], k[b][first + j][h]);
        tile::for_row(p, j + 1, [&](auto at) {
          const auto sum = tile::fma(tile::splat<V>(-weight), tile::load(inverse[j], at),
                                     tile::load(inverse[i], at));
          tile::store_cached(inverse[i], at, sum);
        });
      }
      const auto to = out[b][first + i][h];
      tile::for_row(p, to, [&](auto at) { tile::store(p, to, at, tile::load(inverse[i], at)); });
    }
  }

 private:
  template <class P>
  TW_INLINE static float dot(P p, const View<const T, 1>& x, const View<const T, 1>& y) {
    return tile::reduce_row(p, tile::Sum{}, x.size(0),
                            [&](auto at) { return tile::load(x, at) * tile::load(y, at); });
  }
};

}  // namespace tw::kernels
