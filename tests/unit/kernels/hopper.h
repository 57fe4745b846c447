// The GPU that the tests of policies decide for.
#pragma once

namespace tw::kernels {

inline constexpr int kMultiprocessors = 132;  // of an H100 SXM

}  // namespace tw::kernels
