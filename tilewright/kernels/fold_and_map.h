// Operators that must have read a whole row before they can write it, on a GPU, where a program for
// each row is not the way: rows whose elements lie apart in memory, side by side with those of
// other rows (column_parts.h, column_folds.h), and long rows of which there are few (row_parts.h).
// Programs fold parts of rows; when all have, others map the parts. The rule, rows that a program
// has each, is the kernel's own.
#pragma once

#include "tilewright/kernels/column_folds.h"
#include "tilewright/kernels/column_parts.h"
#include "tilewright/kernels/row_parts.h"

namespace tw::kernels {

/// How of F, which has
///
///     Fold, Known                              of tile/folds.h; what elements are mapped by
///     auto term(v ...)                         what is folded, of vectors of operands' elements
///     Known known<P>(int64_t row, const State&)
///     auto map(const Known&, v ...)            of vectors, or of elements
///
/// or of any whose State and Known are no larger.
template <class P, class T, class F>
struct FoldAndMap {
  using C = tile::compute_t<T>;
  using State = typename F::Fold::State;
  using Known = typename F::Known;
  RowParts parts;
  static constexpr int kParts = 2, kColumns = 3, kColumnParts = 4, kGpuWays = 5;
  int way = tile::kAlignedRows;  // a program for each row
  ColumnFolds<P, T> columns{};
  ColumnParts<P, T> column_parts{};

  template <class... In>
  TW_INLINE explicit FoldAndMap(const Rows<T>& out, const Rows<const T>& x, const In&... rest) {
    parts = RowParts::one(x.cols);
    if (ColumnParts<P, T>::takes(x) && ColumnParts<P, T>::are_alike(x, out) &&
        (... && ColumnParts<P, T>::are_alike(x, rest))) {
      way = kColumnParts;
      column_parts = ColumnParts<P, T>(x, tile::rows_kept<P, C, T>(1 + int(sizeof...(In))));
    } else if (ColumnFolds<P, T>::takes(x) && are_beside(x, out) && (... && are_beside(x, rest))) {
      way = kColumns;
      columns.cut = ColumnSums<P, T>(x);
    } else if constexpr (sizeof...(In) == 0) {
      // A row that a program has is read once, as far as that keeps it, and by one multiprocessor.
      constexpr int64_t kKept = int64_t{256} << 10, kMultiprocessors = 132;
      const bool is_kept = x.cols * int64_t{sizeof(T)} <= kKept;
      if (!is_kept || x.rows <= kMultiprocessors) parts = RowParts::of_few(x.rows, x.cols);
      if (parts.count > 1) way = kParts;
    }
  }
  TW_INLINE bool takes() const { return way >= kParts; }

  TW_INLINE tile::Plan plan(const Rows<T>& out) const {
    if (way == kColumnParts) return column_parts.plan();
    tile::Plan plan;
    if (way == kColumns) {
      plan = columns.template plan<State>();
      plan.workspace_bytes += out.rows * int64_t{sizeof(Known)};
    } else {
      plan = parts.plan(out.rows, out.cols, int64_t{sizeof(State)});
      plan.phases = 1;
    }
    plan.grid[plan.phases++] = plan.grid[0];
    return plan;
  }

  template <class OnWay, class By, class... In>
  TW_INLINE void run(OnWay p, const By& by, const Rows<T>& out, const In&... in) const {
    static_assert(sizeof(typename By::Fold::State) <= sizeof(State) &&
                  sizeof(typename By::Known) <= sizeof(Known));
    if constexpr (OnWay::kWay == kColumnParts)
      run_column_parts(p, by, out, in...);
    else if constexpr (OnWay::kWay == kColumns)
      run_columns(p, by, out, in...);
    else if constexpr (sizeof...(In) == 1)
      run_parts(p, by, out, in...);
  }

 private:
  /// Whether elements of as many rows as of x lie side by side.
  template <class U>
  TW_INLINE static bool are_beside(const Rows<const T>& x, const Rows<U>& of) {
    const int last = of.lead - 1;
    return of.lead_strides[last] == 1 && of.lead_sizes[last] % x.lead_sizes[x.lead - 1] == 0;
  }

  template <class By, class... In>
  TW_INLINE void run_column_parts(P p, const By& by, const Rows<T>& out, const In&... in) const {
    const auto known = [&](int64_t i, const typename By::Fold::State& state) {
      return by.template known<P>(i, state);
    };
    tile::fold_and_map_parts<C>(
        p, typename By::Fold{}, column_parts, [](const auto&... v) { return By::term(v...); },
        known, [](const auto& of, const auto&... v) { return By::map(of, v...); }, out, in...);
  }
  template <class By, class... In>
  TW_INLINE void run_columns(P p, const By& by, const Rows<T>& out, const In&... in) const {
    using Folded = typename By::Fold::State;
    using ByKnown = typename By::Known;
    const int64_t blocks = columns.cut.row_blocks;
    ByKnown* const known = reinterpret_cast<ByKnown*>(
        p.template workspace<char>() + (blocks > 1 ? columns.template blocks_bytes<Folded>() : 0));
    const typename By::Fold fold;
    const auto finish = [&](int64_t i, const Folded& state) {
      known[i] = by.template known<P>(i, state);
    };
    if (p.phase() == 0)
      return columns.fold_block(
          p, fold, finish, [](const auto&... v) { return By::term(v...); }, in...);
    if (blocks > 1 && p.phase() == 1) return columns.combine(p, fold, finish);
    // In the other order: what was read last, the cache still has.
    const int64_t inner = columns.cut.inner, count = columns.cut.outer * columns.cut.column_blocks;
    const auto at = columns.block(count * blocks - 1 - p.index());
    const ByKnown* const of_block = known + at.which * inner + at.begin;
    tile::map_columns<C>(
        p, [of_block](int column) { return of_block[column]; }, at.rows,
        [](const ByKnown& of, const auto&... v) { return By::map(of, v...); }, at.of(out, inner),
        at.of(in, inner)...);
  }

  /// Of one operand, whose elements are what is folded.
  template <class By>
  TW_INLINE void run_parts(P p, const By& by, const Rows<T>& out, const Rows<const T>& x) const {
    using Folded = typename By::Fold::State;
    Folded* const states = p.template workspace<Folded>();
    const typename By::Fold fold;
    const int64_t last = out.rows * parts.count - 1;
    const int64_t i = p.phase() == 0 ? p.index() : last - p.index();
    const RowParts::Part part = parts.part(i, out.cols);
    const auto of = [&](const auto& all) { return all.row(part.row).part(part.begin, part.size); };
    if (p.phase() == 0) {
      const auto fold_all = [&](const auto& row) { states[i] = tile::fold_row<C>(p, fold, row); };
      return tile::with_rows<C>(p, fold_all, of(x));
    }
    const Folded* const its = states + part.row * parts.count;
    const auto known = by.template known<P>(part.row, tile::fold_list(p, fold, its, parts.count));
    tile::map_row<C>(p, of(out), [known](const auto& v) { return By::map(known, v); }, of(x));
  }
};

/// What a GPU runs of a kernel that has mapping<P>(): a FoldAndMap, which the host has made.
template <class P, class Kernel>
struct MappingKernel {
  Kernel kernel;
  decltype(kernel.template mapping<P>()) mapping;
  static constexpr int kGpuRegisters = tile::gpu_registers<Kernel>();
  static constexpr int kGpuWays = decltype(mapping)::kGpuWays;

  TW_INLINE explicit MappingKernel(const Kernel& of)
      : kernel(of), mapping(of.template mapping<P>()) {}
  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return kernel.row_operands(f);
  }
  TW_INLINE int way() const { return mapping.way; }
  template <class OnWay>
  TW_INLINE void operator()(OnWay p) const {
    if constexpr (OnWay::kWay >= decltype(mapping)::kParts)
      kernel.map(p, mapping);
    else
      kernel(p);
  }
};

}  // namespace tw::kernels
