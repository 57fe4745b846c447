// The catalog as JSON, for programs in other languages.
#pragma once

#include <string>

#include "tilewright/ops/core/schema.h"

namespace tw::c {

/// "*, C" of T[*, C].
std::string dims_text(const ops::Arg& arg);
/// An array with one object per operator; docs/guide/c.md lists its members.
std::string catalog_json();

}  // namespace tw::c
