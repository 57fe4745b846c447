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
  long double (*exact)(long double);
  double ulp, ulp_f64;  // as stated in tile/math.h, tile/math_f64.h
};
const Function kFunctions[] = {
    {"exp", [](long double x) { return std::exp(x); }, 1.02, 0.98},
    {"tanh", [](long double x) { return std::tanh(x); }, 1.33, 2.7},
    {"sigmoid", [](long double x) { return 1 / (1 + std::exp(-x)); }, 2.77, 2.9},
    {"erf", [](long double x) { return std::erf(x); }, 1.05, 1.1},
    {"log", [](long double x) { return std::log(x); }, 0.82, 0.97}};

template <class T>
std::vector<T> apply(const char* op, const std::vector<T>& x, Isa isa) {
  constexpr DType kType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
  const int64_t n = int64_t(x.size());
  const Tensor in = Tensor::empty({n}, kType), out = Tensor::empty({n}, kType);
  std::memcpy(in.span<T>().data(), x.data(), x.size() * sizeof(T));
  const runtime::OperatorInfo& info = runtime::find_operator(op);
  ops::Call call(*info.schema);
  call.set("x", in.ref()).set("out", out.ref());
  runtime::Context context(runtime::default_pool(), isa);
  info.run(call, context);
  return {out.span<T>().begin(), out.span<T>().end()};
}

template <class T>
double ulps(T got, long double want) {
  const T rounded = T(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInf;
  if (std::isinf(rounded) || std::isnan(got)) return got == rounded ? 0 : kInf;
  constexpr int kLeast = std::numeric_limits<T>::min_exponent;
  int exponent = kLeast;
  if (want != 0) std::frexp(want, &exponent);
  const int place = std::max(exponent, kLeast) - std::numeric_limits<T>::digits;
  return double(std::abs(got - want) / std::ldexp(1.0L, place));
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
/// Some of each exponent, and more between -760 and 760, closer to 0 the more.
std::vector<double> sample_of_doubles() {
  std::vector<double> out;
  for (uint64_t bits = 0; bits < ~uint64_t{0} - (uint64_t{1} << 46);
       bits += (uint64_t{1} << 46) + 4095)
    out.push_back(__builtin_bit_cast(double, bits));
  constexpr int kSteps = 400'000;
  for (int i = -kSteps; i <= kSteps; ++i) out.push_back(760 * std::pow(double(i) / kSteps, 3));
  for (double x : {0.0, -0.0, double{kInf}, -double{kInf}, double{kNan}, 0x1p-1074,
                   709.782712893384, 709.782712893385, -708.4, -745.13, -745.14, 1.0})
    out.push_back(x);
  return out;
}

class Math : public ::testing::TestWithParam<Function> {};

template <class T>
void expect_errors_within(const std::vector<T>& x, const Function& f, double bound) {
  for (const Isa isa : runtime::available_isas()) {
    const std::vector<T> y = apply(f.op, x, isa);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(y[i], f.exact(x[i]));
      if (error <= worst) continue;
      worst = error;
      ASSERT_LE(worst, bound) << f.op << "(" << x[i] << ") = " << y[i] << " on " << name(isa);
    }
    EXPECT_GT(worst, 0.4) << "nothing was measured";
  }
}
TEST_P(Math, ErrorIsWithinTheStatedBound) {
  expect_errors_within(sample_of_all_floats(), GetParam(), GetParam().ulp);
}
TEST_P(Math, ErrorInFloat64IsWithinTheStatedBound) {
  expect_errors_within(sample_of_doubles(), GetParam(), GetParam().ulp_f64);
}

INSTANTIATE_TEST_SUITE_P(Functions, Math, ::testing::ValuesIn(kFunctions),
                         [](const auto& test) { return std::string(test.param.op); });

TEST(Math, SignOfZeroSurvives) {
  for (const char* op : {"tanh", "erf"}) {
    const std::vector<float> y = apply<float>(op, {-0.0f, 0.0f}, runtime::detect_isa());
    EXPECT_TRUE(std::signbit(y[0])) << op;
    EXPECT_FALSE(std::signbit(y[1])) << op;
    EXPECT_TRUE(std::signbit(apply<double>(op, {-0.0}, runtime::detect_isa())[0])) << op;
  }
}

}  // namespace
}  // namespace tw
