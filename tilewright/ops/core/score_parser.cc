#include "tilewright/ops/core/score_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/ops/core/score_order.h"

namespace tw::ops {
namespace {

using kernels::ScoreInstruction;
using kernels::ScoreOp;
using kernels::ScoreProgram;
using kernels::ScoreType;

constexpr size_t kMostText = 4096;
constexpr int kMostDepth = 64;  // of nesting: what a parser of this kind needs the stack for

struct Name {
  std::string_view text;
  ScoreOp op;
};
constexpr Name kIndices[] = {{"b", ScoreOp::kBatch},       {"h", ScoreOp::kHead},
                             {"q", ScoreOp::kQuery},       {"k", ScoreOp::kKey},
                             {"q_len", ScoreOp::kQueries}, {"kv_len", ScoreOp::kKeys}};
constexpr Name kOfFloat[] = {{"exp", ScoreOp::kExp},   {"exp2", ScoreOp::kExp2},
                             {"log", ScoreOp::kLog},   {"log2", ScoreOp::kLog2},
                             {"tanh", ScoreOp::kTanh}, {"sigmoid", ScoreOp::kSigmoid},
                             {"sqrt", ScoreOp::kSqrt}, {"floor", ScoreOp::kFloor}};

template <size_t kCount>
std::optional<ScoreOp> find(const Name (&names)[kCount], std::string_view text) {
  for (const Name& name : names)
    if (name.text == text) return name.op;
  return std::nullopt;
}

const char* describe(ScoreType type) {
  return type == ScoreType::kFloat ? "a float"
         : type == ScoreType::kInt ? "an integer"
                                   : "a condition";
}

/// Recursive descent, an operation appended for each thing read.
class Parser {
 public:
  Parser(std::string_view text, ScoreText kind) : text_(text), kind_(kind) {}

  ScoreProgram parse() {
    if (text_.size() > kMostText)
      fail(kMostText, "the text is longer than " + std::to_string(kMostText) + " bytes");
    if (peek() == '\0' && at_ == text_.size()) return {};
    int result = expression();
    if (peek() != '\0' || at_ < text_.size()) fail(at_, "an operator was expected, not " + shown());
    if (kind_ == ScoreText::kScore)
      result = to_float(number(result, 0, "a score"));
    else if (type(result) != ScoreType::kBool)
      fail(0, std::string("a mask is a condition, not ") + describe(type(result)));
    return in_order(out_, result);
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& why) const {
    throw Error(ErrorKind::kInvalidArgument, "at " + std::to_string(at) + ", " + why);
  }
  /// What is read next, for messages.
  std::string shown() const {
    if (at_ >= text_.size()) return "the end";
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return "'" + printable(text_.substr(at_, std::max<size_t>(end - at_, 1)), 40) + "'";
  }

  // ---- text

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
  }
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view token) {
    peek();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  bool accept_word(std::string_view word) {
    peek();
    if (word_ahead() != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(at_, "'" + std::string(token) + "' was expected, not " + shown());
  }
  std::string_view word_ahead() const {
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }

  // ---- operations

  ScoreType type(int i) const { return out_.code[i].type; }
  int add(ScoreOp op, ScoreType type, int a = 0, int b = 0, int c = 0, int32_t number = 0) {
    const ScoreInstruction one{op, type, uint8_t(a), uint8_t(b), uint8_t(c), number};
    for (int i = 0; i < out_.count; ++i)
      if (out_.code[i] == one) return i;
    if (out_.count == ScoreProgram::kMost)
      fail(at_, "more than " + std::to_string(ScoreProgram::kMost) + " different operations");
    out_.code[out_.count] = one;
    return out_.count++;
  }
  bool is_literal(int i) const { return out_.code[i].op == ScoreOp::kNumber; }
  int literal(float value) {
    return add(ScoreOp::kNumber, ScoreType::kFloat, 0, 0, 0, __builtin_bit_cast(int32_t, value));
  }
  int literal(int32_t value, ScoreType type = ScoreType::kInt) {
    return add(ScoreOp::kNumber, type, 0, 0, 0, value);
  }
  int number(int i, size_t at, const std::string& what) const {
    if (type(i) == ScoreType::kBool) fail(at, what + " is a number, not a condition");
    return i;
  }
  int condition(int i, size_t at) const {
    if (type(i) != ScoreType::kBool)
      fail(at, std::string("a condition was expected, not ") + describe(type(i)));
    return i;
  }
  int to_float(int i) {
    if (type(i) == ScoreType::kFloat) return i;
    if (is_literal(i)) return literal(float(out_.code[i].number));
    return add(ScoreOp::kToFloat, ScoreType::kFloat, i);
  }
  /// Both become floats if one is.
  void unify(int& a, int& b) {
    if (type(a) == type(b)) return;
    a = to_float(a), b = to_float(b);
  }
  int arithmetic(ScoreOp op, int a, int b, size_t at) {
    number(a, at, "the left side"), number(b, at, "the right side");
    const bool whole = op == ScoreOp::kFloorDiv || op == ScoreOp::kMod;
    if (op == ScoreOp::kDiv) {
      a = to_float(a), b = to_float(b);
    } else if (whole && (type(a) != ScoreType::kInt || type(b) != ScoreType::kInt)) {
      fail(at, "'//' and '%' divide integers");
    } else {
      unify(a, b);
    }
    if (whole && is_literal(b) && out_.code[b].number == 0) fail(at, "division by 0");
    return add(op, type(a), a, b);
  }
  int negative(int a, size_t at) {
    number(a, at, "what follows '-'");
    if (!is_literal(a)) return add(ScoreOp::kNeg, type(a), a);
    const int32_t bits = out_.code[a].number;
    if (type(a) == ScoreType::kInt) return literal(kernels::score_sub(0, bits));
    return literal(-__builtin_bit_cast(float, bits));
  }
  int where(int c, int a, int b, size_t at) {
    condition(c, at);
    if ((type(a) == ScoreType::kBool) != (type(b) == ScoreType::kBool))
      fail(at, "both sides must be numbers, or conditions");
    unify(a, b);
    return add(ScoreOp::kWhere, type(a), c, a, b);
  }

  // ---- grammar, from what binds least

  int expression() {
    if (++depth_ > kMostDepth) fail(at_, "nested too deeply");
    const int out = [&] {
      const int first = any();
      const size_t at = at_;
      if (!accept_word("if")) return first;
      const int chosen = any();
      if (!accept_word("else")) fail(at_, "'else' was expected, not " + shown());
      return where(chosen, first, expression(), at);
    }();
    --depth_;
    return out;
  }
  int any() {
    int out = all();
    for (size_t at = at_; accept_word("or"); at = at_)
      out = add(ScoreOp::kOr, ScoreType::kBool, condition(out, at), condition(all(), at));
    return out;
  }
  int all() {
    int out = inverse();
    for (size_t at = at_; accept_word("and"); at = at_)
      out = add(ScoreOp::kAnd, ScoreType::kBool, condition(out, at), condition(inverse(), at));
    return out;
  }
  int inverse() {
    peek();
    const size_t at = at_;
    if (!accept_word("not")) return comparison();
    if (++depth_ > kMostDepth) fail(at_, "nested too deeply");
    const int of = inverse();
    --depth_;
    return add(ScoreOp::kNot, ScoreType::kBool, condition(of, at));
  }
  /// The longer ones first.
  std::string_view comparison_ahead() {
    for (const std::string_view token : {"<=", ">=", "==", "!=", "<", ">"})
      if (accept(token)) return token;
    return {};
  }
  int comparison() {
    int a = sum();
    peek();
    const size_t at = at_;
    const std::string_view token = comparison_ahead();
    if (token.empty()) return a;
    int b = sum();
    number(a, at, "the left side"), number(b, at, "the right side");
    unify(a, b);
    if (!comparison_ahead().empty()) fail(at_, "comparisons do not chain: use 'and'");
    if (token[0] == '>') std::swap(a, b);
    if (token == "==" || token == "!=") {
      const int same = add(ScoreOp::kEqual, ScoreType::kBool, a, b);
      return token == "==" ? same : add(ScoreOp::kNot, ScoreType::kBool, same);
    }
    return add(token.size() == 1 ? ScoreOp::kLess : ScoreOp::kLessEqual, ScoreType::kBool, a, b);
  }
  int sum() {
    int out = product();
    for (;;) {
      peek();
      const size_t at = at_;
      if (accept("+"))
        out = arithmetic(ScoreOp::kAdd, out, product(), at);
      else if (accept("-"))
        out = arithmetic(ScoreOp::kSub, out, product(), at);
      else
        return out;
    }
  }
  int product() {
    int out = sign();
    for (;;) {
      peek();
      const size_t at = at_;
      if (accept("**")) fail(at, "there is no '**': use exp2(x * log2(y))");
      if (accept("*"))
        out = arithmetic(ScoreOp::kMul, out, sign(), at);
      else if (accept("//"))
        out = arithmetic(ScoreOp::kFloorDiv, out, sign(), at);
      else if (accept("/"))
        out = arithmetic(ScoreOp::kDiv, out, sign(), at);
      else if (accept("%"))
        out = arithmetic(ScoreOp::kMod, out, sign(), at);
      else
        return out;
    }
  }
  int sign() {
    peek();
    const size_t at = at_;
    const bool negates = accept("-");
    if (!negates && !accept("+")) return primary();
    if (++depth_ > kMostDepth) fail(at_, "nested too deeply");
    const int of = sign();
    --depth_;
    return negates ? negative(of, at) : number(of, at, "what follows '+'");
  }
  int primary() {
    const char c = peek();
    const size_t at = at_;
    if (is_digit(c) || c == '.') return numeral();
    if (accept("(")) {
      const int out = expression();
      expect(")");
      return out;
    }
    const std::string_view word = word_ahead();
    if (word.empty()) fail(at, "a number or a name was expected, not " + shown());
    at_ += word.size();
    if (const auto op = find(kIndices, word)) return add(*op, ScoreType::kInt);
    if (word == "score" && kind_ == ScoreText::kScore)
      return add(ScoreOp::kScore, ScoreType::kFloat);
    if (word == "inf") return literal(std::numeric_limits<float>::infinity());
    if (word == "True" || word == "False")
      return literal(word == "True" ? -1 : 0, ScoreType::kBool);
    if (word == "mod_f32") return element(ScoreType::kFloat);
    if (word == "mod_i32") return element(ScoreType::kInt);
    return call(word, at);
  }
  int numeral() {
    const size_t at = at_;
    const char *const first = text_.data() + at_, *const last = text_.data() + text_.size();
    double value = 0;
    const auto [end, status] = std::from_chars(first, last, value);
    const std::string_view digits(first, size_t(end - first));
    if (status != std::errc() || (end != last && (is_word(*end) || *end == '.')))
      fail(at, shown() + " is no number");
    at_ += digits.size();
    if (digits.find_first_not_of("0123456789") != digits.npos) return literal(float(value));
    if (value > std::numeric_limits<int32_t>::max())
      fail(at, std::string(printable(digits, 40)) + " does not fit 32 bits: write it as a float");
    return literal(int32_t(value));
  }
  int element(ScoreType type) {
    expect("[");
    const size_t at = at_;
    const int index = expression();
    if (this->type(index) != ScoreType::kInt)
      fail(at, std::string("an index is an integer, not ") + describe(this->type(index)));
    expect("]");
    return add(ScoreOp::kLoad, type, index);
  }
  int call(std::string_view name, size_t at) {
    const auto one = find(kOfFloat, name);
    const bool binary = name == "min" || name == "max";
    if (!one && !binary && name != "abs" && name != "where") {
      if (name == "score") fail(at, "a mask knows no 'score'");
      fail(at, "there is no '" + printable(name, 40) +
                   "'; names are score, b, h, q, k, q_len, kv_len, mod_f32, mod_i32, inf, True, "
                   "False and functions");
    }
    expect("(");
    int a = expression();
    if (one || name == "abs") {
      expect(")");
      number(a, at, "an argument");
      return one ? add(*one, ScoreType::kFloat, to_float(a)) : add(ScoreOp::kAbs, type(a), a);
    }
    expect(",");
    int b = expression();
    if (binary) {
      expect(")");
      return arithmetic(name == "min" ? ScoreOp::kMin : ScoreOp::kMax, a, b, at);
    }
    expect(",");
    const int c = expression();
    expect(")");
    return where(a, b, c, at);
  }

  std::string_view text_;
  ScoreText kind_;
  size_t at_ = 0;
  int depth_ = 0;
  ScoreProgram out_;
};

}  // namespace

ScoreProgram parse_score_program(std::string_view text, ScoreText kind) {
  return Parser(text, kind).parse();
}

}  // namespace tw::ops
