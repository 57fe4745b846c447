// The order of a program's operations: what all keys share comes first, so that it is done once.
#pragma once

#include "tilewright/kernels/score_program.h"

namespace tw::ops {

/// Calls f(operand) for those that an operation has.
template <class F>
void for_operands(const kernels::ScoreInstruction& one, F&& f) {
  const int count = kernels::score_operands(one.op);
  if (count > 0) f(one.a);
  if (count > 1) f(one.b);
  if (count > 2) f(one.c);
}

/// Whether operation i is 1 more for the next key.
inline bool grows_by_one(const kernels::ScoreProgram& program, int i) {
  const kernels::ScoreInstruction& one = program.code[i];
  if (one.op == kernels::ScoreOp::kKey) return true;
  const bool sum = one.op == kernels::ScoreOp::kAdd;
  if (!sum && one.op != kernels::ScoreOp::kSub) return false;
  return (one.b < program.shared && grows_by_one(program, one.a)) ||
         (sum && one.a < program.shared && grows_by_one(program, one.b));
}

/// The program that computes operation `result` of `all`: it comes last, and nothing is there that
/// it does not need.
inline kernels::ScoreProgram in_order(const kernels::ScoreProgram& all, int result) {
  using kernels::ScoreOp, kernels::ScoreProgram;
  bool needed[ScoreProgram::kMost] = {}, varies[ScoreProgram::kMost] = {};
  needed[result] = true;
  for (int i = result; i >= 0; --i)
    if (needed[i]) for_operands(all.code[i], [&](int operand) { needed[operand] = true; });
  for (int i = 0; i <= result; ++i) {
    varies[i] = all.code[i].op == ScoreOp::kKey || all.code[i].op == ScoreOp::kScore;
    for_operands(all.code[i], [&](int operand) { varies[i] |= varies[operand]; });
  }
  ScoreProgram out;
  uint8_t place[ScoreProgram::kMost] = {};
  for (const bool varying : {false, true}) {
    for (int i = 0; i <= result; ++i) {
      if (!needed[i] || varies[i] != varying) continue;
      kernels::ScoreInstruction one = all.code[i];
      one.a = place[one.a], one.b = place[one.b], one.c = place[one.c];
      place[i] = uint8_t(out.count);
      out.code[out.count++] = one;
    }
    if (!varying) out.shared = out.count;
  }
  for (int i = 0; i < out.count; ++i)
    if (out.code[i].op == ScoreOp::kLoad) out.code[i].number = grows_by_one(out, out.code[i].a);
  return out;
}

}  // namespace tw::ops
