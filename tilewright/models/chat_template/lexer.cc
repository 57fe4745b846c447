#include "tilewright/models/chat_template/lexer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tilewright/models/chat_template/literals.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

constexpr size_t kNotFound = std::string_view::npos;

/// Every end of line becomes \n, and one at the very end goes away.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name)
      : source_text_(normalize_newlines(source)), source_(source_text_), name_(name) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) lex_data();
    push(TokenType::kEnd);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { fail_syntax(name_, line_, message); }

  bool at(std::string_view text) const { return source_.substr(pos_).starts_with(text); }

  Token& push(TokenType type, std::string_view text = {}) {
    Token& token = tokens_.emplace_back();
    token.type = type;
    token.line = line_;
    token.text = text;
    return token;
  }

  /// Moves over `count` bytes and keeps the line number.
  void advance(size_t count) {
    const std::string_view passed = source_.substr(pos_, count);
    line_ += int32_t(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    pos_ += passed.size();
  }

  size_t space_length(size_t pos) const {
    size_t end = pos;
    while (end < source_.size()) {
      size_t next = end;
      if (!is_space(next_code_point(source_, next))) break;
      end = next;
    }
    return end - pos;
  }

  /// Emits the text before a tag that opens with `sign` ('-', '+' or 0).
  void push_data(std::string_view text, char sign, bool is_variable) {
    if (sign == '-') {
      text = strip(text, Side::kRight);
    } else if (sign != '+' && !is_variable) {
      const size_t last_line = text.rfind('\n') + 1;  // npos + 1 is 0
      const std::string_view indent = text.substr(last_line);
      if ((last_line > 0 || line_starting_) && strip(indent).empty()) {
        text = text.substr(0, last_line);
      }
    }
    if (!text.empty()) push(TokenType::kData, text);
  }

  /// The sign right after the two characters of an opening tag at `pos`.
  char sign_at(size_t pos) const {
    const char c = pos < source_.size() ? source_[pos] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  size_t find_tag(size_t from) const {
    for (size_t i = from; (i = source_.find('{', i)) != kNotFound; ++i) {
      const char c = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (c == '{' || c == '%' || c == '#') return i;
    }
    return kNotFound;
  }

  void lex_data() {
    const size_t tag = find_tag(pos_);
    if (tag == kNotFound) {
      push(TokenType::kData, source_.substr(pos_));
      advance(source_.size() - pos_);
      return;
    }
    const char sign = sign_at(tag + 2);
    const bool is_variable = source_[tag + 1] == '{';
    push_data(source_.substr(pos_, tag - pos_), sign, is_variable);
    const char kind = source_[tag + 1];
    if (const size_t raw = kind == '%' ? raw_begin_length(tag) : 0; raw != 0) {
      advance(tag + raw - pos_);
      lex_raw();
      return;
    }
    advance(tag + 2 + (sign != 0 ? 1 : 0) - pos_);
    if (kind == '#') {
      lex_comment();
    } else {
      lex_tag(is_variable);
    }
  }

  /// Length of {% raw %} at `pos`, or 0.
  size_t raw_begin_length(size_t pos) const {
    size_t i = pos + 2 + (sign_at(pos + 2) != 0 ? 1 : 0);
    i += space_length(i);
    if (!source_.substr(i).starts_with("raw")) return 0;
    i += 3;
    i += space_length(i);
    if (source_.substr(i).starts_with("%}")) return i + 2 - pos;
    if (!source_.substr(i).starts_with("-%}")) return 0;
    return i + 3 + space_length(i + 3) - pos;
  }

  /// Length of a closing tag `end` ("%}", "#}") with its sign and what it trims at `pos`, or 0.
  size_t close_length(size_t pos, std::string_view end) const {
    const std::string_view rest = source_.substr(pos);
    const char sign = sign_at(pos);
    if (sign == 0 && rest.starts_with(end)) return rest.substr(2).starts_with("\n") ? 3 : 2;
    if (sign == 0 || !rest.substr(1).starts_with(end)) return 0;
    return sign == '-' ? 3 + space_length(pos + 3) : 3;
  }

  void lex_comment() {
    size_t end = source_.find("#}", pos_);
    if (end == kNotFound) fail("missing end of comment tag");
    if (end > pos_ && sign_at(end - 1) != 0) --end;
    advance(end + close_length(end, "#}") - pos_);
  }

  void lex_raw() {
    for (size_t i = pos_; (i = source_.find("{%", i)) != kNotFound; i += 2) {
      const char sign = sign_at(i + 2);
      size_t word = i + 2 + (sign != 0 ? 1 : 0);
      word += space_length(word);
      if (!source_.substr(word).starts_with("endraw")) continue;
      word += 6;
      word += space_length(word);
      const size_t close = close_length(word, "%}");
      if (close == 0) continue;
      push_data(source_.substr(pos_, i - pos_), sign, false);
      advance(word + close - pos_);
      return;
    }
    fail("missing end of raw directive");
  }

  void lex_tag(bool is_variable) {
    push(is_variable ? TokenType::kVariableBegin : TokenType::kBlockBegin);
    std::string open;  // the closing brackets that are due
    while (pos_ < source_.size()) {
      if (open.empty()) {
        const size_t close = is_variable ? variable_close_length() : close_length(pos_, "%}");
        if (close != 0) {
          push(is_variable ? TokenType::kVariableEnd : TokenType::kBlockEnd);
          advance(close);
          return;
        }
      }
      lex_token(open);
    }
    push(TokenType::kEnd);
  }

  size_t variable_close_length() const {
    if (at("}}")) return 2;
    return at("-}}") ? 3 + space_length(pos_ + 3) : 0;
  }

  void lex_token(std::string& open) {
    const char c = source_[pos_];
    if (const size_t space = space_length(pos_); space != 0) {
      advance(space);
    } else if (c >= '0' && c <= '9') {
      lex_number();
    } else if (is_name_character(c)) {
      size_t end = pos_;
      while (end < source_.size() && is_name_character(source_[end])) ++end;
      push(TokenType::kName, source_.substr(pos_, end - pos_));
      advance(end - pos_);
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else {
      lex_operator(open);
    }
  }

  static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  void lex_number() {
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    if (const size_t length = after_dot ? 0 : match_float(source_.substr(pos_)); length != 0) {
      double value = 0;
      if (!parse_float(source_.substr(pos_, length), value)) fail("number out of range");
      push(TokenType::kFloat).real = value;
      advance(length);
      return;
    }
    const size_t length = match_integer(source_.substr(pos_));
    int64_t value = 0;
    if (parse_integer(source_.substr(pos_, length), 0, value) != NumberParse::kOk) {
      fail("integer beyond 64 bits");
    }
    push(TokenType::kInteger).integer = value;
    advance(length);
  }

  void lex_string(char mark) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != mark) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("unexpected char " + quote(std::string(1, mark)));
    std::string text;
    const char* mistake = unescape(source_.substr(pos_ + 1, end - pos_ - 1), text);
    if (mistake != nullptr) fail(mistake);
    push(TokenType::kString, text);
    advance(end + 1 - pos_);
  }

  void lex_operator(std::string& open) {
    static constexpr std::string_view kOperators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* it = std::find_if(std::begin(kOperators), std::end(kOperators),
                                  [this](std::string_view text) { return at(text); });
    if (it == std::end(kOperators)) {
      size_t end = pos_;
      next_code_point(source_, end);
      fail("unexpected char " + quote(source_.substr(pos_, end - pos_)));
    }
    const char c = it->front();
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail("unexpected " + quote(*it));
      if (open.back() != c) {
        fail("unexpected " + quote(*it) + ", expected " + quote(std::string(1, open.back())));
      }
      open.pop_back();
    }
    push(TokenType::kOperator, *it);
    advance(it->size());
  }

  std::string source_text_;
  std::string_view source_;
  std::string_view name_;
  size_t pos_ = 0;
  int32_t line_ = 1;
  bool line_starting_ = true;  // whether what was read last ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

void fail_syntax(std::string_view template_name, int32_t line, const std::string& message,
                 ErrorKind kind) {
  throw Error(kind, std::string(template_name) + ", line " + std::to_string(line) + ": " + message);
}

std::vector<Token> tokenize(std::string_view source, std::string_view template_name) {
  return Lexer(source, template_name).run();
}

}  // namespace tw::models::chat_template
