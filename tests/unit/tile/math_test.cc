// Errors of the elementary functions, in units in the last place, measured through the operators
// that apply them: every instruction set that the machine has.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/core/tensor.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/operators.h"

namespace tw {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Function {
  const char* op;
  double (*exact)(double);
  double ulp;  // as stated in tile/math.h
};
const Function kFunctions[] = {{"exp", [](double x) { return std::exp(x); }, 1.02},
                               {"tanh", [](double x) { return std::tanh(x); }, 1.33},
                               {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 2.77},
                               {"erf", [](double x) { return std::erf(x); }, 1.05},
                               {"log", [](double x) { return std::log(x); }, 0.82}};

std::vector<float> apply(const char* op, const std::vector<float>& x, Isa isa) {
  const int64_t n = int64_t(x.size());
  const Tensor in = Tensor::empty({n}, DType::kF32), out = Tensor::empty({n}, DType::kF32);
  std::memcpy(in.span<float>().data(), x.data(), x.size() * sizeof(float));
  const runtime::OperatorInfo& info = runtime::find_operator(op);
  ops::Call call(*info.schema);
  call.set("x", in.ref()).set("out", out.ref());
  runtime::Context context(runtime::default_pool(), isa);
  info.run(call, context);
  return {out.span<float>().begin(), out.span<float>().end()};
}

double ulps(float got, double want) {
  const float rounded = float(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInf;
  if (std::isinf(rounded) || std::isnan(got)) return got == rounded ? 0 : kInf;
  int exponent = -125;
  if (want != 0) std::frexp(want, &exponent);
  return std::abs(double(got) - want) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

/// Every 4099th float: about a million, all exponents, both signs, subnormals and NaN included.
std::vector<float> sample_of_all_floats() {
  std::vector<float> out;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099)
    out.push_back(__builtin_bit_cast(float, uint32_t(bits)));
  for (float x : {0.0f, -0.0f, kInf, -kInf, kNan, 0x1p-149f, -0x1p-149f, 0x1p-126f, 88.7228f,
                  88.7229f, -87.34f, -103.9f, -104.1f, 0.625f, 0.93f, 3.93f, 1.0f})
    out.push_back(x);
  return out;
}

class Math : public ::testing::TestWithParam<Function> {};

TEST_P(Math, ErrorIsWithinTheStatedBound) {
  const std::vector<float> x = sample_of_all_floats();
  for (const Isa isa : runtime::available_isas()) {
    const std::vector<float> y = apply(GetParam().op, x, isa);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(y[i], GetParam().exact(double(x[i])));
      if (error <= worst) continue;
      worst = error;
      ASSERT_LE(worst, GetParam().ulp)
          << GetParam().op << "(" << x[i] << ") = " << y[i] << " on " << name(isa);
    }
    EXPECT_GT(worst, 0.4) << "nothing was measured";
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, Math, ::testing::ValuesIn(kFunctions),
                         [](const auto& test) { return std::string(test.param.op); });

TEST(Math, SignOfZeroSurvives) {
  for (const char* op : {"tanh", "erf"}) {
    const std::vector<float> y = apply(op, {-0.0f, 0.0f}, runtime::detect_isa());
    EXPECT_TRUE(std::signbit(y[0])) << op;
    EXPECT_FALSE(std::signbit(y[1])) << op;
  }
}

}  // namespace
}  // namespace tw
