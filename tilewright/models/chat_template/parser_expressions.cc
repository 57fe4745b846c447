// The part of the parser that reads expressions; loosest binding first.
#include <algorithm>
#include <optional>
#include <utility>

#include "tilewright/models/chat_template/parser.h"

namespace tw::models::chat_template {
namespace {

std::optional<Operator> comparison(const Token& token) {
  static constexpr std::pair<std::string_view, Operator> kTable[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual},
  };
  for (const auto& [text, op] : kTable) {
    if (token.is_operator(text)) return op;
  }
  return std::nullopt;
}

std::optional<Operator> product_operator(const Token& token) {
  if (token.is_operator("*")) return Operator::kMultiply;
  if (token.is_operator("/")) return Operator::kDivide;
  if (token.is_operator("//")) return Operator::kFloorDivide;
  if (token.is_operator("%")) return Operator::kModulo;
  return std::nullopt;
}

}  // namespace

ExprPtr Parser::make(ExprKind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = current().line;
  return expr;
}

ExprPtr Parser::make(ExprKind kind, ExprPtr child) {
  ExprPtr expr = make(kind);
  if (child != nullptr) expr->line = child->line;
  add_child(*expr, std::move(child));
  return expr;
}

void Parser::add_child(Expr& parent, ExprPtr child) const {
  if (child != nullptr) parent.depth = std::max(parent.depth, child->depth + 1);
  parent.children.push_back(std::move(child));
  // Chains such as a + b + c + ... nest without recursion in the parser.
  if (parent.depth > kMaxSyntaxDepth) {
    fail("expression of more than " + std::to_string(kMaxSyntaxDepth) + " levels");
  }
}

ExprPtr Parser::parse_expression(bool with_conditional) {
  return with_conditional ? parse_conditional() : parse_or();
}

ExprPtr Parser::parse_conditional() {
  const Nesting nesting(*this);
  const size_t start = pos_;
  ExprPtr expr = parse_or();
  while (skip_name("if")) {
    ExprPtr conditional = make(ExprKind::kConditional);
    conditional->line = tokens_[start].line;
    ++soft_;
    add_child(*conditional, parse_or());
    add_child(*conditional, std::move(expr));
    add_child(*conditional, skip_name("else") ? parse_conditional() : nullptr);
    --soft_;
    expr = std::move(conditional);
  }
  return expr;
}

ExprPtr Parser::parse_or() {
  ExprPtr expr = parse_and();
  while (skip_name("or")) {
    expr = make(ExprKind::kOr, std::move(expr));
    add_child(*expr, parse_and());
  }
  return expr;
}

ExprPtr Parser::parse_and() {
  ExprPtr expr = parse_not();
  while (skip_name("and")) {
    expr = make(ExprKind::kAnd, std::move(expr));
    add_child(*expr, parse_not());
  }
  return expr;
}

ExprPtr Parser::parse_not() {
  const Nesting nesting(*this);
  if (skip_name("not")) return make(ExprKind::kNot, parse_not());
  return parse_compare();
}

std::optional<Operator> Parser::take_comparison() {
  std::optional<Operator> op = comparison(current());
  if (current().is_name("in")) op = Operator::kIn;
  if (current().is_name("not") && next_token().is_name("in")) {
    take();
    op = Operator::kNotIn;
  }
  if (op.has_value()) take();
  return op;
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr chain;
  while (const auto op = take_comparison()) {
    if (chain == nullptr) chain = make(ExprKind::kCompare, std::move(first));
    chain->operators.push_back(*op);
    add_child(*chain, parse_sum());
  }
  return chain != nullptr ? std::move(chain) : std::move(first);
}

ExprPtr Parser::parse_sum() {
  ExprPtr expr = parse_concat();
  while (current().is_operator("+") || current().is_operator("-")) {
    const Operator op = take().text == "+" ? Operator::kAdd : Operator::kSubtract;
    expr = make(ExprKind::kBinary, std::move(expr));
    expr->operators.push_back(op);
    add_child(*expr, parse_concat());
  }
  return expr;
}

ExprPtr Parser::parse_concat() {
  ExprPtr first = parse_product();
  if (!current().is_operator("~")) return first;
  ExprPtr expr = make(ExprKind::kConcat, std::move(first));
  while (skip_operator("~")) add_child(*expr, parse_product());
  return expr;
}

ExprPtr Parser::parse_product() {
  ExprPtr expr = parse_power();
  while (const auto op = product_operator(current())) {
    take();
    expr = make(ExprKind::kBinary, std::move(expr));
    expr->operators.push_back(*op);
    add_child(*expr, parse_power());
  }
  return expr;
}

ExprPtr Parser::parse_power() {
  ExprPtr expr = parse_unary();
  while (skip_operator("**")) {  // binds to the left, unlike Python's
    expr = make(ExprKind::kBinary, std::move(expr));
    expr->operators.push_back(Operator::kPower);
    add_child(*expr, parse_unary());
  }
  return expr;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const Nesting nesting(*this);
  ExprPtr expr;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Operator op = take().text == "-" ? Operator::kSubtract : Operator::kAdd;
    expr = make(ExprKind::kUnary, parse_unary(false));
    expr->operators.push_back(op);
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filter ? parse_filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::parse_primary() {
  switch (current().type) {
    case TokenType::kName:
      return parse_name();
    case TokenType::kString:
      return parse_string();
    case TokenType::kInteger: {
      ExprPtr expr = make(ExprKind::kConstant);
      expr->value = Value::integer(take().integer);
      return expr;
    }
    case TokenType::kFloat: {
      ExprPtr expr = make(ExprKind::kConstant);
      expr->value = Value::real(take().real);
      return expr;
    }
    default:
      break;
  }
  if (skip_operator("(")) {
    ExprPtr expr = parse_tuple(true, true);
    expect_operator(")");
    return expr;
  }
  if (current().is_operator("[")) return parse_list();
  if (current().is_operator("{")) return parse_dict();
  fail_unexpected();
}

ExprPtr Parser::parse_name() {
  ExprPtr expr = make(ExprKind::kConstant);
  const std::string text = take().text;
  const std::string_view name = text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    expr->value = Value::boolean(name.size() == 4);
  } else if (name == "none" || name == "None") {
    expr->value = Value::none();
  } else {
    expr->kind = ExprKind::kName;
    expr->symbol = symbols_.intern(text);
    if (macro_ != nullptr && expr->symbol == kVarargsSymbol) macro_->takes_varargs = true;
    if (macro_ != nullptr && expr->symbol == kKwargsSymbol) macro_->takes_kwargs = true;
    if (macro_ != nullptr && expr->symbol == kCallerSymbol) macro_->takes_caller = true;
  }
  return expr;
}

ExprPtr Parser::parse_string() {
  ExprPtr expr = make(ExprKind::kConstant);
  std::string text;
  while (current().is(TokenType::kString)) text += take().text;
  expr->literal = std::make_unique<String>(std::move(text));
  expr->value = Value::of(expr->literal.get());
  return expr;
}

ExprPtr Parser::parse_list() {
  ExprPtr expr = make(ExprKind::kList);
  take();
  while (!current().is_operator("]")) {
    if (!expr->children.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    add_child(*expr, parse_expression());
  }
  take();
  return expr;
}

ExprPtr Parser::parse_dict() {
  ExprPtr expr = make(ExprKind::kDict);
  take();
  while (!current().is_operator("}")) {
    if (!expr->children.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    add_child(*expr, parse_expression());
    expect_operator(":");
    add_child(*expr, parse_expression());
  }
  take();
  return expr;
}

bool Parser::at_any_name(Names names) const {
  return current().is(TokenType::kName) &&
         std::find(names.begin(), names.end(), current().text) != names.end();
}

bool Parser::at_tuple_end() const {
  return current().is(TokenType::kVariableEnd) || current().is(TokenType::kBlockEnd) ||
         current().is_operator(")");
}

ExprPtr Parser::parse_tuple(bool with_conditional, bool in_parens) {
  ExprPtr tuple = make(ExprKind::kTuple);
  while (true) {
    if (!tuple->children.empty()) expect_operator(",");
    if (at_tuple_end()) break;
    ExprPtr item = parse_expression(with_conditional);
    const bool more = current().is_operator(",");
    if (!more && tuple->children.empty()) return item;
    add_child(*tuple, std::move(item));
    if (!more) break;
  }
  if (tuple->children.empty() && !in_parens) fail_unexpected();
  return tuple;
}

ExprPtr Parser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (current().is_operator(".")) {
      expr = parse_attribute(std::move(expr));
    } else if (current().is_operator("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (current().is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr expr) {
  while (true) {
    if (skip_operator("|")) {
      expr = parse_filter(std::move(expr));
    } else if (skip_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (current().is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_attribute(ExprPtr expr) {
  take();
  if (current().is(TokenType::kInteger)) {
    ExprPtr index = make(ExprKind::kConstant);
    index->value = Value::integer(take().integer);
    ExprPtr item = make(ExprKind::kItem, std::move(expr));
    add_child(*item, std::move(index));
    return item;
  }
  ExprPtr attribute = make(ExprKind::kAttribute, std::move(expr));
  attribute->name = expect_name();
  return attribute;
}

ExprPtr Parser::parse_subscript_item(ExprPtr& expr, bool& is_slice) {
  const auto at_end = [this] { return current().is_operator("]") || current().is_operator(","); };
  ExprPtr start = current().is_operator(":") ? nullptr : parse_expression();
  is_slice = skip_operator(":");
  if (!is_slice) return start;
  ExprPtr slice = make(ExprKind::kSlice, std::move(expr));
  add_child(*slice, std::move(start));
  add_child(*slice, at_end() || current().is_operator(":") ? nullptr : parse_expression());
  const bool has_step = skip_operator(":");
  add_child(*slice, !has_step || at_end() ? nullptr : parse_expression());
  return slice;
}

ExprPtr Parser::parse_subscript(ExprPtr expr) {
  take();
  if (current().is_operator("]")) fail("expected subscript expression");
  ExprPtr tuple = make(ExprKind::kTuple);
  ExprPtr index;
  while (true) {
    bool is_slice = false;
    index = parse_subscript_item(expr, is_slice);
    if (is_slice) {
      if (!current().is_operator("]")) fail("a slice among several subscripts");
      take();
      return index;
    }
    if (tuple->children.empty() && current().is_operator("]")) break;
    add_child(*tuple, std::move(index));
    if (current().is_operator("]")) {
      index = std::move(tuple);
      break;
    }
    expect_operator(",");
  }
  take();
  ExprPtr item = make(ExprKind::kItem, std::move(expr));
  add_child(*item, std::move(index));
  return item;
}

}  // namespace tw::models::chat_template
