// Reductions over a dimension that is not the innermost in memory, on a GPU, where there are
// columns enough for all threads: each has some side by side, and all of their rows, or, of fewer
// columns, every so many; then a warp's lanes combine what they know. No block waits for another
// thread.
#pragma once

#include "tilewright/kernels/column_sums.h"
#include "tilewright/tile/folds.h"

namespace tw::kernels {

template <class P, class T>
struct ColumnParts {
  using Element = const T;
  using C = tile::compute_t<T>;
  static constexpr int kN = P::template kLanes<C>;  // columns of a thread

  int64_t inner = 0;
  int64_t spans = 0;  // in all, of kN columns
  int across = 0;     // of a part
  int rows = 0, shares = 1;
  bool keeps = false;

  /// Columns that are whole spans, of few rows, in parts equally far apart.
  TW_INLINE static bool takes(const Rows<const T>& x) {
    if constexpr (!P::kOnGpu) return false;
    constexpr int64_t kMostRows = 64, kLeastThreads = 1 << 14, kMost = 1 << 30;
    if (!ColumnSums<P, T>::takes(x) || x.lead > 2 || x.cols >= kMost || x.rows == 0) return false;
    const int64_t inner = x.lead_sizes[x.lead - 1];
    if (inner % kN != 0 || inner >= kMost || !is_of_words(x)) return false;
    const int64_t shares = shares_of(x.rows / kN, x.cols);
    return x.cols <= kMostRows * shares && x.rows / kN * shares >= kLeastThreads;
  }

  /// Whether another operand's columns can be taken with x's.
  template <class U>
  TW_INLINE static bool are_alike(const Rows<const T>& x, const Rows<U>& of) {
    const int last = x.lead - 1;
    return of.lead == x.lead && of.lead_sizes[last] == x.lead_sizes[last] &&
           of.lead_strides[last] == 1 && is_of_words(of);
  }

  ColumnParts() = default;
  /// kept: rows of a thread's that it can keep, to map them after the fold.
  TW_INLINE explicit ColumnParts(const Rows<const T>& x, int64_t kept = 0)
      : inner(x.lead_sizes[x.lead - 1]),
        spans(x.rows / kN),
        across(int(inner / kN)),
        rows(int(x.cols)),
        shares(int(shares_of(spans, x.cols))) {
    // To read rows again costs less than to share a column among many, while the cache has them.
    constexpr int64_t kCachedBytes = int64_t{32} << 20, kFewShares = 4;
    const bool is_cached = x.rows * x.cols * int64_t{sizeof(T)} <= kCachedBytes;
    const int64_t most = is_cached ? kFewShares : kMostShares;
    int64_t wanted = shares;
    while (wanted < most && x.cols > kept * wanted) wanted *= 2;
    keeps = wanted <= most && x.cols <= kept * wanted;
    if (keeps) shares = int(wanted);
  }

  TW_INLINE tile::Plan plan() const {
    return tile::plan_of((spans * shares + kThreads - 1) / kThreads).over_threads(kThreads);
  }

 private:
  static constexpr int kThreads = 256;
  static constexpr int64_t kMostShares = 32;
  /// Of which a span is read, and written, in words: the rule.
  template <class U>
  TW_INLINE static bool is_of_words(const Rows<U>& x) {
    constexpr int64_t kWord = kN * int64_t{sizeof(U)} < 16 ? kN * int64_t{sizeof(U)} : 16;
    const int64_t apart = x.lead > 1 ? x.lead_strides[0] : 0;
    return (apart | x.col_stride) * int64_t{sizeof(U)} % kWord == 0 &&
           reinterpret_cast<uint64_t>(x.data) % uint64_t{kWord} == 0;
  }
  /// Of a column's rows: more threads while a GPU has room for them, and work; a thread with many
  /// rows waits for some after the others.
  TW_INLINE static int64_t shares_of(int64_t spans, int64_t rows) {
    constexpr int64_t kThreadsAtOnce = 1 << 16, kLeastRows = 4, kManyRows = 24;
    const auto pays = [&](int64_t shares) {
      const int64_t threads = spans * shares;
      return threads < kThreadsAtOnce ? rows >= 2 * kLeastRows * shares
                                      : threads < 2 * kThreadsAtOnce && rows > kManyRows * shares;
    };
    int64_t shares = 1;
    while (shares < kMostShares && pays(shares)) shares *= 2;
    return shares;
  }
};

}  // namespace tw::kernels
