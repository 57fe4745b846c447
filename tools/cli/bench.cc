// tilewright bench: every operator of the catalog on the shapes real models run.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "testing/op_call.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/machine.h"
#include "tilewright/runtime/operators.h"
#include "tools/cli/arguments.h"
#include "tools/cli/bench_cuda.h"
#include "tools/cli/bench_limit.h"
#include "tools/cli/commands.h"
#include "tools/cli/quantile.h"

namespace tw::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::vector<std::string> filters, dtypes;
  std::vector<int> threads;
  double seconds = 0.3;
  std::string device = "cpu", case_text;
  bool as_json = false, no_samples = false;
};

constexpr double kRotatedBytes = 16 << 20;  // calls that touch less are measured in the caches
constexpr double kMaxBytes = 2e9;
constexpr double kBatchSeconds = 0.02;  // of runs between two measurements of the limit
constexpr double kCheckedFlops = 4e9;   // the float64 definition of more takes too long to wait for
constexpr double kSmallerFlops = 4e8;   // of a call that stands for a larger one

struct Timing {
  double median = 0, p10 = 0, p90 = 0;  // seconds
  double fraction = 0;                  // of the limit
  int runs = 0;
  std::vector<double> samples;  // microseconds
};

/// Runs the calls in turn. Between batches of runs the limit is measured: `fraction` is the median
/// of what a batch reached of the limit right before and right after it.
template <class Run>
Timing measure(double seconds, const Limit& limit, LimitMeter& meter, Run&& run) {
  std::vector<double> times, fractions;
  double spent = 0, limit_before = meter.seconds_now(limit);
  while (spent < seconds || times.size() < 5) {
    std::vector<double> batch;
    double batch_seconds = 0;
    while (batch_seconds < kBatchSeconds) {
      const auto start = Clock::now();
      run();
      batch.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      batch_seconds += batch.back();
    }
    const double limit_after = meter.seconds_now(limit);
    fractions.push_back((limit_before + limit_after) / 2 / quantile(batch, 0.5));
    limit_before = limit_after;
    spent += batch_seconds;
    times.insert(times.end(), batch.begin(), batch.end());
  }
  return {.median = quantile(times, 0.5),
          .p10 = quantile(times, 0.1),
          .p90 = quantile(times, 0.9),
          .fraction = quantile(fractions, 0.5),
          .runs = int(times.size()),
          .samples = kept_samples(times)};
}

std::string dtypes_of(const std::vector<DType>& combo) {
  std::string out;
  for (const DType dtype : combo) out += (out.empty() ? "" : "/") + std::string(name(dtype));
  return out;
}

/// The call, and copies of it with other operands when those of one would stay in the last cache:
/// a model's weights are read once a token, from memory.
std::deque<testing::OpCall> make_calls(const runtime::OperatorInfo& op,
                                       const std::vector<DType>& combo,
                                       const testing::CaseSpec& spec, const Machine& machine) {
  std::deque<testing::OpCall> calls;
  calls.emplace_back(op, combo, spec, 1, testing::Layout::kAligned);
  const double bytes = op.cost(calls[0].call()).bytes;
  if (bytes < kRotatedBytes) return calls;
  const double wanted = std::min(3.0 * double(machine.l3_bytes), kMaxBytes);
  for (uint64_t seed = 2; double(calls.size()) * bytes < wanted; ++seed)
    calls.emplace_back(op, combo, spec, seed, testing::Layout::kAligned);
  return calls;
}

void check(const runtime::OperatorInfo& op, const std::vector<DType>& combo,
           const testing::CaseSpec& spec, const testing::OpCall& got) {
  testing::OpCall want(op, combo, spec, 1, testing::Layout::kAligned);
  op.reference(want.call());
  for (size_t i = 0; i < want.outputs().size(); ++i) {
    const TensorRef& output = want.outputs()[i];
    const auto c = testing::compare(got.outputs()[i], output,
                                    testing::tolerance_of(output.dtype) * op.tolerance_scale);
    if (!c.ok) throw Error(ErrorKind::kInternal, std::string(op.name()) + ": " + c.message);
  }
}

/// Calls of the same operator with one size less, so that `share` of the work is left.
std::vector<std::string> smaller(std::string_view text, double share) {
  std::vector<std::string> words, out;
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) words.push_back(word);
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t at = words[i].find('=') + 1;
    const bool is_size = words[i].starts_with('*') || (words[i][0] >= 'A' && words[i][0] <= 'Z');
    if (!is_size || words[i].find_first_not_of("0123456789", at) != std::string::npos) continue;
    const double less = std::max(1.0, std::floor(share * std::stod(words[i].substr(at))));
    out.emplace_back();
    for (size_t j = 0; j < words.size(); ++j)
      out.back() += (j > 0 ? " " : "") +
                    (j == i ? words[i].substr(0, at) + std::to_string(int64_t(less)) : words[j]);
  }
  return out;
}

/// As check(), of the first smaller call that fits the operator. Returns its text; empty where
/// there is none.
std::string check_smaller(const runtime::OperatorInfo& op, const std::vector<DType>& combo,
                          std::string_view text, double share, runtime::Context& context) {
  for (const std::string& less : smaller(text, share)) {
    const auto spec = testing::CaseSpec::parse(*op.schema, less);
    std::optional<testing::OpCall> call;
    try {
      call.emplace(op, combo, spec, 1, testing::Layout::kAligned);
      if (op.cost(call->call()).flops > kCheckedFlops) continue;
    } catch (const Error&) {
      continue;  // sizes that do not fit each other
    }
    op.run(call->call(), context);
    check(op, combo, spec, *call);
    return less;
  }
  return "";
}

json bench_one(const runtime::OperatorInfo& op, const std::vector<DType>& combo,
               const ops::Case& workload, runtime::ThreadPool& pool, LimitMeter& meter,
               double seconds) {
  const auto spec = testing::CaseSpec::parse(*op.schema, workload.text);
  runtime::Context context(pool);
  std::deque<testing::OpCall> calls = make_calls(op, combo, spec, context.machine());
  const ops::Cost cost = op.cost(calls[0].call());
  for (testing::OpCall& call : calls) op.run(call.call(), context);
  const bool is_small = cost.flops <= kCheckedFlops;
  std::string checked_case;
  if (is_small)
    check(op, combo, spec, calls[0]);
  else
    checked_case = check_smaller(op, combo, workload.text, kSmallerFlops / cost.flops, context);
  double written = 0;
  for (const TensorRef& output : calls[0].outputs())
    written += double(output.count() * element_size(output.dtype));
  size_t next = 0;
  const bool from_memory = double(calls.size()) * cost.bytes > double(context.machine().l3_bytes);
  const DType first = combo.empty() ? DType::kF32 : combo[0];  // of schemas that name every dtype
  const Limit limit = meter.limit_of(cost, written, from_memory, first);
  const Timing t =
      measure(seconds, limit, meter, [&] { op.run(calls[next++ % calls.size()].call(), context); });
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
           {"us_samples", t.samples},
           {"copies", calls.size()},
           {"gflops", cost.flops / t.median * 1e-9},
           {"gbs", cost.bytes / t.median * 1e-9},
           {"checked", is_small               ? "definition"
                       : checked_case.empty() ? "not"
                                              : "a smaller call"}};
  if (!checked_case.empty()) row["checked_case"] = checked_case;
  if (limit.amount > 0) {
    row["limit"] = limit.of;
    row["fraction_of_limit"] = t.fraction;
  }
  return row;
}

/// The rates that fractions are taken of, whole machine.
json limits_of(const Machine& m) {
  return {{"threads", m.threads},
          {"isa", name(m.isa)},
          {"measured", runtime::stored_calibration().has_value()},
          {"f32_fma_gflops", m.f32_fma_gflops * m.threads},
          {"bf16_dot_gflops", m.bf16_dot_gflops * m.threads},
          {"int8_dot_gops", m.int8_dot_gops * m.threads},
          {"bf16_tile_gflops", m.bf16_tile_gflops * m.threads},
          {"int8_tile_gops", m.int8_tile_gops * m.threads},
          {"dram_read_gbs", m.dram_read_all_gbs},
          {"dram_copy_gbs", m.dram_copy_gbs}};
}

void print_row(const json& r) {
  std::printf(
      "%-22s %-28s %-10s %2dT %12.1f us %9.1f GF/s %8.1f GB/s  %s of %s%s\n",
      r["op"].get<std::string>().c_str(), r["workload"].get<std::string>().c_str(),
      r["dtype"].get<std::string>().c_str(), r["threads"].get<int>(), r["us"].get<double>(),
      r["gflops"].get<double>(), r["gbs"].get<double>(),
      r.contains("fraction_of_limit")
          ? (std::to_string(int(100 * r["fraction_of_limit"].get<double>() + 0.5)) + " %").c_str()
          : "-",
      r.value("limit", "-").c_str(),
      r["checked"] == "not" ? "  (not checked here: too large for the reference)" : "");
  std::fflush(stdout);
}

bool matches(const std::string& id, const std::vector<std::string>& filters) {
  const auto within = [&](const std::string& f) { return id.find(f) != std::string::npos; };
  return filters.empty() || std::any_of(filters.begin(), filters.end(), within);
}

/// Throws where no operator has one of the dtypes: of several, the others would hide it.
void check_dtypes(const std::vector<std::string>& wanted) {
  for (const std::string& dtype : wanted) {
    const auto has = [&](const runtime::OperatorInfo& op) {
      return std::any_of(op.combos.begin(), op.combos.end(),
                         [&](const auto& combo) { return dtypes_of(combo) == dtype; });
    };
    const auto& all = runtime::operators();
    if (!std::any_of(all.begin(), all.end(), has))
      refuse_value("--dtype", dtype, {}, "a dtype of an operator; see `tilewright ops`");
  }
}

/// Calls f for each operator, dtype and workload that the options ask for.
template <class F>
void for_each_workload(const BenchOptions& options, F&& f) {
  const auto& wanted = options.dtypes;
  check_dtypes(wanted);
  for (const runtime::OperatorInfo& op : runtime::operators())
    for (const auto& combo : op.combos) {
      if (!wanted.empty() && !std::count(wanted.begin(), wanted.end(), dtypes_of(combo))) continue;
      if (!options.case_text.empty()) {
        const auto& names = options.filters;
        if (std::count(names.begin(), names.end(), op.name()) == 0) continue;
        testing::CaseSpec::parse(*op.schema, options.case_text).check_numbers(op);
        f(op, combo, ops::Case{"given", options.case_text});
        continue;
      }
      for (const ops::Case& workload : op.workloads)
        if (matches(std::string(op.name()) + "/" + std::string(workload.label), options.filters))
          f(op, combo, workload);
    }
}

void print_gpu_row(const json& r) {
  std::printf("%-20s %-36s %-10s %10.2f us %8.1f GB/s  %5.1f %% of copy  host %.2f us",
              r["op"].get<std::string>().c_str(), r["case"].get<std::string>().c_str(),
              r["dtype"].get<std::string>().c_str(), r["us"].get<double>(), r["gbs"].get<double>(),
              100 * r["fraction_of_limit"].get<double>(), r["host_us"].get<double>());
  if (r.contains("clock_mhz"))
    std::printf("  %.0f MHz %.0f W", r["clock_mhz"].get<double>(), r["power_w"].get<double>());
  std::printf("\n");
  std::fflush(stdout);
}

/// N of cuda:N.
int gpu_number(const std::string& device) {
  const std::string kPrefix = "cuda:";
  if (device == "cuda") return 0;
  if (!device.starts_with(kPrefix)) refuse_value("--device", device, {}, "cpu, cuda or cuda:N");
  return parse_number<int>("--device", std::string_view(device).substr(kPrefix.size()),
                           {.least = 0}, device);
}

[[noreturn]] void refuse_empty(const BenchOptions& options) {
  throw Error(ErrorKind::kInvalidArgument,
              options.case_text.empty()
                  ? "no workload matches; see `tilewright ops`"
                  : "no workload matches: --case is for operators that FILTER names in full, of "
                    "dtypes that they have; see `tilewright ops`");
}

void drop_samples(json& rows) {
  for (json& row : rows) row.erase("us_samples");
}

void run_on_gpu(const BenchOptions& options) {
  const int device = gpu_number(options.device);
  const json limits = gpu_limits(device);
  if (!options.as_json) std::printf("%s\n", limits.dump().c_str());
  json rows = json::array();
  for_each_workload(options, [&](const runtime::OperatorInfo& op, const auto& combo,
                                 const ops::Case& workload) {
    if (!op.on_cuda) return;
    rows.push_back(bench_on_gpu(op, combo, workload, device, options.seconds, limits["copy_gbs"]));
    rows.back()["dtype"] = dtypes_of(combo);
    if (!options.as_json) print_gpu_row(rows.back());
  });
  if (rows.empty()) refuse_empty(options);
  if (options.no_samples) drop_samples(rows);
  if (options.as_json)
    std::cout << json{{"version", TILEWRIGHT_VERSION}, {"limits", limits}, {"results", rows}}.dump(
                     1)
              << "\n";
}

void run_bench(const BenchOptions& options) {
  if (options.device != "cpu") return run_on_gpu(options);
  json rows = json::array(), limits = json::array();
  const std::vector<int> counts = options.threads.empty()
                                      ? std::vector<int>{1, runtime::default_pool().threads()}
                                      : options.threads;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (std::count(counts.begin(), counts.begin() + long(i), counts[i]) > 0) continue;
    runtime::ThreadPool pool(counts[i]);
    const Machine machine = runtime::Context(pool).machine();
    LimitMeter meter(pool, machine);
    limits.push_back(limits_of(machine));
    for_each_workload(options, [&](const runtime::OperatorInfo& op, const auto& combo,
                                   const ops::Case& workload) {
      rows.push_back(bench_one(op, combo, workload, pool, meter, options.seconds));
      if (!options.as_json) print_row(rows.back());
    });
  }
  if (rows.empty()) refuse_empty(options);
  if (!options.as_json) return;
  if (options.no_samples) drop_samples(rows);
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  std::cout << json{{"version", TILEWRIGHT_VERSION},
                    {"cpu", cpu.key()},
                    {"processor",
                     cpu.brand + ", " + std::string(runtime::name(cpu.microarchitecture))},
                    {"compiler", __VERSION__},
                    {"limits", limits},
                    {"results", rows}}
                   .dump(1)
            << "\n";
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure the operators");
  command->add_option("FILTER", options->filters,
                      "Only workloads whose OP/LABEL contains one of these");
  add_words(*command, "--dtype", options->dtypes,
            "Only these dtypes, as `tilewright ops` spells them");
  add_numbers(*command, "--threads", options->threads, "Thread counts; default: 1 and all",
              {1, runtime::ThreadPool::kMaxThreads});
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  add_text(*command, "--case",
           "Instead of the workloads, this one, such as \"*=16 C=4096\"; FILTER names the "
           "operators",
           "TEXT", [options = options.get()](const std::string& text) {
             if (text.empty()) refuse_value("--case", text, {}, "a case such as '*=16 C=4096'");
             options->case_text = text;
           });
  add_number(*command, "--seconds", options->seconds, "Time for each row", {0, 3600});
  command->add_flag("--json", options->as_json, "Print JSON");
  command->add_flag("--no-samples", options->no_samples,
                    "Leave out of the JSON what only `tilewright compare` reads");
  command->footer("Example: tilewright bench rms_norm --dtype bf16");
  command->callback([options] { run_bench(*options); });
}

}  // namespace tw::cli
