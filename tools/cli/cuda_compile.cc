// tilewright cuda-compile: the portable kernels for a GPU that need not be here, into the cache.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/ops/core/score_parser.h"
#include "tilewright/ops/core/score_text.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/nvrtc.h"
#include "tilewright/runtime/operators.h"
#include "tools/cli/arguments.h"
#include "tools/cli/commands.h"

namespace tw::cli {
namespace {

using nlohmann::json;
using runtime::OperatorInfo;

struct CudaCompileOptions {
  std::string arch, out;
  std::vector<std::string> ops, dtypes, variants;
  std::string score_mod, mask_mod;
  bool as_json = false;

  bool has_mods() const { return !score_mod.empty() || !mask_mod.empty(); }
};

/// Whether one of the words, of which none mean all.
bool is_wanted(const std::vector<std::string>& words, const std::string& word) {
  return words.empty() || std::find(words.begin(), words.end(), word) != words.end();
}

std::string dtypes_text(const std::vector<DType>& combo) {
  std::string out;
  for (const DType dtype : combo) out += (out.empty() ? "" : "/") + std::string(name(dtype));
  return out;
}

/// These share kernels, which are not those of the CPU.
bool is_product(const OperatorInfo& op) {
  return op.name() == "matmul" || op.name() == "linear" || op.name() == "k_grouped_matmul";
}

/// What a GPU would have compiled, by the operator that it says it is for.
struct Program {
  std::string name, variant;
  runtime::cuda::DeviceProgram text;
};

/// Those of a combination; none where another one's serves, or there is none.
std::vector<Program> programs_of(const OperatorInfo& op, size_t combo, const std::string& arch,
                                 const kernels::ScoreMods& mods) {
  constexpr DType kFp8 = DType::kF8E4m3fn;
  const std::vector<DType>& dtypes = op.combos[combo];
  if (is_product(op)) return {{"gemm", "", runtime::cuda::gemm_program(dtypes.front())}};
  if (op.gpu_kernels.empty()) return {};
  const auto [type, ways] = op.gpu_kernels[combo];
  std::vector<Program> out;
  for (int way = 0; way < ways; ++way) {
    out.push_back({std::string(op.name()), ways > 1 ? "way" + std::to_string(way) : "",
                   runtime::cuda::neutral_program(op.name(), type, way)});
    if (mods) replace_header(out.back().text, ops::kPrintedModsPath, ops::print_score_mods(mods));
  }
  if (arch != "sm_90a") return out;
  if (op.name() == "attention")  // its forms share these
    for (const auto& variant :
         runtime::cuda::attention_variants(dtypes.front(), dtypes.back(), mods)) {
      const std::string build = std::to_string(variant.build);
      out.push_back({"attention", (variant.changes_scores ? "scores" : "build") + build,
                     runtime::cuda::attention_program(variant)});
      if (mods.mask != nullptr && !variant.changes_scores)
        out.push_back(
            {"attention", "seen" + build, runtime::cuda::attention_seen_program(variant)});
    }
  if (op.name() == "attention_fp8")
    for (const auto& variant : runtime::cuda::attention_variants(kFp8, kFp8))
      out.push_back({"attention_fp8", "build" + std::to_string(variant.build),
                     runtime::cuda::attention_program(variant)});
  if (op.name() == "mla")
    for (const auto& variant : runtime::cuda::mla_variants(dtypes.front(), dtypes.back()))
      out.push_back(
          {"mla", "build" + std::to_string(variant.build), runtime::cuda::mla_program(variant)});
  return out;
}

bool takes_mods(const OperatorInfo& op) {
  for (const ops::Arg& arg : *op.schema)
    if (arg.name == "score_mod") return true;
  return false;
}

std::vector<const OperatorInfo*> chosen(const CudaCompileOptions& options) {
  const std::vector<std::string>& names = options.ops;
  std::vector<const OperatorInfo*> out;
  for (const std::string& name : names) {
    const OperatorInfo& op = runtime::find_operator(name);
    if (op.gpu_kernels.empty() && !is_product(op))
      throw Error(ErrorKind::kUnsupported, name + " has no kernels for GPUs");
    if (options.has_mods() && !takes_mods(op))
      throw Error(ErrorKind::kUnsupported, name + " takes no score_mod or mask_mod");
    out.push_back(&op);
  }
  if (names.empty())
    for (const OperatorInfo& op : runtime::operators())
      if (!options.has_mods() || takes_mods(op)) out.push_back(&op);
  return out;
}

void write_cubin(const OperatorInfo& op, size_t combo, const std::string& variant,
                 const std::string& cubin, const CudaCompileOptions& options) {
  std::string name = std::string(op.name()) + "-" + dtypes_text(op.combos[combo]);
  if (!variant.empty()) name += "-" + variant;
  std::replace(name.begin(), name.end(), '/', '-');
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  const std::string path = options.out + "/" + name + "-" + options.arch + ".cubin";
  std::ofstream file(path, std::ios::binary);
  file.write(cubin.data(), std::streamsize(cubin.size()));
  file.close();
  if (!file) throw Error(ErrorKind::kIo, path + ": cannot write");
}

json compiled(const OperatorInfo& op, size_t combo, const Program& program,
              const CudaCompileOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const runtime::cuda::CompiledKernel kernel =
      runtime::cuda::compile_kernel(program.name, program.text, options.arch);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (!options.out.empty()) write_cubin(op, combo, program.variant, kernel.cubin, options);
  return {{"op", op.name()},
          {"dtypes", dtypes_text(op.combos[combo])},
          {"variant", program.variant},
          {"bytes", kernel.cubin.size()},
          {"path", kernel.cache_path},
          {"was_cached", kernel.was_cached},
          {"seconds", seconds.count()}};
}

void print_kernel(const json& kernel) {
  const std::string dtypes = kernel["dtypes"], variant = kernel["variant"];
  std::printf("%-32s %-20s %8zu bytes  %s\n", kernel["op"].get<std::string>().c_str(),
              (dtypes + " " + variant).c_str(), kernel["bytes"].get<size_t>(),
              kernel["was_cached"] ? "was cached" : "compiled");
  std::fflush(stdout);
}

void run_cuda_compile(const CudaCompileOptions& options) {
  const auto score = ops::parse_score_program(options.score_mod, ops::ScoreText::kScore);
  const auto mask = ops::parse_score_program(options.mask_mod, ops::ScoreText::kMask);
  const kernels::ScoreMods mods({score ? &score : nullptr}, {mask ? &mask : nullptr}, {}, {});
  json kernels = json::array();
  for (const OperatorInfo* op : chosen(options))
    for (size_t combo = 0; combo < op->combos.size(); ++combo) {
      const std::string dtypes = dtypes_text(op->combos[combo]);
      if (!is_wanted(options.dtypes, dtypes)) continue;
      for (const Program& program : programs_of(*op, combo, options.arch, mods)) {
        if (!is_wanted(options.variants, program.variant)) continue;
        json kernel = compiled(*op, combo, program, options);
        if (!options.as_json) print_kernel(kernel);
        kernels.push_back(std::move(kernel));
      }
    }
  if (kernels.empty())
    throw Error(ErrorKind::kInvalidArgument,
                "no kernel of these operators has these dtypes, or is this variant");
  if (!options.as_json) return;
  const runtime::cuda::NvrtcInfo& nvrtc = runtime::cuda::nvrtc();
  const json out = {{"arch", options.arch},
                    {"nvrtc", std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor)},
                    {"nvrtc_path", nvrtc.path},
                    {"kernels", std::move(kernels)}};
  std::cout << out.dump(2) << "\n";
}

/// sm_, two or three digits, and for code of that one architecture a letter.
std::string checked_arch(const std::string& text) {
  const std::string kPrefix = "sm_";
  size_t end = kPrefix.size();
  if (text.starts_with(kPrefix))
    end = std::min(text.find_first_not_of("0123456789", end), text.size());
  const size_t digits = end - kPrefix.size();
  const bool has_letter = text.size() == end + 1 && (text[end] == 'a' || text[end] == 'f');
  if (digits < 2 || digits > 3 || !(text.size() == end || has_letter))
    refuse_value("--arch", text, {}, "an architecture such as sm_80 or sm_90a");
  return text;
}

}  // namespace

void add_cuda_compile(CLI::App& app) {
  auto options = std::make_shared<CudaCompileOptions>();
  CLI::App* command = app.add_subcommand(
      "cuda-compile", "Compile kernels for a GPU, which need not be here, into the cache");
  command->add_option("OP", options->ops, "Operators; all without this");
  add_text(
      *command, "--arch", "The GPU's architecture, such as sm_80", "TEXT",
      [options = options.get()](const std::string& text) { options->arch = checked_arch(text); })
      ->required();
  add_words(*command, "--dtype", options->dtypes, "Only these dtypes, such as bf16 or bf16/bf16");
  add_words(*command, "--variant", options->variants,
            "Only these of an operator's kernels, such as way0 or build2");
  command->add_option("--score-mod", options->score_mod, "Of attention: with this modification");
  command->add_option("--mask-mod", options->mask_mod, "Of attention: with this mask");
  command->add_option("--out", options->out, "Write the cubins into this folder, too");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer(
      "GPUs that the library carries no device code for run the portable kernels, compiled by "
      "NVRTC "
      "when\nthey are first launched and kept in $TILEWRIGHT_CACHE_DIR/cuda, by default "
      "~/.cache/tilewright/cuda.\n\n"
      "Example: tilewright cuda-compile --arch sm_80 rms_norm softmax --dtype bf16");
  command->callback([options] { run_cuda_compile(*options); });
}

}  // namespace tw::cli
