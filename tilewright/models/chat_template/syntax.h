// The syntax tree of a template. Immutable after parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tilewright/models/chat_template/value.h"

namespace tw::models::chat_template {

enum class ExprKind : uint8_t {
  kConstant,     // value
  kName,         // symbol
  kList,         // children
  kTuple,        // children
  kDict,         // children: key, value, key, value, ...
  kAttribute,    // children[0].name
  kItem,         // children[0][children[1]]
  kSlice,        // children[0][children[1]:children[2]:children[3]], the last three may be null
  kCall,         // children[0](arguments)
  kFilter,       // children[0] | name(arguments); children[0] is null in {% filter %}
  kTest,         // children[0] is name(arguments)
  kNot,          // children[0]
  kUnary,        // operators[0] children[0]
  kBinary,       // children[0] operators[0] children[1]
  kAnd,          // children[0], children[1]
  kOr,           // children[0], children[1]
  kCompare,      // children[0] operators[0] children[1] operators[1] children[2] ...
  kConcat,       // children joined as strings
  kConditional,  // children[1] if children[0] else children[2], the last may be null
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int32_t line = 1;
  int32_t depth = 1;   // nodes on the longest path below
  int32_t symbol = 0;  // of a kName
  std::vector<ExprPtr> children;
  /// Of a call, filter or test: what follows children[0]. The last names.size() are keyword
  /// arguments; after these come *args and **kwargs where the flags say so.
  std::vector<std::string> names;
  bool spread_positional = false;
  bool spread_named = false;
  std::vector<Operator> operators;
  std::string name;                  // of an attribute, filter or test
  const Builtin* builtin = nullptr;  // of a filter or test; null when there is none
  Value value;                       // of a constant
  std::unique_ptr<String> literal;   // keeps the text of a string constant
};

enum class StmtKind : uint8_t {
  kText,      // text
  kOutput,    // expr
  kIf,        // branches, else_body
  kFor,       // for target in expr if test: body, else_body; recursive: the body may call loop
  kSet,       // target = expr
  kSetBlock,  // target = body through the filter in expr, which may be null
  kMacro,     // macro
  kCall,      // the call in expr, with macro as its caller
  kFilter,    // body through the filter in expr
  kWith,      // targets = values: body
  kScope,     // body with its own variables: {% generation %}
  kBreak,
  kContinue,
};

/// What an assignment writes to: a variable, an attribute of a namespace, or several of them.
struct Target {
  int32_t symbol = 0;
  std::string attribute;  // of the namespace `symbol`, when not empty
  bool is_tuple = false;
  std::vector<Target> elements;  // of a tuple
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct MacroSyntax {
  struct Parameter {
    std::string name;
    int32_t symbol = 0;
    ExprPtr default_value;  // may be null
  };
  std::string name;
  std::vector<Parameter> parameters;
  bool takes_varargs = false;  // whether the body mentions varargs
  bool takes_kwargs = false;
  bool takes_caller = false;
  Body body;
};

struct Stmt {
  struct Branch {
    ExprPtr test;
    Body body;
  };

  StmtKind kind = StmtKind::kText;
  int32_t line = 1;
  std::string text;
  ExprPtr expr;
  ExprPtr test;
  Target target;
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
  std::vector<Branch> branches;
  Body body;
  Body else_body;
  int32_t symbol = 0;  // of a macro's name
  bool recursive = false;
  std::unique_ptr<MacroSyntax> macro;
};

/// The names of variables, numbered.
class Symbols {
 public:
  int32_t intern(std::string_view name) {
    const auto [it, added] = numbers_.try_emplace(std::string(name), int32_t(numbers_.size()));
    if (added) names_.push_back(it->first);
    return it->second;
  }
  const std::string& name(int32_t symbol) const { return names_[size_t(symbol)]; }
  int32_t count() const { return int32_t(names_.size()); }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<std::string> names_;
};

/// Symbols that exist in every template.
inline constexpr int32_t kLoopSymbol = 0, kVarargsSymbol = 1, kKwargsSymbol = 2, kCallerSymbol = 3;

struct Syntax {
  Symbols symbols;
  Body body;
};

/// Parses a template. Throws Error as fail_syntax (lexer.h) does.
Syntax parse(std::string_view source, std::string_view template_name);

}  // namespace tw::models::chat_template
