// The part of the parser that reads calls, filters and tests.
#include <utility>

#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/parser.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {

ExprPtr Parser::parse_call(ExprPtr callee) {
  ExprPtr call = make(ExprKind::kCall);
  add_child(*call, std::move(callee));
  parse_arguments(*call);
  return call;
}

void Parser::parse_argument(Expr& call, ExprPtr& star, ExprPtr& double_star) {
  const auto require = [this](bool condition) {
    if (!condition) fail("invalid syntax for function call expression");
  };
  if (skip_operator("*")) {
    require(star == nullptr && double_star == nullptr);
    star = parse_expression();
  } else if (skip_operator("**")) {
    require(double_star == nullptr);
    double_star = parse_expression();
  } else if (current().is(TokenType::kName) && next_token().is_operator("=")) {
    require(double_star == nullptr);
    std::string name = take().text;
    take();
    for (const std::string& other : call.names) {
      if (other == name) fail("keyword argument repeated: " + quote(name));
    }
    add_child(call, parse_expression());
    call.names.push_back(std::move(name));
  } else {
    require(star == nullptr && double_star == nullptr && call.names.empty());
    add_child(call, parse_expression());
  }
}

void Parser::parse_arguments(Expr& call) {
  expect_operator("(");
  ExprPtr star, double_star;
  bool first = true;
  while (!current().is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (current().is_operator(")")) break;
    }
    first = false;
    parse_argument(call, star, double_star);
    if (call.children.size() > kMaxArguments) fail("too many arguments");
  }
  take();
  call.spread_positional = star != nullptr;
  call.spread_named = double_star != nullptr;
  if (star != nullptr) add_child(call, std::move(star));
  if (double_star != nullptr) add_child(call, std::move(double_star));
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip_operator(".")) name += "." + expect_name();
  return name;
}

ExprPtr Parser::parse_filter(ExprPtr input) {
  ExprPtr filter = make(ExprKind::kFilter);
  add_child(*filter, std::move(input));
  filter->name = parse_dotted_name();
  filter->builtin = find_filter(filter->name);
  if (filter->builtin == nullptr && soft_ == 0) {
    fail("no filter named " + quote_start(filter->name), ErrorKind::kUnsupported);
  }
  if (current().is_operator("(")) parse_arguments(*filter);
  return filter;
}

ExprPtr Parser::parse_test(ExprPtr input) {
  const bool negated = skip_name("not");
  ExprPtr test = make(ExprKind::kTest);
  add_child(*test, std::move(input));
  test->name = parse_dotted_name();
  test->builtin = find_test(test->name);
  if (test->builtin == nullptr && soft_ == 0) {
    fail("no test named " + quote_start(test->name), ErrorKind::kUnsupported);
  }
  if (current().is_operator("(")) {
    parse_arguments(*test);
  } else if (at_test_argument()) {
    if (current().is_name("is")) fail("tests can not be chained with 'is'");
    add_child(*test, parse_postfix(parse_primary()));
  }
  return negated ? make(ExprKind::kNot, std::move(test)) : std::move(test);
}

bool Parser::at_test_argument() const {
  switch (current().type) {
    case TokenType::kName:
      return !at_any_name({"else", "or", "and"});
    case TokenType::kString:
    case TokenType::kInteger:
    case TokenType::kFloat:
      return true;
    default:
      return current().is_operator("[") || current().is_operator("{");
  }
}

}  // namespace tw::models::chat_template
