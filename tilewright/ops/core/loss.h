// What the operators that compare logits with labels share: rules, test labels, the definition.
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/cross_entropy.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/random.h"

namespace tw::ops {

/// A share of the loss.
inline Support supports_smoothing(double label_smoothing) {
  if (label_smoothing >= 0 && label_smoothing <= 1) return Support::yes();
  return Support::no("label_smoothing = " + std::to_string(label_smoothing) + " must be in 0 .. 1");
}

/// Each label is ignore_index or a class.
template <class I>
Support supports_labels(const View<const I, 1>& target, int64_t classes, int64_t ignore_index) {
  for (int64_t r = 0; r < target.size(0); ++r)
    if (int64_t(target(r)) != ignore_index && (target(r) < 0 || target(r) >= classes))
      return Support::no("target[" + std::to_string(r) + "] = " + std::to_string(target(r)) +
                         " is neither ignore_index nor one of the " + std::to_string(classes) +
                         " classes");
  return Support::yes();
}

/// Labels of which some are -100, the default of ignore_index.
inline Tensor random_labels(int64_t rows, int64_t classes, DType dtype, uint64_t seed) {
  Tensor out = Tensor::empty({rows}, dtype);
  for (int64_t i = 0; i < rows; ++i) {
    const uint64_t bits = next_random(seed);
    const bool is_ignored = classes == 0 || (bits >> 60) == 0;
    const int64_t label =
        is_ignored ? -100 : static_cast<int64_t>((bits >> 33) % static_cast<uint64_t>(classes));
    if (dtype == DType::kI64)
      out.span<int64_t>()[size_t(i)] = label;
    else
      out.span<int32_t>()[size_t(i)] = static_cast<int32_t>(label);
  }
  return out;
}

/// log(sum(exp(logit(c)))) over the classes.
template <class F>
double logsumexp(int64_t classes, F&& logit) {
  double high = -HUGE_VAL, sum = 0;
  for (int64_t c = 0; c < classes; ++c) high = std::fmax(high, logit(c));
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(logit(c) - high);
  return high + std::log(sum);
}

/// The loss of one row by its definition.
template <class F>
double cross_entropy_of(int64_t classes, F&& logit, int64_t label, double smoothing,
                        double z_loss) {
  const double lse = logsumexp(classes, logit);
  double loss = (1 - smoothing) * (lse - logit(label)) + z_loss * lse * lse;
  for (int64_t c = 0; smoothing != 0 && c < classes; ++c)
    loss += smoothing / double(classes) * (lse - logit(c));
  return loss;
}

/// The derivative of that loss by logit c, for its lse.
inline double cross_entropy_slope(int64_t classes, double logit, double lse, bool is_label,
                                  double smoothing, double z_loss) {
  return std::exp(logit - lse) * (1 + 2 * z_loss * lse) - smoothing / double(classes) -
         (is_label ? 1 - smoothing : 0);
}

}  // namespace tw::ops
