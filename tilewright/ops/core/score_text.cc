#include "tilewright/ops/core/score_text.h"

#include <array>
#include <cstdio>

namespace tw::ops {
namespace {

using kernels::ScoreInstruction;
using kernels::ScoreOp;
using kernels::ScoreProgram;
using kernels::ScoreType;

/// What an operation is in C++: A, B and C stand for its operands.
const char* pattern_of(const ScoreInstruction& one, ScoreType operands) {
  const bool is_float = operands == ScoreType::kFloat;
  switch (one.op) {
    case ScoreOp::kScore:
      return "score";
    case ScoreOp::kBatch:
      return "at.batch";
    case ScoreOp::kHead:
      return "at.head";
    case ScoreOp::kQuery:
      return "at.query";
    case ScoreOp::kKey:
      return "at.key";
    case ScoreOp::kQueries:
      return "at.queries";
    case ScoreOp::kKeys:
      return "at.keys";
    case ScoreOp::kLoad:
      return one.type == ScoreType::kFloat ? "ScoreNumbers::at(numbers.floats, A)"
                                           : "ScoreNumbers::at(numbers.ints, A)";
    case ScoreOp::kToFloat:
      return "float(A)";
    case ScoreOp::kAdd:
      return is_float ? "A + B" : "score_add(A, B)";
    case ScoreOp::kSub:
      return is_float ? "A - B" : "score_sub(A, B)";
    case ScoreOp::kMul:
      return is_float ? "A * B" : "score_mul(A, B)";
    case ScoreOp::kDiv:
      return "A / B";
    case ScoreOp::kFloorDiv:
      return "score_floor_div(A, B)";
    case ScoreOp::kMod:
      return "score_remainder(A, B)";
    case ScoreOp::kMin:
      return "B < A ? B : A";
    case ScoreOp::kMax:
      return "A < B ? B : A";
    case ScoreOp::kNeg:
      return is_float ? "-A" : "score_sub(0, A)";
    case ScoreOp::kAbs:
      return is_float ? "__builtin_fabsf(A)" : "A < 0 ? score_sub(0, A) : A";
    case ScoreOp::kLess:
      return "A < B";
    case ScoreOp::kLessEqual:
      return "A <= B";
    case ScoreOp::kEqual:
      return "A == B";
    case ScoreOp::kAnd:
      return "A && B";
    case ScoreOp::kOr:
      return "A || B";
    case ScoreOp::kNot:
      return "!A";
    case ScoreOp::kWhere:
      return "A ? B : C";
    case ScoreOp::kExp:
      return "__builtin_expf(A)";
    case ScoreOp::kExp2:
      return "__builtin_exp2f(A)";
    case ScoreOp::kLog:
      return "__builtin_logf(A)";
    case ScoreOp::kLog2:
      return "__builtin_log2f(A)";
    case ScoreOp::kTanh:  // exact to 1e-7 of 1, in a third of the time of tanhf
      return "1 - 2 / (1 + __builtin_exp2f(A * 2.885390082f))";
    case ScoreOp::kSigmoid:
      return "1 / (1 + __builtin_expf(-A))";
    case ScoreOp::kSqrt:
      return "__builtin_sqrtf(A)";
    case ScoreOp::kFloor:
      return "__builtin_floorf(A)";
    case ScoreOp::kNumber:
      break;
  }
  return "";
}

std::string number_text(const ScoreInstruction& one) {
  if (one.type == ScoreType::kBool) return one.number != 0 ? "true" : "false";
  std::array<char, 48> out;
  const char* const format =
      one.type == ScoreType::kFloat ? "__builtin_bit_cast(float, 0x%08xu)" : "int(0x%08xu)";
  std::snprintf(out.data(), out.size(), format, unsigned(one.number));
  return out.data();
}

std::string name_of(int i) {
  return "v" + std::to_string(i);
}

std::string value_text(const ScoreProgram& program, const ScoreInstruction& one) {
  if (one.op == ScoreOp::kNumber) return number_text(one);
  std::string out;
  for (const char* c = pattern_of(one, program.code[one.a].type); *c != '\0'; ++c) {
    if (*c == 'A' || *c == 'B' || *c == 'C')
      out += name_of(*c == 'A' ? one.a : *c == 'B' ? one.b : one.c);
    else
      out += *c;
  }
  return out;
}

/// The body of a function; of no program, it returns `otherwise`.
std::string body_of(const ScoreProgram* program, const char* otherwise) {
  constexpr const char* kTypes[] = {"float", "int", "bool"};
  std::string out;
  for (int i = 0; program != nullptr && i < program->count; ++i) {
    const ScoreInstruction& one = program->code[i];
    out += std::string("    const ") + kTypes[int(one.type)] + " " + name_of(i) + " = " +
           value_text(*program, one) + ";\n";
  }
  return out + "    return " + (program == nullptr ? otherwise : name_of(program->count - 1)) +
         ";\n  }\n";
}

}  // namespace

std::string print_score_mods(const kernels::ScoreMods& mods) {
  const std::string parameters = "const ScoreAt& at, const ScoreNumbers& numbers) {\n";
  return "#pragma once\n#include \"tilewright/kernels/score_program.h\"\n"
         "namespace tw::kernels {\nstruct PrintedMods {\n"
         "  static constexpr bool kScores = " +
         std::string(mods.score != nullptr ? "true" : "false") + ", kAny = true;\n" +
         "  TW_INLINE static float score(float score, " + parameters +
         body_of(mods.score, "score") + "  TW_INLINE static bool sees(" + parameters +
         body_of(mods.mask, "true") + "};\n}\n";
}

std::string score_mods_key(const kernels::ScoreMods& mods) {
  std::string out;
  for (const ScoreProgram* program : {mods.score, mods.mask}) {
    const int count = program == nullptr ? 0 : program->count;
    out += char(count);
    if (count > 0)
      out.append(reinterpret_cast<const char*>(program->code),
                 size_t(count) * sizeof(*program->code));
  }
  return out;
}

}  // namespace tw::ops
