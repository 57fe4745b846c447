// The methods of list, tuple, dict and the loop variable, and how attributes are looked up.
#include <algorithm>

#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

Value get(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  sandbox.require_hashable(arguments[0]);
  if (const Value* found = self.dict().find(arguments[0])) return *found;
  return arguments[1].is_given() ? arguments[1] : Value::none();
}

Value keys(Sandbox& sandbox, const Value& self, const Arguments&) {
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().entries) out.push_back(key);
  return sandbox.sequence(Type::kDictView, std::move(out), "dict_keys");
}

Value values(Sandbox& sandbox, const Value& self, const Arguments&) {
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().entries) out.push_back(value);
  return sandbox.sequence(Type::kDictView, std::move(out), "dict_values");
}

Value items(Sandbox& sandbox, const Value& self, const Arguments&) {
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().entries) out.push_back(sandbox.pair(key, value));
  return sandbox.sequence(Type::kDictView, std::move(out), "dict_items");
}

/// Lists and dicts never change, so that a copy is as good as the original.
Value copy(Sandbox&, const Value& self, const Arguments&) {
  return self;
}

Value count(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  int64_t out = 0;
  for (const Value& item : self.sequence().items) {
    out += int64_t(are_equal(sandbox, item, arguments[0]));
  }
  return Value::integer(out);
}

Value index(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const Value part = get_slice(sandbox, self, arguments[1], arguments[2], {});
  const int64_t size = length(sandbox, self);
  int64_t start = arguments[1].is_given() ? to_index(sandbox, arguments[1], "'index'") : 0;
  if (start < 0) start = std::max<int64_t>(start + size, 0);
  for (const Value& item : part.sequence().items) {
    if (are_equal(sandbox, item, arguments[0])) return Value::integer(start);
    ++start;
  }
  sandbox.fail("the value is not in the " + std::string(type_name(self)));
}

Value cycle(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const auto& items_given = arguments.positional;
  if (items_given.empty() || !arguments.named.empty()) sandbox.fail("no items to cycle through");
  return items_given[size_t(self.loop().index) % items_given.size()];
}

Value changed(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  Loop& loop = self.loop();
  const auto& asked = arguments.positional;
  if (!arguments.named.empty()) sandbox.fail("'changed' takes no keyword arguments");
  bool same = loop.asked_before && asked.size() == loop.last_seen.size();
  for (size_t i = 0; same && i < asked.size(); ++i) {
    same = are_equal(sandbox, asked[i], loop.last_seen[i]);
  }
  sandbox.charge(asked.size(), sizeof(Value));
  loop.asked_before = true;
  loop.last_seen = asked;
  return Value::boolean(!same);
}

constexpr Builtin kDictMethods[] = {
    {"copy", "", copy}, {"get", "/key default?", get}, {"items", "", items},
    {"keys", "", keys}, {"values", "", values},
};

constexpr Builtin kListMethods[] = {
    {"copy", "", copy},
    {"count", "/value", count},
    {"index", "/value start? stop?", index},
};

constexpr Builtin kLoopMethods[] = {
    {"changed", "*", changed},
    {"cycle", "*", cycle},
};

/// What the immutable sandbox hides.
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};

/// Attributes that Python has and this subset has not.
constexpr std::string_view kMissingOfString[] = {
    "casefold",  "center",  "encode",     "expandtabs",   "format_map", "isascii",     "isdecimal",
    "isnumeric", "istitle", "ljust",      "isidentifier", "maketrans",  "isprintable", "partition",
    "rindex",    "rjust",   "rpartition", "swapcase",     "translate",  "zfill",
};
constexpr std::string_view kMissingOfMacro[] = {"arguments", "caller", "catch_kwargs",
                                                "catch_varargs", "explicit_caller"};
constexpr std::string_view kMissingOfDict[] = {"fromkeys"};
constexpr std::string_view kMissingOfRange[] = {"count", "index", "start", "step", "stop"};

template <class Table>
bool lists(const Table& table, std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

Value bind(Sandbox& sandbox, std::span<const Builtin> table, const Value& value,
           std::string_view name) {
  const auto it = std::find_if(table.begin(), table.end(),
                               [name](const Builtin& method) { return method.name == name; });
  return it == table.end() ? Value() : sandbox.function(&*it, value);
}

Value unsafe(Sandbox& sandbox) {
  return sandbox.undefined({}, {}, "the sandbox does not let templates change lists and dicts");
}

[[noreturn]] void fail_missing(Sandbox& sandbox, const Value& value, std::string_view name) {
  sandbox.fail(
      "the attribute " + quote(name) + " of " + quote(type_name(value)) + " is not supported",
      ErrorKind::kUnsupported);
}

Value loop_attribute(Sandbox& sandbox, const Value& value, std::string_view name) {
  const Loop& loop = value.loop();
  const auto size = int64_t(loop.items.size());
  const int64_t at = loop.index;
  if (name == "index") return Value::integer(at + 1);
  if (name == "index0") return Value::integer(at);
  if (name == "revindex") return Value::integer(size - at);
  if (name == "revindex0") return Value::integer(size - at - 1);
  if (name == "first") return Value::boolean(at == 0);
  if (name == "last") return Value::boolean(at + 1 == size);
  if (name == "length") return Value::integer(size);
  if (name == "depth") return Value::integer(loop.depth + 1);
  if (name == "depth0") return Value::integer(loop.depth);
  if (name == "previtem") {
    if (at == 0) return sandbox.undefined({}, {}, "there is no previous item");
    return loop.items[size_t(at - 1)];
  }
  if (name == "nextitem") {
    if (at + 1 == size) return sandbox.undefined({}, {}, "there is no next item");
    return loop.items[size_t(at + 1)];
  }
  return bind(sandbox, kLoopMethods, value, name);
}

Value namespace_attribute(Sandbox& sandbox, const Value& value, std::string_view name) {
  const auto& attributes = value.name_space().attributes;
  sandbox.step(int64_t(attributes.size() / 16));
  if (name.starts_with('_')) return {};
  for (const auto& [key, attribute] : attributes) {
    if (key == name) return attribute;
  }
  return {};
}

}  // namespace

Value find_method(Sandbox& sandbox, const Value& value, std::string_view name) {
  switch (value.type()) {
    case Type::kString:
      if (lists(kMissingOfString, name)) fail_missing(sandbox, value, name);
      return bind(sandbox, string_methods(), value, name);
    case Type::kDict:
      if (lists(kMissingOfDict, name)) fail_missing(sandbox, value, name);
      if (lists(kDictChanges, name)) return unsafe(sandbox);
      return bind(sandbox, kDictMethods, value, name);
    case Type::kList:
      if (lists(kListChanges, name)) return unsafe(sandbox);
      return bind(sandbox, kListMethods, value, name);
    case Type::kTuple:
      if (value.sequence().name == kGroupName) {
        if (name == "grouper") return value.sequence().items[0];
        if (name == "list") return value.sequence().items[1];
      }
      return name == "copy" ? Value() : bind(sandbox, kListMethods, value, name);
    case Type::kRange:
      if (lists(kMissingOfRange, name)) fail_missing(sandbox, value, name);
      return {};
    case Type::kLoop:
      return loop_attribute(sandbox, value, name);
    case Type::kNamespace:
      return namespace_attribute(sandbox, value, name);
    case Type::kMacro:
      if (name == "name") return sandbox.string(value.macro().syntax->name);
      if (lists(kMissingOfMacro, name)) fail_missing(sandbox, value, name);
      return {};
    default:
      return {};
  }
}

}  // namespace tw::models::chat_template
