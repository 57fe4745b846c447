// The operators of tilewright, by name. Everything else is derived from this list.
#pragma once

#include "tilewright/ops/add.h"
#include "tilewright/ops/mul.h"
#include "tilewright/ops/rms_norm.h"

namespace tw::ops {

using All = Catalog<  //
    Add,              //
    Mul,              //
    RmsNorm>;

}  // namespace tw::ops
