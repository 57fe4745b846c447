// What the kernels of gpu_kernels.cu do in a round, for the host that counts it.
#pragma once

namespace tw::bench {

constexpr int kVectorsAtOnce = 4;  // of 16 bytes, that a thread reads or writes
constexpr int kFmas = 16;          // of a thread
constexpr int kMemoryThreads = 1024, kCopyThreads = 256, kFmaThreads = 1024, kTensorThreads = 256,
              kHoldThreads = 128;

constexpr int kTensorRows = 2 * 64;  // of a block, half of them a warpgroup's
constexpr int kTensorDepth = 128;    // bytes of k
constexpr int kTensorStages = 4;     // different operands in turn

}  // namespace tw::bench
