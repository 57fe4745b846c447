// The operators of tilewright, by name. Everything else is derived from this list.
#pragma once

#include "tilewright/ops/add.h"
#include "tilewright/ops/fused_add_rms_norm.h"
#include "tilewright/ops/mul.h"
#include "tilewright/ops/rms_norm.h"
#include "tilewright/ops/rope.h"

namespace tw::ops {

using All = Catalog<  //
    Add,              //
    FusedAddRmsNorm,  //
    Mul,              //
    RmsNorm,          //
    Rope>;

}  // namespace tw::ops
