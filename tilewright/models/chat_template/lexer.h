// Cuts the source of a template into tokens, white space control included.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/error.h"

namespace tw::models::chat_template {

enum class TokenType : uint8_t {
  kData,  // text between tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int32_t line = 1;
  std::string text;  // the name, operator, data or unescaped string
  int64_t integer = 0;
  double real = 0;

  bool is(TokenType wanted) const { return type == wanted; }
  bool is_name(std::string_view wanted) const { return type == TokenType::kName && text == wanted; }
  bool is_operator(std::string_view wanted) const {
    return type == TokenType::kOperator && text == wanted;
  }
};

/// Throws Error with "NAME, line LINE: MESSAGE".
[[noreturn]] void fail_syntax(std::string_view template_name, int32_t line,
                              const std::string& message,
                              ErrorKind kind = ErrorKind::kInvalidArgument);

/// The tokens of `source` (valid UTF-8), the last of them kEnd. Blocks are trimmed as trim_blocks
/// and lstrip_blocks say; one newline at the end of the source is dropped. Throws as fail_syntax.
std::vector<Token> tokenize(std::string_view source, std::string_view template_name);

}  // namespace tw::models::chat_template
