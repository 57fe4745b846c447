// The operators of tilewright, by name. Everything else is derived from this list.
#pragma once

#include "tilewright/ops/add.h"
#include "tilewright/ops/argmax.h"
#include "tilewright/ops/attention.h"
#include "tilewright/ops/attention_paged.h"
#include "tilewright/ops/attention_varlen.h"
#include "tilewright/ops/copy.h"
#include "tilewright/ops/embedding.h"
#include "tilewright/ops/erf.h"
#include "tilewright/ops/exp.h"
#include "tilewright/ops/fused_add_rms_norm.h"
#include "tilewright/ops/gelu.h"
#include "tilewright/ops/gelu_tanh_and_mul.h"
#include "tilewright/ops/linear.h"
#include "tilewright/ops/linear_packed.h"
#include "tilewright/ops/linear_quantized.h"
#include "tilewright/ops/log.h"
#include "tilewright/ops/matmul.h"
#include "tilewright/ops/mul.h"
#include "tilewright/ops/permute.h"
#include "tilewright/ops/relu.h"
#include "tilewright/ops/rms_norm.h"
#include "tilewright/ops/rope.h"
#include "tilewright/ops/sample.h"
#include "tilewright/ops/sigmoid.h"
#include "tilewright/ops/silu.h"
#include "tilewright/ops/silu_and_mul.h"
#include "tilewright/ops/softmax.h"
#include "tilewright/ops/sum.h"
#include "tilewright/ops/tanh.h"
#include "tilewright/ops/transpose.h"
#include "tilewright/ops/type_as.h"

namespace tw::ops {

using All = Catalog<  //
    Add,              //
    Argmax,           //
    Attention,        //
    AttentionPaged,   //
    AttentionVarlen,  //
    Copy,             //
    Embedding,        //
    Erf,              //
    Exp,              //
    FusedAddRmsNorm,  //
    Gelu,             //
    GeluTanhAndMul,   //
    Linear,           //
    LinearPacked,     //
    LinearQuantized,  //
    Log,              //
    Matmul,           //
    Mul,              //
    Permute,          //
    Relu,             //
    RmsNorm,          //
    Rope,             //
    Sample,           //
    Sigmoid,          //
    Silu,             //
    SiluAndMul,       //
    Softmax,          //
    Sum,              //
    Tanh,             //
    Transpose,        //
    TypeAs>;

}  // namespace tw::ops
