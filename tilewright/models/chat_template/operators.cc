#include "tilewright/models/chat_template/operators.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <utility>

#include "tilewright/models/chat_template/arithmetic.h"
#include "tilewright/models/chat_template/string_format.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

bool ranges_equal(const Range& a, const Range& b) {
  if (a.length != b.length) return false;
  return a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step));
}

bool items_equal(Sandbox& sandbox, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!are_equal(sandbox, a[i], b[i])) return false;
  }
  return true;
}

bool dicts_equal(Sandbox& sandbox, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    sandbox.require_hashable(key);
    const Value* other = b.find(key);
    if (other == nullptr || !are_equal(sandbox, value, *other)) return false;
  }
  return true;
}

std::partial_ordering order_numbers(const Value& a, const Value& b) {
  if (std::isnan(a.as_double()) || std::isnan(b.as_double())) {
    return std::partial_ordering::unordered;
  }
  return compare_numbers(a, b) <=> 0;
}

std::partial_ordering order(Sandbox& sandbox, const Value& a, const Value& b) {
  sandbox.step();
  if (a.is_undefined()) sandbox.fail_undefined(a);
  if (b.is_undefined()) sandbox.fail_undefined(b);
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    sandbox.scan(std::min(a.text().size(), b.text().size()));
    return a.text().compare(b.text()) <=> 0;
  }
  if (!a.is_sequence() || a.type() != b.type()) {
    sandbox.fail("no order between " + quote(type_name(a)) + " and " + quote(type_name(b)));
  }
  const auto &x = a.sequence().items, &y = b.sequence().items;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!are_equal(sandbox, x[i], y[i])) return order(sandbox, x[i], y[i]);
  }
  return x.size() <=> y.size();
}

/// One of the two is safe: the other is escaped.
Value concatenate_safe(Sandbox& sandbox, const Value& a, const Value& b) {
  const auto part = [&](const Value& value) {
    sandbox.charge(value.text().size(), kEscapedBytes);
    return value.string().safe ? std::string(value.text()) : escape_html(value.text());
  };
  return sandbox.safe(part(a) + part(b));
}

Value concatenate(Sandbox& sandbox, const Value& a, const Value& b) {
  if (a.is_string()) {
    if (a.string().safe || b.string().safe) return concatenate_safe(sandbox, a, b);
    sandbox.charge(a.text().size() + b.text().size());
    return sandbox.adopt(std::string(a.text()).append(b.text()));
  }
  std::vector<Value> items = a.sequence().items;
  const auto& tail = b.sequence().items;
  sandbox.charge(items.size() + tail.size(), sizeof(Value));
  items.insert(items.end(), tail.begin(), tail.end());
  return sandbox.sequence(a.type(), std::move(items));
}

Value repeat(Sandbox& sandbox, const Value& value, int64_t count) {
  const auto times = size_t(std::max<int64_t>(count, 0));
  if (value.is_string()) {
    sandbox.charge(times, value.text().size());
    std::string out;
    if (value.text().empty()) return value;
    out.reserve(times * value.text().size());
    for (size_t i = 0; i < times; ++i) out += value.text();
    return value.string().safe ? sandbox.safe(out) : sandbox.adopt(std::move(out));
  }
  const auto& items = value.sequence().items;
  std::vector<Value> out;
  if (!items.empty()) {
    sandbox.charge(times, items.size() * sizeof(Value));
    for (size_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return sandbox.sequence(value.type(), std::move(out));
}

bool can_repeat(const Value& value) {
  return value.is_string() || value.is_sequence();
}

/// Looking into dict.keys() or dict.items() is looking a key up.
void require_hashable_key(Sandbox& sandbox, std::string_view view, const Value& value) {
  if (view == "dict_keys") return sandbox.require_hashable(value);
  const bool item = value.is(Type::kTuple) && value.sequence().items.size() == 2;
  if (view == "dict_items" && item) sandbox.require_hashable(value.sequence().items[0]);
}

std::string_view symbol(Operator op) {
  static constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[size_t(op)];
}

Value arithmetic(Sandbox& sandbox, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kModulo && a.is_string() && a.string().safe) {
    sandbox.fail("formatting of safe text is not supported", ErrorKind::kUnsupported);
  }
  if (op == Operator::kModulo && a.is_string()) return format_percent(sandbox, a.text(), b);
  if (a.is_undefined()) sandbox.fail_undefined(a);
  if (b.is_undefined()) sandbox.fail_undefined(b);
  if (a.is_number() && b.is_number()) return calculate(sandbox, op, a, b);
  if (op == Operator::kAdd && can_repeat(a) && a.type() == b.type()) {
    return concatenate(sandbox, a, b);
  }
  if (op == Operator::kMultiply && can_repeat(a) && b.is_integral()) {
    return repeat(sandbox, a, b.integer());
  }
  if (op == Operator::kMultiply && a.is_integral() && can_repeat(b)) {
    return repeat(sandbox, b, a.integer());
  }
  sandbox.fail("no " + quote(symbol(op)) + " between " + quote(type_name(a)) + " and " +
               quote(type_name(b)));
}

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined:
      return "Undefined";
    case Type::kNone:
      return "NoneType";
    case Type::kBool:
      return "bool";
    case Type::kInt:
      return "int";
    case Type::kFloat:
      return "float";
    case Type::kString:
      return "str";
    case Type::kList:
      return "list";
    case Type::kTuple:
      return "tuple";
    case Type::kDict:
      return "dict";
    case Type::kDictView:
      return value.sequence().name;
    case Type::kRange:
      return "range";
    case Type::kIterator:
      return "iterator";
    case Type::kNamespace:
      return "Namespace";
    case Type::kMacro:
      return "Macro";
    case Type::kFunction:
      return "function";
    case Type::kLoop:
      return "LoopContext";
  }
  return "object";
}

bool is_true(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined:
    case Type::kNone:
      return false;
    case Type::kBool:
    case Type::kInt:
      return value.integer() != 0;
    case Type::kFloat:
      return value.real() != 0;
    case Type::kString:
      return !value.text().empty();
    case Type::kList:
    case Type::kTuple:
    case Type::kDictView:
      return !value.sequence().items.empty();
    case Type::kDict:
      return !value.dict().entries.empty();
    case Type::kRange:
      return value.range().length != 0;
    default:
      return true;
  }
}

bool are_equal(Sandbox& sandbox, const Value& a, const Value& b) {
  sandbox.step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::kUndefined:
    case Type::kNone:
      return true;
    case Type::kString:
      if (a.text().size() != b.text().size()) return false;
      sandbox.scan(a.text().size());
      return a.text() == b.text();
    case Type::kList:
    case Type::kTuple:
      return items_equal(sandbox, a.sequence().items, b.sequence().items);
    case Type::kDict:
      return dicts_equal(sandbox, a.dict(), b.dict());
    case Type::kRange:
      return ranges_equal(a.range(), b.range());
    default:
      return a.object() == b.object();
  }
}

bool is_less(Sandbox& sandbox, const Value& a, const Value& b) {
  return order(sandbox, a, b) < 0;
}

bool contains(Sandbox& sandbox, const Value& container, const Value& value) {
  switch (container.type()) {
    case Type::kString:
      if (!value.is_string()) {
        sandbox.fail("'in <string>' requires a string on its left, not " + quote(type_name(value)));
      }
      sandbox.scan(container.text().size());
      return find_bytes(container.text(), value.text()) != std::string_view::npos;
    case Type::kDict:
      sandbox.require_hashable(value);
      return container.dict().find(value) != nullptr;
    case Type::kDictView:
      require_hashable_key(sandbox, container.sequence().name, value);
      break;
    case Type::kIterator: {
      Sequence& rest = container.sequence();
      while (rest.position < rest.items.size()) {
        if (are_equal(sandbox, rest.items[rest.position++], value)) return true;
      }
      return false;
    }
    default:
      break;
  }
  if (!is_iterable(container)) {
    sandbox.fail(quote(type_name(container)) + " has no elements for 'in'");
  }
  for (const Value& item : items_of(sandbox, container)) {
    if (are_equal(sandbox, item, value)) return true;
  }
  return false;
}

Value apply(Sandbox& sandbox, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return Value::boolean(are_equal(sandbox, a, b));
    case Operator::kNotEqual:
      return Value::boolean(!are_equal(sandbox, a, b));
    case Operator::kLess:
      return Value::boolean(order(sandbox, a, b) < 0);
    case Operator::kLessEqual:
      return Value::boolean(order(sandbox, a, b) <= 0);
    case Operator::kGreater:
      return Value::boolean(order(sandbox, a, b) > 0);
    case Operator::kGreaterEqual:
      return Value::boolean(order(sandbox, a, b) >= 0);
    case Operator::kIn:
      return Value::boolean(contains(sandbox, b, a));
    case Operator::kNotIn:
      return Value::boolean(!contains(sandbox, b, a));
    default:
      return arithmetic(sandbox, op, a, b);
  }
}

}  // namespace tw::models::chat_template
