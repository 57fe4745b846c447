// tilewright bench: every operator of the catalog on the shapes real models run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "testing/op_call.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/machine.h"
#include "tilewright/runtime/operators.h"
#include "tools/cli/commands.h"

namespace tw::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string filter, dtype;
  std::vector<int> threads;
  double seconds = 0.3;
  bool as_json = false;
};

constexpr double kCheckedFlops = 4e9;  // the float64 definition of more takes too long to wait for

struct Timing {
  double median = 0, p10 = 0, p90 = 0;  // seconds
  int runs = 0;
};

template <class F>
Timing measure(double seconds, F&& f) {
  std::vector<double> times;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    f();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds ||
           times.size() < 5);
  std::sort(times.begin(), times.end());
  const auto at = [&](double q) { return times[size_t(q * double(times.size() - 1))]; };
  return {at(0.5), at(0.1), at(0.9), int(times.size())};
}

/// Seconds that the machine's limits allow for this cost: arithmetic, or memory where the operands
/// do not fit its caches.
double limit_seconds(const ops::Cost& cost, const Machine& m) {
  const double arithmetic = cost.flops / (m.f32_fma_gflops * 1e9 * m.threads);
  const bool from_memory = cost.bytes > double(m.l3_bytes);
  const double memory =
      from_memory ? cost.bytes / (std::max(m.dram_copy_gbs, m.dram_read_all_gbs) * 1e9) : 0;
  return std::max(arithmetic, memory);
}

std::string dtypes_of(const std::vector<DType>& combo) {
  std::string out;
  for (const DType dtype : combo) out += (out.empty() ? "" : "/") + std::string(name(dtype));
  return out;
}

json bench_one(const runtime::OperatorInfo& op, const std::vector<DType>& combo,
               const ops::Case& workload, runtime::ThreadPool& pool, double seconds) {
  const auto spec = testing::CaseSpec::parse(*op.schema, workload.text);
  testing::OpCall call(op, combo, spec, 1, testing::Layout::kAligned);
  const ops::Cost cost = op.cost(call.call());
  runtime::Context context(pool);
  op.run(call.call(), context);
  const bool checked = cost.flops <= kCheckedFlops;
  if (checked) {
    testing::OpCall want(op, combo, spec, 1, testing::Layout::kAligned);
    op.reference(want.call());
    for (size_t i = 0; i < want.outputs().size(); ++i) {
      const TensorRef& output = want.outputs()[i];
      const auto c = testing::compare(call.outputs()[i], output,
                                      testing::tolerance_of(output.dtype) * op.tolerance_scale);
      if (!c.ok) throw Error(ErrorKind::kInternal, std::string(op.name()) + ": " + c.message);
    }
  }
  const Timing t = measure(seconds, [&] { op.run(call.call(), context); });
  json row{{"op", op.name()},
           {"workload", workload.label},
           {"case", workload.text},
           {"dtype", dtypes_of(combo)},
           {"threads", pool.threads()},
           {"isa", name(context.isa())},
           {"us", t.median * 1e6},
           {"us_p10", t.p10 * 1e6},
           {"us_p90", t.p90 * 1e6},
           {"runs", t.runs},
           {"gflops", cost.flops / t.median * 1e-9},
           {"gbs", cost.bytes / t.median * 1e-9},
           {"checked", checked}};
  const double limit = limit_seconds(cost, context.machine());
  if (limit > 0) row["fraction_of_limit"] = limit / t.median;
  return row;
}

void print_row(const json& r) {
  std::printf(
      "%-22s %-28s %-10s %2dT %12.1f us %9.1f GF/s %8.1f GB/s  %s%s\n",
      r["op"].get<std::string>().c_str(), r["workload"].get<std::string>().c_str(),
      r["dtype"].get<std::string>().c_str(), r["threads"].get<int>(), r["us"].get<double>(),
      r["gflops"].get<double>(), r["gbs"].get<double>(),
      r.contains("fraction_of_limit")
          ? (std::to_string(int(100 * r["fraction_of_limit"].get<double>() + 0.5)) + " %").c_str()
          : "-",
      r["checked"].get<bool>() ? "" : "  (not checked here: too large for the reference)");
  std::fflush(stdout);
}

void run(const Options& options) {
  json rows = json::array();
  const std::vector<int> counts = options.threads.empty()
                                      ? std::vector<int>{1, runtime::default_pool().threads()}
                                      : options.threads;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i > 0 && counts[i] == counts[0]) continue;
    runtime::ThreadPool pool(counts[i]);
    for (const runtime::OperatorInfo& op : runtime::operators())
      for (const auto& combo : op.combos)
        for (const ops::Case& workload : op.workloads) {
          const std::string id = std::string(op.name()) + "/" + std::string(workload.label);
          if (id.find(options.filter) == std::string::npos) continue;
          if (!options.dtype.empty() && dtypes_of(combo) != options.dtype) continue;
          rows.push_back(bench_one(op, combo, workload, pool, options.seconds));
          if (!options.as_json) print_row(rows.back());
        }
  }
  if (rows.empty())
    throw Error(ErrorKind::kInvalidArgument, "no workload matches '" + options.filter + "'");
  if (!options.as_json) return;
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  std::cout << json{{"version", TILEWRIGHT_VERSION},
                    {"cpu", cpu.key()},
                    {"compiler", __VERSION__},
                    {"results", rows}}
                   .dump(1)
            << "\n";
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure the operators");
  command->add_option("FILTER", options->filter, "Only workloads whose OP/LABEL contains this");
  command->add_option("--dtype", options->dtype,
                      "Only these dtypes, as `tilewright ops` spells them");
  command->add_option("--threads", options->threads, "Thread counts; default: 1 and all")
      ->delimiter(',')
      ->check(CLI::Range(1, runtime::ThreadPool::kMaxThreads));
  command->add_option("--seconds", options->seconds, "Time for each row")->capture_default_str();
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Example: tilewright bench rms_norm --dtype bf16");
  command->callback([options] { run(*options); });
}

}  // namespace tw::cli
