// From an operator of the catalog to what PyTorch calls it: the only place that knows how arguments
// of the one become arguments of the other.
//
//   tensor        Tensor, Tensor?          f32        float
//   i64[N]        int[] (read on the host) i64, bool  int, bool
//   a|b|c, text   str
//
// Each operator has up to three overloads: NAME returns its outputs, NAME.out fills given ones, and
// NAME.full, where some outputs are optional, returns these too. Where the dtype of an output
// follows from no input, there is NAME.out alone.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/c/tilewright.h"

namespace tw::torch {

enum class Form { kFunctional, kFull, kOut };

enum class Kind { kTensor, kOptionalTensor, kIntList, kFloat, kInt, kBool, kString };

inline Kind kind_of(const tw_argument& arg) {
  switch (arg.kind) {
    case TW_ARGUMENT_FLOAT:
      return Kind::kFloat;
    case TW_ARGUMENT_INT:
      return Kind::kInt;
    case TW_ARGUMENT_BOOL:
      return Kind::kBool;
    case TW_ARGUMENT_CHOICE:
    case TW_ARGUMENT_TEXT:
      return Kind::kString;
    default:
      break;
  }
  const bool is_list = !arg.is_output && std::strcmp(arg.type, "i64") == 0 &&
                       std::strpbrk(arg.dims, ",.*") == nullptr;
  if (is_list && !arg.is_optional) return Kind::kIntList;
  return arg.is_optional ? Kind::kOptionalTensor : Kind::kTensor;
}

inline std::vector<const tw_argument*> arguments_of(const tw_operator* op) {
  std::vector<const tw_argument*> out;
  for (int32_t i = 0; i < tw_operator_argument_count(op); ++i)
    out.push_back(tw_operator_argument(op, i));
  return out;
}

inline bool has_optional_output(const tw_operator* op) {
  for (const tw_argument* arg : arguments_of(op))
    if (arg->is_output && arg->is_optional) return true;
  return false;
}

inline std::string overload(const tw_operator* op, Form form) {
  return std::string(tw_operator_name(op)) + (form == Form::kOut    ? ".out"
                                              : form == Form::kFull ? ".full"
                                                                    : "");
}

inline std::string default_value(const tw_argument& arg) {
  const std::string text = arg.default_text;
  if (text.empty()) return arg.is_optional ? "=None" : "";
  if (arg.kind == TW_ARGUMENT_BOOL) return text == "true" ? "=True" : "=False";
  if (arg.kind == TW_ARGUMENT_CHOICE) return "=\"" + text + "\"";
  if (arg.kind == TW_ARGUMENT_FLOAT && text.find_first_of(".e") == std::string::npos)
    return "=" + text + ".0";
  return "=" + text;
}

/// "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor"
inline std::string torch_schema(const tw_operator* op, Form form) {
  static constexpr const char* kTypes[] = {"Tensor", "Tensor?", "int[]", "float",
                                           "int",    "bool",    "str"};
  std::string inputs, outputs, returns;
  char alias = 'a';
  for (const tw_argument* arg : arguments_of(op)) {
    const std::string rest = " " + std::string(arg->name) + default_value(*arg);
    if (!arg->is_output) {
      inputs += (inputs.empty() ? "" : ", ");
      inputs += kTypes[static_cast<int>(kind_of(*arg))] + rest;
      continue;
    }
    outputs += std::string(", Tensor(") + alias++ + "!)" + (arg->is_optional ? "?" : "") + rest;
    if (!arg->is_optional || form == Form::kFull)
      returns += std::string(returns.empty() ? "" : ", ") + "Tensor";
  }
  if (form == Form::kOut) return overload(op, form) + "(" + inputs + ", *" + outputs + ") -> ()";
  const bool many = returns.find(',') != std::string::npos;
  return overload(op, form) + "(" + inputs + ") -> " + (many ? "(" + returns + ")" : returns);
}

}  // namespace tw::torch
