// Row primitives on CUDA: threads of the block take the columns in turn. The names and meanings are
// those of tile/cpu/primitives.h.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/cuda/program.h"
#include "tilewright/tile/reduction.h"

namespace tw::tile {

/// One column of a row; every thread of the block holds another.
template <class P, class C, bool kFull>
struct Span {
  using Vec = C;
  static constexpr int kLanes = 1;
  int64_t offset;
  int count;
};

/// Calls f with the operands as they are: strides cost a thread little.
template <class P, class F, class... Operand>
__device__ __forceinline__ void with_rows(P, F&& f, const Operand&... operands) {
  f(operands...);
}

/// A program has one row: the blocks of a multiprocessor overlap each other.
template <class P>
TW_INLINE int64_t row_groups(int64_t rows, int64_t, const Machine&) {
  return rows;
}
template <class P>
__device__ __forceinline__ RowGroup row_group(P p, int64_t, int64_t) {
  return {p.index(), p.index() + 1};
}

template <class C = float, class P, class F>
__device__ __forceinline__ void for_row(P p, int64_t n, F&& f) {
  for (int64_t c = p.thread(); c < n; c += p.threads()) f(Span<P, C, true>{c, 1});
}

template <class P, class C, bool kFull, class T>
__device__ __forceinline__ C load(const View<T, 1>& row, const Span<P, C, kFull>& at) {
  return C(row.data[at.offset * row.stride(0)]);
}

template <class P, class C, bool kFull, class T, class V>
__device__ __forceinline__ void store_cached(const View<T, 1>& row, const Span<P, C, kFull>& at,
                                             V v) {
  row.data[at.offset * row.stride(0)] = T(v);
}
template <class P, class C, bool kFull, class T, class V>
__device__ __forceinline__ void store(P, const View<T, 1>& row, const Span<P, C, kFull>& at, V v) {
  store_cached(row, at, v);
}

/// Nothing: other blocks run meanwhile.
template <class P, class C, bool kFull, class Row>
__device__ __forceinline__ void prefetch(P, const Row&, const Span<P, C, kFull>&) {}
template <class P, class T>
__device__ __forceinline__ void prefetch(P, const View<T, 1>&) {}

/// The column number of a span's lane, as a number I.
template <class I, class P, class C, bool kFull>
__device__ __forceinline__ I columns(const Span<P, C, kFull>& at) {
  return I(at.offset);
}

/// The same value in every thread. Threads, then lanes of a warp, then warps: a fixed tree.
template <class C = float, class R, class P, class F>
__device__ __forceinline__ C reduce_row(P p, R, int64_t n, F&& f) {
  C acc = R::template identity<C>();
  for (int64_t c = p.thread(); c < n; c += p.threads())
    acc = R::combine(acc, C(f(Span<P, C, true>{c, 1})));
  for (int lane = 16; lane > 0; lane /= 2)
    acc = R::combine(acc, __shfl_xor_sync(0xffffffffu, acc, lane));
  C* shared = reinterpret_cast<C*>(p.shared_);
  const int warp = p.thread() / 32, warps = (p.threads() + 31) / 32;
  if (p.thread() % 32 == 0) shared[warp] = acc;
  __syncthreads();
  C all = shared[0];
  for (int w = 1; w < warps; ++w) all = R::combine(all, shared[w]);
  __syncthreads();  // the next reduction writes the same memory
  return all;
}

/// to[u * to_stride + v] = from[v * from_stride + u] for u < units, v < rows.
template <class P, class U>
__device__ __forceinline__ void transpose_block(P p, const U* from, int64_t from_stride, U* to,
                                                int64_t to_stride, int64_t units, int64_t rows) {
  for (int64_t i = p.thread(); i < units * rows; i += p.threads()) {
    const int64_t v = i / units, u = i % units;
    to[u * to_stride + v] = from[v * from_stride + u];
  }
  __syncthreads();
}

}  // namespace tw::tile
