// A modification of attention's scores, or a mask, as a list of operations on numbers: what
// ops/core/score_parser.h makes of text. Neutral: CPUs interpret it (score_mods_cpu.h), for GPUs it
// is printed (ops/core/score_text.h).
#pragma once

#include "tilewright/core/view.h"

namespace tw::kernels {

enum class ScoreType : uint8_t { kFloat, kInt, kBool };

/// Operands are results of operations before: a, b, c.
enum class ScoreOp : uint8_t {
  kNumber,  // `number`, or the bits of a float; of no operands
  kScore,
  kBatch,
  kHead,
  kQuery,
  kKey,
  kQueries,  // of the sequence
  kKeys,
  kLoad,     // of the numbers of the operation's type, the one at a, or the nearest that is there;
             // `number` is 1 where the next key has the next one
  kToFloat,  // of an integer
  kAdd,
  kSub,
  kMul,
  kDiv,       // of floats
  kFloorDiv,  // of integers, rounded down; by 0: 0
  kMod,       // a - floor(a / b) b
  kMin,
  kMax,
  kNeg,
  kAbs,
  kLess,
  kLessEqual,
  kEqual,
  kAnd,
  kOr,
  kNot,
  kWhere,  // a ? b : c
  kExp,
  kExp2,
  kLog,
  kLog2,
  kTanh,
  kSigmoid,
  kSqrt,
  kFloor,
};

/// How many of a, b and c an operation has.
constexpr int score_operands(ScoreOp op) {
  if (op < ScoreOp::kLoad) return 0;
  if (op == ScoreOp::kWhere) return 3;
  const bool one = op <= ScoreOp::kToFloat || op == ScoreOp::kNeg || op == ScoreOp::kAbs ||
                   op == ScoreOp::kNot || op > ScoreOp::kWhere;
  return one ? 1 : 2;
}

struct ScoreInstruction {
  ScoreOp op : 6;
  ScoreType type : 2;  // of the result
  uint8_t a, b, c;
  int32_t number;

  friend constexpr bool operator==(const ScoreInstruction&, const ScoreInstruction&) = default;
};

/// The last operation gives the result.
struct ScoreProgram {
  static constexpr int kMost = 64;

  int32_t count = 0;   // 0: there is none
  int32_t shared = 0;  // of the first operations, which depend on neither key nor score
  ScoreInstruction code[kMost] = {};

  TW_INLINE explicit constexpr operator bool() const { return count > 0; }
  constexpr bool uses(ScoreOp op) const {
    for (int i = 0; i < count; ++i)
      if (code[i].op == op) return true;
    return false;
  }
};

/// score_mod: the score that replaces one. mask_mod: whether a query sees a key. The program, or
/// null, is the call's (ops/core/bind.h), in the host's memory.
struct ScoreMod {
  const ScoreProgram* program = nullptr;
};
struct MaskMod {
  const ScoreProgram* program = nullptr;
};

/// What the programs of a call read besides.
struct ScoreNumbers {
  View<const float, 1> floats;  // mod_f32, or no data
  View<const int32_t, 1> ints;  // mod_i32, or no data

  /// The element at i, or the nearest one: no index reaches memory of others.
  template <class T>
  TW_INLINE static T at(const View<const T, 1>& of, int i) {
    const int last = int(of.size(0)) - 1, there = i < last ? i : last;
    return of.data[(there > 0 ? there : 0) * of.stride(0)];
  }
};

/// Both modifications of a call.
struct ScoreMods {
  const ScoreProgram *score = nullptr, *mask = nullptr;  // or null
  ScoreNumbers numbers{};

  ScoreMods() = default;
  TW_INLINE ScoreMods(const ScoreMod& score_mod, const MaskMod& mask_mod,
                      const View<const float, 1>& floats, const View<const int32_t, 1>& ints)
      : score(score_mod.program), mask(mask_mod.program), numbers{floats, ints} {}

  TW_INLINE explicit operator bool() const { return score != nullptr || mask != nullptr; }
  /// Whether the mask, which there is, may be another one for another head.
  bool tells_heads_apart() const { return mask->uses(ScoreOp::kHead); }
  ScoreMods mask_alone() const {
    ScoreMods out = *this;
    out.score = nullptr;
    return out;
  }
};

/// A pair of a query and a key. Both are counted from the start of their sequence.
struct ScoreAt {
  int batch, head, query, key, queries, keys;
};

/// Integers of 32 bits wrap around.
TW_INLINE constexpr int32_t score_add(int32_t a, int32_t b) {
  return int32_t(uint32_t(a) + uint32_t(b));
}
TW_INLINE constexpr int32_t score_sub(int32_t a, int32_t b) {
  return int32_t(uint32_t(a) - uint32_t(b));
}
TW_INLINE constexpr int32_t score_mul(int32_t a, int32_t b) {
  return int32_t(uint32_t(a) * uint32_t(b));
}
/// The one quotient that overflows wraps, too.
TW_INLINE constexpr int32_t score_floor_div(int32_t a, int32_t b) {
  if (b == 0) return 0;
  if (b == -1) return score_sub(0, a);
  return a / b - int(a % b != 0 && (a < 0) != (b < 0));
}
TW_INLINE constexpr int32_t score_remainder(int32_t a, int32_t b) {
  return score_sub(a, score_mul(score_floor_div(a, b), b));
}

}  // namespace tw::kernels
