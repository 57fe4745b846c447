#include "tilewright/ops/core/score_text.h"

#include <array>
#include <cstdio>

#include "tilewright/ops/core/score_order.h"

namespace tw::ops {
namespace {

using kernels::ScoreInstruction;
using kernels::ScoreOp;
using kernels::ScoreProgram;
using kernels::ScoreType;

/// What an operation on floats, or on others, is in C++: A, B and C stand for its operands.
struct Pattern {
  ScoreOp op;
  const char *floats, *others;
};
constexpr Pattern kPatterns[] = {
    {ScoreOp::kScore, "", "score"},
    {ScoreOp::kBatch, "", "at.batch"},
    {ScoreOp::kHead, "", "at.head"},
    {ScoreOp::kQuery, "", "at.query"},
    {ScoreOp::kKey, "", "at.key"},
    {ScoreOp::kQueries, "", "at.queries"},
    {ScoreOp::kKeys, "", "at.keys"},
    {ScoreOp::kToFloat, "", "float(A)"},
    {ScoreOp::kAdd, "A + B", "score_add(A, B)"},
    {ScoreOp::kSub, "A - B", "score_sub(A, B)"},
    {ScoreOp::kMul, "A * B", "score_mul(A, B)"},
    {ScoreOp::kDiv, "A / B", ""},
    {ScoreOp::kFloorDiv, "", "score_floor_div(A, B)"},
    {ScoreOp::kMod, "", "score_remainder(A, B)"},
    {ScoreOp::kMin, "B < A ? B : A", "B < A ? B : A"},
    {ScoreOp::kMax, "A < B ? B : A", "A < B ? B : A"},
    {ScoreOp::kNeg, "-A", "score_sub(0, A)"},
    {ScoreOp::kAbs, "__builtin_fabsf(A)", "A < 0 ? score_sub(0, A) : A"},
    {ScoreOp::kLess, "A < B", "A < B"},
    {ScoreOp::kLessEqual, "A <= B", "A <= B"},
    {ScoreOp::kEqual, "A == B", "A == B"},
    {ScoreOp::kAnd, "", "A && B"},
    {ScoreOp::kOr, "", "A || B"},
    {ScoreOp::kNot, "", "!A"},
    {ScoreOp::kWhere, "", "A ? B : C"},
    {ScoreOp::kExp, "__builtin_expf(A)", ""},
    {ScoreOp::kExp2, "__builtin_exp2f(A)", ""},
    {ScoreOp::kLog, "__builtin_logf(A)", ""},
    {ScoreOp::kLog2, "__builtin_log2f(A)", ""},
    // exact to 1e-7 of 1, in a third of the time of tanhf
    {ScoreOp::kTanh, "1 - 2 / (1 + __builtin_exp2f(A * 2.885390082f))", ""},
    {ScoreOp::kSigmoid, "1 / (1 + __builtin_expf(-A))", ""},
    {ScoreOp::kSqrt, "__builtin_sqrtf(A)", ""},
    {ScoreOp::kFloor, "__builtin_floorf(A)", ""},
};

const char* pattern_of(const ScoreInstruction& one, ScoreType operands) {
  if (one.op == ScoreOp::kLoad)
    return one.type == ScoreType::kFloat ? "ScoreNumbers::at(numbers.floats, A)"
                                         : "ScoreNumbers::at(numbers.ints, A)";
  for (const Pattern& pattern : kPatterns)
    if (pattern.op == one.op)
      return kernels::score_operands(one.op) > 0 && operands == ScoreType::kFloat ? pattern.floats
                                                                                  : pattern.others;
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

/// A struct of printed_mods.h that does what a program says.
class Printer {
 public:
  explicit Printer(const ScoreProgram& program) : program_(program) {
    for (int i = 0; i < program.count; ++i) {
      parts_[i] = part_of(program.code[i]);
      scored_[i] = program.code[i].op == ScoreOp::kScore;
      for_operands(program.code[i], [&](int operand) { scored_[i] |= scored_[operand]; });
    }
  }

  /// `result` is the type of its value, which of no program is `otherwise`.
  std::string text(const char* name, const char* result, const char* otherwise) const {
    const std::string given = "const ScoreAt& at, const ScoreNumbers& numbers) {\n";
    const int last = program_.count - 1;
    return std::string("struct ") + name +
           " {\n  static constexpr bool kAny = " + (program_ ? "true" : "false") + ";\n" +
           fields("Row", kRow) + fields("Key", kKey) + "  TW_INLINE static Row row(" + given +
           steps(kRow) + results(kRow) + "  TW_INLINE static Key key(" + given + steps(kKey) +
           results(kKey) + "  TW_INLINE static " + result +
           " value(float score, const Row& row, const Key& key, " + given + steps(kPair) +
           "    return " + (program_ ? name_of(last, kPair) : otherwise) + ";\n  }\n};\n";
  }

 private:
  /// When an operation is done: once for a query's scores, for a key's, for each score.
  /// Of numbers alone it is done wherever it is wanted, by the compiler.
  enum Part { kConstant = 0, kRow = 1, kKey = 2, kPair = 3 };

  Part part_of(const ScoreInstruction& one) const {
    switch (one.op) {
      case ScoreOp::kNumber:
        return kConstant;
      case ScoreOp::kScore:
        return kPair;
      case ScoreOp::kKey:
        return kKey;
      default:
        break;
    }
    if (kernels::score_operands(one.op) == 0) return kRow;
    int out = kConstant;
    for_operands(one, [&](int operand) { out |= parts_[operand]; });
    return Part(out);
  }

  /// What operation i gave, in the function of `where`.
  std::string name_of(int i, Part where) const {
    const std::string name = "v" + std::to_string(i);
    if (parts_[i] == where || parts_[i] == kConstant) return name;
    return (parts_[i] == kRow ? "row." : "key.") + name;
  }
  std::string value_text(const ScoreInstruction& one, Part where) const {
    if (one.op == ScoreOp::kNumber) return number_text(one);
    std::string out;
    // On GPUs A / B is an approximation, of whole numbers, too, which floor() would show.
    const bool exact = one.op == ScoreOp::kDiv && !scored_[one.a] && !scored_[one.b];
    const char* c = exact ? "__fdiv_rn(A, B)" : pattern_of(one, program_.code[one.a].type);
    for (; *c != '\0'; ++c) {
      if (*c == 'A' || *c == 'B' || *c == 'C')
        out += name_of(*c == 'A' ? one.a : *c == 'B' ? one.b : one.c, where);
      else
        out += *c;
    }
    return out;
  }

  /// The operations of a function.
  std::string steps(Part where) const {
    std::string out;
    for (int i = 0; i < program_.count; ++i)
      if (parts_[i] == where || parts_[i] == kConstant)
        out += std::string("    const ") + type_of(i) + " v" + std::to_string(i) + " = " +
               value_text(program_.code[i], where) + ";\n";
    return out;
  }
  std::string fields(const char* name, Part part) const {
    std::string out = std::string("  struct ") + name + " {\n";
    for (int i = 0; i < program_.count; ++i)
      if (parts_[i] == part)
        out += std::string("    ") + type_of(i) + " v" + std::to_string(i) + ";\n";
    return out + "  };\n";
  }
  std::string results(Part part) const {
    std::string out = "    return {";
    for (int i = 0; i < program_.count; ++i)
      if (parts_[i] == part) out += "v" + std::to_string(i) + ", ";
    return out + "};\n  }\n";
  }
  const char* type_of(int i) const {
    constexpr const char* kTypes[] = {"float", "int", "bool"};
    return kTypes[int(program_.code[i].type)];
  }

  const ScoreProgram& program_;
  Part parts_[ScoreProgram::kMost] = {};
  bool scored_[ScoreProgram::kMost] = {};  // whether an operation depends on the score
};

std::string text_of(const ScoreProgram* program, const char* name, const char* result,
                    const char* otherwise) {
  const ScoreProgram none;
  return Printer(program != nullptr ? *program : none).text(name, result, otherwise);
}

}  // namespace

std::string print_score_mods(const kernels::ScoreMods& mods) {
  return "#pragma once\n#include \"tilewright/kernels/score_program.h\"\n"
         "namespace tw::kernels {\n" +
         text_of(mods.score, "PrintedScore", "float", "score") +
         text_of(mods.mask, "PrintedMask", "bool", "true") + "}\n";
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
