// Every neutral kernel, instantiated for CUDA: the tile language is one language only as long as
// this compiles. Built by CI for sm_90a; needs no GPU.
#include "tilewright/kernels/add.h"
#include "tilewright/kernels/argmax.h"
#include "tilewright/kernels/copy.h"
#include "tilewright/kernels/embedding.h"
#include "tilewright/kernels/fused_add_rms_norm.h"
#include "tilewright/kernels/gated.h"
#include "tilewright/kernels/mul.h"
#include "tilewright/kernels/permute.h"
#include "tilewright/kernels/rms_norm.h"
#include "tilewright/kernels/rope.h"
#include "tilewright/kernels/softmax.h"
#include "tilewright/kernels/sum.h"
#include "tilewright/kernels/transpose.h"
#include "tilewright/kernels/unary.h"

namespace {

template <class Kernel>
__global__ void entry(Kernel kernel, char* scratch, int64_t scratch_bytes) {
  tw::tile::cuda::run(kernel, 0, scratch, scratch_bytes);
}

template <class Kernel>
void instantiate() {
  entry<<<1, 128>>>(Kernel{}, nullptr, 0);
}

template <class T>
void instantiate_for() {
  using namespace tw::kernels;
  instantiate<Add<T>>();
  instantiate<Mul<T>>();
  instantiate<Unary<T, Relu>>();
  instantiate<Unary<T, Gelu>>();
  instantiate<Unary<T, GeluTanh>>();
  instantiate<Unary<T, Silu>>();
  instantiate<Unary<T, Sigmoid>>();
  instantiate<Unary<T, Tanh>>();
  instantiate<Unary<T, Exp>>();
  instantiate<Unary<T, Erf>>();
  instantiate<Unary<T, Log>>();
  instantiate<Gated<T, Silu>>();
  instantiate<Gated<T, GeluTanh>>();
  instantiate<Copy<T>>();
  instantiate<Transpose<T>>();
  instantiate<Permute<T>>();
  instantiate<Embedding<T, int32_t>>();
  instantiate<Embedding<T, int64_t>>();
  instantiate<Argmax<T>>();
  instantiate<Sum<T>>();
  instantiate<Softmax<T>>();
  instantiate<RmsNorm<T>>();
  instantiate<FusedAddRmsNorm<T>>();
  instantiate<Rope<T>>();
}

}  // namespace

void instantiate_all() {
  instantiate_for<float>();
  instantiate_for<tw::f16>();
  instantiate_for<tw::bf16>();
}
