// What kernels for GPUs do to scores by the programs of a call (score_program.h): nothing. Where
// there are some, NVRTC is given another text in place of this one (ops/core/score_text.h).
#pragma once

#include "tilewright/kernels/score_program.h"

namespace tw::kernels {

struct PrintedMods {
  static constexpr bool kScores = false, kAny = false;

  TW_INLINE static float score(float score, const ScoreAt&, const ScoreNumbers&) { return score; }
  TW_INLINE static bool sees(const ScoreAt&, const ScoreNumbers&) { return true; }
};

}  // namespace tw::kernels
