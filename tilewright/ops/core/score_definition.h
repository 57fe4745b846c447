// What modifications of scores and masks mean, in float64.
#pragma once

#include "tilewright/kernels/score_program.h"

namespace tw::ops {

/// The score that `mods` make of one, -inf where the mask hides it.
double modified_score(const kernels::ScoreMods& mods, const kernels::ScoreAt& at, double score);

}  // namespace tw::ops
