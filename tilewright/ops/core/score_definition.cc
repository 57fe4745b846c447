#include "tilewright/ops/core/score_definition.h"

#include <algorithm>
#include <cmath>

namespace tw::ops {
namespace {

using kernels::ScoreAt;
using kernels::ScoreInstruction;
using kernels::ScoreNumbers;
using kernels::ScoreOp;
using kernels::ScoreProgram;
using kernels::ScoreType;

/// Float64 holds the results of all types: integers of 32 bits, and conditions as 0 or 1.
double wrapped(int64_t x) {
  return double(int32_t(uint32_t(uint64_t(x))));
}

double read(const ScoreInstruction& op, const ScoreNumbers& numbers, const ScoreAt& at,
            double score, double a) {
  switch (op.op) {
    case ScoreOp::kNumber:
      if (op.type == ScoreType::kFloat) return double(__builtin_bit_cast(float, op.number));
      return op.type == ScoreType::kInt ? double(op.number) : double(op.number != 0);
    case ScoreOp::kScore:
      return score;
    case ScoreOp::kBatch:
      return at.batch;
    case ScoreOp::kHead:
      return at.head;
    case ScoreOp::kQuery:
      return at.query;
    case ScoreOp::kKey:
      return at.key;
    case ScoreOp::kQueries:
      return at.queries;
    case ScoreOp::kKeys:
      return at.keys;
    case ScoreOp::kLoad:
      return op.type == ScoreType::kFloat ? double(ScoreNumbers::at(numbers.floats, int(a)))
                                          : double(ScoreNumbers::at(numbers.ints, int(a)));
    default:  // kToFloat
      return a;
  }
}

double of_ints(ScoreOp op, double x, double y) {
  const auto a = int64_t(x), b = int64_t(y);
  const int64_t floor = b == 0 ? 0 : int64_t(std::floor(x / y));
  switch (op) {
    case ScoreOp::kAdd:
      return wrapped(a + b);
    case ScoreOp::kSub:
      return wrapped(a - b);
    case ScoreOp::kMul:
      return wrapped(a * b);
    case ScoreOp::kFloorDiv:
      return wrapped(floor);
    case ScoreOp::kMod:
      return wrapped(a - floor * b);
    case ScoreOp::kNeg:
      return wrapped(-a);
    default:  // kAbs
      return wrapped(std::abs(a));
  }
}

double compute(ScoreOp op, double a, double b, double c) {
  switch (op) {
    case ScoreOp::kAdd:
      return a + b;
    case ScoreOp::kSub:
      return a - b;
    case ScoreOp::kMul:
      return a * b;
    case ScoreOp::kDiv:
      return a / b;
    case ScoreOp::kMin:
      return std::min(a, b);
    case ScoreOp::kMax:
      return std::max(a, b);
    case ScoreOp::kNeg:
      return -a;
    case ScoreOp::kAbs:
      return std::abs(a);
    case ScoreOp::kLess:
      return a < b;
    case ScoreOp::kLessEqual:
      return a <= b;
    case ScoreOp::kEqual:
      return a == b;
    case ScoreOp::kAnd:
      return a != 0 && b != 0;
    case ScoreOp::kOr:
      return a != 0 || b != 0;
    case ScoreOp::kNot:
      return a == 0;
    default:  // kWhere
      return a != 0 ? b : c;
  }
}

double elementary(ScoreOp op, double a) {
  switch (op) {
    case ScoreOp::kExp:
      return std::exp(a);
    case ScoreOp::kExp2:
      return std::exp2(a);
    case ScoreOp::kLog:
      return std::log(a);
    case ScoreOp::kLog2:
      return std::log2(a);
    case ScoreOp::kTanh:
      return std::tanh(a);
    case ScoreOp::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case ScoreOp::kSqrt:
      return std::sqrt(a);
    default:  // kFloor
      return std::floor(a);
  }
}

double evaluate(const ScoreProgram& program, const ScoreNumbers& numbers, const ScoreAt& at,
                double score) {
  double results[ScoreProgram::kMost] = {};
  for (int i = 0; i < program.count; ++i) {
    const ScoreInstruction& op = program.code[i];
    const double a = results[op.a], b = results[op.b];
    const bool wraps =
        op.type == ScoreType::kInt && ((op.op >= ScoreOp::kAdd && op.op <= ScoreOp::kMod) ||
                                       op.op == ScoreOp::kNeg || op.op == ScoreOp::kAbs);
    if (op.op < ScoreOp::kAdd)
      results[i] = read(op, numbers, at, score, a);
    else if (wraps)
      results[i] = of_ints(op.op, a, b);
    else if (op.op > ScoreOp::kWhere)
      results[i] = elementary(op.op, a);
    else
      results[i] = compute(op.op, a, b, results[op.c]);
  }
  return results[program.count - 1];
}

}  // namespace

double modified_score(const kernels::ScoreMods& mods, const ScoreAt& at, double score) {
  if (mods.score != nullptr) score = evaluate(*mods.score, mods.numbers, at, score);
  const bool seen = mods.mask == nullptr || evaluate(*mods.mask, mods.numbers, at, score) != 0;
  return seen ? score : -HUGE_VAL;
}

}  // namespace tw::ops
