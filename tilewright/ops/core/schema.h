// An operator's signature as text, parsed by the compiler.
//
//   rms_norm(x: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C]
//
//   argument   NAME: TYPE                    a `?` after a tensor type makes it optional
//   tensor     DTYPE[DIM, ...]               DTYPE: a dtype name, or an upper-case type variable
//   dimension  C      bound by its first use, equal everywhere after
//              2*C    a multiple of a named dimension
//              4      exactly this
//              *      any number of leading dimensions, equal wherever it stands
//              ...    the shape all `...` arguments broadcast to (alone in its brackets)
//              k      of an output: the value of the i64 argument k
//              C/k+1  of an output: C divided by the i64 argument k, rounded up; and one more
//   scalar     f32 | f64 | i64 | bool | text | a|b|c    with `= default`; a|b|c reaches the kernel
//   as an index, a text as what its field makes of it (bind.h)
//
// A malformed schema does not compile, nor one with a type variable that no required input gives.
#pragma once

#include <cstdint>
#include <string_view>

#include "tilewright/core/dtype.h"

namespace tw::ops {

enum class ArgKind : uint8_t { kTensor, kFloat, kInt, kBool, kChoice, kText };

struct Dim {
  enum class Kind : uint8_t { kNamed, kFixed, kLead, kBroadcast };
  Kind kind = Kind::kNamed;
  std::string_view text;     // as it stands in the schema
  std::string_view name;     // kNamed
  int64_t factor = 1;        // kNamed: size = factor * value; kFixed: the size
  std::string_view divisor;  // kNamed: the argument that divides it, if any
  int64_t addend = 0;        // kNamed: what is added then
};

struct Arg {
  static constexpr int kMaxDims = 8;
  std::string_view name;
  ArgKind kind = ArgKind::kTensor;
  std::string_view type;  // dtype or type variable of a tensor; the choices of a choice
  int variable = -1;      // a tensor's type variable, numbered by first appearance; -1: `dtype`
  DType dtype = DType::kF32;
  bool optional = false;
  bool output = false;
  int rank = 0;
  Dim dims[kMaxDims] = {};
  std::string_view default_text;  // empty: required
  double default_number = 0;      // as Slot::number

  constexpr bool is_type_variable() const { return variable >= 0; }
  constexpr bool may_be_left_out() const { return optional || !default_text.empty(); }
  /// A list of numbers that decides shapes, such as the order of dimensions: read on the host,
  /// wherever the other tensors are.
  constexpr bool is_host_list() const {
    return kind == ArgKind::kTensor && !output && !optional && rank == 1 && !is_type_variable() &&
           dtype == DType::kI64 && dims[0].kind == Dim::Kind::kNamed;
  }
  constexpr bool has_lead() const { return rank > 0 && dims[0].kind == Dim::Kind::kLead; }
  constexpr bool is_broadcast() const { return rank > 0 && dims[0].kind == Dim::Kind::kBroadcast; }
};

/// Index of `choice` in "a|b|c", or -1.
constexpr int choice_index(std::string_view choices, std::string_view choice) {
  for (int index = 0;; ++index) {
    const size_t bar = choices.find('|');
    std::string_view one = choices.substr(0, bar);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
    if (one == choice) return index;
    if (bar == std::string_view::npos) return -1;
    choices.remove_prefix(bar + 1);
  }
}

class Schema {
 public:
  static constexpr int kMaxArgs = 24;
  static constexpr int kMaxTypes = 4;

  consteval explicit Schema(const char* text) : text_(text) { parse(); }

  constexpr std::string_view text() const { return text_; }
  constexpr std::string_view name() const { return name_; }
  constexpr int size() const { return size_; }
  constexpr const Arg& operator[](int i) const { return args_[i]; }
  constexpr const Arg* begin() const { return args_; }
  constexpr const Arg* end() const { return args_ + size_; }
  /// Type variables in order of appearance.
  constexpr int type_count() const { return type_count_; }
  constexpr std::string_view type(int i) const { return types_[i]; }
  constexpr int type_index(std::string_view variable) const {
    for (int i = 0; i < type_count_; ++i)
      if (types_[i] == variable) return i;
    return -1;
  }
  /// Whether it is the name of an i64 argument.
  constexpr bool is_int(std::string_view name) const {
    for (const Arg& arg : *this)
      if (arg.name == name) return arg.kind == ArgKind::kInt;
    return false;
  }
  /// Whether the size follows from an argument that is a number.
  constexpr bool is_computed(const Dim& dim) const {
    return dim.kind == Dim::Kind::kNamed && (!dim.divisor.empty() || is_int(dim.name));
  }
  /// Whether every output dimension is bound by an input.
  constexpr bool outputs_bound() const {
    for (const Arg& out : *this) {
      if (!out.output) continue;
      for (int d = 0; d < out.rank; ++d)
        if (!bound_by_input(out.dims[d])) return false;
    }
    return true;
  }

 private:
  constexpr bool bound_by_input(const Dim& dim) const {
    if (dim.kind == Dim::Kind::kFixed || is_int(dim.name)) return true;
    for (const Arg& in : *this) {
      if (in.output || in.optional) continue;
      for (int d = 0; d < in.rank; ++d)
        if (in.dims[d].kind == dim.kind && in.dims[d].name == dim.name) return true;
    }
    return false;
  }

  consteval void parse() {
    name_ = word();
    expect('(');
    parse_args(')', false);
    expect('-');
    expect('>');
    parse_args('\0', true);
    if (peek() != '\0') throw "schema: text after the last output";
    for (int i = 0; i < type_count_; ++i)
      if (!is_given(i)) throw "schema: no required input gives a type variable";
  }

  consteval bool is_given(int variable) const {
    for (const Arg& in : *this)
      if (!in.output && !in.optional && in.variable == variable) return true;
    return false;
  }

  consteval void parse_args(char end, bool output) {
    for (;;) {
      if (size_ == kMaxArgs) throw "schema: too many arguments";
      Arg& arg = args_[size_++];
      arg.name = word();
      arg.output = output;
      for (int i = 0; i + 1 < size_; ++i)
        if (args_[i].name == arg.name) throw "schema: an argument name stands twice";
      expect(':');
      parse_type(arg);
      if (accept('=')) parse_default(arg);
      if (!output && size_ > 1 && args_[size_ - 2].may_be_left_out() && !arg.may_be_left_out())
        throw "schema: a required argument follows one that may be left out";
      if (!accept(',')) break;
    }
    if (end != '\0') expect(end);
  }

  consteval void parse_type(Arg& arg) {
    const std::string_view first = word();
    if (peek() == '|') {
      arg.kind = ArgKind::kChoice;
      const char* start = first.data();
      while (accept('|')) word();
      arg.type = std::string_view(start, static_cast<size_t>(text_.data() + at_ - start));
      while (arg.type.back() == ' ') arg.type.remove_suffix(1);
      return;
    }
    arg.type = first;
    if (!accept('[')) {
      if (first == "f32" || first == "f64")
        arg.kind = ArgKind::kFloat;
      else if (first == "i64")
        arg.kind = ArgKind::kInt;
      else if (first == "bool")
        arg.kind = ArgKind::kBool;
      else if (first == "text")
        arg.kind = ArgKind::kText;
      else
        throw "schema: a scalar is f32, f64, i64, bool, text or a|b|c";
      return;
    }
    arg.kind = ArgKind::kTensor;
    if (!accept(']')) {
      do {
        if (arg.rank == Arg::kMaxDims) throw "schema: too many dimensions";
        arg.dims[arg.rank++] = dim();
        check_dim(arg.dims[arg.rank - 1], arg.output);
      } while (accept(','));
      expect(']');
    }
    arg.optional = accept('?');
    if (arg.type[0] < 'A' || arg.type[0] > 'Z') {
      if (!find_dtype(arg.type, arg.dtype)) throw "schema: there is no such dtype";
      return;
    }
    if (type_index(arg.type) < 0) {
      if (type_count_ == kMaxTypes) throw "schema: too many type variables";
      types_[type_count_++] = arg.type;
    }
    arg.variable = type_index(arg.type);
  }

  consteval void parse_default(Arg& arg) {
    arg.default_text = value();
    if (arg.kind == ArgKind::kChoice) {
      arg.default_number = choice_index(arg.type, arg.default_text);
      if (arg.default_number < 0) throw "schema: the default is none of the choices";
    } else if (arg.kind == ArgKind::kBool) {
      if (arg.default_text != "true" && arg.default_text != "false")
        throw "schema: a bool is true or false";
      arg.default_number = arg.default_text == "true" ? 1 : 0;
    } else if (arg.kind == ArgKind::kText) {
      if (arg.default_text != "\"\"") throw "schema: the default of a text is \"\"";
    } else {
      arg.default_number = number(arg.default_text);
    }
  }

  /// Exact: whole numbers and powers of ten this small are doubles, and one division rounds once.
  static consteval double number(std::string_view text) {
    size_t at = 0;
    const auto digits = [&](double& out, int& count) {
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++count)
        out = out * 10 + (text[at] - '0');
    };
    const bool negative = !text.empty() && text[0] == '-';
    at = negative;
    double whole = 0, exponent = 0;
    int before = 0, after = 0, of_exponent = 0;
    digits(whole, before);
    if (at < text.size() && text[at] == '.') {
      ++at;
      digits(whole, after);
    }
    double scale = -after;
    if (at < text.size() && text[at] == 'e') {
      const bool below = ++at < text.size() && text[at] == '-';
      at += below;
      digits(exponent, of_exponent);
      if (of_exponent == 0) throw "schema: an exponent was expected";
      scale += below ? -exponent : exponent;
    }
    if (at != text.size() || before + after == 0 || before + after > 15)
      throw "schema: a number of at most 15 digits was expected";
    if (scale < -22 || scale > 22) throw "schema: a number within 1e-22 and 1e22 was expected";
    double power = 1;
    for (double i = 0; i < (scale < 0 ? -scale : scale); ++i) power *= 10;
    const double value = scale < 0 ? whole / power : whole * power;
    return negative ? -value : value;
  }

  consteval void check_dim(const Dim& dim, bool output) const {
    if (!dim.divisor.empty() && !is_int(dim.divisor)) throw "schema: no i64 argument divides";
    if (dim.addend != 0 && dim.divisor.empty()) throw "schema: a sum of what is not divided";
    if (!output && is_computed(dim)) throw "schema: an input's size is no argument's";
  }

  consteval Dim dim() {
    Dim out;
    peek();
    const size_t start = at_;
    if (accept('*')) {
      out.kind = Dim::Kind::kLead;
    } else if (peek() == '.') {
      for (int i = 0; i < 3; ++i) expect('.');
      out.kind = Dim::Kind::kBroadcast;
    } else if (peek() >= '0' && peek() <= '9') {
      out.kind = Dim::Kind::kFixed;
      out.factor = digits();
      if (accept('*')) {
        out.kind = Dim::Kind::kNamed;
        out.name = word();
      }
    } else {
      out.name = word();
      if (accept('/')) out.divisor = word();
      if (accept('+')) out.addend = digits();
    }
    out.text = text_.substr(start, at_ - start);
    return out;
  }

  consteval int64_t digits() {
    int64_t out = 0;
    for (char c : word()) {
      if (c < '0' || c > '9') throw "schema: a number was expected";
      out = out * 10 + (c - '0');
    }
    return out;
  }
  consteval char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  consteval bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  consteval void expect(char c) {
    if (!accept(c)) throw "schema: unexpected character";
  }
  static constexpr bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  consteval std::string_view word() {
    peek();
    const size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == start) throw "schema: a name was expected";
    return text_.substr(start, at_ - start);
  }
  consteval std::string_view value() {
    peek();
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' && text_[at_] != ' ') ++at_;
    return text_.substr(start, at_ - start);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string_view name_;
  Arg args_[kMaxArgs] = {};
  int size_ = 0;
  std::string_view types_[kMaxTypes] = {};
  int type_count_ = 0;
};

}  // namespace tw::ops
