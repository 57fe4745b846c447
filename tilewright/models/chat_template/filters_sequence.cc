// Filters that read or give several values.
#include <algorithm>
#include <set>
#include <utility>

#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

/// The steps that an attribute argument such as "a.b.0" takes into an item.
std::vector<Value> attribute_path(Sandbox& sandbox, const Value& attribute) {
  if (!attribute.is_given() || attribute.is_none()) return {};
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> path;
  sandbox.scan(attribute.text().size() * 8);
  for (const std::string_view part : split(attribute.text(), ".", -1)) {
    const bool number =
        !part.empty() && part.size() < 18 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    path.push_back(number ? Value::integer(std::stoll(std::string(part))) : sandbox.string(part));
  }
  return path;
}

Value follow(Sandbox& sandbox, Value item, const std::vector<Value>& path,
             const Value& otherwise = {}) {
  for (const Value& part : path) {
    item = get_item(sandbox, item, part);
    if (item.is_undefined() && otherwise.is_given() && !otherwise.is_none()) item = otherwise;
  }
  return item;
}

Value ignore_case(Sandbox& sandbox, const Value& value) {
  if (!value.is_string()) return value;
  sandbox.scan(value.text().size() * 8);
  return sandbox.string(to_lower(value.text()));
}

/// What sort, unique, min and max compare.
Value sort_key(Sandbox& sandbox, const Value& item, const std::vector<Value>& path,
               bool case_sensitive) {
  const Value key = follow(sandbox, item, path);
  return case_sensitive ? key : ignore_case(sandbox, key);
}

Value count(Sandbox& sandbox, const Value& self, const Arguments&) {
  return Value::integer(length(sandbox, self));
}

Value use_default(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const bool replaces = self.is_undefined() || (is_true(arguments[1]) && !is_true(self));
  if (!replaces) return self;
  return arguments[0].is_given() ? arguments[0] : sandbox.string({});
}

Value first(Sandbox& sandbox, const Value& self, const Arguments&) {
  if (self.is(Type::kIterator)) {
    Sequence& rest = self.sequence();
    if (rest.position < rest.items.size()) return rest.items[rest.position++];
  } else if (self.is_string() && self.string().length > 0) {
    return items_of(sandbox, get_item(sandbox, self, Value::integer(0)))[0];  // never safe
  } else if (const auto items = items_of(sandbox, self); !items.empty()) {
    return items.front();
  }
  return sandbox.undefined({}, {}, "no first item, the sequence is empty");
}

Value last(Sandbox& sandbox, const Value& self, const Arguments&) {
  if (self.is(Type::kIterator)) sandbox.fail("'last' can't walk an iterator backwards");
  if (self.is_string() && self.string().length > 0) {
    return get_item(sandbox, self, Value::integer(-1));
  }
  if (const auto items = items_of(sandbox, self); !items.empty()) return items.back();
  return sandbox.undefined({}, {}, "no last item, the sequence is empty");
}

Value list(Sandbox& sandbox, const Value& self, const Arguments&) {
  const auto items = items_of(sandbox, self);
  sandbox.charge(items.size(), sizeof(Value));
  return sandbox.list({items.begin(), items.end()});
}

Value reverse(Sandbox& sandbox, const Value& self, const Arguments&) {
  if (self.is_string()) {
    return get_slice(sandbox, self, {}, {}, Value::integer(-1));
  }
  const auto items = items_of(sandbox, self);
  sandbox.charge(items.size(), sizeof(Value));
  std::vector<Value> out(items.rbegin(), items.rend());
  // Python reverses a generator into a list, and gives an iterator over everything else.
  return self.is(Type::kIterator) ? sandbox.list(std::move(out)) : sandbox.iterator(std::move(out));
}

Value items(Sandbox& sandbox, const Value& self, const Arguments&) {
  if (self.is_undefined()) return sandbox.iterator({});
  if (!self.is(Type::kDict)) sandbox.fail("'items' needs a mapping");
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict().entries) pairs.push_back(sandbox.pair(key, value));
  return sandbox.iterator(std::move(pairs));
}

/// Indices of the keys in ascending order, or in descending order; equal keys stay as they are.
template <class Less>
std::vector<size_t> sorted_order(Sandbox& sandbox, size_t size, bool descending, const Less& less) {
  std::vector<size_t> order(size);
  sandbox.charge(size, sizeof(size_t));
  for (size_t i = 0; i < size; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return descending ? less(b, a) : less(a, b); });
  return order;
}

Value dictsort(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  if (self.is_undefined()) sandbox.fail_undefined(self);
  if (!self.is(Type::kDict)) sandbox.fail("'dictsort' needs a dict");
  const std::string by = arguments[1].is_given() ? to_text(sandbox, arguments[1]) : "key";
  if (by != "key" && by != "value") sandbox.fail("'dictsort' goes by key or value");
  const bool case_sensitive = is_true(arguments[0]);
  std::vector<Value> keys;
  for (const auto& [key, value] : self.dict().entries) {
    keys.push_back(sort_key(sandbox, by == "key" ? key : value, {}, case_sensitive));
  }
  const auto less = [&](size_t a, size_t b) { return is_less(sandbox, keys[a], keys[b]); };
  std::vector<Value> out;
  for (const size_t i : sorted_order(sandbox, keys.size(), is_true(arguments[2]), less)) {
    const auto& [key, value] = self.dict().entries[i];
    out.push_back(sandbox.pair(key, value));
  }
  return sandbox.list(std::move(out));
}

Value sort(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const auto values = items_of(sandbox, self);
  const bool case_sensitive = is_true(arguments[1]);
  std::vector<std::vector<Value>> paths;
  if (arguments[2].is_string()) {
    for (const std::string_view part : split(arguments[2].text(), ",", -1)) {
      paths.push_back(attribute_path(sandbox, sandbox.string(part)));
    }
  } else {
    paths.push_back(attribute_path(sandbox, arguments[2]));
  }
  std::vector<Value> keys;  // paths.size() for each item
  for (const Value& item : values) {
    for (const auto& path : paths) {
      sandbox.charge(sizeof(Value));
      keys.push_back(sort_key(sandbox, item, path, case_sensitive));
    }
  }
  const auto less = [&](size_t a, size_t b) {
    for (size_t k = 0; k < paths.size(); ++k) {
      const Value &x = keys[a * paths.size() + k], &y = keys[b * paths.size() + k];
      if (!are_equal(sandbox, x, y)) return is_less(sandbox, x, y);
    }
    return false;
  };
  std::vector<Value> out;
  for (const size_t i : sorted_order(sandbox, values.size(), is_true(arguments[0]), less)) {
    out.push_back(values[i]);
  }
  return sandbox.list(std::move(out));
}

/// Pairs of a key and the items that have it, in the order of the keys.
Value groupby(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::vector<Value> path = attribute_path(sandbox, arguments[0]);
  const bool case_sensitive = is_true(arguments[2]);
  const auto values = items_of(sandbox, self);
  std::vector<Value> plain, keys;
  for (const Value& item : values) {
    sandbox.charge(2 * sizeof(Value));
    plain.push_back(follow(sandbox, item, path, arguments[1]));
    keys.push_back(case_sensitive ? plain.back() : ignore_case(sandbox, plain.back()));
  }
  const auto less = [&](size_t a, size_t b) { return is_less(sandbox, keys[a], keys[b]); };
  const std::vector<size_t> order = sorted_order(sandbox, values.size(), false, less);
  std::vector<Value> out;
  for (size_t i = 0; i < order.size();) {
    const size_t first = order[i];
    std::vector<Value> group;
    while (i < order.size() && are_equal(sandbox, keys[order[i]], keys[first]))
      group.push_back(values[order[i++]]);
    out.push_back(sandbox.sequence(Type::kTuple, {plain[first], sandbox.list(std::move(group))},
                                   kGroupName.data()));
  }
  return sandbox.list(std::move(out));
}

Value unique(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::vector<Value> path = attribute_path(sandbox, arguments[1]);
  std::set<Value, KeyLess> seen;
  std::vector<Value> out;
  for (const Value& item : items_of(sandbox, self)) {
    const Value key = sort_key(sandbox, item, path, is_true(arguments[0]));
    sandbox.require_hashable(key);
    sandbox.charge(64);  // a node of the set
    if (seen.insert(key).second) out.push_back(item);
  }
  return sandbox.iterator(std::move(out));
}

/// The least or greatest item; the first of equals.
Value extreme(Sandbox& sandbox, const Value& self, const Arguments& arguments, bool greatest) {
  const std::vector<Value> path = attribute_path(sandbox, arguments[1]);
  Value best, best_key;
  for (const Value& item : items_of(sandbox, self)) {
    const Value key = sort_key(sandbox, item, path, is_true(arguments[0]));
    const bool better = !best.is_given() || (greatest ? is_less(sandbox, best_key, key)
                                                      : is_less(sandbox, key, best_key));
    if (better) {
      best = item;
      best_key = key;
    }
  }
  if (best.is_given()) return best;
  return sandbox.undefined({}, {}, "no aggregated item, the sequence is empty");
}

Value min(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  return extreme(sandbox, self, arguments, false);
}

Value max(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  return extreme(sandbox, self, arguments, true);
}

Value sum(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::vector<Value> path = attribute_path(sandbox, arguments[0]);
  Value total = arguments[1].is_given() ? arguments[1] : Value::integer(0);
  if (total.is_string()) sandbox.fail("'sum' can't add strings");
  for (const Value& item : items_of(sandbox, self)) {
    total = apply(sandbox, Operator::kAdd, total, follow(sandbox, item, path));
  }
  return total;
}

Value join(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::string separator =
      arguments[0].is_given() ? to_text(sandbox, arguments[0]) : std::string();
  const std::vector<Value> path = attribute_path(sandbox, arguments[1]);
  std::string out;
  bool first_item = true;
  for (const Value& item : items_of(sandbox, self)) {
    if (!first_item) sandbox.append(out, separator);
    first_item = false;
    append_text(sandbox, out, follow(sandbox, item, path));
  }
  return sandbox.adopt(std::move(out));
}

/// Accounts for two copies of the arguments: the filter's own, and the one each call is given.
void charge_copies(Sandbox& sandbox, const Arguments& arguments) {
  sandbox.charge(arguments.positional.size() + arguments.named.size(), 4 * sizeof(Value));
}

/// Takes the argument `name` out of the keyword arguments; not given when it is not there.
Value take_named(Arguments& arguments, std::string_view name) {
  for (auto it = arguments.named.begin(); it != arguments.named.end(); ++it) {
    if (it->first != name) continue;
    const Value value = it->second;
    arguments.named.erase(it);
    return value;
  }
  return {};
}

/// Looks a filter or test up by the name that another filter was given.
const Builtin& named_builtin(Sandbox& sandbox, const Value& name, bool filter) {
  const Builtin* found = nullptr;
  if (name.is_string()) found = filter ? find_filter(name.text()) : find_test(name.text());
  if (found == nullptr) {
    const std::string text = to_text(sandbox, name);
    sandbox.fail(std::string("no ") + (filter ? "filter" : "test") + " named " + quote_start(text),
                 ErrorKind::kUnsupported);
  }
  return *found;
}

Value map(Sandbox& sandbox, const Value& self, const Arguments& given) {
  if (!is_true(self)) return sandbox.iterator({});
  charge_copies(sandbox, given);
  Arguments arguments = given;
  const Value attribute =
      arguments.positional.empty() ? take_named(arguments, "attribute") : Value();
  std::vector<Value> out;
  if (attribute.is_given()) {
    const Value otherwise = take_named(arguments, "default");
    if (!arguments.named.empty()) sandbox.fail("'map' got an unexpected keyword argument");
    const std::vector<Value> path = attribute_path(sandbox, attribute);
    for (const Value& item : items_of(sandbox, self)) {
      sandbox.charge(sizeof(Value));
      out.push_back(follow(sandbox, item, path, otherwise));
    }
    return sandbox.iterator(std::move(out));
  }
  if (arguments.positional.empty()) sandbox.fail("'map' needs the name of a filter");
  const Builtin& filter = named_builtin(sandbox, arguments.positional[0], true);
  arguments.positional.erase(arguments.positional.begin());
  for (const Value& item : items_of(sandbox, self)) {
    sandbox.step(int64_t(arguments.positional.size()));
    sandbox.charge(sizeof(Value));
    out.push_back(call_builtin(sandbox, filter, item, arguments));
  }
  return sandbox.iterator(std::move(out));
}

/// select, reject and, with an attribute, selectattr and rejectattr: items whose test is `wanted`.
Value keep_if(Sandbox& sandbox, const Value& self, const Arguments& given, bool by_attribute,
              bool wanted) {
  if (!is_true(self)) return sandbox.iterator({});
  charge_copies(sandbox, given);
  Arguments arguments = given;
  std::vector<Value> path;
  if (by_attribute) {
    if (arguments.positional.empty()) sandbox.fail("the name of an attribute is missing");
    path = attribute_path(sandbox, arguments.positional[0]);
    arguments.positional.erase(arguments.positional.begin());
  }
  const Builtin* test = nullptr;
  if (!arguments.positional.empty()) {
    test = &named_builtin(sandbox, arguments.positional[0], false);
    arguments.positional.erase(arguments.positional.begin());
  }
  std::vector<Value> out;
  for (const Value& item : items_of(sandbox, self)) {
    sandbox.step(1 + int64_t(arguments.positional.size()));
    Value subject = follow(sandbox, item, path);
    if (test != nullptr) subject = call_builtin(sandbox, *test, subject, arguments);
    if (is_true(subject) == wanted) {
      sandbox.charge(sizeof(Value));
      out.push_back(item);
    }
  }
  return sandbox.iterator(std::move(out));
}

template <bool kByAttribute, bool kWanted>
Value keep(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  return keep_if(sandbox, self, arguments, kByAttribute, kWanted);
}

constexpr Builtin kFilters[] = {
    {"count", "", count},
    {"d", "default_value? boolean?", use_default},
    {"default", "default_value? boolean?", use_default},
    {"dictsort", "case_sensitive? by? reverse?", dictsort},
    {"first", "", first},
    {"groupby", "attribute default? case_sensitive?", groupby},
    {"items", "", items},
    {"join", "d? attribute?", join},
    {"last", "", last},
    {"length", "", count},
    {"list", "", list},
    {"map", "*", map},
    {"max", "case_sensitive? attribute?", max},
    {"min", "case_sensitive? attribute?", min},
    {"reject", "*", keep<false, false>},
    {"rejectattr", "*", keep<true, false>},
    {"reverse", "", reverse},
    {"select", "*", keep<false, true>},
    {"selectattr", "*", keep<true, true>},
    {"sort", "reverse? case_sensitive? attribute?", sort},
    {"sum", "attribute? start?", sum},
    {"unique", "case_sensitive? attribute?", unique},
};

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kFilters;
}

}  // namespace tw::models::chat_template
