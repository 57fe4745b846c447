// Programs of scores and masks (kernels/score_program.h) as text for a device's compiler.
#pragma once

#include <string>

#include "tilewright/kernels/score_program.h"

namespace tw::ops {

/// The file whose place the text takes.
inline constexpr const char* kPrintedModsPath = "tilewright/kernels/printed_mods.h";

/// Printed from the operations: nothing of what the caller wrote is in it.
TW_API std::string print_score_mods(const kernels::ScoreMods& mods);

/// Equal for equal programs, and quicker made than their text.
std::string score_mods_key(const kernels::ScoreMods& mods);

}  // namespace tw::ops
