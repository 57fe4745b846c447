// Tables of cosines and sines for the rope operator, with the scalings models are published with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilewright/core/macros.h"
#include "tilewright/core/tensor.h"

namespace tw::ops {

/// How positions beyond the trained context are squeezed into it.
enum class RopeScalingKind : uint8_t {
  kNone,
  kLinear,   // positions / factor. Chen et al., arXiv:2306.15595
  kNtk,      // base * factor^(dim / (dim - 2)). bloc97, "NTK-aware scaled RoPE", 2023
  kYarn,     // by wavelength between linear and none. Peng et al., arXiv:2309.00071, eq. 19-23
  kLlama31,  // likewise, with Llama 3.1's ramp
};

struct RopeParameters {
  int64_t dim = 0;  // rotated dimensions, even
  double base = 10000;
  RopeScalingKind scaling = RopeScalingKind::kNone;
  double factor = 1;
  int64_t original_context = 0;          // kYarn, kLlama31: trained positions
  double beta_fast = 32, beta_slow = 1;  // kYarn: turns within the trained context
  double low_frequency_factor = 1, high_frequency_factor = 4;  // kLlama31
  std::span<const float> frequency_divisors = {};  // dim / 2 of them, as GGUF stores; or empty
};

/// dim / 2 angles per position. Throws kInvalidArgument for an odd or negative dim, a base or
/// factor that is not positive, or divisors of another count.
TW_API std::vector<double> rope_frequencies(const RopeParameters& parameters);

/// YaRN's temperature on cos and sin: 0.1 ln(factor) + 1 (ibid., eq. 22); 1 for other scalings.
TW_API double rope_attention_factor(const RopeParameters& parameters);

struct RopeTables {
  Tensor cos, sin;  // f32 [positions.size(), dim / 2]
};
/// Row i is for positions[i]. Angles are rounded to float32 before cos and sin, as PyTorch models
/// compute them.
TW_API RopeTables make_rope_tables(std::span<const double> frequencies,
                                   std::span<const int64_t> positions, double attention_factor = 1);

}  // namespace tw::ops
