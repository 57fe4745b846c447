// Modifications of scores and masks: their grammar, what it refuses and where, every operation on
// every instruction set against its definition, and the text that GPUs compile.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/op_call.h"
#include "tilewright/core/error.h"
#include "tilewright/ops/core/score_definition.h"
#include "tilewright/ops/core/score_parser.h"
#include "tilewright/ops/core/score_text.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/operators.h"

namespace tw::ops {
namespace {

using kernels::ScoreAt;
using kernels::ScoreMods;
using kernels::ScoreOp;
using kernels::ScoreProgram;

constexpr ScoreAt kAt{1, 2, 7, 3, 10, 20};

double score_of(std::string_view text, double score = 0.5) {
  const ScoreProgram program = parse_score_program(text, ScoreText::kScore);
  ScoreMods mods;
  mods.score = &program;
  return modified_score(mods, kAt, score);
}
bool is_seen(std::string_view text) {
  const ScoreProgram program = parse_score_program(text, ScoreText::kMask);
  ScoreMods mods;
  mods.mask = &program;
  return modified_score(mods, kAt, 1) == 1;
}
std::string error_of(std::string_view text, ScoreText kind = ScoreText::kScore) {
  try {
    parse_score_program(text, kind);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "none";
}

TEST(ScoreParser, Precedence) {
  EXPECT_EQ(score_of("1 + 2 * 3 - 4"), 3);
  EXPECT_EQ(score_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(score_of("-2 * -3"), 6);
  EXPECT_EQ(score_of("8 / 4 / 2"), 1);
  EXPECT_EQ(score_of("7 // 2 * 2"), 6);
  EXPECT_EQ(score_of("1 if q > k else 2 if b == 1 else 3"), 1);
  EXPECT_EQ(score_of("1 if q < k else 2 if b == 1 else 3"), 2);
  EXPECT_TRUE(is_seen("q == 7 or k == 0 and h == 0"));
  EXPECT_TRUE(is_seen("not q == 8 and True"));
  EXPECT_FALSE(is_seen("not (q == 7 or k == 0)"));
  EXPECT_EQ(score_of("1e1 + .5 + 2.25e0"), 12.75);
}

TEST(ScoreParser, VariablesAndFunctions) {
  EXPECT_EQ(score_of("b + 10 * h + 100 * q + 1000 * k"), 3721);
  EXPECT_EQ(score_of("q_len * kv_len"), 200);
  EXPECT_EQ(score_of("score"), 0.5);
  EXPECT_EQ(score_of("min(q, k) + max(q, k) * 10"), 73);
  EXPECT_EQ(score_of("abs(k - q) + abs(-1.5)"), 5.5);
  EXPECT_EQ(score_of("where(q >= k, score, -inf)"), 0.5);
  EXPECT_EQ(score_of("where(q < k, score, -inf)"), -HUGE_VAL);
  EXPECT_DOUBLE_EQ(score_of("exp(score) + exp2(score)"), std::exp(0.5) + std::exp2(0.5));
  EXPECT_DOUBLE_EQ(score_of("log(score) + log2(score)"), std::log(0.5) - 1);
  EXPECT_DOUBLE_EQ(score_of("tanh(score) + sqrt(score)"), std::tanh(0.5) + std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(score_of("sigmoid(score) + floor(score - 1)"), 1 / (1 + std::exp(-0.5)) - 1);
}

TEST(ScoreParser, IntegersRoundDownAndWrap) {
  EXPECT_EQ(score_of("-7 // 2"), -4);
  EXPECT_EQ(score_of("-7 % 3"), 2);
  EXPECT_EQ(score_of("7 % -3"), -2);
  EXPECT_EQ(score_of("7 / 2"), 3.5);
  EXPECT_EQ(score_of("q // (b - 1)"), 0);
  EXPECT_EQ(score_of("q % (b - 1)"), 7);
  EXPECT_EQ(score_of("2147483647 + b"), -2147483648.0);
  EXPECT_EQ(score_of("(-2147483647 - 1) // (b - 2)"), -2147483648.0);
}

TEST(ScoreParser, WhatIsSaidTwiceIsComputedOnce) {
  const ScoreProgram program =
      parse_score_program("(q - k) * (q - k) + 0 * h * h", ScoreText::kScore);
  EXPECT_EQ(program.count, 10);
  EXPECT_EQ(program.code[program.count - 1].op, ScoreOp::kToFloat);
  EXPECT_EQ(parse_score_program("  ", ScoreText::kMask).count, 0);
  EXPECT_EQ(parse_score_program("score", ScoreText::kScore).count, 1);
}

TEST(ScoreParser, ErrorsSayWhere) {
  EXPECT_EQ(error_of("score + "), "at 8, a number or a name was expected, not the end");
  EXPECT_EQ(error_of("score score"), "at 6, an operator was expected, not 'score'");
  EXPECT_EQ(error_of("(score"), "at 6, ')' was expected, not the end");
  EXPECT_EQ(error_of("max(score)"), "at 9, ',' was expected, not ')'");
  EXPECT_EQ(error_of("1 < q < 3"), "at 7, comparisons do not chain: use 'and'");
  EXPECT_EQ(error_of("q // 0"), "at 2, division by 0");
  EXPECT_EQ(error_of("score // 2"), "at 6, '//' and '%' divide integers");
  EXPECT_EQ(error_of("q > k"), "at 0, a score is a number, not a condition");
  EXPECT_EQ(error_of("q", ScoreText::kMask), "at 0, a mask is a condition, not an integer");
  EXPECT_EQ(error_of("score > 0", ScoreText::kMask), "at 0, a mask knows no 'score'");
  EXPECT_EQ(error_of("q and k", ScoreText::kMask),
            "at 2, a condition was expected, not an integer");
  EXPECT_EQ(error_of("mod_i32[0.5]"), "at 8, an index is an integer, not a float");
  EXPECT_EQ(error_of("where(q, 1, 2)"), "at 0, a condition was expected, not an integer");
  EXPECT_EQ(error_of("2 ** 3"), "at 2, there is no '**': use exp2(x * log2(y))");
  EXPECT_EQ(error_of("3000000000 * q"),
            "at 0, 3000000000 does not fit 32 bits: write it as a float");
  EXPECT_NE(error_of("__import__('os')").find("at 0, there is no '__import__'"), std::string::npos);
}

TEST(ScoreParser, HostileTextIsRefused) {
  const auto many = [](const std::string& part, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += part;
    return out;
  };
  EXPECT_NE(error_of(many("(", 2000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of(many("-", 2000) + "q").find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of(many("not ", 900) + "True", ScoreText::kMask).find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(error_of(many("1 if True else ", 200) + "2").find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(error_of(many(" ", 5000)).find("longer than 4096 bytes"), std::string::npos);
  std::string sum = "0.5";
  for (int i = 0; i < 100; ++i) sum += " + " + std::to_string(i) + ".25";
  EXPECT_NE(error_of(sum).find("more than 64 different operations"), std::string::npos);
  for (const std::string text : {"1e999", "0x10", "1.2.3", "score\n", "#", "score;", "a.b", "[",
                                 "mod_f32", "\xff\xfe", "1e", "."})
    EXPECT_NE(error_of(text), "none") << text;
  EXPECT_NE(error_of(std::string("score\0 + 1", 10)), "none");
  EXPECT_EQ(error_of("\x1b[2J").find('\x1b'), std::string::npos);
}

struct Mods {
  const char *score, *mask;
};
/// Every operation on floats, integers and conditions.
constexpr Mods kAll[] = {
    {"score * 2 - 1 / (1.5 + k) + -score * 0.25", ""},
    {"min(score, 0.3) + max(score, -0.3) + abs(score)", ""},
    {"exp(score) - exp2(-score * 3) + exp2(min(k, 150) - 200) * 1e9", ""},
    {"log(1.5 + k) + log2(k + 0.5) - sqrt(k)", ""},
    {"tanh(score) + sigmoid(score * 2) + floor(k / 3.5) * 0.01", ""},
    {"score + (k - 40) // 7 * 0.1 + (k - 40) % 7 * 0.01 + (40 - k) % -7 * 0.1", ""},
    {"score + min(k, q * 9) * 0.01 + max(k, 30) * 0.01 + abs(k - 30) * 0.02 + -k * 0.01", ""},
    {"score + mod_f32[k - 4] + mod_i32[k // 9] * 0.1", "mod_i32[k % 9] != mod_i32[q] or k < 3"},
    {"score if k % 2 == 0 else where(h > 0, score * 0.5, -inf)", "k <= 70 and not k == 5"},
    {"0.5", "where(k < 9, q > 1, k > 20)"},
    {"", "(k * 1.5 < 60 or False) and k / 2 >= 1.0"},
    {"score + (k * 65536 * 65536 + k) * 0.01 + where(2147483647 + k < 0, 0.5, 0)", ""},
};

class ScoreModsOn : public ::testing::TestWithParam<Isa> {};

TEST_P(ScoreModsOn, EveryOperationIsAsDefined) {
  const runtime::OperatorInfo& op = runtime::find_operator("attention");
  for (const auto& combo : {op.combos[0], op.combos[12]})
    for (const char* shape : {"S=5 L=77", "S=60 L=140", "S=1 L=300"})
      for (const Mods& mods : kAll) {
        testing::CaseSpec spec = testing::CaseSpec::parse(
            *op.schema,
            std::string("B=2 Hq=2 H=1 D=8 Dv=8 F=9 I=9 +mod_f32 +mod_i32 +lse ") + shape);
        spec.scalars["score_mod"] = mods.score;
        spec.scalars["mask_mod"] = mods.mask;
        testing::OpCall got(op, combo, spec, 7, testing::Layout::kStrided);
        testing::OpCall want(op, combo, spec, 7, testing::Layout::kContiguous);
        runtime::Context context(runtime::default_pool(), GetParam());
        op.run(got.call(), context);
        op.reference(want.call());
        for (size_t i = 0; i < want.outputs().size(); ++i) {
          const TensorRef& out = want.outputs()[i];
          const double tolerance = 2 * testing::tolerance_of(out.dtype);
          const auto found = testing::compare(got.outputs()[i], out, tolerance);
          EXPECT_TRUE(found.ok) << mods.score << " | " << mods.mask << ": " << found.message;
        }
        EXPECT_TRUE(got.padding_intact());
      }
}

INSTANTIATE_TEST_SUITE_P(Isas, ScoreModsOn, ::testing::ValuesIn(runtime::available_isas()),
                         [](const auto& isa) { return std::string(name(isa.param)); });

TEST(ScoreMods, WrongCallsSayWhichTextIsWrong) {
  const runtime::OperatorInfo& op = runtime::find_operator("attention");
  const auto error_with = [&](const char* name, const char* text) -> std::string {
    testing::CaseSpec spec = testing::CaseSpec::parse(*op.schema, "B=1 S=2 L=2 Hq=1 H=1 D=8 Dv=8");
    spec.scalars[name] = text;
    testing::OpCall call(op, op.combos[0], spec, 1, testing::Layout::kContiguous);
    try {
      op.reference(call.call());
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_TRUE(
      error_with("mask_mod", "q")
          .starts_with(
              "attention: mask_mod: at 0, a mask is a condition, not an integer\n  in attention("));
  EXPECT_TRUE(error_with("score_mod", "mod_f32[q]")
                  .starts_with("attention: score_mod reads mod_f32, which has no elements or is "
                               "absent\n  in attention("));
}

/// What all keys share comes first, and neighbouring elements are known to be.
TEST(ScoreParser, OrdersOperations) {
  const auto shared = [](const char* text) {
    return parse_score_program(text, ScoreText::kMask).shared;
  };
  EXPECT_EQ(shared("q >= k"), 1);
  EXPECT_EQ(shared("k < mod_i32[q + 1]"), 4);
  EXPECT_EQ(shared("b == h"), 3);
  const auto neighbours = [](const std::string& index) {
    const ScoreProgram program =
        parse_score_program("mod_i32[" + index + "] == q", ScoreText::kMask);
    for (const auto& one : program.code)
      if (one.op == kernels::ScoreOp::kLoad) return one.number == 1;
    return false;
  };
  for (const char* index : {"k", "k + 3", "q + k", "k - q", "1 + (k - h * 7)"})
    EXPECT_TRUE(neighbours(index)) << index;
  for (const char* index : {"q", "2 * k", "q - k", "k + k", "-k", "k // 2", "min(k, 3)"})
    EXPECT_FALSE(neighbours(index)) << index;
}

/// What is loaded for a query or a key is loaded once for it, not for each pair.
TEST(ScoreText, SharesWhatPairsShare) {
  const ScoreProgram score =
      parse_score_program("score - mod_f32[h] * mod_i32[k]", ScoreText::kScore);
  ScoreMods mods;
  mods.score = &score;
  const std::string text = print_score_mods(mods);
  const size_t value = text.find("value(float score, const Row& row, const Key& key");
  EXPECT_LT(text.find("ScoreNumbers::at(numbers.floats"), value) << text;
  EXPECT_LT(text.find("ScoreNumbers::at(numbers.ints"), value) << text;
  EXPECT_NE(text.find("row.v", value), text.npos) << text;
  EXPECT_NE(text.find("key.v", value), text.npos) << text;
}

/// What a caller wrote never gets into a program: names, operators and digits are the printer's.
TEST(ScoreText, IsPrintedFromOperations) {
  const ScoreProgram score = parse_score_program("score - 0.5 * abs(q - k)", ScoreText::kScore);
  const ScoreProgram mask = parse_score_program("mod_i32[q] == 3 and q >= k", ScoreText::kMask);
  ScoreMods mods;
  mods.score = &score;
  const std::string one = print_score_mods(mods), key = score_mods_key(mods);
  EXPECT_NE(one.find("const float v0 = __builtin_bit_cast(float, 0x3f000000u);"), one.npos) << one;
  EXPECT_NE(one.find("struct PrintedMask {\n  static constexpr bool kAny = false;"), one.npos)
      << one;
  mods.mask = &mask;
  EXPECT_NE(print_score_mods(mods).find("ScoreNumbers::at(numbers.ints, v"), one.npos);
  EXPECT_NE(score_mods_key(mods), key);

  const runtime::cuda::AttentionVariant variant{DType::kBf16, DType::kBf16, false, 0, mods};
  const runtime::cuda::DeviceProgram program = runtime::cuda::attention_program(variant);
  int printed = 0;
  for (const auto& header : program.headers)
    if (header.path == kPrintedModsPath) printed += header.text == print_score_mods(mods);
  EXPECT_EQ(printed, 1);
  EXPECT_NE(program.text.find("AttentionModifiedScores<AttentionPlainScores>"), one.npos);
}

}  // namespace
}  // namespace tw::ops
