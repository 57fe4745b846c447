#include "tilewright/ops/core/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace tw::ops {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// The (fractional) pair that turns `turns` times within the trained context.
double yarn_pair(double turns, const RopeParameters& p) {
  return double(p.dim) * std::log(double(p.original_context) / (turns * kTurn)) /
         (2 * std::log(p.base));
}

void scale_yarn(const RopeParameters& p, std::vector<double>& frequencies) {
  const double low = std::max(std::floor(yarn_pair(p.beta_fast, p)), 0.0);
  double high = std::min(std::ceil(yarn_pair(p.beta_slow, p)), double(p.dim - 1));
  if (low == high) high += 0.001;  // a step instead of a division by zero
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((double(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / p.factor * ramp + frequencies[i] * (1 - ramp);
  }
}

void scale_llama31(const RopeParameters& p, std::vector<double>& frequencies) {
  const double context = double(p.original_context);
  for (double& f : frequencies) {
    const double wavelength = kTurn / f;
    if (wavelength < context / p.high_frequency_factor) continue;
    if (wavelength > context / p.low_frequency_factor) {
      f /= p.factor;
      continue;
    }
    const double smooth = (context / wavelength - p.low_frequency_factor) /
                          (p.high_frequency_factor - p.low_frequency_factor);
    f = (1 - smooth) * f / p.factor + smooth * f;
  }
}

void check(const RopeParameters& p) {
  const auto fail = [](const std::string& rule) {
    throw Error(ErrorKind::kInvalidArgument, "rope_frequencies: " + rule);
  };
  if (p.dim < 0 || p.dim % 2 != 0)
    fail("dim = " + std::to_string(p.dim) + " is not an even number of dimensions");
  if (!(p.base > 0)) fail("base = " + std::to_string(p.base) + " is not positive");
  if (!(p.factor > 0)) fail("factor = " + std::to_string(p.factor) + " is not positive");
  const bool needs_context =
      p.scaling == RopeScalingKind::kYarn || p.scaling == RopeScalingKind::kLlama31;
  if (needs_context && p.original_context < 1) fail("original_context must be positive");
  if (!p.frequency_divisors.empty() && int64_t(p.frequency_divisors.size()) != p.dim / 2)
    fail(std::to_string(p.frequency_divisors.size()) + " divisors for " +
         std::to_string(p.dim / 2) + " frequencies");
}

}  // namespace

std::vector<double> rope_frequencies(const RopeParameters& p) {
  check(p);
  double base = p.base;
  if (p.scaling == RopeScalingKind::kNtk && p.dim > 2)
    base *= std::pow(p.factor, double(p.dim) / double(p.dim - 2));
  std::vector<double> frequencies(size_t(p.dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = 1 / std::pow(base, double(2 * i) / double(p.dim));
  if (p.scaling == RopeScalingKind::kLinear)
    for (double& f : frequencies) f /= p.factor;
  if (p.scaling == RopeScalingKind::kYarn) scale_yarn(p, frequencies);
  if (p.scaling == RopeScalingKind::kLlama31) scale_llama31(p, frequencies);
  for (size_t i = 0; i < p.frequency_divisors.size(); ++i)
    frequencies[i] /= double(p.frequency_divisors[i]);
  return frequencies;
}

double rope_attention_factor(const RopeParameters& p) {
  if (p.scaling != RopeScalingKind::kYarn || p.factor <= 1) return 1;
  return 0.1 * std::log(p.factor) + 1;
}

RopeTables make_rope_tables(std::span<const double> frequencies, std::span<const int64_t> positions,
                            double attention_factor) {
  const int64_t rows = int64_t(positions.size()), pairs = int64_t(frequencies.size());
  RopeTables out{Tensor::empty({rows, pairs}, DType::kF32),
                 Tensor::empty({rows, pairs}, DType::kF32)};
  float* cos = out.cos.span<float>().data();
  float* sin = out.sin.span<float>().data();
  for (const int64_t p : positions)
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const float angle = float(p) * float(frequencies[i]);
      *cos++ = float(std::cos(double(angle)) * attention_factor);
      *sin++ = float(std::sin(double(angle)) * attention_factor);
    }
  return out;
}

}  // namespace tw::ops
