// tilewright env: the machine and the settings that decide what runs.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilewright/built_cuda.h"
#include "tilewright/core/error.h"
#include "tilewright/runtime/calibrate.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/cuda/driver.h"
#include "tilewright/runtime/cuda/nvml.h"
#include "tilewright/runtime/machine.h"
#include "tilewright/runtime/thread_count.h"
#include "tools/cli/commands.h"

namespace tw::cli {
namespace {

using nlohmann::json;

// Variables that change what we do, or what libraries compared with us do. Shown when set.
constexpr const char* kVariables[] = {"TILEWRIGHT_ISA",
                                      "TILEWRIGHT_NUM_THREADS",
                                      "TILEWRIGHT_FLOAT32_MATMUL_PRECISION",
                                      "TILEWRIGHT_CACHE_DIR",
                                      "TILEWRIGHT_JIT",
                                      "TILEWRIGHT_NVRTC",
                                      "TILEWRIGHT_NVRTC_OPTIONS",
                                      "TILEWRIGHT_SYNC",
                                      "TILEWRIGHT_GEMM_BUILD",
                                      "XDG_CACHE_HOME",
                                      "OMP_NUM_THREADS",
                                      "OMP_WAIT_POLICY",
                                      "GOMP_CPU_AFFINITY",
                                      "KMP_AFFINITY",
                                      "KMP_BLOCKTIME",
                                      "MKL_NUM_THREADS",
                                      "OPENBLAS_NUM_THREADS",
                                      "OPENBLAS_CORETYPE",
                                      "BLIS_ARCH_TYPE",
                                      "MKL_ENABLE_INSTRUCTIONS",
                                      "ONEDNN_MAX_CPU_ISA",
                                      "DNNL_MAX_CPU_ISA",
                                      "ATEN_CPU_CAPABILITY",
                                      "GLIBC_TUNABLES",
                                      "LD_PRELOAD",
                                      "MALLOC_CONF"};

constexpr double kIdleShare = 0.85;  // of the processors, below which a calibration is not kept

json names(const std::vector<Isa>& isas) {
  json out = json::array();
  for (const Isa isa : isas) out.push_back(name(isa));
  return out;
}

// The word in brackets in /sys/kernel/mm/transparent_hugepage/enabled.
std::string huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  if (!std::getline(file, line)) return "unknown";
  const size_t open = line.find('['), close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) return "unknown";
  return line.substr(open + 1, close - open - 1);
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

json cpu_json(const runtime::CpuInfo& cpu) {
  json features = json::array();
#define TW_LIST(feature, ...) \
  if (cpu.features.feature) features.push_back(#feature);
  TW_FOR_EACH_CPU_FEATURE(TW_LIST)
#undef TW_LIST
  return {{"vendor", cpu.vendor},     {"brand", cpu.brand},
          {"family", cpu.family},     {"model", cpu.model},
          {"stepping", cpu.stepping}, {"microarchitecture", name(cpu.microarchitecture)},
          {"features", features},     {"l1d_bytes", cpu.l1d_bytes},
          {"l2_bytes", cpu.l2_bytes}, {"l3_bytes", cpu.l3_bytes}};
}

json isa_json() {
  const std::vector<Isa> available = runtime::available_isas();
  json out = {{"built", names(runtime::built_isas())}, {"available", names(available)}};
  out["unavailable"] = json::object();
  for (const Isa isa : runtime::built_isas()) {
    const std::string_view lacks = runtime::missing_feature(isa, runtime::cpu_info().features);
    if (!lacks.empty())
      out["unavailable"][std::string(name(isa))] = "the processor lacks " + std::string(lacks);
  }
  try {
    out["chosen"] = name(runtime::detect_isa());
  } catch (const Error& error) {  // an answer to what is asked here, not a failure
    out["error"] = error.what();
  }
  return out;
}

/// Clocks, power and temperature, or why they are not known.
json gpu_state_json(int device) {
  runtime::cuda::GpuState state;
  if (const Support told = runtime::cuda::read_gpu_state(device, state); !told)
    return {{"unavailable", told.reason()}};
  return {{"sm_mhz", state.sm_mhz},
          {"memory_mhz", state.memory_mhz},
          {"power_w", state.power_w},
          {"power_limit_w", state.power_limit_w},
          {"temperature_c", state.temperature_c}};
}

/// The GPUs that calls can run on, or why there is none.
json cuda_json() {
  constexpr int kComputeMajor = 75, kComputeMinor = 76;  // CUdevice_attribute
  json out = {{"built", runtime::kHasCuda}, {"devices", json::array()}, {"unavailable", ""}};
  if (!runtime::kHasCuda) {
    out["unavailable"] = "this build has no kernels for GPUs (`make cuda` makes one)";
    return out;
  }
  if (const Support& support = runtime::cuda::availability(); !support) {
    out["unavailable"] = support.reason();
    return out;
  }
  const runtime::cuda::Driver& driver = runtime::cuda::driver();
  int count = 0;
  runtime::cuda::check(driver.device_count(&count), "cuda: cuDeviceGetCount");
  for (int i = 0; i < count; ++i) {
    char label[256] = {};
    int major = 0, minor = 0;
    runtime::cuda::check(driver.device_name(label, int(sizeof(label)) - 1, i),
                         "cuda: cuDeviceGetName");
    runtime::cuda::check(driver.device_attribute(&major, kComputeMajor, i),
                         "cuda: cuDeviceGetAttribute");
    runtime::cuda::check(driver.device_attribute(&minor, kComputeMinor, i),
                         "cuda: cuDeviceGetAttribute");
    out["devices"].push_back(
        {{"name", label},
         {"compute_capability", std::to_string(major) + "." + std::to_string(minor)},
         {"state", gpu_state_json(i)}});
  }
  return out;
}

json threads_json() {
  json out = {{"affinity", runtime::affinity_count()},
              {"cgroup_quota", runtime::cgroup_cpu_quota()}};
  try {
    const runtime::ThreadCount count = runtime::resolve_threads();
    out["threads"] = count.threads;
    out["source"] = count.source;
  } catch (const Error& error) {
    out["error"] = error.what();
  }
  return out;
}

json rates_json(const Machine& machine, const std::string& source) {
  return {{"source", source},
          {"isa", name(machine.isa)},
          {"threads", machine.threads},
          {"f32_fma_gflops", machine.f32_fma_gflops},
          {"bf16_dot_gflops", machine.bf16_dot_gflops},
          {"f16_fma_gflops", machine.f16_fma_gflops},
          {"int8_dot_gops", machine.int8_dot_gops},
          {"bf16_tile_gflops", machine.bf16_tile_gflops},
          {"int8_tile_gops", machine.int8_tile_gops},
          {"dram_read_gbs", machine.dram_read_gbs},
          {"dram_read_all_gbs", machine.dram_read_all_gbs},
          {"dram_copy_gbs", machine.dram_copy_gbs}};
}

json environment_json() {
  json out = json::object();
  for (const char* variable : kVariables)
    if (const char* value = std::getenv(variable)) out[variable] = value;
  return out;
}

json describe(const std::optional<runtime::Calibration>& calibration) {
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  json out = {{"version", TILEWRIGHT_VERSION},
              {"compiler", compiler()},
              {"cpu", cpu_json(cpu)},
              {"isa", isa_json()},
              {"cuda", cuda_json()},
              {"threads", threads_json()},
              {"transparent_huge_pages", huge_pages()},
              {"calibration_file", runtime::calibration_path()},
              {"environment", environment_json()}};
  if (out["isa"].contains("chosen") && out["threads"].contains("threads")) {
    Machine machine =
        runtime::table_machine(cpu, runtime::detect_isa(), out["threads"]["threads"].get<int>());
    if (calibration) apply(*calibration, machine);
    out["rates"] = rates_json(machine, calibration ? "calibrated" : "table");
  }
  return out;
}

std::string joined(const json& list) {
  std::string out;
  for (const json& item : list) out += (out.empty() ? "" : " ") + item.get<std::string>();
  return out.empty() ? "none" : out;
}

void line(const char* label, const std::string& value) {
  std::printf("%-20s %s\n", label, value.c_str());
}

std::string kib(const json& bytes) {
  return std::to_string(bytes.get<int64_t>() >> 10) + " KiB";
}

void print_rates(const json& rates) {
  std::printf("\nrates (%s; %s, %d threads)\n", rates["source"].get<std::string>().c_str(),
              rates["isa"].get<std::string>().c_str(), rates["threads"].get<int>());
  const auto rate = [&](const char* label, const char* field, const char* unit) {
    const double value = rates[field].get<double>();
    if (value > 0)
      std::printf("  %-24s %8.1f %s\n", label, value, unit);
    else
      std::printf("  %-24s %8s\n", label, "none");
  };
  rate("f32 multiply-add", "f32_fma_gflops", "GFLOP/s per core");
  rate("bf16 dot product", "bf16_dot_gflops", "GFLOP/s per core");
  rate("f16 multiply-add", "f16_fma_gflops", "GFLOP/s per core");
  rate("int8 dot product", "int8_dot_gops", "GOP/s per core");
  rate("bf16 tile product", "bf16_tile_gflops", "GFLOP/s per core");
  rate("int8 tile product", "int8_tile_gops", "GOP/s per core");
  rate("DRAM read, 1 thread", "dram_read_gbs", "GB/s");
  rate("DRAM read, all threads", "dram_read_all_gbs", "GB/s");
  rate("DRAM copy, all threads", "dram_copy_gbs", "GB/s read + written");
}

std::string shown(const json& state) {
  if (state.contains("unavailable")) return state["unavailable"].get<std::string>();
  char text[128];
  std::snprintf(text, sizeof text, "%.0f MHz, memory %.0f MHz, %.0f of %.0f W, %.0f C",
                state["sm_mhz"].get<double>(), state["memory_mhz"].get<double>(),
                state["power_w"].get<double>(), state["power_limit_w"].get<double>(),
                state["temperature_c"].get<double>());
  return text;
}

void print_table(const json& env) {
  const json &cpu = env["cpu"], &isa = env["isa"], &threads = env["threads"];
  line("tilewright", env["version"].get<std::string>() + ", " + env["compiler"].get<std::string>());
  line("processor", cpu["brand"].get<std::string>() + " (" +
                        cpu["microarchitecture"].get<std::string>() + "; " +
                        cpu["vendor"].get<std::string>() + " family " + cpu["family"].dump() +
                        " model " + cpu["model"].dump() + ")");
  line("caches", "L1d " + kib(cpu["l1d_bytes"]) + ", L2 " + kib(cpu["l2_bytes"]) +
                     " per core, L3 " + kib(cpu["l3_bytes"]) + " shared");
  line("features", joined(cpu["features"]));
  line("kernels built for", joined(isa["built"]));
  line("available here", joined(isa["available"]));
  line("chosen", isa.contains("chosen") ? isa["chosen"].get<std::string>()
                                        : "none: " + isa["error"].get<std::string>());
  for (const auto& [build, reason] : isa["unavailable"].items())
    line("not available", build + ": " + reason.get<std::string>());
  if (const std::string none = env["cuda"]["unavailable"].get<std::string>(); !none.empty())
    line("GPU", "none: " + none);
  for (const json& gpu : env["cuda"]["devices"]) {
    line("GPU", gpu["name"].get<std::string>() + ", compute capability " +
                    gpu["compute_capability"].get<std::string>());
    line("  now", shown(gpu["state"]));
  }
  line("threads", threads.contains("threads") ? threads["threads"].dump() + " (" +
                                                    threads["source"].get<std::string>() + ")"
                                              : "none: " + threads["error"].get<std::string>());
  line("huge pages", env["transparent_huge_pages"].get<std::string>());
  line("calibration file", env["calibration_file"].get<std::string>());
  for (const auto& [variable, value] : env["environment"].items())
    line("environment", variable + "=" + value.get<std::string>());
  if (env.contains("rates")) print_rates(env["rates"]);
}

runtime::Calibration calibrate_and_store() {
  const std::string path = runtime::calibration_path();
  if (path.empty()) {
    throw Error(
        ErrorKind::kInvalidArgument,
        "--calibrate: none of TILEWRIGHT_CACHE_DIR, XDG_CACHE_HOME and HOME is set, so there "
        "is no place for it");
  }
  runtime::ThreadPool pool(runtime::resolve_threads().threads);
  const runtime::CalibrationRun run = runtime::calibrate(
      pool, [](const std::string& step) { std::fprintf(stderr, "measuring %s\n", step.c_str()); });
  if (run.processor_share < kIdleShare) {
    std::fprintf(stderr,
                 "not stored: other work took %.0f %% of the processors, so these rates are too "
                 "low; calibrate on an idle machine\n",
                 100 * (1 - run.processor_share));
  } else {
    runtime::write_calibration(path, runtime::cpu_info().key(), run.calibration);
    std::fprintf(stderr, "wrote %s\n", path.c_str());
  }
  return run.calibration;
}

}  // namespace

void add_env(CLI::App& app) {
  struct Options {
    bool as_json = false, calibrate = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(
      "env", "Show the machine, the chosen build of the kernels, threads and settings");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->add_flag("--calibrate", options->calibrate,
                    "Measure this machine's rates first (about 10 s) and store them");
  command->footer(
      "Where set, TILEWRIGHT_ISA names the build of the kernels, TILEWRIGHT_NUM_THREADS the "
      "number\n"
      "of threads, TILEWRIGHT_CACHE_DIR the folder of measurements and compiled kernels.\n\n"
      "Example: tilewright env --calibrate\n"
      "         TILEWRIGHT_ISA=avx2 tilewright env");
  command->callback([options] {
    std::optional<runtime::Calibration> calibration;
    if (options->calibrate)
      calibration = calibrate_and_store();
    else
      calibration = runtime::stored_calibration();
    const json env = describe(calibration);
    if (options->as_json)
      std::cout << env.dump(2) << "\n";
    else
      print_table(env);
    // What no call can run with is shown, but no success.
    runtime::detect_isa();
    runtime::resolve_threads();
  });
}

}  // namespace tw::cli
