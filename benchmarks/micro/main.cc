// tilewright-micro: what this machine can do, with one thread and with all. The limits that the
// other benchmarks are shown as a share of.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "benchmarks/micro/gpu.h"
#include "tilewright/core/error.h"
#include "tilewright/ops/rms_norm.h"
#include "tilewright/runtime/calibrate.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/launch.h"
#include "tilewright/runtime/operators.h"
#include "tilewright/runtime/thread_count.h"
#include "tilewright/runtime/thread_pool.h"
#include "tilewright/tile/cpu/probe.h"

namespace tw::bench {
namespace {

using namespace tw::runtime;

struct Row {
  std::string name, unit;
  double one, all;  // with one thread, with all; 0: not measured
};

class Report {
 public:
  explicit Report(int threads) : threads_(threads) {}

  void add(const std::string& name, const std::string& unit, double one, double all) {
    if (rows_.empty())
      std::fprintf(stderr, "%-34s %12s %12s\n", "", "1 thread", all_title().c_str());
    std::fprintf(stderr, "%-34s %12s %12s %s\n", name.c_str(), shown(one).c_str(),
                 shown(all).c_str(), unit.c_str());
    rows_.push_back({name, unit, one, all});
  }

  void print_table() const {
    std::printf("%-34s %12s %12s\n", "limit", "1 thread", all_title().c_str());
    for (const Row& row : rows_) {
      std::printf("%-34s %12s %12s %s\n", row.name.c_str(), shown(row.one).c_str(),
                  shown(row.all).c_str(), row.unit.c_str());
    }
  }

  nlohmann::json to_json() const {
    nlohmann::json limits = nlohmann::json::object();
    for (const Row& row : rows_) {
      nlohmann::json& entry = limits[row.name];
      entry["unit"] = row.unit;
      if (row.one > 0) entry["one_thread"] = row.one;
      if (row.all > 0) entry["all_threads"] = row.all;
    }
    return limits;
  }

 private:
  std::string all_title() const { return std::to_string(threads_) + " threads"; }
  static std::string shown(double value) {
    char text[32];
    if (value <= 0) return "-";
    std::snprintf(text, sizeof text, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
    return text;
  }

  int threads_;
  std::vector<Row> rows_;
};

void measure_compute(ThreadPool& one, ThreadPool& all, Report& report) {
  const auto add = [&](const std::string& name, const char* unit,
                       const tile::ArithmeticProbe& probe) {
    if (probe.run == nullptr) return;
    report.add(name, unit, measure_arithmetic(one, probe), measure_arithmetic(all, probe));
  };
  for (const Isa isa : available_isas()) {
    const std::string suffix = std::string(" ") + name(isa);
    add("f32_fma" + suffix, "GFLOP/s", tile::f32_fma_probe(isa));
    add("int8_dot" + suffix, "GOP/s", tile::int8_dot_probe(isa));
    add("bf16_dot" + suffix, "GFLOP/s", tile::bf16_dot_probe(isa));
    add("f16_fma" + suffix, "GFLOP/s", tile::f16_fma_probe(isa));
    add("bf16_tile" + suffix, "GFLOP/s", tile::bf16_tile_probe(isa));
    add("int8_tile" + suffix, "GOP/s", tile::int8_tile_probe(isa));
  }
}

void measure_caches(ThreadPool& one, ThreadPool& all, Report& report) {
  const tile::MemoryProbe probe = tile::memory_probe(available_isas().back());
  const CpuInfo& cpu = cpu_info();
  const auto add = [&](const char* name, int64_t one_bytes, int64_t all_bytes) {
    if (one_bytes <= 0) return;
    report.add(name, "GB/s", measure_cache_read(one, probe, one_bytes),
               measure_cache_read(all, probe, all_bytes));
  };
  // Half of each level, so that what else lives there does not push the data out.
  add("read L1", cpu.l1d_bytes / 2, cpu.l1d_bytes / 2);
  add("read L2", cpu.l2_bytes / 2, cpu.l2_bytes / 2);
  const int64_t l3 = std::min<int64_t>(cpu.l3_bytes / 2, 64 << 20);
  add("read L3", l3, std::max(l3 / all.threads(), 2 * cpu.l2_bytes));
}

/// Nanoseconds until one thread has read a line of `bytes`, in the best of several runs: each line
/// holds the address of the next one, in a random order that nothing can foresee.
double read_latency(ThreadPool& one, int64_t bytes) {
  constexpr int64_t kLine = 64, kSteps = 1 << 20;
  const TouchedMemory memory(one, bytes / kLine * kLine);
  std::vector<std::byte*> lines;
  for (int64_t i = 0; i < memory.bytes(); i += kLine) lines.push_back(memory.data() + i);
  std::shuffle(lines.begin(), lines.end(), std::mt19937_64(1));
  const auto next = [](std::byte* line) -> std::byte*& {
    return *reinterpret_cast<std::byte**>(line);
  };
  for (size_t i = 0; i < lines.size(); ++i) next(lines[i]) = lines[(i + 1) % lines.size()];
  std::byte* line = lines[0];
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < kSteps; ++i) line = next(line);
    __asm__ volatile("" : "+r"(line));  // or nobody would want it
    const std::chrono::duration<double, std::nano> all = std::chrono::steady_clock::now() - begin;
    best = std::min(best, all.count() / kSteps);
  }
  return best;
}

void measure_latencies(ThreadPool& one, int64_t dram_bytes, Report& report) {
  const CpuInfo& cpu = cpu_info();
  const auto add = [&](const char* name, int64_t bytes) {
    if (bytes > 0) report.add(name, "ns", read_latency(one, bytes), 0);
  };
  add("latency L1", cpu.l1d_bytes / 2);
  add("latency L2", cpu.l2_bytes / 2);
  add("latency L3", std::min<int64_t>(cpu.l3_bytes / 2, 64 << 20));
  add("latency DRAM", dram_bytes);
}

void measure_dram(ThreadPool& one, ThreadPool& all, int64_t bytes, Report& report) {
  const TouchedMemory a(all, bytes), b(all, bytes);
  const tile::MemoryProbe probe = tile::memory_probe(available_isas().back());
  const StreamRates s = measure_streams(one, probe, a, b), m = measure_streams(all, probe, a, b);
  report.add("read DRAM", "GB/s", s.read, m.read);
  report.add("write DRAM", "GB/s", s.write, m.write);
  report.add("write DRAM, non-temporal", "GB/s", s.write_around, m.write_around);
  report.add("copy DRAM (read + written)", "GB/s", s.copy, m.copy);
  report.add("copy DRAM, non-temporal", "GB/s", s.copy_around, m.copy_around);
}

void measure_system(ThreadPool& all, Report& report) {
  const ForkJoinTimes times = measure_fork_join(all);
  report.add("cache line to a core and back", "ns", 0, times.round_trip);
  report.add("fork-join, all threads started", "ns", 0, times.hot);
  report.add("fork-join, caller only", "ns", 0, times.caller_only);
  report.add("phase of a fork", "ns", 0, times.phase);
  report.add("fork-join after 20 ms idle", "ns", 0, times.idle);
  const PageFaultTimes faults = measure_page_faults();
  report.add("page fault, 4 KiB", "ns", faults.small_page, 0);
  report.add("page fault, 2 MiB", "ns", faults.huge_page, 0);
}

/// Median nanoseconds of one call of `f`.
template <class F>
double nanoseconds(F&& f) {
  constexpr int kCalls = 1000, kRuns = 51;
  std::array<double, kRuns> times;
  for (double& time : times) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) f();
    time =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
        kCalls;
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

/// What a call costs beside its kernel: rms_norm of one row of 64 elements.
void measure_calls(ThreadPool& one, Report& report) {
  Context context(one);
  const Tensor x = Tensor::zeros({1, 64}, DType::kF32), weight = Tensor::zeros({64}, DType::kF32);
  const Tensor out = Tensor::zeros({1, 64}, DType::kF32);
  const OperatorInfo& op = find_operator("rms_norm");
  const auto call = [&] {
    ops::Call made(*op.schema);
    made.set("x", x.ref()).set("weight", weight.ref()).set("out", out.ref());
    return made;
  };
  const ops::Call made = call();
  report.add("call: made by name", "ns", nanoseconds([&] { call(); }), 0);
  report.add("call: validated and run", "ns", nanoseconds([&] { op.run(made, context); }), 0);
  ops::with_kernel<ops::RmsNorm>(made, [&]<int kIndex>(const auto& kernel) {
    if constexpr (kIndex != ops::kReferenceOnly)
      report.add("call: kernel alone", "ns",
                 nanoseconds([&] { launch<ops::RmsNorm>(context, kernel); }), 0);
  });
}

void measure_cpu(ThreadPool& one, ThreadPool& all, int64_t dram_bytes, Report& report) {
  detect_isa();  // throws where no build runs
  report.add("clock", "GHz", measure_clock_ghz(), 0);
  measure_compute(one, all, report);
  measure_caches(one, all, report);
  measure_latencies(one, dram_bytes, report);
  measure_dram(one, all, dram_bytes, report);
  measure_system(all, report);
  measure_calls(one, report);
}

int run(int argc, char** argv) {
  CLI::App app("Measures the limits of this machine.");
  int threads = 0;
  int64_t mib = 0;
  bool as_json = false, only_gpu = false;
  app.add_option("--threads", threads, "threads of the second column (default: as the library)");
  app.add_option("--array-mib", mib, "MiB of each of the two arrays for DRAM")
      ->check(CLI::Range(2, 1 << 16));
  app.add_flag("--gpu", only_gpu, "measure the GPU alone");
  app.add_flag("--json", as_json, "print JSON instead of a table");
  app.footer("Example: tilewright-micro --json > limits.json");
  CLI11_PARSE(app, argc, argv);

  ThreadPool one(1), all(resolve_threads(threads).threads);
  Report report(all.threads());
  if (!only_gpu) measure_cpu(one, all, mib > 0 ? mib << 20 : stream_array_bytes(), report);
  std::optional<GpuLimits> gpu;
  if (only_gpu || gpu_support()) gpu = measure_gpu(one);
  if (as_json) {
    nlohmann::json out = {{"version", TILEWRIGHT_VERSION},
                          {"compiler", __VERSION__},
                          {"processor", cpu_info().key()},
                          {"threads", all.threads()}};
    if (!only_gpu) out["limits"] = report.to_json();
    if (gpu) out["gpu"] = to_json(*gpu);
    std::cout << out.dump(2) << "\n";
    return 0;
  }
  if (!only_gpu) {
    std::printf("%s, %s\n", cpu_info().key().c_str(),
                std::string(name(cpu_info().microarchitecture)).c_str());
    report.print_table();
  }
  if (gpu) print_gpu(*gpu);
  return 0;
}

}  // namespace
}  // namespace tw::bench

int main(int argc, char** argv) {
  try {
    return tw::bench::run(argc, argv);
  } catch (const tw::Error& error) {
    std::fprintf(stderr, "tilewright-micro: %s\n", error.what());
    return error.kind() == tw::ErrorKind::kUnsupported ? 4 : 2;
  }
}
