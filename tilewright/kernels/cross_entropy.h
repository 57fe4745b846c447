// Cross-entropy of logits with labels, and its gradient. With lse = log(sum_c exp(x[c])), for a row
// of V logits with label t:
//
//   loss   = (1 - s) (lse - x[t]) + s (lse - mean_c x[c]) + z lse^2       s: smoothing, z: z_loss
//   x_grad = grad (exp(x - lse) (1 + 2 z lse) - s / V - (1 - s) [c = t])
//
// A row whose label is ignore_index counts for nothing. Smoothing: Szegedy et al.,
// arXiv:1512.00567, section 7; z_loss: Chowdhery et al., arXiv:2204.02311, section 5.
#pragma once

#include "tilewright/kernels/row_logsumexp.h"

namespace tw::kernels {

/// The order of the schema choice `mean|sum|none`.
enum class LossReduction : int { kMean, kSum, kNone };

/// What one row of logits contributes.
struct CrossEntropyRow {
  float loss = 0, lse = 0;

  template <class P, class Row>
  TW_INLINE static CrossEntropyRow of(P p, const Row& row, int64_t label, float smoothing,
                                      float z_loss) {
    const LogSumExp<float> found = row_logsumexp<float>(p, row);
    // Differences from the largest logit: where that is large, the logarithm would lose digits.
    const float at_label = static_cast<float>(row(label)) - found.high;
    CrossEntropyRow out;
    out.lse = found.high + found.log_sum;
    out.loss = (1 - smoothing) * (found.log_sum - at_label) + z_loss * out.lse * out.lse;
    if (smoothing != 0) {
      const float total = tile::reduce_row(
          p, tile::Sum{}, row, [&](auto at) { return tile::load(row, at) - found.high; });
      out.loss += smoothing * (found.log_sum - total / static_cast<float>(row.size(0)));
    }
    return out;
  }

  /// The gradient of such a row; `scale` is that of its loss. to may be row.
  template <class T, class P, class Row, class To>
  TW_INLINE static void gradient(P p, const Row& row, int64_t label, float lse, float scale,
                                 float smoothing, float z_loss, const To& to) {
    const float cols = static_cast<float>(row.size(0));
    const float slope = 1 + 2 * z_loss * lse, even = smoothing / cols;
    const float at_label = static_cast<float>(row(label));
    tile::sync(p);  // it may be overwritten now
    tile::for_row(p, row, [&](auto at) {
      const auto v = tile::exp_below(tile::load(row, at), lse);
      tile::store(p, to, at, (v * slope - even) * scale);  // last: it may be infinite
    });
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

  TW_INLINE bool is_reduced() const { return reduction != int(LossReduction::kNone); }

  /// A program per row, and one that adds up.
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    tile::Plan plan =
        tile::plan_of(x.size(0), logsumexp_scratch<P, float, T>(x.size(1))).over(x.size(1));
    if (!is_reduced()) return plan;
    plan.phases = 2;
    plan.grid[1] = 1;
    plan.workspace_bytes = x.size(0) * int64_t{sizeof(float)};
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    float* const losses = p.template workspace<float>();
    if (p.phase() == 1) return add_up(p, view(losses, x.size(0)));
    const int64_t r = p.index(), label = int64_t(target(r));
    if (label != ignore_index) tile::require_index(p, label, x.size(1));
    CrossEntropyRow row;
    const auto run = [&](const auto& logits) {
      row = CrossEntropyRow::of(p, logits, label, label_smoothing, z_loss);
    };
    if (label != ignore_index) tile::with_rows(p, run, x[r]);
    if (lse) lse(r) = row.lse;
    if (is_reduced())
      losses[r] = row.loss;
    else
      loss(r, 0) = T(row.loss);
  }

 private:
  template <class P>
  TW_INLINE void add_up(P p, const View<float, 1>& losses) const {
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

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    tile::Plan plan;
    plan.phases = 2;
    plan.grid[0] = 1;
    plan.grid[1] = x.size(0);
    plan.workspace_bytes = sizeof(float);
    return plan.over(x.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    float* const counted = p.template workspace<float>();
    if (p.phase() == 0) {
      *counted = count_labels(p, target, ignore_index);
      return;
    }
    const int64_t r = p.index(), label = int64_t(target(r));
    const auto to = x_grad[r];
    if (label == ignore_index) {
      using V = typename P::template Vec<float>;
      const auto clear = [&](const auto& target_row) {
        tile::for_row(p, target_row, [&](auto at) { tile::store(p, target_row, at, V{}); });
      };
      return tile::with_rows(p, clear, to);
    }
    tile::require_index(p, label, x.size(1));
    const bool is_reduced = reduction != int(LossReduction::kNone);
    float scale = grad ? static_cast<float>(grad(is_reduced ? 0 : r, 0)) : 1.0f;
    if (reduction == int(LossReduction::kMean)) scale /= *counted;
    const auto run = [&](const auto& logits, const auto& target_row) {
      CrossEntropyRow::gradient<T>(p, logits, label, lse(r), scale, label_smoothing, z_loss,
                                   target_row);
    };
    tile::with_rows(p, run, x[r], to);
  }
};

}  // namespace tw::kernels
