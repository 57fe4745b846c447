#include "tilewright/runtime/cuda/jit.h"

#include <cstdlib>
#include <sstream>
#include <vector>

#include "tilewright/core/error.h"
#include "tilewright/kernels/attention_policy_sm90.h"
#include "tilewright/kernels/mla_build_sm90.h"
#include "tilewright/ops/core/score_text.h"
#include "tilewright/runtime/cuda/nvrtc.h"

namespace tw::runtime::cuda {
namespace {

/// As cmake/cuda.cmake gives nvcc, and what $TILEWRIGHT_NVRTC_OPTIONS adds. The program is in
/// memory, includes and all. Before CUDA 13.5 NVRTC takes lambdas for functions of the host unless
/// told otherwise.
const std::vector<std::string>& options() {
  static const std::vector<std::string> kOptions = [] {
    std::vector<std::string> all = {"-std=c++20", "-prec-div=false", "-default-device",
                                    "-diag-suppress=445", "-no-source-include"};
    const char* more = std::getenv("TILEWRIGHT_NVRTC_OPTIONS");
    std::istringstream words{more == nullptr ? "" : more};
    for (std::string word; words >> word;) all.push_back(word);
    return all;
  }();
  return kOptions;
}

Digest key_of(const DeviceProgram& program, std::string_view architecture) {
  Sha256 all;
  all.add_field("nvrtc " + std::to_string(nvrtc().major) + "." + std::to_string(nvrtc().minor));
  all.add_field(architecture);
  for (const std::string& option : options()) all.add_field(option);
  all.add_field(program.text);
  for (const DeviceProgram::Header& header : program.headers)
    all.add_field(header.path).add_field(header.text);
  return all.digest();
}

const ArtifactCache& default_cache() {
  static const ArtifactCache kCache = [] {
    const std::string folder = cache_folder();
    return ArtifactCache(folder.empty() ? folder : folder + "/cuda");
  }();
  return kCache;
}

std::string_view jit_setting() {
  const char* setting = std::getenv("TILEWRIGHT_JIT");
  return setting == nullptr ? "" : setting;
}

/// As device code spells it.
std::string type_of(DType dtype) {
  if (dtype == DType::kI8) return "int8_t";
  return "tw::" + std::string(name(dtype));
}

}  // namespace

std::string architecture(int major, int minor) {
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

bool has_code_for(std::string_view targets, int major, int minor) {
  std::istringstream words{std::string(targets)};
  for (std::string word; words >> word;) {
    const bool is_ptx = word.starts_with("compute_");
    char* letters = nullptr;
    const long number = std::strtol(word.c_str() + (is_ptx ? 8 : 3), &letters, 10);
    const long from_major = number / 10, from_minor = number % 10;
    if (*letters == 'a' ? from_major == major && from_minor == minor
        : is_ptx        ? number <= 10L * major + minor
                        : from_major == major && from_minor <= minor)
      return true;
  }
  return false;
}

bool carries_code_for(int major, int minor) {
  static const bool kNever = jit_setting() == "1";
  return !kNever && has_code_for(TW_CUDA_TARGETS, major, minor);  // cmake/cuda.cmake
}

Support supports_hopper(const Gpu& gpu) {
  if (gpu.compute_major != 9) return Support::no("a GPU that is not a Hopper");
  if (!carries_code_for(gpu.compute_major, gpu.compute_minor))
    return Support::no("a build without code for Hopper, or TILEWRIGHT_JIT=1");
  return Support::yes();
}

Support supports_compiling() {
  if (jit_setting() == "0") return Support::no("TILEWRIGHT_JIT=0 forbids to compile one");
  return nvrtc_availability();
}

CompiledKernel compile_kernel(std::string_view op, const DeviceProgram& program,
                              std::string_view architecture) {
  return compile_kernel(op, program, architecture, default_cache());
}

CompiledKernel compile_kernel(std::string_view op, const DeviceProgram& program,
                              std::string_view architecture, const ArtifactCache& cache) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kUnsupported, std::string(op) + ": this library carries no kernel for " +
                                             std::string(architecture) + ", and " + why);
  };
  if (Support s = supports_compiling(); !s) refuse(s.reason());
  const Digest key = key_of(program, architecture);
  ArtifactCache::Found found =
      cache.get(key, [&] { return compile_cubin(op, program, architecture, options()); });
  return {std::move(found.bytes), cache.path_of(key), found.was_kept};
}

std::vector<AttentionVariant> attention_variants(DType queries, DType keys,
                                                 const kernels::ScoreMods& mods) {
  std::vector<AttentionVariant> out;
  if (queries == DType::kF8E4m3fn)
    for (int i = 0; i < kernels::kAttentionFp8BuildCount; ++i)
      out.push_back({queries, keys, false, i, mods});
  if (queries != DType::kF16 && queries != DType::kBf16) return out;
  if (keys == DType::kI8 || keys == DType::kF8E4m3fn)
    for (int i = 0; i < kernels::kAttentionNarrowBuildCount; ++i)
      for (const bool changes_scores : {false, true})
        if (!(changes_scores || mods) ||
            kernels::can_change_scores(kernels::kAttentionNarrowBuilds[i]))
          out.push_back({queries, keys, changes_scores, i, mods});
  if (keys == queries)
    for (int i = 0; i < kernels::kAttentionBuildCount; ++i)
      for (const bool changes_scores : {false, true})
        if ((changes_scores || mods) && kernels::can_change_scores(kernels::kAttentionBuilds[i]))
          out.push_back({queries, keys, changes_scores, i, mods});
  return out;
}

namespace {

DeviceProgram attention_program(const AttentionVariant& variant,
                                std::vector<std::string_view> more) {
  const std::string element = "TW_ATTENTION_ELEMENT " + type_of(variant.queries);
  const std::string keys = "TW_ATTENTION_KEYS " + type_of(variant.keys);
  const std::string build = "TW_ATTENTION_BUILD " + std::to_string(variant.build);
  std::string scores = variant.changes_scores ? "AttentionBiasedScores" : "AttentionPlainScores";
  if (variant.mods) scores = "AttentionModifiedScores<" + scores + ">";
  scores.insert(0, "TW_ATTENTION_SCORES ");
  more.insert(more.end(), {element, keys, build, scores});
  DeviceProgram out = own_program("attention", more);
  if (variant.mods) replace_header(out, ops::kPrintedModsPath, ops::print_score_mods(variant.mods));
  return out;
}

}  // namespace

DeviceProgram attention_program(const AttentionVariant& variant) {
  return attention_program(variant, {});
}
DeviceProgram attention_seen_program(const AttentionVariant& variant) {
  return attention_program(variant, {"TW_ATTENTION_SEEN 1"});
}

std::vector<MlaVariant> mla_variants(DType queries, DType latents) {
  std::vector<MlaVariant> out;
  if (queries != DType::kF16 && queries != DType::kBf16) return out;
  if (latents == DType::kI8 || latents == DType::kF8E4m3fn)
    for (int i = 0; i < kernels::kMlaBuildCount; ++i) out.push_back({queries, latents, i});
  return out;
}

DeviceProgram mla_program(const MlaVariant& variant) {
  const std::string element = "TW_MLA_ELEMENT " + type_of(variant.queries);
  const std::string latents = "TW_MLA_LATENTS " + type_of(variant.latents);
  return own_program("mla", {element, latents, "TW_MLA_BUILD " + std::to_string(variant.build)});
}

DeviceProgram gemm_program(DType element) {
  switch (element) {
    case DType::kF32:
      return own_program("gemm", {"TW_GEMM_ELEMENT float"});
    case DType::kF16:
      return own_program("gemm", {"TW_GEMM_ELEMENT tw::f16"});
    case DType::kBf16:
      return own_program("gemm", {"TW_GEMM_ELEMENT tw::bf16"});
    default:
      throw Error(ErrorKind::kUnsupported,
                  "matmul: no kernel for " + std::string(name(element)) + " on GPUs");
  }
}

}  // namespace tw::runtime::cuda
