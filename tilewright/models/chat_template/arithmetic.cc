#include "tilewright/models/chat_template/arithmetic.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

constexpr double kTwo63 = 9223372036854775808.0;
constexpr int64_t kMinInteger = std::numeric_limits<int64_t>::min();

[[noreturn]] void fail_overflow(const Sandbox& sandbox) {
  sandbox.fail("integer beyond 64 bits");
}

int compare_to_double(int64_t a, double b) {
  if (b >= kTwo63) return -1;
  if (b < -kTwo63) return 1;
  const auto whole = int64_t(b);  // toward zero
  if (a != whole) return a < whole ? -1 : 1;
  const double fraction = b - double(whole);
  return int(fraction < 0) - int(fraction > 0);
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - int64_t(a % b != 0 && (a < 0) != (b < 0));
}

int64_t floor_modulo(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t power(Sandbox& sandbox, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      fail_overflow(sandbox);
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow(sandbox);
  }
  return result;
}

double float_power(Sandbox& sandbox, double a, double b) {
  if (a == 0 && b < 0) sandbox.fail("0.0 cannot be raised to a negative power");
  const bool complex = a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b);
  if (complex) sandbox.fail("negative number to a fractional power");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    sandbox.fail("result of '**' is too large for a float");
  }
  return result;
}

/// Quotient and rest of floor division, with CPython's treatment of signs and zeros.
double float_divmod(double a, double b, double& quotient) {
  double rest = std::fmod(a, b);
  double whole = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      whole -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (whole != 0) {
    quotient = std::floor(whole);
    if (whole - quotient > 0.5) quotient += 1;
  } else {
    quotient = std::copysign(0.0, a / b);
  }
  return rest;
}

Value calculate_integers(Sandbox& sandbox, Operator op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case Operator::kPower:
      if (b < 0) return Value::real(float_power(sandbox, double(a), double(b)));
      return Value::integer(power(sandbox, a, b));
    default:
      if (b == 0) sandbox.fail("division by zero");
      if (op == Operator::kDivide) {
        // The 64-bit mantissa of long double holds both operands exactly.
        return Value::real(double(static_cast<long double>(a) / static_cast<long double>(b)));
      }
      if (b == -1) {
        overflow = op == Operator::kFloorDivide && a == kMinInteger;
        out = op == Operator::kFloorDivide && !overflow ? -a : 0;
      } else {
        out = op == Operator::kFloorDivide ? floor_divide(a, b) : floor_modulo(a, b);
      }
  }
  if (overflow) fail_overflow(sandbox);
  return Value::integer(out);
}

double calculate_floats(Sandbox& sandbox, Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kPower:
      return float_power(sandbox, a, b);
    default:
      break;
  }
  if (b == 0) sandbox.fail("float division by zero");
  if (op == Operator::kDivide) return a / b;
  double quotient = 0;
  const double rest = float_divmod(a, b, quotient);
  return op == Operator::kModulo ? rest : quotient;
}

/// round(value, digits) for digits < 0: half to even.
int64_t round_integer(Sandbox& sandbox, int64_t value, int64_t digits) {
  if (digits < -18) return 0;
  const int64_t unit = power(sandbox, 10, -digits);
  const int64_t rest = floor_modulo(value, unit);
  const int64_t below = value - rest;
  const bool odd = floor_modulo(floor_divide(value, unit), 2) == 1;
  const bool up = rest > unit / 2 || (rest == unit / 2 && odd);
  int64_t out = below;
  if (up && __builtin_add_overflow(below, unit, &out)) fail_overflow(sandbox);
  return out;
}

}  // namespace

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return int(a.integer() > b.integer()) - int(a.integer() < b.integer());
  }
  if (a.is_integral()) return compare_to_double(a.integer(), b.real());
  if (b.is_integral()) return -compare_to_double(b.integer(), a.real());
  return int(a.real() > b.real()) - int(a.real() < b.real());
}

Value calculate(Sandbox& sandbox, Operator op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return calculate_integers(sandbox, op, a.integer(), b.integer());
  }
  return Value::real(calculate_floats(sandbox, op, a.as_double(), b.as_double()));
}

Value negate(Sandbox& sandbox, const Value& value) {
  if (value.is_undefined()) sandbox.fail_undefined(value);
  if (value.is(Type::kFloat)) return Value::real(-value.real());
  if (!value.is_integral()) sandbox.fail("no unary '-' for " + quote(type_name(value)));
  if (value.integer() == kMinInteger) fail_overflow(sandbox);
  return Value::integer(-value.integer());
}

Value positive(Sandbox& sandbox, const Value& value) {
  if (value.is_undefined()) sandbox.fail_undefined(value);
  if (value.is(Type::kFloat)) return value;
  if (!value.is_integral()) sandbox.fail("no unary '+' for " + quote(type_name(value)));
  return Value::integer(value.integer());
}

Value round_number(Sandbox& sandbox, const Value& value, int64_t digits) {
  if (value.is_integral()) {
    if (digits >= 0) return Value::integer(value.integer());
    return Value::integer(round_integer(sandbox, value.integer(), digits));
  }
  if (!value.is(Type::kFloat)) sandbox.fail("can't round " + quote(type_name(value)));
  // Beyond 323 decimals every float is itself; up to there the text fits the buffer.
  if (!std::isfinite(value.real()) || digits > 323) return value;
  if (digits < 0) sandbox.fail("rounding floats to tens is not supported", ErrorKind::kUnsupported);
  std::array<char, 700> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value.real(),
                                     std::chars_format::fixed, int(digits));
  double out = 0;
  std::from_chars(buffer.data(), written.ptr, out);
  return Value::real(out);
}

int64_t truncate_float(Sandbox& sandbox, double value) {
  if (!(value >= -kTwo63 && value < kTwo63)) fail_overflow(sandbox);
  return int64_t(value);
}

}  // namespace tw::models::chat_template
