// What an H100 SXM does under the kernels that policies predict the times of. `tilewright-micro
// --gpu` measures it by the rows named here: on another card of the generation compare these with
// its figures before a policy.
#pragma once

namespace tw::kernels::hopper {

/// The clock with all tensor cores busy: "tensor cores, ..., random".
inline constexpr double kTensorMhz = 1600;
/// Multiply-adds of 16 bits of a multiprocessor in a clock, by the matrix instruction of a warp.
inline constexpr double kMmaLanes = 1024;
/// The clock with all multiply-adds busy, and how many a multiprocessor has: "f32 multiply-add".
inline constexpr double kF32Mhz = 1700, kF32Lanes = 128;
/// Of memory: "read memory".
inline constexpr double kReadBytesPerUs = 2.9e6;
/// That all blocks together load from L2: "read L2".
inline constexpr double kL2BytesPerUs = 8.4e6;
/// Around a kernel's work: "empty kernel in a stream".
inline constexpr double kLaunchUs = 2.5;

}  // namespace tw::kernels::hopper
