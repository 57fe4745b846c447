#include "tilewright/models/chat_template/sandbox.h"

#include <algorithm>
#include <utility>

#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

int depth_of(const Value& value) {
  switch (value.type()) {
    case Type::kList:
    case Type::kTuple:
    case Type::kIterator:
    case Type::kDictView:
      return value.sequence().depth;
    case Type::kDict:
      return value.dict().depth;
    default:
      return 0;
  }
}

}  // namespace

const Value* Scope::find(int32_t symbol) const {
  for (const auto& [name, value] : variables) {
    if (name == symbol) return &value;
  }
  return nullptr;
}

void Scope::set(int32_t symbol, const Value& value) {
  for (auto& [name, current] : variables) {
    if (name == symbol) {
      current = value;
      return;
    }
  }
  variables.emplace_back(symbol, value);
}

void Sandbox::fail(const std::string& message, ErrorKind kind) const {
  throw Error(kind, std::string(name_) + ", line " + std::to_string(line_) + ": " + message);
}

void Sandbox::fail_undefined(const Value& value) const {
  const Undefined& missing = value.undefined();
  if (!missing.hint.empty()) fail(std::string(missing.hint));
  const std::string name = quote_start(missing.name);
  if (missing.owner.empty()) fail(name + " is undefined");
  const std::string owner(missing.owner);
  fail(quote(owner == "NoneType" ? "None" : owner + " object") + " has no attribute " + name);
}

void Sandbox::fail_steps() const {
  fail("the template runs for too long");
}
void Sandbox::fail_bytes() const {
  fail("the template uses too much memory");
}

void Sandbox::fail_depth() const {
  fail("the template nests calls deeper than " + std::to_string(kMaxCallDepth) + " levels");
}

void Sandbox::check_depth(int depth) const {
  if (depth > kMaxValueDepth) {
    fail("values are nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
  }
}

void Sandbox::charge(size_t count, size_t bytes) {
  size_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) fail_bytes();
  charge(total);
}

Value Sandbox::string(std::string_view text) {
  charge(sizeof(String) + text.size());
  return Value::of(&strings_.emplace_back(std::string(text)));
}

Value Sandbox::adopt(std::string text) {
  charge(sizeof(String));
  return Value::of(&strings_.emplace_back(std::move(text)));
}

Value Sandbox::safe(std::string_view text) {
  charge(sizeof(String) + text.size());
  String& out = strings_.emplace_back(std::string(text));
  out.safe = true;
  return Value::of(&out);
}

Value Sandbox::string_like(const Value& like, std::string_view text) {
  return like.is_string() && like.string().safe ? safe(text) : string(text);
}

Value Sandbox::sequence(Type type, std::vector<Value> items, const char* view_name) {
  charge(items.size(), sizeof(Value));
  charge(sizeof(Sequence));
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  check_depth(depth + 1);
  Sequence& out = sequences_.emplace_back();
  out.items = std::move(items);
  out.depth = depth + 1;
  out.name = view_name;
  return Value::of(type, &out);
}

Value Sandbox::dict(Dict entries) {
  // An entry, and its node in the index.
  charge(entries.entries.size(), 2 * sizeof(Value) + 64);
  charge(sizeof(Dict));
  int depth = 0;
  for (const auto& [key, value] : entries.entries) {
    depth = std::max({depth, depth_of(key), depth_of(value)});
  }
  check_depth(depth + 1);
  entries.depth = depth + 1;
  return Value::of(&dicts_.emplace_back(std::move(entries)));
}

Value Sandbox::range(const Range& range) {
  charge(sizeof(Range));
  return Value::of(&ranges_.emplace_back(range));
}

Value Sandbox::function(const Builtin* builtin, const Value& self) {
  charge(sizeof(Function));
  return Value::of(&functions_.emplace_back(Function{builtin, self}));
}

Value Sandbox::macro(const MacroSyntax* syntax, const Scope* scope) {
  charge(sizeof(Macro));
  return Value::of(&macros_.emplace_back(Macro{syntax, scope}));
}

Value Sandbox::make_namespace() {
  charge(sizeof(Namespace));
  return Value::of(&namespaces_.emplace_back());
}

Value Sandbox::loop(std::span<const Value> items) {
  charge(sizeof(Loop));
  Loop& loop = loops_.emplace_back();
  loop.items = items;
  return Value::of(&loop);
}

Value Sandbox::undefined(std::string_view owner, std::string_view name, std::string_view hint) {
  charge(sizeof(Undefined));
  return Value::of(&undefineds_.emplace_back(Undefined{owner, name, hint}));
}

Scope& Sandbox::scope(const Scope* parent) {
  charge(sizeof(Scope));
  Scope& scope = scopes_.emplace_back();
  scope.parent = parent;
  return scope;
}

void Sandbox::require_hashable(const Value& key) {
  step();
  switch (key.type()) {
    case Type::kList:
    case Type::kDict:
    case Type::kDictView:
      fail("unhashable type: " + quote(type_name(key)));
    case Type::kString:
      scan(key.text().size());
      break;
    case Type::kTuple:
      for (const Value& item : key.sequence().items) require_hashable(item);
      break;
    default:
      break;
  }
}

}  // namespace tw::models::chat_template
