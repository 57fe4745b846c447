// Cross-entropy of logits with labels, and its gradient. With lse = log(sum_c exp(x[c])), for a row
// of V logits with label t:
//
//   loss   = (1 - s) (lse - x[t]) + s (lse - mean_c x[c]) + z lse^2       s: smoothing, z: z_loss
//   x_grad = grad (exp(x - lse) (1 + 2 z lse) - s / V - (1 - s) [c = t])
//
// A row whose label is ignore_index counts for nothing. Smoothing: Szegedy et al.,
// arXiv:1512.00567, section 7; z_loss: Chowdhery et al., arXiv:2204.02311, section 5.
#pragma once

#include "tilewright/kernels/fold_exponentials.h"
#include "tilewright/kernels/row_logsumexp.h"
#include "tilewright/kernels/row_parts.h"

namespace tw::kernels {

/// The order of the schema choice `mean|sum|none`.
enum class LossReduction : int { kMean, kSum, kNone };

/// What one row of logits contributes.
struct CrossEntropyRow {
  float loss = 0, lse = 0;

  /// `below`: the mean of the logits' differences from the largest, if smoothing wants it.
  TW_INLINE static CrossEntropyRow of(const LogSumExp<float>& found, float label_logit, float below,
                                      float smoothing, float z_loss) {
    // Differences from the largest logit: where that is large, the logarithm would lose digits.
    const float at_label = label_logit - found.high;
    CrossEntropyRow out;
    out.lse = found.high + found.log_sum;
    out.loss = (1 - smoothing) * (found.log_sum - at_label) + z_loss * out.lse * out.lse;
    if (smoothing != 0) out.loss += smoothing * (found.log_sum - below);
    return out;
  }
  template <class P, class Row>
  TW_INLINE static CrossEntropyRow of(P p, const Row& row, int64_t label, float smoothing,
                                      float z_loss) {
    const float label_logit = static_cast<float>(row(label));  // now: nothing waits for it
    LogSumExp<float> found;
    if constexpr (P::kOnGpu) {
      const auto all = exponentials(p, row);
      found = {all.high, scalar_log<float, P>(all.total)};
    } else {
      found = row_logsumexp<float>(p, row);
    }
    const float below = smoothing != 0 ? sum_below(p, row, found.high) : 0;
    return of(found, label_logit, below / static_cast<float>(row.size(0)), smoothing, z_loss);
  }
  /// On a GPU, where a row is read once.
  template <class P, class Row>
  TW_INLINE static Exponentials<float> exponentials(P p, const Row& row) {
    const auto all = tile::fold_row<float>(p, FoldExponentials<float>{}, row);
    tile::sync(p);  // sum_below may follow
    return all;
  }
  template <class P, class Row>
  TW_INLINE static float sum_below(P p, const Row& row, float high) {
    return tile::reduce_row(p, tile::Sum{}, row,
                            [&](auto at) { return tile::load(row, at) - high; });
  }
  /// The gradient of such a row of `cols` columns, or of a part of it, in which the label has the
  /// place `label` or which is without it; `scale` is that of its loss. to may be row.
  template <class T, class P, class Row, class To>
  TW_INLINE static void gradient(P p, const Row& row, int64_t cols, int64_t label, float lse,
                                 float scale, float smoothing, float z_loss, const To& to) {
    const float slope = 1 + 2 * z_loss * lse, even = smoothing / static_cast<float>(cols);
    const bool has_label = label >= 0 && label < row.size(0);
    const float at_label = has_label ? static_cast<float>(row(label)) : 0;
    tile::sync(p);  // it may be overwritten now
    const auto slopes = [&](auto logits) {
      return (tile::exp_below(logits, lse) * slope - even) * scale;  // last: it may be infinite
    };
    tile::map_row(p, to, slopes, row);
    if (!has_label) return;
    tile::sync(p);  // as the label's is now, whoever wrote it
    const float weight = scalar_exp<float, P>(at_label - lse);
    to(label) = T((weight * slope - even - (1 - smoothing)) * scale);
  }
};

/// How many labels are not ignored.
template <class P, class I>
TW_INLINE float count_labels(P p, const View<const I, 1>& target, int64_t ignored) {
  return tile::reduce_row(p, tile::Sum{}, target.size(0), [&](auto at) {
    typename P::template Vec<float> counted{};
    TW_UNROLL
    for (int i = 0; i < at.kLanes; ++i)
      counted[i] = i < at.count && int64_t(target(at.offset + i)) != ignored ? 1.0f : 0.0f;
    return counted;
  });
}

/// Rows in parts where a GPU has few of them.
template <class P, class T>
TW_INLINE RowParts cross_entropy_parts(const View<T, 2>& x) {
  constexpr int64_t kPrograms = 528, kWhole = 2048;
  return P::kOnGpu ? RowParts::of(x.size(0), x.size(1), kPrograms, kWhole)
                   : RowParts::one(x.size(1));
}

template <class T, class I>
struct CrossEntropy {
  View<const T, 2> x;       // [rows, vocabulary]
  View<const I, 1> target;  // [rows]
  int64_t ignore_index;
  int reduction;  // a LossReduction
  tile::compute_t<T> label_smoothing;
  tile::compute_t<T> z_loss;
  Rows<T> loss;        // [rows], or one element
  View<float, 1> lse;  // [rows], or no data; 0 where the label is ignored

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(rows(x));
  }
  /// A program per row, or on a GPU per part of one and then per row; and one that adds up.
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const RowParts parts = cut<P>();
    const int64_t rows = x.size(0), programs = rows * parts.count;
    const bool is_cut = parts.count > 1;
    tile::Plan plan = tile::plan_of(programs);
    if constexpr (P::kOnGpu) {
      constexpr int64_t kLong = 4096;  // columns
      plan = plan.over_row(parts.columns > kLong
                               ? kLong
                               : tile::lesser(parts.columns, tile::columns_read_once(programs)));
    } else {
      plan.scratch_bytes = logsumexp_scratch<P, float, T>(x.size(1));
    }
    if (is_cut) plan.grid[plan.phases++] = rows;
    if (is_reduced()) {
      plan.columns[plan.phases] = rows;
      plan.grid[plan.phases++] = 1;
    }
    if (is_cut || is_reduced())
      plan.workspace_bytes = (rows + (is_cut ? 3 * programs : 0)) * int64_t{sizeof(float)};
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    run(p, cut<P>());
  }
  /// On a GPU the cut is made on the host.
  template <tile::Program P>
  TW_DEVICE CutRows<CrossEntropy> prepared() const
    requires(P::kOnGpu)
  {
    return {*this, cut<P>()};
  }

  template <class P>
  TW_INLINE void run(P p, const RowParts& parts) const {
    const bool is_cut = P::kOnGpu && parts.count > 1;
    if (is_reduced() && p.phase() == 1 + is_cut) return add_up(p);
    if (!is_cut) return run_row(p, p.index());
    if constexpr (P::kOnGpu) {
      if (p.phase() == 0) return run_part(p, parts);
      put(p, p.index(), settle(p, parts, p.index()));
    }
  }

  TW_INLINE bool is_reduced() const { return reduction != int(LossReduction::kNone); }

 private:
  template <class P>
  TW_INLINE RowParts cut() const {
    const RowParts parts = cross_entropy_parts<P>(x);
    return P::kOnGpu && parts.count == 1 ? RowParts::of_few(x.size(0), x.size(1)) : parts;
  }

  template <class P>
  TW_INLINE void run_row(P p, int64_t r) const {
    const int64_t label = int64_t(target(r));
    if (label != ignore_index) tile::require_index(p, label, x.size(1));
    CrossEntropyRow row;
    const auto look = [&](const auto& logits) {
      row = CrossEntropyRow::of(p, logits, label, label_smoothing, z_loss);
    };
    if (label != ignore_index) tile::run_rows(p, *this, [&](const auto& in) { look(in.row(r)); });
    put(p, r, row);
  }
  template <class P>
  TW_INLINE void run_part(P p, const RowParts& parts) const {
    const RowParts::Part part = parts.part(p.index(), x.size(1));
    const int64_t r = part.row, label = int64_t(target(r));
    if (label == ignore_index) return;
    tile::require_index(p, label, x.size(1));
    float* const to = found(p, p.index());
    const auto look = [&](const auto& logits) {
      const auto all = CrossEntropyRow::exponentials(p, logits);
      to[0] = all.high, to[1] = all.total;
      if (label_smoothing != 0)
        to[2] = CrossEntropyRow::sum_below(p, logits, Exponentials<float>::base_of(all.high));
    };
    tile::run_rows(p, *this, [&](const auto& in) { look(in.row(r).part(part.begin, part.size)); });
  }

  template <class P>
  TW_INLINE void put(P p, int64_t r, const CrossEntropyRow& row) const {
    if (lse) lse(r) = row.lse;
    if (is_reduced())
      p.template workspace<float>()[r] = row.loss;
    else
      loss(r, 0) = T(row.loss);
  }

  /// What part i of all rows' has found, three numbers: its largest; the sum of exponentials of
  /// differences from it; and, for smoothing, of the differences.
  template <class P>
  TW_INLINE float* found(P p, int64_t i) const {
    return p.template workspace<float>() + x.size(0) + 3 * i;
  }
  template <class P>
  TW_INLINE CrossEntropyRow settle(P p, const RowParts& parts, int64_t r) const {
    if (int64_t(target(r)) == ignore_index) return {};
    float* const first = found(p, r * parts.count);
    const View<float, 1> highs{first, {parts.count}, {3}}, totals{first + 1, {parts.count}, {3}};
    const float high =
        tile::reduce_row(p, tile::Max{}, highs, [&](auto at) { return tile::load(highs, at); });
    const float total = tile::reduce_row(p, tile::Sum{}, highs, [&](auto at) {
      return tile::load(totals, at) * tile::exp_nonpositive(tile::load(highs, at) - high);
    });
    float below = 0;
    for (int64_t i = 0; label_smoothing != 0 && i < parts.count; ++i) {
      const int64_t left = x.size(1) - i * parts.columns;
      const float size = static_cast<float>(left < parts.columns ? left : parts.columns);
      below += first[3 * i + 2] + size * (Exponentials<float>::base_of(highs(i)) - high);
    }
    return CrossEntropyRow::of({high, scalar_log<float, P>(total)},
                               static_cast<float>(x(r, int64_t(target(r)))),
                               below / static_cast<float>(x.size(1)), label_smoothing, z_loss);
  }

  template <class P>
  TW_INLINE void add_up(P p) const {
    const View<float, 1> losses = view(p.template workspace<float>(), x.size(0));
    float total =
        tile::reduce_row(p, tile::Sum{}, losses, [&](auto at) { return tile::load(losses, at); });
    if (reduction == int(LossReduction::kMean)) total /= count_labels(p, target, ignore_index);
    loss(0, 0) = T(total);
  }
};

template <class T, class I>
struct CrossEntropyBackward {
  Rows<const T> grad;        // [rows], or one element, or no data: 1
  View<const T, 2> x;        // [rows, vocabulary]
  View<const I, 1> target;   // [rows]
  View<const float, 1> lse;  // [rows]
  int64_t ignore_index;
  int reduction;  // a LossReduction
  tile::compute_t<T> label_smoothing;
  tile::compute_t<T> z_loss;
  View<T, 2> x_grad;  // [rows, vocabulary], may alias x

  /// A program that counts labels, where that is too much for each of the others; and one per row,
  /// or per part of it.
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const RowParts parts = cross_entropy_parts<P>(x);
    tile::Plan plan = tile::Plan{}.over(parts.columns);
    if (!counts_itself<P>()) {
      plan.grid[0] = 1;
      plan.columns[0] = x.size(0);
      plan.phases = 2;
      plan.workspace_bytes = sizeof(float);
    }
    plan.grid[plan.phases - 1] = x.size(0) * parts.count;
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    run(p, cross_entropy_parts<P>(x));
  }
  /// On a GPU the cut is made on the host.
  template <tile::Program P>
  TW_DEVICE CutRows<CrossEntropyBackward> prepared() const
    requires(P::kOnGpu)
  {
    return {*this, cross_entropy_parts<P>(x)};
  }
  template <class P>
  TW_INLINE void run(P p, const RowParts& parts) const {
    float* const counted = p.template workspace<float>();
    float count = 1;
    if (is_mean()) count = p.phase() == 0 ? count_labels(p, target, ignore_index) : *counted;
    if (!counts_itself<P>() && p.phase() == 0) {
      *counted = count;
      return;
    }
    const RowParts::Part part = parts.part(p.index(), x.size(1));
    const int64_t r = part.row, label = int64_t(target(r));
    const auto to = x_grad[r].part(part.begin, part.size);
    if (label == ignore_index) {
      const auto clear = [&](const auto& row) {
        tile::map_row(p, row, [](auto v) { return decltype(v){}; }, row);
      };
      return with_any_rows(p, clear, to);
    }
    tile::require_index(p, label, x.size(1));
    const bool is_reduced = reduction != int(LossReduction::kNone);
    float scale = grad ? static_cast<float>(grad(is_reduced ? 0 : r, 0)) : 1.0f;
    scale /= count;
    const auto run = [&](const auto& logits, const auto& target_row) {
      CrossEntropyRow::gradient<T>(p, logits, x.size(1), label - part.begin, lse(r), scale,
                                   label_smoothing, z_loss, target_row);
    };
    with_any_rows(p, run, x[r].part(part.begin, part.size), to);
  }

 private:
  /// f of the rows: on a GPU map_row itself looks how they lie.
  template <class P, class F, class... Row>
  TW_INLINE static void with_any_rows(P p, F&& f, const Row&... rows) {
    if constexpr (P::kOnGpu)
      f(rows...);
    else
      tile::with_rows(p, f, rows...);
  }
  TW_INLINE bool is_mean() const { return reduction == int(LossReduction::kMean); }
  template <class P>
  TW_INLINE bool counts_itself() const {
    return P::kOnGpu && (!is_mean() || x.size(0) <= 512);
  }
};

}  // namespace tw::kernels
