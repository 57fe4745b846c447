// Every neutral kernel, instantiated for CUDA: the tile language is one language only as long as
// this compiles. Built by CI for sm_90a; needs no GPU.
#include "tilewright/kernels/add.h"
#include "tilewright/kernels/fused_add_rms_norm.h"
#include "tilewright/kernels/mul.h"
#include "tilewright/kernels/rms_norm.h"
#include "tilewright/kernels/rope.h"

namespace {

template <class Kernel>
__global__ void entry(Kernel kernel) {
  tw::tile::cuda::run(kernel, 0);
}

template <template <class> class Kernel>
void instantiate() {
  entry<<<1, 128>>>(Kernel<float>{});
  entry<<<1, 128>>>(Kernel<tw::f16>{});
  entry<<<1, 128>>>(Kernel<tw::bf16>{});
}

}  // namespace

void instantiate_all() {
  using namespace tw::kernels;
  instantiate<Add>();
  instantiate<FusedAddRmsNorm>();
  instantiate<Mul>();
  instantiate<RmsNorm>();
  instantiate<Rope>();
}
