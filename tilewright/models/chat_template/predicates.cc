// The tests: what may follow "is".
#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

template <Type kType>
Value is_type(Sandbox&, const Value& self, const Arguments&) {
  return Value::boolean(self.is(kType));
}

template <bool kWanted>
Value is_constant(Sandbox&, const Value& self, const Arguments&) {
  return Value::boolean(self.is(Type::kBool) && self.boolean() == kWanted);
}

template <Operator kOperator>
Value compare(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  return apply(sandbox, kOperator, self, arguments[0]);
}

Value defined(Sandbox&, const Value& self, const Arguments&) {
  return Value::boolean(!self.is_undefined());
}

Value escaped(Sandbox&, const Value& self, const Arguments&) {
  return Value::boolean(self.is_string() && self.string().safe);
}

Value number(Sandbox&, const Value& self, const Arguments&) {
  return Value::boolean(self.is_number());
}

Value sequence(Sandbox&, const Value& self, const Arguments&) {
  const bool subscriptable = !self.is(Type::kDictView) && !self.is(Type::kLoop);
  return Value::boolean(has_length(self) && subscriptable);
}

Value iterable(Sandbox&, const Value& self, const Arguments&) {
  return Value::boolean(is_iterable(self) || self.is(Type::kLoop));
}

Value callable(Sandbox&, const Value& self, const Arguments&) {
  return Value::boolean(self.is(Type::kFunction) || self.is(Type::kMacro) || self.is(Type::kLoop) ||
                        self.is_undefined());
}

bool rest_is(Sandbox& sandbox, const Value& value, const Value& divisor, int64_t rest) {
  return are_equal(sandbox, apply(sandbox, Operator::kModulo, value, divisor),
                   Value::integer(rest));
}

Value divisible_by(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  return Value::boolean(rest_is(sandbox, self, arguments[0], 0));
}

template <int kRest>
Value has_parity(Sandbox& sandbox, const Value& self, const Arguments&) {
  return Value::boolean(rest_is(sandbox, self, Value::integer(2), kRest));
}

Value lower(Sandbox& sandbox, const Value& self, const Arguments&) {
  const std::string text = to_text(sandbox, self);
  sandbox.scan(text.size() * 8);
  return Value::boolean(is_lower(text));
}

Value upper(Sandbox& sandbox, const Value& self, const Arguments&) {
  const std::string text = to_text(sandbox, self);
  sandbox.scan(text.size() * 8);
  return Value::boolean(is_upper(text));
}

Value contained(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  return Value::boolean(contains(sandbox, arguments[0], self));
}

/// Identity. Equal numbers and strings count as the same object.
Value same_as(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const Value& other = arguments[0];
  if (self.type() != other.type()) return Value::boolean(false);
  const bool scalar = self.is_none() || self.is_number() || self.is_string();
  return Value::boolean(scalar ? are_equal(sandbox, self, other) : self.object() == other.object());
}

Value is_filter(Sandbox& sandbox, const Value& self, const Arguments&) {
  sandbox.require_hashable(self);
  return Value::boolean(self.is_string() && find_filter(self.text()) != nullptr);
}

Value is_test(Sandbox& sandbox, const Value& self, const Arguments&) {
  sandbox.require_hashable(self);
  return Value::boolean(self.is_string() && find_test(self.text()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"!=", "/other", compare<Operator::kNotEqual>},
    {"<", "/other", compare<Operator::kLess>},
    {"<=", "/other", compare<Operator::kLessEqual>},
    {"==", "/other", compare<Operator::kEqual>},
    {">", "/other", compare<Operator::kGreater>},
    {">=", "/other", compare<Operator::kGreaterEqual>},
    {"boolean", "", is_type<Type::kBool>},
    {"callable", "", callable},
    {"defined", "", defined},
    {"divisibleby", "num", divisible_by},
    {"eq", "/other", compare<Operator::kEqual>},
    {"equalto", "/other", compare<Operator::kEqual>},
    {"escaped", "", escaped},
    {"even", "", has_parity<0>},
    {"false", "", is_constant<false>},
    {"filter", "", is_filter},
    {"float", "", is_type<Type::kFloat>},
    {"ge", "/other", compare<Operator::kGreaterEqual>},
    {"greaterthan", "/other", compare<Operator::kGreater>},
    {"gt", "/other", compare<Operator::kGreater>},
    {"in", "seq", contained},
    {"integer", "", is_type<Type::kInt>},
    {"iterable", "", iterable},
    {"le", "/other", compare<Operator::kLessEqual>},
    {"lessthan", "/other", compare<Operator::kLess>},
    {"lower", "", lower},
    {"lt", "/other", compare<Operator::kLess>},
    {"mapping", "", is_type<Type::kDict>},
    {"ne", "/other", compare<Operator::kNotEqual>},
    {"none", "", is_type<Type::kNone>},
    {"number", "", number},
    {"odd", "", has_parity<1>},
    {"sameas", "other", same_as},
    {"sequence", "", sequence},
    {"string", "", is_type<Type::kString>},
    {"test", "", is_test},
    {"true", "", is_constant<true>},
    {"undefined", "", is_type<Type::kUndefined>},
    {"upper", "", upper},
};

}  // namespace

std::span<const Builtin> tests() {
  return kTests;
}

}  // namespace tw::models::chat_template
