// Filters that give numbers.
#include <cmath>

#include "tilewright/models/chat_template/arithmetic.h"
#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/literals.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

Value absolute(Sandbox& sandbox, const Value& self, const Arguments&) {
  if (self.is_undefined()) sandbox.fail_undefined(self);
  if (!self.is_number()) sandbox.fail("'abs' needs a number, not " + quote(type_name(self)));
  if (self.is(Type::kFloat)) return Value::real(std::fabs(self.real()));
  return self.integer() < 0 ? negate(sandbox, self) : positive(sandbox, self);
}

/// int(float(text)), or `otherwise` where Python's raises an error.
Value integer_of_float(Sandbox& sandbox, std::string_view text, const Value& otherwise) {
  double number = 0;
  if (!parse_float(text, number) || !std::isfinite(number)) return otherwise;
  return Value::integer(truncate_float(sandbox, number));
}

Value to_integer(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const Value otherwise = arguments[0].is_given() ? arguments[0] : Value::integer(0);
  if (self.is_undefined()) sandbox.fail_undefined(self);
  if (self.is_integral()) return Value::integer(self.integer());
  if (self.is(Type::kFloat)) {
    if (std::isnan(self.real())) return otherwise;
    return Value::integer(truncate_float(sandbox, self.real()));
  }
  if (!self.is_string()) return otherwise;
  const int64_t base = arguments[1].is_given() ? to_index(sandbox, arguments[1], "'int'") : 10;
  sandbox.scan(self.text().size() * 8);
  if (base == 0 || (base >= 2 && base <= 36)) {
    int64_t number = 0;
    switch (parse_integer(self.text(), int(base), number)) {
      case NumberParse::kOk:
        return Value::integer(number);
      case NumberParse::kOutOfRange:
        sandbox.fail("integer beyond 64 bits");
      case NumberParse::kNoNumber:
        break;
    }
  }
  return integer_of_float(sandbox, self.text(), otherwise);
}

Value to_float(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  if (self.is_undefined()) sandbox.fail_undefined(self);
  if (self.is_number()) return Value::real(self.as_double());
  double number = 0;
  if (self.is_string()) {
    sandbox.scan(self.text().size() * 8);
    if (parse_float(self.text(), number)) return Value::real(number);
  }
  return arguments[0].is_given() ? arguments[0] : Value::real(0);
}

/// Rounds up or down at a decimal, as a float, the way Jinja does it.
Value round_toward(Sandbox& sandbox, const Value& self, const Value& precision, bool up) {
  const Value ten = Value::integer(10);
  const Value unit = calculate(sandbox, Operator::kPower, ten, precision);
  const Value scaled = calculate(sandbox, Operator::kMultiply, self, unit);
  if (!std::isfinite(scaled.as_double())) sandbox.fail("can't round an infinite number");
  if (scaled.is_integral()) return calculate(sandbox, Operator::kDivide, scaled, unit);
  const double whole = up ? std::ceil(scaled.real()) : std::floor(scaled.real());
  // Python goes through an integer here, which has no negative zero.
  return calculate(sandbox, Operator::kDivide, Value::real(whole + 0.0), unit);
}

Value round_filter(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const Value precision = arguments[0].is_given() ? arguments[0] : Value::integer(0);
  const bool common = !arguments[1].is_given();
  std::string_view method = "common";
  if (!common && arguments[1].is_string()) method = arguments[1].text();
  if ((!common && !arguments[1].is_string()) ||
      (method != "common" && method != "ceil" && method != "floor")) {
    sandbox.fail("the method of 'round' is common, ceil or floor");
  }
  if (self.is_undefined()) sandbox.fail_undefined(self);
  if (!self.is_number()) sandbox.fail("can't round " + quote(type_name(self)));
  const int64_t digits = to_index(sandbox, precision, "'round'");
  if (method == "common") return round_number(sandbox, self, digits);
  return round_toward(sandbox, self, Value::integer(digits), method == "ceil");
}

constexpr Builtin kFilters[] = {
    {"abs", "", absolute},
    {"float", "default?", to_float},
    {"int", "default? base?", to_integer},
    {"round", "precision? method?", round_filter},
};

}  // namespace

std::span<const Builtin> number_filters() {
  return kFilters;
}

}  // namespace tw::models::chat_template
