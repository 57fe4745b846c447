#include "tilewright/models/chat_template/parser.h"

#include <algorithm>
#include <utility>

#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {

Parser::Nesting::Nesting(Parser& parser) : parser_(parser) {
  if (++parser.nesting_ > kMaxSyntaxDepth) {
    --parser.nesting_;
    parser.fail("nested deeper than " + std::to_string(kMaxSyntaxDepth) + " levels");
  }
}

Parser::Parser(std::string_view source, std::string_view template_name)
    : name_(template_name), tokens_(tokenize(source, template_name)) {
  for (const char* name : {"loop", "varargs", "kwargs", "caller"}) symbols_.intern(name);
}

Syntax Parser::run() {
  Syntax syntax;
  syntax.body = parse_until({});
  syntax.symbols = std::move(symbols_);
  return syntax;
}

void Parser::fail(const std::string& message, ErrorKind kind) const {
  fail_syntax(name_, current().line, message, kind);
}

void Parser::fail_unexpected() const {
  const Token& token = current();
  switch (token.type) {
    case TokenType::kEnd:
      fail("unexpected end of template");
    case TokenType::kVariableEnd:
      fail("unexpected end of print statement");
    case TokenType::kBlockEnd:
      fail("unexpected end of statement block");
    case TokenType::kInteger:
    case TokenType::kFloat:
      fail("unexpected number");
    default:
      fail("unexpected " + quote_start(token.text));
  }
}

const Token& Parser::next_token() const {
  return tokens_[std::min(pos_ + 1, tokens_.size() - 1)];
}

Token Parser::take() {
  Token token = std::move(tokens_[pos_]);
  if (pos_ + 1 < tokens_.size()) {
    ++pos_;
  } else {
    tokens_[pos_].type = TokenType::kEnd;
  }
  return token;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool Parser::skip_operator(std::string_view text) {
  if (!current().is_operator(text)) return false;
  take();
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_unexpected();
}

void Parser::expect(TokenType type) {
  if (!current().is(type)) fail_unexpected();
  take();
}

std::string Parser::expect_name() {
  if (!current().is(TokenType::kName)) fail_unexpected();
  return take().text;
}

Body Parser::parse_until(Names end_names) {
  const Nesting nesting(*this);
  Body body;
  while (!current().is(TokenType::kEnd)) {
    if (current().is(TokenType::kData)) {
      StmtPtr text = make_statement(StmtKind::kText);
      text->text = take().text;
      body.push_back(std::move(text));
    } else if (current().is(TokenType::kVariableBegin)) {
      StmtPtr output = make_statement(StmtKind::kOutput);
      take();
      output->expr = parse_tuple();
      expect(TokenType::kVariableEnd);
      body.push_back(std::move(output));
    } else {
      expect(TokenType::kBlockBegin);
      if (at_any_name(end_names)) return body;
      body.push_back(parse_statement());
      expect(TokenType::kBlockEnd);
    }
  }
  if (end_names.size() != 0) {
    fail("unexpected end of template, looking for " + quote(*(end_names.end() - 1)));
  }
  return body;
}

Body Parser::parse_block_body(Names end_names) {
  skip_operator(":");
  expect(TokenType::kBlockEnd);
  return parse_until(end_names);
}

Body Parser::parse_soft_body(Names end_names) {
  ++soft_;
  Body body = parse_block_body(end_names);
  --soft_;
  return body;
}

StmtPtr Parser::make_statement(StmtKind kind) const {
  auto statement = std::make_unique<Stmt>();
  statement->kind = kind;
  statement->line = current().line;
  return statement;
}

StmtPtr Parser::parse_statement() {
  if (!current().is(TokenType::kName)) fail("tag name expected");
  const std::string& tag = current().text;
  if (tag == "if") return parse_if();
  if (tag == "for") return parse_for();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "filter") return parse_filter_block();
  if (tag == "with") return parse_with();
  if (tag == "generation") return parse_generation();
  if (tag == "break") return parse_loop_control(StmtKind::kBreak);
  if (tag == "continue") return parse_loop_control(StmtKind::kContinue);
  fail_tag(tag);
}

void Parser::fail_tag(const std::string& tag) const {
  for (const char* known :
       {"autoescape", "block", "extends", "from", "import", "include", "print"}) {
    if (tag == known) fail("the tag " + quote(tag) + " is not supported", ErrorKind::kUnsupported);
  }
  fail("unknown tag " + quote_start(tag));
}

StmtPtr Parser::parse_if() {
  StmtPtr statement = make_statement(StmtKind::kIf);
  do {
    take();  // if, elif
    Stmt::Branch branch;
    branch.test = parse_tuple(false);
    branch.body = parse_soft_body({"elif", "else", "endif"});
    statement->branches.push_back(std::move(branch));
  } while (current().is_name("elif"));
  if (skip_name("else")) statement->else_body = parse_soft_body({"endif"});
  take();
  return statement;
}

StmtPtr Parser::parse_for() {
  StmtPtr statement = make_statement(StmtKind::kFor);
  take();
  statement->target = parse_target(false);
  if (!skip_name("in")) fail_unexpected();
  statement->expr = parse_tuple(false);
  if (skip_name("if")) statement->test = parse_expression();
  statement->recursive = skip_name("recursive");
  ++loops_;
  statement->body = parse_block_body({"endfor", "else"});
  --loops_;
  if (skip_name("else")) statement->else_body = parse_block_body({"endfor"});
  take();
  return statement;
}

StmtPtr Parser::parse_set() {
  StmtPtr statement = make_statement(StmtKind::kSet);
  take();
  statement->target = parse_target(true);
  if (skip_operator("=")) {
    statement->expr = parse_tuple();
    return statement;
  }
  statement->kind = StmtKind::kSetBlock;
  while (skip_operator("|")) statement->expr = parse_filter(std::move(statement->expr));
  statement->body = parse_block_body({"endset"});
  take();
  return statement;
}

void Parser::parse_parameters(MacroSyntax& macro) {
  expect_operator("(");
  bool defaults = false;
  while (!current().is_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    MacroSyntax::Parameter parameter;
    parameter.name = expect_name();
    if (parameter.name == "caller") fail("a parameter can't be called 'caller'");
    parameter.symbol = store_symbol(parameter.name);
    for (const auto& other : macro.parameters) {
      if (other.symbol == parameter.symbol) fail("duplicate parameter " + quote(parameter.name));
    }
    if (skip_operator("=")) {
      parameter.default_value = parse_expression();
      defaults = true;
    } else if (defaults) {
      fail("non-default argument follows default argument");
    }
    macro.parameters.push_back(std::move(parameter));
    if (macro.parameters.size() > kMaxArguments) fail("too many parameters");
  }
  take();
}

StmtPtr Parser::parse_macro() {
  StmtPtr statement = make_statement(StmtKind::kMacro);
  take();
  statement->macro = std::make_unique<MacroSyntax>();
  MacroSyntax& macro = *statement->macro;
  macro.name = expect_name();
  statement->symbol = store_symbol(macro.name);
  parse_parameters(macro);
  parse_macro_body(macro, {"endmacro"});
  return statement;
}

void Parser::parse_macro_body(MacroSyntax& macro, Names end_names) {
  MacroSyntax* const outer_macro = std::exchange(macro_, &macro);
  const int outer_loops = std::exchange(loops_, 0);
  macro.body = parse_block_body(end_names);
  macro_ = outer_macro;
  loops_ = outer_loops;
  take();
}

StmtPtr Parser::parse_call_block() {
  StmtPtr statement = make_statement(StmtKind::kCall);
  take();
  statement->macro = std::make_unique<MacroSyntax>();
  statement->macro->name = "caller";
  if (current().is_operator("(")) parse_parameters(*statement->macro);
  statement->expr = parse_expression();
  if (statement->expr->kind != ExprKind::kCall) fail("expected call");
  parse_macro_body(*statement->macro, {"endcall"});
  return statement;
}

StmtPtr Parser::parse_filter_block() {
  StmtPtr statement = make_statement(StmtKind::kFilter);
  take();
  statement->expr = parse_filter(nullptr);
  while (skip_operator("|")) statement->expr = parse_filter(std::move(statement->expr));
  statement->body = parse_block_body({"endfilter"});
  take();
  return statement;
}

StmtPtr Parser::parse_with() {
  StmtPtr statement = make_statement(StmtKind::kWith);
  take();
  while (!current().is(TokenType::kBlockEnd)) {
    if (!statement->targets.empty()) expect_operator(",");
    statement->targets.push_back(parse_target(false));
    expect_operator("=");
    statement->values.push_back(parse_expression());
  }
  statement->body = parse_block_body({"endwith"});
  take();
  return statement;
}

StmtPtr Parser::parse_generation() {
  StmtPtr statement = make_statement(StmtKind::kScope);
  take();
  const int outer_loops = std::exchange(loops_, 0);
  statement->body = parse_block_body({"endgeneration"});
  loops_ = outer_loops;
  take();
  return statement;
}

StmtPtr Parser::parse_loop_control(StmtKind kind) {
  StmtPtr statement = make_statement(kind);
  if (loops_ == 0) fail(quote(current().text) + " outside of a loop");
  take();
  return statement;
}

int32_t Parser::store_symbol(const std::string& name) {
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (name == constant) fail("can't assign to " + quote(name));
  }
  const int32_t symbol = symbols_.intern(name);
  if (symbol == kLoopSymbol && loops_ > 0) fail("can't assign to the special variable 'loop'");
  return symbol;
}

Target Parser::to_target(const Expr& expr) {
  Target target;
  if (expr.kind == ExprKind::kName) {
    target.symbol = store_symbol(symbols_.name(expr.symbol));
  } else if (expr.kind == ExprKind::kTuple) {
    target.is_tuple = true;
    for (const ExprPtr& child : expr.children) target.elements.push_back(to_target(*child));
  } else {
    fail("can't assign to this expression");
  }
  return target;
}

Target Parser::parse_target_element(bool with_namespace) {
  const bool dotted = current().is(TokenType::kName) && next_token().is_operator(".");
  if (!with_namespace || !dotted) return to_target(*parse_primary());
  Target target;
  target.symbol = symbols_.intern(take().text);
  take();
  target.attribute = expect_name();
  return target;
}

Target Parser::parse_target(bool with_namespace) {
  Target tuple;
  tuple.is_tuple = true;
  while (true) {
    if (!tuple.elements.empty()) expect_operator(",");
    if (at_tuple_end()) break;
    tuple.elements.push_back(parse_target_element(with_namespace));
    if (!current().is_operator(",")) {
      if (tuple.elements.size() > 1) break;
      return Target(tuple.elements.front());
    }
  }
  if (tuple.elements.empty()) fail_unexpected();
  return tuple;
}

Syntax parse(std::string_view source, std::string_view template_name) {
  return Parser(source, template_name).run();
}

}  // namespace tw::models::chat_template
