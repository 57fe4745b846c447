// Walks the syntax tree of a template.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tilewright/models/chat_template/sandbox.h"
#include "tilewright/models/chat_template/syntax.h"
#include "tilewright/models/chat_template/value.h"

namespace tw::models::chat_template {

/// A JSON value as a value of the template. Throws when it is nested too deeply, holds an integer
/// beyond 64 bits or text that is not UTF-8.
Value from_json(Sandbox& sandbox, const nlohmann::ordered_json& json);

class Interpreter {
 public:
  Interpreter(const Syntax& syntax, Sandbox& sandbox) : syntax_(syntax), sandbox_(sandbox) {}

  /// The template's output for `variables`, a JSON object.
  std::string run(const nlohmann::ordered_json& variables);

 private:
  /// How a statement ended.
  enum class Flow { kNext, kBreak, kContinue };

  // Statements: interpreter.cc.
  Flow execute(const Body& body, Scope& scope, std::string& out);
  Flow execute(const Stmt& stmt, Scope& scope, std::string& out);
  Flow execute_if(const Stmt& stmt, Scope& scope, std::string& out);
  Flow execute_for(const Stmt& stmt, Scope& scope, std::string& out);
  Flow run_loop(const Stmt& stmt, const Value& iterable, Scope& scope, std::string& out, int depth);
  Flow execute_set_block(const Stmt& stmt, Scope& scope);
  Flow execute_filter(const Stmt& stmt, Scope& scope, std::string& out);
  Flow execute_with(const Stmt& stmt, Scope& scope, std::string& out);
  std::vector<Value> filter_items(const Stmt& stmt, const Scope& scope,
                                  std::span<const Value> items);
  void assign(const Target& target, const Value& value, Scope& scope, const Scope& names);
  void assign_attribute(const Target& target, const Value& value, const Scope& names);
  void set_variable(Scope& scope, int32_t symbol, const Value& value);

  // Expressions: evaluator.cc.
  Value evaluate(const Expr& expr, const Scope& scope);
  Value evaluate_node(const Expr& expr, const Scope& scope);
  Value evaluate_or_missing(const ExprPtr& expr, const Scope& scope);
  std::vector<Value> evaluate_all(const Expr& expr, const Scope& scope);
  Value evaluate_dict(const Expr& expr, const Scope& scope);
  Value evaluate_compare(const Expr& expr, const Scope& scope);
  Value evaluate_concat(const Expr& expr, const Scope& scope);
  Value evaluate_conditional(const Expr& expr, const Scope& scope);
  /// `caller`, where it is given, is the body of a call block.
  Value evaluate_call(const Expr& expr, const Scope& scope, const Value& caller = {});
  Value call_loop(const Loop& loop, const Arguments& arguments);
  /// A filter or test on `input`.
  Value evaluate_builtin(const Expr& expr, const Value& input, const Scope& scope);
  /// The filter chain of a block, whose innermost filter has `input` instead of an expression.
  Value evaluate_block_filter(const Expr& expr, const Value& input, const Scope& scope);
  Arguments evaluate_arguments(const Expr& call, const Scope& scope);
  void spread_named(Arguments& arguments, const Value& mapping);
  Value look_up(int32_t symbol, const Scope& scope);
  Value call_macro(const Macro& macro, Arguments arguments);
  void bind_caller(Arguments& arguments, Scope& scope);
  void bind_macro(const Macro& macro, Arguments& arguments, Scope& scope);

  const Syntax& syntax_;
  Sandbox& sandbox_;
};

}  // namespace tw::models::chat_template
