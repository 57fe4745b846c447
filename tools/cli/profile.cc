// tilewright profile: NVIDIA's profilers and sanitizers with the options that suit our kernels, and
// tilewright ncu-extract: what matters of a report.
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tilewright/core/error.h"
#include "tools/cli/arguments.h"
#include "tools/cli/child.h"
#include "tools/cli/commands.h"
#include "tools/cli/ncu_report.h"

namespace tw::cli {
namespace {

struct ProfileOptions {
  std::string tool, kernel, out;
  std::vector<std::string> sections{"SpeedOfLight",   "ComputeWorkloadAnalysis",
                                    "WarpStateStats", "MemoryWorkloadAnalysis",
                                    "Occupancy",      "LaunchStats"};
  std::vector<std::string> checks{"memcheck", "racecheck", "synccheck", "initcheck"};
  bool extract = false, as_json = false;
  std::vector<std::string> command;
};

using Words = std::vector<std::string>;

Words with_command(Words words, const Words& command) {
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

/// A name of a kernel as a regular expression that finds it wherever it stands.
std::string as_regex(const std::string& name) {
  std::string out = "regex:";
  for (const char c : name) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

int profile_ncu(const ProfileOptions& options) {
  const std::string base = options.out.empty() ? "profile" : options.out;
  Words words{find_program("ncu", "Nsight Compute"),
              "--export",
              base,
              "--force-overwrite",
              "--target-processes",
              "all"};
  for (const std::string& section : options.sections) {
    words.push_back("--section");
    words.push_back(section);
  }
  if (!options.kernel.empty())
    for (const std::string& word : {std::string("--kernel-name-base"), std::string("demangled"),
                                    std::string("--kernel-name"), as_regex(options.kernel)})
      words.push_back(word);
  const int code = run_child(with_command(words, options.command));
  if (code != 0) return code;
  const std::string report = base.ends_with(".ncu-rep") ? base : base + ".ncu-rep";
  std::fprintf(stderr, "report: %s\n", report.c_str());
  if (!options.extract) return 0;
  const nlohmann::json kernels = read_ncu_report(report, options.kernel);
  if (options.as_json)
    std::cout << kernels.dump(2) << "\n";
  else
    print_ncu_report(kernels);
  return 0;
}

int profile_nsys(const ProfileOptions& options) {
  const std::string base = options.out.empty() ? "profile" : options.out;
  const std::string nsys = find_program("nsys", "Nsight Systems");
  const int code = run_child(with_command(
      {nsys, "profile", "--output", base, "--force-overwrite", "true", "--trace", "cuda,nvtx,osrt"},
      options.command));
  if (code != 0) return code;
  const std::string report = base.ends_with(".nsys-rep") ? base : base + ".nsys-rep";
  std::fprintf(stderr, "report: %s\n", report.c_str());
  if (!options.extract) return 0;
  return run_child({nsys, "stats", "--force-export", "true", "--report", "cuda_gpu_kern_sum",
                    "--format", options.as_json ? "json" : "column", report});
}

/// One check after the other: they cannot be combined.
int profile_sanitizer(const ProfileOptions& options) {
  constexpr const char* kFound = "9";  // not one of ours: the program's own stay what they are
  const std::string sanitizer = find_program("compute-sanitizer", "the CUDA toolkit");
  int worst = 0;
  for (const std::string& check : options.checks) {
    std::fprintf(stderr, "---- %s\n", check.c_str());
    Words words{sanitizer, "--tool", check, "--error-exitcode", kFound, "--target-processes",
                "all"};
    if (!options.kernel.empty()) {
      words.push_back("--kernel-name");
      words.push_back("kernel_substring=" + options.kernel);
    }
    if (const int code = run_child(with_command(words, options.command)); code != 0) worst = code;
  }
  return worst;
}

void run_profile(const ProfileOptions& options) {
  const auto refuse = [&](const char* option, const char* where) {
    throw Error(ErrorKind::kInvalidArgument, std::string(option) + " is for " + where);
  };
  if (options.tool == "nsys" && !options.kernel.empty())
    refuse("--kernel", "ncu and sanitizer: nsys records all kernels");
  if (options.tool == "sanitizer" && options.extract) refuse("--extract", "ncu and nsys");
  if (options.tool == "sanitizer" && !options.out.empty()) refuse("--out", "ncu and nsys");
  if (options.as_json && !options.extract) refuse("--json", "what --extract prints");
  const int code = options.tool == "ncu"    ? profile_ncu(options)
                   : options.tool == "nsys" ? profile_nsys(options)
                                            : profile_sanitizer(options);
  if (code != 0) throw CLI::RuntimeError(code);
}

}  // namespace

void add_profile(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* command =
      app.add_subcommand("profile", "Run a program under NVIDIA's profilers or sanitizers");
  command->add_option("TOOL", options->tool, "ncu (one kernel), nsys (the timeline) or sanitizer")
      ->required()
      ->check(CLI::IsMember({"ncu", "nsys", "sanitizer"}));
  command->add_option("CMD", options->command, "The program and its arguments, after --")
      ->required();
  command->add_option("--kernel", options->kernel, "Only kernels whose names contain this");
  command->add_option("--out", options->out, "The report, without its ending (default: profile)");
  add_words(*command, "--section", options->sections, "ncu: what to measure");
  add_words(*command, "--check", options->checks, "sanitizer: what to look for");
  command->add_flag("--extract", options->extract, "Then print what matters of the report");
  command->add_flag("--json", options->as_json, "Print that as JSON");
  command->footer(
      "The exit code is the tool's; sanitizer gives 9 where it finds something.\n\n"
      "Example: tilewright profile ncu --kernel RmsNorm --extract -- \\\n"
      "           tilewright bench rms_norm --device cuda --seconds 0");
  command->callback([options] { run_profile(*options); });
}

void add_ncu_extract(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* command = app.add_subcommand(
      "ncu-extract", "Print what matters of a report of Nsight Compute: throughput, pipes, stalls");
  command->add_option("FILE", options->out, "FILE.ncu-rep, or a .csv of ncu --csv --page raw")
      ->required();
  command->add_option("--kernel", options->kernel, "Only kernels whose names contain this");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Example: tilewright ncu-extract profile.ncu-rep --kernel RmsNorm");
  command->callback([options] {
    const nlohmann::json kernels = read_ncu_report(options->out, options->kernel);
    if (options->as_json)
      std::cout << kernels.dump(2) << "\n";
    else
      print_ncu_report(kernels);
  });
}

}  // namespace tw::cli
