// What kernels for GPUs do to scores by the programs of a call (score_program.h): nothing. Where
// there are some, NVRTC is given another text in place of this one (ops/core/score_text.h).
#pragma once

#include "tilewright/kernels/score_program.h"

namespace tw::kernels {

/// A program in three parts: what a query's scores share, what a key's share, and the rest.
struct PrintedScore {
  static constexpr bool kAny = false;
  struct Row {};
  struct Key {};

  TW_INLINE static Row row(const ScoreAt&, const ScoreNumbers&) { return {}; }
  TW_INLINE static Key key(const ScoreAt&, const ScoreNumbers&) { return {}; }
  TW_INLINE static float value(float score, const Row&, const Key&, const ScoreAt&,
                               const ScoreNumbers&) {
    return score;
  }
};
struct PrintedMask {
  static constexpr bool kAny = false;
  struct Row {};
  struct Key {};

  TW_INLINE static Row row(const ScoreAt&, const ScoreNumbers&) { return {}; }
  TW_INLINE static Key key(const ScoreAt&, const ScoreNumbers&) { return {}; }
  TW_INLINE static bool value(float, const Row&, const Key&, const ScoreAt&, const ScoreNumbers&) {
    return true;
  }
};

}  // namespace tw::kernels
