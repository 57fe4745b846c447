// How the gradient of an operator is computed by other operators, as text parsed by the compiler.
//
//   rms_norm_backward(grad=out.grad, x, weight, eps) -> x.grad, weight.grad
//
//   rule       [where CONDITION, ...:] STEP; ...
//   step       OP(PARAMETER=VALUE, ...) -> RESULT, ...      or  VALUE -> RESULT
//              a parameter alone stands for PARAMETER=PARAMETER; parameters left out take their
//              defaults; results are the outputs of OP in order
//   value      an argument of the operator, NAME.grad, or the result of a step before; or a number,
//              which broadcasts where a tensor is wanted
//     .T       with its last two dimensions swapped, without a copy
//     .matrix  its leading dimensions as one, in a batch of one: [1, rows, columns]
//     .shape   of which only the shape matters: the tensor itself need not be kept
//     .inverse of an order of dimensions: the one that undoes it
//     !        in front of a flag: its negation
//   result     NAME.grad of an input, or a new name
//   condition  NAME=CHOICE, or NAME=absent, an empty text too: the rule holds for these calls alone
//
// Where a result is larger than its argument, because that was broadcast, it is summed over the
// dimensions that were stretched; where it has the same elements in other leading dimensions, it is
// reshaped. A rule that is malformed, or that fits the operators it names badly, does not compile.
#pragma once

#include <cstdint>
#include <string_view>

#include "tilewright/ops/core/schema.h"

namespace tw::ops {

struct Gradient {
  static constexpr int kMaxSteps = 6, kMaxInputs = 16, kMaxResults = 6, kMaxConditions = 8;

  struct Value {
    std::string_view parameter;  // of the operator called
    std::string_view name;       // empty for a number
    std::string_view number;
    bool is_grad = false, is_transposed = false, is_matrix = false, is_shape = false;
    bool is_inverse = false, is_negated = false;
  };
  struct Result {
    std::string_view name;
    bool is_grad = false;
  };
  struct Step {
    std::string_view op;  // empty: the result is inputs[0] itself
    Value inputs[kMaxInputs] = {};
    int input_count = 0;
    Result results[kMaxResults] = {};
    int result_count = 0;
  };
  struct Condition {
    std::string_view name, value;
  };

  std::string_view text;
  Step steps[kMaxSteps] = {};
  int step_count = 0;
  Condition conditions[kMaxConditions] = {};
  int condition_count = 0;

  consteval explicit Gradient(const char* rule) : text(rule) { Parser{*this}.parse(); }

  constexpr const Step* begin() const { return steps; }
  constexpr const Step* end() const { return steps + step_count; }

 private:
  struct Parser {
    Gradient& out;
    size_t at = 0;

    consteval void parse() {
      if (word_ahead() == "where") conditions();
      do {
        if (out.step_count == kMaxSteps) throw "gradient: too many steps";
        step(out.steps[out.step_count++]);
      } while (accept(';'));
      if (peek() != '\0') throw "gradient: text after the last step";
    }
    consteval void conditions() {
      word();
      do {
        if (out.condition_count == kMaxConditions) throw "gradient: too many conditions";
        Condition& condition = out.conditions[out.condition_count++];
        condition.name = word();
        expect('=');
        condition.value = word();
      } while (accept(','));
      expect(':');
    }
    consteval void step(Step& to) {
      const size_t start = at;
      const std::string_view first = word();
      if (accept('(')) {
        to.op = first;
        do {
          if (to.input_count == kMaxInputs) throw "gradient: too many arguments";
          input(to.inputs[to.input_count++]);
        } while (accept(','));
        expect(')');
      } else {
        at = start;
        value(to.inputs[to.input_count++]);
      }
      expect('-');
      expect('>');
      do {
        if (to.result_count == kMaxResults) throw "gradient: too many results";
        Result& result = to.results[to.result_count++];
        result.name = word();
        if (accept('.')) {
          if (word() != "grad") throw "gradient: a result is NAME or NAME.grad";
          result.is_grad = true;
        }
      } while (accept(','));
    }
    consteval void input(Value& to) {
      const size_t start = at;
      to.parameter = word();
      if (accept('=')) return value(to);
      at = start;
      value(to);
      if (to.name != to.parameter) throw "gradient: an argument alone is a name alone";
    }
    consteval void value(Value& to) {
      to.is_negated = accept('!');
      const char c = peek();
      if ((c >= '0' && c <= '9') || c == '-') {
        accept('-');
        const size_t start = at - (c == '-' ? 1 : 0);
        word();
        to.number = out.text.substr(start, at - start);
        return;
      }
      to.name = word();
      while (accept('.')) {
        const std::string_view form = word();
        if (form == "grad")
          to.is_grad = true;
        else if (form == "T")
          to.is_transposed = true;
        else if (form == "matrix")
          to.is_matrix = true;
        else if (form == "shape")
          to.is_shape = true;
        else if (form == "inverse")
          to.is_inverse = true;
        else
          throw "gradient: after the dot: grad, T, matrix, shape or inverse";
      }
    }

    consteval char peek() {
      while (at < out.text.size() && out.text[at] == ' ') ++at;
      return at < out.text.size() ? out.text[at] : '\0';
    }
    consteval bool accept(char c) {
      if (peek() != c) return false;
      ++at;
      return true;
    }
    consteval void expect(char c) {
      if (!accept(c)) throw "gradient: unexpected character";
    }
    consteval std::string_view word() {
      const std::string_view found = word_ahead();
      if (found.empty()) throw "gradient: a name was expected";
      at += found.size();
      return found;
    }
    consteval std::string_view word_ahead() {
      peek();
      size_t end = at;
      while (end < out.text.size() && is_word(out.text[end])) ++end;
      return out.text.substr(at, end - at);
    }
    static constexpr bool is_word(char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    }
  };
};

namespace detail {

constexpr const Arg* find_arg(const Schema& schema, std::string_view name) {
  for (const Arg& arg : schema)
    if (arg.name == name) return &arg;
  return nullptr;
}

/// Whether `value` is something that the rule of `of` has at this step.
consteval void check_value(const Gradient& rule, const Schema& of, const Gradient::Step* step,
                           const Gradient::Value& value) {
  if (value.name.empty()) return;
  const Arg* arg = find_arg(of, value.name);
  if (arg != nullptr && (!value.is_grad || arg->output)) return;
  for (const Gradient::Step* before = rule.begin(); before != step; ++before)
    for (int r = 0; r < before->result_count; ++r)
      if (before->results[r].name == value.name && before->results[r].is_grad == value.is_grad)
        return;
  throw "gradient: a value is no argument of the operator and no earlier result";
}

consteval void check_call(const Gradient::Step& step, const Schema& called) {
  for (int i = 0; i < step.input_count; ++i) {
    const Arg* to = find_arg(called, step.inputs[i].parameter);
    if (to == nullptr || to->output) throw "gradient: the operator called has no such argument";
  }
  int outputs = 0;
  for (const Arg& arg : called) {
    if (arg.output) {
      ++outputs;
      continue;
    }
    bool is_given = arg.may_be_left_out();
    for (int i = 0; i < step.input_count; ++i) is_given |= step.inputs[i].parameter == arg.name;
    if (!is_given) throw "gradient: an argument of the operator called is missing";
  }
  if (step.result_count > outputs) throw "gradient: more results than outputs";
}

}  // namespace detail

/// Checks the rule of the operator `of`; find(name) is the schema of an operator, or null. Throws,
/// which stops the compiler, where they do not fit.
template <class Find>
consteval bool check_gradient(const Gradient& rule, const Schema& of, Find find) {
  for (int i = 0; i < rule.condition_count; ++i)
    if (detail::find_arg(of, rule.conditions[i].name) == nullptr)
      throw "gradient: a condition names no argument";
  for (const Gradient::Step& step : rule) {
    for (int i = 0; i < step.input_count; ++i) detail::check_value(rule, of, &step, step.inputs[i]);
    for (int r = 0; r < step.result_count; ++r) {
      if (!step.results[r].is_grad) continue;
      const Arg* arg = detail::find_arg(of, step.results[r].name);
      if (arg == nullptr || arg->output) throw "gradient: a result is the gradient of no input";
    }
    if (step.op.empty()) continue;
    const Schema* called = find(step.op);
    if (called == nullptr) throw "gradient: there is no operator of this name";
    detail::check_call(step, *called);
  }
  return true;
}

}  // namespace tw::ops
