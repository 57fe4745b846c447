// The part of the interpreter that evaluates expressions and calls.
#include <algorithm>
#include <utility>

#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/interpreter.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {

Value Interpreter::evaluate(const Expr& expr, const Scope& scope) {
  const Sandbox::Nesting nesting(sandbox_);
  sandbox_.step();
  const int32_t outer_line = sandbox_.line();
  sandbox_.set_line(expr.line);
  const Value value = evaluate_node(expr, scope);
  sandbox_.set_line(outer_line);
  return value;
}

Value Interpreter::evaluate_node(const Expr& expr, const Scope& scope) {
  const auto child = [&](size_t i) { return evaluate(*expr.children[i], scope); };
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.value;
    case ExprKind::kName:
      return look_up(expr.symbol, scope);
    case ExprKind::kList:
      return sandbox_.list(evaluate_all(expr, scope));
    case ExprKind::kTuple:
      return sandbox_.tuple(evaluate_all(expr, scope));
    case ExprKind::kDict:
      return evaluate_dict(expr, scope);
    case ExprKind::kAttribute:
      return get_attribute(sandbox_, child(0), expr.name);
    case ExprKind::kItem: {
      const Value owner = child(0);
      return get_item(sandbox_, owner, child(1));
    }
    case ExprKind::kSlice: {
      const Value owner = child(0), start = evaluate_or_missing(expr.children[1], scope),
                  stop = evaluate_or_missing(expr.children[2], scope);
      return get_slice(sandbox_, owner, start, stop, evaluate_or_missing(expr.children[3], scope));
    }
    case ExprKind::kCall:
      return evaluate_call(expr, scope);
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return evaluate_builtin(expr, child(0), scope);
    case ExprKind::kNot:
      return Value::boolean(!is_true(child(0)));
    case ExprKind::kUnary:
      return expr.operators[0] == Operator::kSubtract ? negate(sandbox_, child(0))
                                                      : positive(sandbox_, child(0));
    case ExprKind::kBinary: {
      const Value left = child(0);
      return apply(sandbox_, expr.operators[0], left, child(1));
    }
    case ExprKind::kAnd: {
      const Value left = child(0);
      return is_true(left) ? child(1) : left;
    }
    case ExprKind::kOr: {
      const Value left = child(0);
      return is_true(left) ? left : child(1);
    }
    case ExprKind::kCompare:
      return evaluate_compare(expr, scope);
    case ExprKind::kConcat:
      return evaluate_concat(expr, scope);
    case ExprKind::kConditional:
      return evaluate_conditional(expr, scope);
  }
  return {};
}

Value Interpreter::evaluate_or_missing(const ExprPtr& expr, const Scope& scope) {
  return expr == nullptr ? Value() : evaluate(*expr, scope);
}

std::vector<Value> Interpreter::evaluate_all(const Expr& expr, const Scope& scope) {
  std::vector<Value> values;
  for (const ExprPtr& child : expr.children) values.push_back(evaluate(*child, scope));
  return values;
}

Value Interpreter::evaluate_dict(const Expr& expr, const Scope& scope) {
  Dict dict;
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    const Value key = evaluate(*expr.children[i], scope);
    sandbox_.require_hashable(key);
    dict.set(key, evaluate(*expr.children[i + 1], scope));
  }
  return sandbox_.dict(std::move(dict));
}

Value Interpreter::evaluate_compare(const Expr& expr, const Scope& scope) {
  Value left = evaluate(*expr.children[0], scope);
  Value result;
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    const Value right = evaluate(*expr.children[i + 1], scope);
    result = apply(sandbox_, expr.operators[i], left, right);
    if (!is_true(result)) break;
    left = right;
  }
  return result;
}

Value Interpreter::evaluate_concat(const Expr& expr, const Scope& scope) {
  std::string out;
  for (const Value& value : evaluate_all(expr, scope)) append_text(sandbox_, out, value);
  return sandbox_.adopt(std::move(out));
}

Value Interpreter::evaluate_conditional(const Expr& expr, const Scope& scope) {
  const bool test = is_true(evaluate(*expr.children[0], scope));
  const ExprPtr& chosen = expr.children[test ? 1 : 2];
  if (chosen != nullptr) return evaluate(*chosen, scope);
  return sandbox_.undefined({}, {}, "the inline if has no else, and its condition is false");
}

Value Interpreter::look_up(int32_t symbol, const Scope& scope) {
  for (const Scope* s = &scope; s != nullptr; s = s->parent) {
    sandbox_.step(int64_t(s->variables.size() / 16));
    if (const Value* found = s->find(symbol)) return *found;
  }
  const std::string& name = syntax_.symbols.name(symbol);
  if (const Builtin* global = find_global(name)) return sandbox_.function(global, Value());
  return sandbox_.undefined({}, name);
}

void Interpreter::spread_named(Arguments& arguments, const Value& mapping) {
  if (!mapping.is(Type::kDict)) sandbox_.fail("the argument after ** is no dict");
  for (const auto& [key, value] : mapping.dict().entries) {
    if (!key.is_string()) sandbox_.fail("keywords must be strings");
    sandbox_.step(1 + int64_t(arguments.named.size() / 16));
    for (const auto& [other, unused] : arguments.named) {
      if (other == key.text()) sandbox_.fail("keyword argument repeated: " + quote(other));
    }
    arguments.named.emplace_back(key.text(), value);
  }
}

Arguments Interpreter::evaluate_arguments(const Expr& call, const Scope& scope) {
  Arguments arguments;
  const size_t spreads = size_t(call.spread_positional) + size_t(call.spread_named);
  const size_t end = call.children.size() - spreads, named = end - call.names.size();
  for (size_t i = 1; i < named; ++i) {
    arguments.positional.push_back(evaluate(*call.children[i], scope));
  }
  for (size_t i = named; i < end; ++i) {
    arguments.named.emplace_back(call.names[i - named], evaluate(*call.children[i], scope));
  }
  if (call.spread_positional) {
    const auto more = items_of(sandbox_, evaluate(*call.children[end], scope));
    sandbox_.charge(more.size(), sizeof(Value));
    arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
  }
  if (call.spread_named) spread_named(arguments, evaluate(*call.children.back(), scope));
  return arguments;
}

Value Interpreter::evaluate_builtin(const Expr& expr, const Value& input, const Scope& scope) {
  if (expr.builtin == nullptr) {
    const char* what = expr.kind == ExprKind::kFilter ? "no filter named " : "no test named ";
    sandbox_.fail(what + quote_start(expr.name), ErrorKind::kUnsupported);
  }
  Arguments arguments = evaluate_arguments(expr, scope);
  Value result = call_builtin(sandbox_, *expr.builtin, input, std::move(arguments));
  return result;
}

Value Interpreter::evaluate_block_filter(const Expr& expr, const Value& input, const Scope& scope) {
  const Sandbox::Nesting nesting(sandbox_);
  const ExprPtr& inner = expr.children[0];
  return evaluate_builtin(
      expr, inner == nullptr ? input : evaluate_block_filter(*inner, input, scope), scope);
}

Value Interpreter::call_loop(const Loop& loop, const Arguments& arguments) {
  if (loop.statement == nullptr) sandbox_.fail("the loop is not recursive");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    sandbox_.fail("'loop' takes one argument");
  }
  const Sandbox::Nesting nesting(sandbox_);
  std::string out;
  run_loop(*loop.statement, arguments.positional[0], *loop.scope, out, loop.depth + 1);
  return sandbox_.adopt(std::move(out));
}

Value Interpreter::evaluate_call(const Expr& expr, const Scope& scope, const Value& caller) {
  const Value callee = evaluate(*expr.children[0], scope);
  Arguments arguments = evaluate_arguments(expr, scope);
  if (caller.is_given()) {
    for (const auto& [name, unused] : arguments.named) {
      if (name == "caller") sandbox_.fail("keyword argument repeated: 'caller'");
    }
    arguments.named.emplace_back("caller", caller);
  }
  switch (callee.type()) {
    case Type::kFunction:
      return call_builtin(sandbox_, *callee.function().builtin, callee.function().self,
                          std::move(arguments));
    case Type::kMacro:
      return call_macro(callee.macro(), std::move(arguments));
    case Type::kLoop:
      return call_loop(callee.loop(), arguments);
    case Type::kUndefined:
      sandbox_.fail_undefined(callee);
    default:
      sandbox_.fail(quote(type_name(callee)) + " is not callable");
  }
}

void Interpreter::bind_caller(Arguments& arguments, Scope& scope) {
  Value caller = sandbox_.undefined({}, {}, "no caller defined");
  const auto it = std::find_if(arguments.named.begin(), arguments.named.end(),
                               [](const auto& a) { return a.first == "caller"; });
  if (it != arguments.named.end()) {
    if (!it->second.is_none()) caller = it->second;
    arguments.named.erase(it);
  }
  set_variable(scope, kCallerSymbol, caller);
}

void Interpreter::bind_macro(const Macro& macro, Arguments& arguments, Scope& scope) {
  const MacroSyntax& syntax = *macro.syntax;
  const size_t count = syntax.parameters.size();
  auto& positional = arguments.positional;
  std::vector<Value> rest;
  if (positional.size() > count) {
    if (!syntax.takes_varargs) {
      sandbox_.fail("the macro " + quote(syntax.name) + " takes at most " + std::to_string(count) +
                    " argument(s)");
    }
    rest.assign(positional.begin() + int64_t(count), positional.end());
  }
  const size_t given = std::min(positional.size(), count);
  positional.resize(count);
  for (size_t i = given; i < count; ++i) {
    const auto it =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [&](const auto& a) { return a.first == syntax.parameters[i].name; });
    if (it == arguments.named.end()) continue;
    positional[i] = it->second;
    arguments.named.erase(it);
  }
  if (syntax.takes_caller) bind_caller(arguments, scope);
  if (!arguments.named.empty() && !syntax.takes_kwargs) {
    sandbox_.fail("the macro " + quote(syntax.name) + " takes no keyword argument " +
                  quote_start(arguments.named[0].first));
  }
  // A default may mention the parameters before it.
  for (size_t i = 0; i < count; ++i) {
    const MacroSyntax::Parameter& parameter = syntax.parameters[i];
    if (positional[i].is_given()) {
      set_variable(scope, parameter.symbol, positional[i]);
    } else if (parameter.default_value != nullptr) {
      set_variable(scope, parameter.symbol, evaluate(*parameter.default_value, scope));
    } else {
      set_variable(scope, parameter.symbol,
                   sandbox_.undefined({}, parameter.name, "a parameter was not provided"));
    }
  }
  if (syntax.takes_varargs) set_variable(scope, kVarargsSymbol, sandbox_.tuple(std::move(rest)));
  if (syntax.takes_kwargs) {
    Dict more;
    for (const auto& [name, value] : arguments.named) more.set(sandbox_.string(name), value);
    set_variable(scope, kKwargsSymbol, sandbox_.dict(std::move(more)));
  }
}

Value Interpreter::call_macro(const Macro& macro, Arguments arguments) {
  const Sandbox::Nesting nesting(sandbox_);
  Scope& scope = sandbox_.scope(macro.scope);
  bind_macro(macro, arguments, scope);
  std::string out;
  execute(macro.syntax->body, scope, out);
  return sandbox_.adopt(std::move(out));
}

}  // namespace tw::models::chat_template
