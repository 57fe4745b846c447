#include "tilewright/models/chat_template/interpreter.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

Value convert(Sandbox& sandbox, const nlohmann::ordered_json& json, int depth);

Value convert_string(Sandbox& sandbox, const std::string& text) {
  const size_t bad = find_invalid_utf8(text);
  if (bad != std::string::npos) {
    sandbox.fail("a variable is not valid UTF-8 at byte " + std::to_string(bad));
  }
  return sandbox.string(text);
}

Value convert_unsigned(Sandbox& sandbox, uint64_t number) {
  if (number > uint64_t{INT64_MAX}) sandbox.fail("a variable is an integer beyond 64 bits");
  return Value::integer(int64_t(number));
}

Value convert_object(Sandbox& sandbox, const nlohmann::ordered_json& json, int depth) {
  Dict dict;
  for (const auto& [key, value] : json.items()) {
    dict.set(convert_string(sandbox, key), convert(sandbox, value, depth + 1));
  }
  return sandbox.dict(std::move(dict));
}

Value convert_array(Sandbox& sandbox, const nlohmann::ordered_json& json, int depth) {
  std::vector<Value> items;
  for (const auto& item : json) items.push_back(convert(sandbox, item, depth + 1));
  return sandbox.list(std::move(items));
}

Value convert(Sandbox& sandbox, const nlohmann::ordered_json& json, int depth) {
  if (depth > kMaxValueDepth) {
    sandbox.fail("a variable is nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
  }
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return Value::none();
    case nlohmann::json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      return convert_unsigned(sandbox, json.get<uint64_t>());
    case nlohmann::json::value_t::number_float:
      return Value::real(json.get<double>());
    case nlohmann::json::value_t::string:
      return convert_string(sandbox, json.get_ref<const std::string&>());
    case nlohmann::json::value_t::array:
      return convert_array(sandbox, json, depth);
    case nlohmann::json::value_t::object:
      return convert_object(sandbox, json, depth);
    default:
      sandbox.fail("a variable is binary JSON");
  }
}

}  // namespace

Value from_json(Sandbox& sandbox, const nlohmann::ordered_json& json) {
  return convert(sandbox, json, 0);
}

std::string Interpreter::run(const nlohmann::ordered_json& variables) {
  if (!variables.is_object()) sandbox_.fail("the variables are not a JSON object");
  Scope& given = sandbox_.scope(nullptr);
  // Only what the template mentions is converted.
  for (int32_t symbol = 0; symbol < syntax_.symbols.count(); ++symbol) {
    const auto it = variables.find(syntax_.symbols.name(symbol));
    if (it != variables.end()) set_variable(given, symbol, from_json(sandbox_, *it));
  }
  std::string out;
  execute(syntax_.body, sandbox_.scope(&given), out);
  return out;
}

Interpreter::Flow Interpreter::execute(const Body& body, Scope& scope, std::string& out) {
  const Sandbox::Nesting nesting(sandbox_);
  for (const StmtPtr& stmt : body) {
    const Flow flow = execute(*stmt, scope, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt, Scope& scope, std::string& out) {
  sandbox_.step();
  sandbox_.set_line(stmt.line);
  switch (stmt.kind) {
    case StmtKind::kText:
      sandbox_.append(out, stmt.text);
      return Flow::kNext;
    case StmtKind::kOutput:
      append_text(sandbox_, out, evaluate(*stmt.expr, scope));
      return Flow::kNext;
    case StmtKind::kIf:
      return execute_if(stmt, scope, out);
    case StmtKind::kFor:
      return execute_for(stmt, scope, out);
    case StmtKind::kSet:
      assign(stmt.target, evaluate(*stmt.expr, scope), scope, scope);
      return Flow::kNext;
    case StmtKind::kSetBlock:
      return execute_set_block(stmt, scope);
    case StmtKind::kMacro:
      set_variable(scope, stmt.symbol, sandbox_.macro(stmt.macro.get(), &scope));
      return Flow::kNext;
    case StmtKind::kCall:
      append_text(sandbox_, out,
                  evaluate_call(*stmt.expr, scope, sandbox_.macro(stmt.macro.get(), &scope)));
      return Flow::kNext;
    case StmtKind::kFilter:
      return execute_filter(stmt, scope, out);
    case StmtKind::kWith:
      return execute_with(stmt, scope, out);
    case StmtKind::kScope:
      return execute(stmt.body, sandbox_.scope(&scope), out);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt, Scope& scope, std::string& out) {
  for (const Stmt::Branch& branch : stmt.branches) {
    if (is_true(evaluate(*branch.test, scope))) return execute(branch.body, scope, out);
  }
  return execute(stmt.else_body, scope, out);
}

std::vector<Value> Interpreter::filter_items(const Stmt& stmt, const Scope& scope,
                                             std::span<const Value> items) {
  std::vector<Value> kept;
  for (const Value& item : items) {
    Scope& names = sandbox_.scope(&scope);
    assign(stmt.target, item, names, names);
    if (is_true(evaluate(*stmt.test, names))) {
      sandbox_.charge(sizeof(Value));
      kept.push_back(item);
    }
  }
  return kept;
}

Interpreter::Flow Interpreter::execute_for(const Stmt& stmt, Scope& scope, std::string& out) {
  return run_loop(stmt, evaluate(*stmt.expr, scope), scope, out, 0);
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt, const Value& iterable, Scope& scope,
                                        std::string& out, int depth) {
  std::span<const Value> items = items_of(sandbox_, iterable);
  if (stmt.test != nullptr) {
    items = sandbox_.list(filter_items(stmt, scope, items)).sequence().items;
  }
  const Value loop = sandbox_.loop(items);
  loop.loop().depth = depth;
  if (stmt.recursive) {
    loop.loop().statement = &stmt;
    loop.loop().scope = &scope;
  }
  bool completed = false;  // whether an iteration got to its end
  for (size_t i = 0; i < items.size(); ++i) {
    sandbox_.step();
    loop.loop().index = int64_t(i);
    Scope& names = sandbox_.scope(&scope);
    set_variable(names, kLoopSymbol, loop);
    assign(stmt.target, items[i], names, names);
    const Flow flow = execute(stmt.body, names, out);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  // As in Jinja, a loop left by break or continue every time counts as one without iterations.
  if (completed || stmt.else_body.empty()) return Flow::kNext;
  return execute(stmt.else_body, sandbox_.scope(&scope), out);
}

Interpreter::Flow Interpreter::execute_set_block(const Stmt& stmt, Scope& scope) {
  std::string text;
  Scope& names = sandbox_.scope(&scope);
  const Flow flow = execute(stmt.body, names, text);
  if (flow != Flow::kNext) return flow;
  Value value = sandbox_.adopt(std::move(text));
  if (stmt.expr != nullptr) value = evaluate_block_filter(*stmt.expr, value, names);
  assign(stmt.target, value, scope, scope);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_filter(const Stmt& stmt, Scope& scope, std::string& out) {
  std::string text;
  Scope& names = sandbox_.scope(&scope);
  const Flow flow = execute(stmt.body, names, text);
  if (flow != Flow::kNext) return flow;
  append_text(sandbox_, out,
              evaluate_block_filter(*stmt.expr, sandbox_.adopt(std::move(text)), names));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_with(const Stmt& stmt, Scope& scope, std::string& out) {
  Scope& names = sandbox_.scope(&scope);
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    // The values are looked up outside: they do not see each other.
    assign(stmt.targets[i], evaluate(*stmt.values[i], scope), names, scope);
  }
  return execute(stmt.body, names, out);
}

void Interpreter::set_variable(Scope& scope, int32_t symbol, const Value& value) {
  sandbox_.step(int64_t(scope.variables.size() / 16));
  sandbox_.charge(sizeof(scope.variables[0]));
  scope.set(symbol, value);
}

void Interpreter::assign(const Target& target, const Value& value, Scope& scope,
                         const Scope& names) {
  if (!target.attribute.empty()) return assign_attribute(target, value, names);
  if (!target.is_tuple) return set_variable(scope, target.symbol, value);
  const auto items = items_of(sandbox_, value);
  if (items.size() != target.elements.size()) {
    sandbox_.fail("can't unpack " + std::to_string(items.size()) + " values into " +
                  std::to_string(target.elements.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) assign(target.elements[i], items[i], scope, names);
}

void Interpreter::assign_attribute(const Target& target, const Value& value, const Scope& names) {
  const Value owner = look_up(target.symbol, names);
  if (!owner.is(Type::kNamespace)) {
    sandbox_.fail("can't assign to an attribute of " + quote(type_name(owner)));
  }
  if (target.attribute.starts_with('_')) sandbox_.fail(kNamespaceUnderscore);
  auto& attributes = owner.name_space().attributes;
  sandbox_.step(int64_t(attributes.size() / 16));
  for (auto& [name, current] : attributes) {
    if (name == target.attribute) {
      current = value;
      return;
    }
  }
  sandbox_.charge(sizeof(attributes[0]));
  attributes.emplace_back(target.attribute, value);
}

}  // namespace tw::models::chat_template
