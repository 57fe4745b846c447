// Device code for GPUs that the library carries none for: the portable kernels, compiled by NVRTC
// when they are first launched and kept on disk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/dtype.h"
#include "tilewright/core/error.h"
#include "tilewright/kernels/score_program.h"
#include "tilewright/runtime/artifact_cache.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/device_text.h"

namespace tw::runtime::cuda {

/// "sm_80" for compute capability 8.0.
TW_API std::string architecture(int major, int minor);

/// Whether an image for `targets` ("sm_90a sm_80 compute_80") runs on a GPU: code for the
/// same generation and no later a member; such with a letter for that very member; PTX for any
/// from there on.
TW_API bool has_code_for(std::string_view targets, int major, int minor);
/// The same of what this library carries; never with TILEWRIGHT_JIT=1, which shows on any GPU what
/// others would run.
TW_API bool carries_code_for(int major, int minor);
/// Whether a GPU runs kernels for Hopper.
Support supports_hopper(const Gpu& gpu);

struct CompiledKernel {
  std::string cubin;
  std::string cache_path;   // where it is kept
  bool was_cached = false;  // and was before
};

/// Compiles, or takes from the cache, by the digest of the text, the options, the architecture and
/// the compiler's version. Throws kUnsupported, naming `op`, where there is no NVRTC, or when
/// TILEWRIGHT_JIT=0.
TW_API CompiledKernel compile_kernel(std::string_view op, const DeviceProgram& program,
                                     std::string_view architecture);
TW_API CompiledKernel compile_kernel(std::string_view op, const DeviceProgram& program,
                                     std::string_view architecture, const ArtifactCache& cache);

/// Whether kernels can be compiled: there is NVRTC, and TILEWRIGHT_JIT is not 0.
TW_API Support supports_compiling();

/// A kernel of attention on Hopper that the library does not carry.
struct AttentionVariant {
  DType queries, keys;  // and values
  bool changes_scores;
  int build;  // kernels/attention_policy_sm90.h
  kernels::ScoreMods mods{};
};
/// Those with such queries and keys, and these programs.
TW_API std::vector<AttentionVariant> attention_variants(DType queries, DType keys,
                                                        const kernels::ScoreMods& mods = {});
TW_API DeviceProgram attention_program(const AttentionVariant& variant);
/// What finds the blocks of keys that its mask leaves, before it runs.
TW_API DeviceProgram attention_seen_program(const AttentionVariant& variant);

/// A kernel of multi-head latent attention on Hopper that the library does not carry.
struct MlaVariant {
  DType queries, latents;
  int build;  // kernels/mla_build_sm90.h
};
/// Those with such queries and latents.
TW_API std::vector<MlaVariant> mla_variants(DType queries, DType latents);
TW_API DeviceProgram mla_program(const MlaVariant& variant);

/// Of matrix multiplication of this type, the kernel for any GPU.
TW_API DeviceProgram gemm_program(DType element);

}  // namespace tw::runtime::cuda
