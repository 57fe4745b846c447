// Recursive descent over the tokens of a template, with the grammar of jinja2.parser.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/models/chat_template/lexer.h"
#include "tilewright/models/chat_template/syntax.h"

namespace tw::models::chat_template {

/// Deepest nesting of parentheses, blocks and operators in the source.
inline constexpr int kMaxSyntaxDepth = 200;
/// Most parameters of a macro and most arguments of a call; more would be slow to check.
inline constexpr size_t kMaxArguments = 255;

class Parser {
 public:
  Parser(std::string_view source, std::string_view template_name);

  Syntax run();

 private:
  using Names = std::initializer_list<std::string_view>;

  /// Counts nested calls of the parser.
  class Nesting {
   public:
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  // Tokens.
  [[noreturn]] void fail(const std::string& message,
                         ErrorKind kind = ErrorKind::kInvalidArgument) const;
  [[noreturn]] void fail_unexpected() const;
  const Token& current() const { return tokens_[pos_]; }
  const Token& next_token() const;
  Token take();
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view text);
  void expect_operator(std::string_view text);
  void expect(TokenType type);
  std::string expect_name();

  // Statements: parser.cc.
  Body parse_until(Names end_names);
  Body parse_block_body(Names end_names);
  Body parse_soft_body(Names end_names);
  StmtPtr parse_statement();
  StmtPtr make_statement(StmtKind kind) const;
  StmtPtr parse_if();
  StmtPtr parse_for();
  StmtPtr parse_set();
  StmtPtr parse_macro();
  StmtPtr parse_call_block();
  void parse_macro_body(MacroSyntax& macro, Names end_names);
  StmtPtr parse_filter_block();
  StmtPtr parse_with();
  StmtPtr parse_generation();
  StmtPtr parse_loop_control(StmtKind kind);
  void parse_parameters(MacroSyntax& macro);
  [[noreturn]] void fail_tag(const std::string& tag) const;
  Target parse_target(bool with_namespace);
  Target parse_target_element(bool with_namespace);
  Target to_target(const Expr& expr);
  int32_t store_symbol(const std::string& name);

  // Expressions: parser_expressions.cc.
  ExprPtr make(ExprKind kind) const;
  ExprPtr make(ExprKind kind, ExprPtr child);
  void add_child(Expr& parent, ExprPtr child) const;
  ExprPtr parse_expression(bool with_conditional = true);
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  std::optional<Operator> take_comparison();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_string();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  /// Expressions separated by commas; a tuple when there is a comma.
  ExprPtr parse_tuple(bool with_conditional = true, bool in_parens = false);
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_attribute(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr expr);
  /// One subscript between brackets. A slice takes `expr` and is the node of the result.
  ExprPtr parse_subscript_item(ExprPtr& expr, bool& is_slice);
  // Calls, filters and tests: parser_calls.cc.
  ExprPtr parse_call(ExprPtr callee);
  /// One filter, the current token behind the '|'.
  ExprPtr parse_filter(ExprPtr input);
  ExprPtr parse_test(ExprPtr input);
  void parse_arguments(Expr& call);
  void parse_argument(Expr& call, ExprPtr& star, ExprPtr& double_star);
  std::string parse_dotted_name();
  bool at_test_argument() const;

  bool at_tuple_end() const;
  bool at_any_name(Names names) const;

  std::string_view name_;
  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int nesting_ = 0;
  int loops_ = 0;                 // loops around the statement, within its macro
  int soft_ = 0;                  // ifs around it: an unknown filter there fails only when it runs
  MacroSyntax* macro_ = nullptr;  // the macro around it
  Symbols symbols_;
};

}  // namespace tw::models::chat_template
