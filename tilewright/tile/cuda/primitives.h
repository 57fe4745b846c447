// Row primitives on CUDA: reductions over the threads of an instance, and maps. The names and
// meanings are those of tile/cpu/primitives.h. Freestanding.
#pragma once

#include "tilewright/tile/cuda/kept_rows.h"
#include "tilewright/tile/cuda/loose_rows.h"
#include "tilewright/tile/cuda/with_rows.h"
#include "tilewright/tile/reduction.h"

namespace tw::tile {

/// v where the span has a column, `fill` in lanes past the end.
template <class P, class C, bool kFull, class V>
__device__ __forceinline__ V masked(const Span<P, C, kFull>& at, V v, C fill) {
  if constexpr (!kFull) {
    TW_UNROLL
    for (int i = 0; i < kLanesOf<V>; ++i) v[i] = i < at.count ? v[i] : fill;
  }
  return v;
}

/// The column numbers of a span's lanes, as integers as wide as C.
template <class I, class P, class C, bool kFull>
__device__ __forceinline__ auto columns(const Span<P, C, kFull>& at) {
  return iota<vec<I, P::template kLanes<C>>>(I(at.offset));
}

namespace detail {

/// The reduction of `value` over the threads of a warp, or over an instance that has fewer;
/// exchange(value, lane): what the thread has whose number differs by `lane`.
template <class P, class V, class X, class F>
__device__ __forceinline__ V combine_lanes(P p, V value, X&& exchange, F&& combine) {
  if (p.threads() >= 32) {
    TW_UNROLL
    for (int lane = 16; lane > 0; lane /= 2) value = combine(value, exchange(value, lane));
  } else {
    TW_ROLLED
    for (int lane = p.threads() / 2; lane > 0; lane /= 2)
      value = combine(value, exchange(value, lane));
  }
  return value;
}
/// The reduction of the blocks' values over a cluster, in every thread. Who is told of the next but
/// one reduction has been told of the next one by all, who had read this one's values by then.
template <class P, class V, class F>
__device__ __forceinline__ V combine_ranks(P p, V value, F&& combine) {
  const int turn = (*p.turns_)++, which = turn & 1;
  V* const told = reinterpret_cast<V*>(p.exchange_->told[which]);
  cuda::Mbarrier& full = p.exchange_->full[which];
  if (threadIdx.x == 0) full.arrive_expect(p.ranks_ * int(sizeof(V)));
  if (int(threadIdx.x) < p.ranks_)
    cuda::send_cluster(told + p.rank_, value, &full, int(threadIdx.x));
  full.wait(uint32_t(turn >> 1) & 1u);
  V all = told[0];
  for (int r = 1; r < p.ranks_; ++r) all = combine(all, told[r]);
  return all;
}
/// The reduction of the warps' values over the instance, in every thread.
template <class P, class V, class F>
__device__ __forceinline__ V combine_warps(P p, V value, F&& combine) {
  if (p.threads() <= 32) return value;
  static_assert(cuda::kMaxThreads / 32 * sizeof(V) <= 32 * sizeof(double));
  V* const shared = reinterpret_cast<V*>(p.shared_);
  const int thread = int(threadIdx.x), warps = int(blockDim.x) / 32;
  if (thread % 32 == 0) shared[thread / 32] = value;
  __syncthreads();
  V all = shared[0];
  for (int w = 1; w < warps; ++w) all = combine(all, shared[w]);
  __syncthreads();  // the next reduction writes the same memory
#if __CUDA_ARCH__ >= 900
  if constexpr (P::kSpans > 0)
    if (p.ranks_ > 1) return combine_ranks(p, all, combine);
#endif
  return all;
}

}  // namespace detail

/// The reduction of `value` over the threads of the instance, in every thread. Lanes of a warp,
/// then warps, then blocks: a fixed tree.
template <class R, class P, class C>
__device__ __forceinline__ C reduce_threads(P p, R, C value) {
  const auto combine = [](C a, C b) { return R::combine(a, b); };
  const auto exchange = [p](C v, int lane) { return __shfl_xor_sync(p.mask(), v, lane); };
  return detail::combine_warps(p, detail::combine_lanes(p, value, exchange, combine), combine);
}

namespace detail {
/// Two sums over the threads at once, each in the order of reduce_threads.
template <class P, class C>
__device__ __forceinline__ Two<C> add_threads(P p, Two<C> value) {
  const auto add = [](Two<C> a, Two<C> b) {
    return Two<C>{a.first + b.first, a.second + b.second};
  };
  const auto exchange = [p](Two<C> v, int lane) {
    return Two<C>{__shfl_xor_sync(p.mask(), v.first, lane),
                  __shfl_xor_sync(p.mask(), v.second, lane)};
  };
  return combine_warps(p, combine_lanes(p, value, exchange, add), add);
}
struct Least {
  template <class I>
  TW_INLINE static I combine(I a, I b) {
    return a < b ? a : b;
  }
};
}  // namespace detail

/// Reduces f(span) over a row, or over n columns; the same value in every thread. The order of
/// operations depends on the length and on the plan's columns alone. An empty row gives the
/// identity. kChains: see for_row.
template <class C = float, int kChains = 1, Reduction R, class P, class Row, class F>
__device__ __forceinline__ C reduce_row(P p, R r, const Row& row, F&& f) {
  using V = typename P::template Vec<C>;
  const C identity = R::template identity<C>();
  V acc = splat<V>(identity);
  for_row<C>(p, row, [&](const auto& at) {
    const V v = f(at);
    acc = R::combine(acc, masked(at, v, identity));
  });
  return reduce_threads(p, r, fold_lanes(acc, [](C a, C b) { return R::combine(a, b); }));
}

/// The reduction of a row's elements, which are read once.
template <class C = float, Reduction R, class P, class Row>
__device__ __forceinline__ C reduce_elements(P p, R r, const Row& row) {
  const C identity = R::template identity<C>();
  auto acc = splat<typename P::template Vec<C>>(identity);
  for_spans<C>(p, row, [&](const auto& at, const auto& raw) {
    acc = R::combine(acc, masked(at, raw.template widen<C>(), identity));
  });
  return reduce_threads(p, r, fold_lanes(acc, [](C a, C b) { return R::combine(a, b); }));
}

/// The first column of a row, which has it, that holds `value`; NaN for NaN.
template <class C = float, class P, class Row>
__device__ __forceinline__ int64_t find_first(P p, const Row& row, C value) {
  constexpr int kN = P::template kLanes<C>;
  const int none = 1 << 30;
  int first = none;
  const auto is_it = [&](C v) { return value == value ? v == value : v != v; };
  for_row<C>(p, row, [&](const auto& at) {
    const auto v = load(row, at);
    bool found = false;
    TW_UNROLL
    for (int i = 0; i < kN; ++i) found |= i < at.count && is_it(v[i]);
    if (!found) return;
    TW_UNROLL
    for (int i = kN - 1; i >= 0; --i)
      if (i < at.count && is_it(v[i]) && int(at.offset) + i < first) first = int(at.offset) + i;
  });
  return reduce_threads(p, detail::Least{}, first);
}

/// Two sums over a row in one pass: f(span) gives both members.
template <class C = float, class P, class Row, class F>
__device__ __forceinline__ auto sum_two(P p, const Row& row, F&& f) {
  using V = typename P::template Vec<C>;
  V first = splat<V>(C(0)), second = first;
  for_row<C>(p, row, [&](const auto& at) {
    const auto two = f(at);
    first += masked(at, two.first, C(0));
    second += masked(at, two.second, C(0));
  });
  const auto add = [](C a, C b) { return a + b; };
  return detail::add_threads(p, Two<C>{fold_lanes(first, add), fold_lanes(second, add)});
}

/// Stops the program unless 0 <= index < size: what follows would read memory that is not the
/// tensor's. The host learns of it when it next waits.
template <class P>
__device__ __forceinline__ void require_index(P, int64_t index, int64_t size) {
  if (uint64_t(index) >= uint64_t(size)) __trap();
}

/// Values that one loop over a row computes and a later one wants again: on a GPU they are computed
/// again, as arithmetic is cheaper than memory.
struct Memo {
  template <class At, class V>
  TW_INLINE void keep(const At&, const V&) const {}
  template <class At, class F>
  __device__ __forceinline__ auto recall(const At& at, F&& compute) const {
    return compute(at);
  }
};
/// Memo number `which` of rows of n columns.
template <class C, class P>
TW_INLINE Memo memo(P, int64_t, int) {
  return {};
}

namespace detail {

/// Some of a thread's words of an operand, as they lie: loads that wait for nothing. kWhole: all of
/// them are before column n.
template <class T, int kN, int kWords, bool kWhole>
struct Batch {
  using R = Raw<typename remove_const<T>::type, kN>;
  R words[kWords];
  __device__ __forceinline__ Batch(const T* from, int64_t first, int64_t step, int64_t n) {
    TW_UNROLL
    for (int i = 0; i < kWords; ++i)
      words[i] = kWhole || first + i * step < n ? R::load(from + first + i * step) : R{};
  }
  /// What is done with the first word waits for `bits`, which change nothing.
  __device__ __forceinline__ void wait_for(uint32_t bits) {
    constexpr int kCount = R::kBytes / 4;
    uint32_t first[kCount];
    __builtin_memcpy(first, words[0].words, sizeof(first));
    TW_UNROLL
    for (int i = 0; i < kCount; ++i) first[i] |= bits;
    __builtin_memcpy(words[0].words, first, sizeof(first));
  }
  /// Zero, the compiler does not know, once the last word is there; no address has bit 63.
  __device__ __forceinline__ uint32_t arrived(const T* from) const {
    uint32_t last;
    __builtin_memcpy(&last, words[kWords - 1].words, sizeof(last));
    return last & uint32_t(reinterpret_cast<uint64_t>(from) >> 63);
  }
};

/// Lanes of a word of 16 bytes of the widest type: threads side by side then read, and write,
/// memory in order, of which a store in halves of 32 bytes would have each sector twice.
template <class P, class C, class... T>
TW_DEVICE constexpr int word_lanes() {
  int lanes = P::template kLanes<C>;
  ((lanes = lanes * int(sizeof(T)) > 16 ? 16 / int(sizeof(T)) : lanes), ...);
  return lanes;
}

/// put(column, values...) for the thread's words of rows of n columns.
template <class C, int kN, class P, class Put, class... In>
__device__ __forceinline__ void for_words(P p, int64_t n, Put&& put,
                                          const AlignedRow<In>&... from) {
  // Of a span, and of as many as are on their way together.
  constexpr int kLeast = P::template kLanes<C> / kN, kFew = sizeof...(In) == 1 ? 4 : 2;
  constexpr int kMost = kLeast > kFew ? kLeast : kFew;
  constexpr bool kIsOne = kLeast == 1;
  const int64_t step = int64_t{p.threads()} * kN;
  int64_t c = int64_t{p.thread()} * kN;
  TW_ROLLED
  for (; c + (kMost - 1) * step < n; c += kMost * step) {
    [&](auto... batch) {
      // Short of registers, ptxas would have loads wait until what was loaded first has been used.
      if constexpr (sizeof...(In) == 2 && (... && (sizeof(batch.words[0]) >= 4)))
        (batch.wait_for((... | batch.arrived(from.data))), ...);
      TW_UNROLL
      for (int i = 0; i < kMost; ++i) put(c + i * step, batch.words[i].template widen<C>()...);
    }(Batch<In, kN, kMost, true>(from.data, c, step, n)...);
  }
  TW_ROLLED
  for (; c < n; c += kLeast * step) {
    [&](const auto&... batch) {
      TW_UNROLL
      for (int i = 0; i < kLeast; ++i)
        if (i == 0 || c + i * step < n) put(c + i * step, batch.words[i].template widen<C>()...);
    }(Batch<In, kN, kLeast, kIsOne>(from.data, c, step, n)...);
  }
}

/// put(span, values...) for rows that are not aligned.
template <class C, class P, class Put, class... In>
__device__ __forceinline__ void for_loose(P p, int64_t n, Put&& put, const LooseRow<In>&... from) {
  const auto order = [p](const auto& row) {
    if (row.is_adjacent) fetch_later(p, row.adjacent());
  };
  (order(from), ...);
  for_row<C>(p, n, [&](const auto& at) { put(at, load_raw(from, at).template widen<C>()...); });
}
// Functions of their own, so that those for aligned rows have the registers for themselves.

/// to = f(from ...) of 2^row_bits rows at most. Threads side by side have two spans of a row and
/// then the next row.
template <class C, class P, class T, class F, class... In>
__device__ __noinline__ void map_loose(P p, int row_bits, View<T, 2> to, F f, View<In, 2>... from) {
  constexpr int kN = P::template kLanes<C>;
  const auto order = [p](const auto& row) {
    if (row.is_adjacent) fetch_later(p, row.adjacent());
  };
  if (row_bits == 0) (order(LooseRow<In>::template of<C>(p, from[0])), ...);
  const int64_t n = to.size(1), all = (n + 2 * kN - 1) / (2 * kN) * 2 << row_bits;
  TW_ROLLED
  for (int64_t i = p.thread(); i < all; i += p.threads()) {
    const int64_t by_two = i >> 1, twos = by_two >> row_bits, r = by_two - (twos << row_bits);
    const int64_t c = (2 * twos + (i & 1)) * kN;
    if (r >= to.size(0) || c >= n) continue;
    const auto at = span_of<C>(p, c, n);
    store_loose(LooseRow<T>::template of<C>(p, to[r]), at,
                f(load_raw(LooseRow<In>::template of<C>(p, from[r]), at).template widen<C>()...));
  }
}
template <class T>
__device__ __forceinline__ View<T, 2> one_row(const View<T, 1>& row) {
  return {row.data, {1, row.size(0)}, {0, row.stride(0)}};
}
template <class C, class P, class T, class F, class... In>
__device__ __noinline__ void map_loose_to_two(P p, View<T, 1> first, View<T, 1> second, F f,
                                              View<In, 1>... from) {
  const auto loose = LooseRow<T>::template of<C>(p, first);
  const auto loose_second = LooseRow<T>::template of<C>(p, second);
  const auto put = [&](const auto& at, const auto&... v) {
    const auto two = f(v...);
    store_loose(loose, at, two.first);
    store_loose(loose_second, at, two.second);
  };
  for_loose<C>(p, first.size(0), put, LooseRow<In>::template of<C>(p, from)...);
}

template <class C, class P, class T, class F, class... In>
__device__ __forceinline__ void map_aligned(P p, const AlignedRow<T>& to, F&& f,
                                            const AlignedRow<In>&... from) {
  constexpr int kN = word_lanes<P, C, T, In...>();
  const auto put = [&](int64_t c, const auto&... v) {
    Raw<T, kN>::narrow(f(v...)).store_global(to.data + c);
  };
  for_words<C, kN>(p, to.size(0), put, from...);
}

/// Where one of two rows is an element for all columns, as where a tensor is scaled.
template <class C, class P, class T, class F, class A, class B>
__device__ __forceinline__ bool map_constant(P p, const View<T, 1>& to, F&& f,
                                             const View<A, 1>& left, const View<B, 1>& right) {
  if constexpr (same_type<A, B>) {
    const bool is_left = left.stride(0) == 0;
    if (is_left == (right.stride(0) == 0)) return false;
    const View<A, 1> row = is_left ? right : left, one = is_left ? left : right;
    if (!is_aligned<C>(p, to) || !is_aligned<C>(p, row)) return false;
    using R = RawOf<P, C, A>;
    const auto element = R::gather(one.data, 0, P::template kLanes<C>).template widen<C>();
    const AlignedRow<A> from{row.data, {row.size(0)}};
    const AlignedRow<T> target{to.data, {to.size(0)}};
    for_row<C>(p, target, [&](const auto& at) {
      const auto v = load(from, at);
      store(p, target, at, f(is_left ? element : v, is_left ? v : element));  // f may be long
    });
    return true;
  }
  return false;
}

}  // namespace detail

/// to[r, c] = f(from[r, c] ...) of a row, or of 2^row_bits rows at most, which threads side by side
/// have: of an operand whose rows lie side by side in memory, they read the same lines.
template <class C = float, class P, class T, class F, class... In>
__device__ __forceinline__ void map_rows(P p, int row_bits, const View<T, 2>& to, F&& f,
                                         const View<In, 2>&... from) {
  if (row_bits == 0) {
    if constexpr (sizeof...(In) == 2)
      if (detail::map_constant<C>(p, to[0], f, from[0]...)) return;
    if (detail::is_aligned<C>(p, to[0]) && (detail::is_aligned<C>(p, from[0]) && ...))
      return detail::map_aligned<C>(p, detail::as<AlignedRow>(p, to[0], 0), f,
                                    detail::as<AlignedRow>(p, from[0], 0)...);
  }
  detail::map_loose<C>(p, row_bits, to, f, from...);
}
/// to[c] = f(from[c] ...) for every column.
template <class C = float, class P, class T, class F, class... In>
__device__ __forceinline__ void map_row(P p, const View<T, 1>& to, F&& f,
                                        const View<In, 1>&... from) {
  map_rows<C>(p, 0, detail::one_row(to), f, detail::one_row(from)...);
}

/// The same of rows that are known to be aligned.
template <class C = float, class P, class T, class F, class... In>
__device__ __forceinline__ void map_aligned_row(P p, const View<T, 1>& to, F&& f,
                                                const View<In, 1>&... from) {
  detail::map_aligned<C>(p, detail::as<AlignedRow>(p, to, 0), f,
                         detail::as<AlignedRow>(p, from, 0)...);
}

/// first[c] and second[c] = both members of f(from[c] ...), on one of the ways of rows.
template <class C = float, int kChains = 1, class P, class T, class F, class... In>
__device__ __forceinline__ void map_to_two(P p, const View<T, 1>& first, const View<T, 1>& second,
                                           F&& f, const View<In, 1>&... from) {
  if constexpr (P::kWay == kAnyRows)
    return detail::map_loose_to_two<C>(p, first, second, f, from...);
  constexpr int kN = detail::word_lanes<P, C, T, In...>();
  const auto put = [&f, to = first.data, to_second = second.data](int64_t c, const auto&... v) {
    const auto two = f(v...);
    Raw<T, kN>::narrow(two.first).store_global(to + c);
    Raw<T, kN>::narrow(two.second).store_global(to_second + c);
  };
  detail::for_words<C, kN>(p, first.size(0), put, detail::as<AlignedRow>(p, from, 0)...);
}

}  // namespace tw::tile
