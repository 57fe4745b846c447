#include "tools/cli/ncu_report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tilewright/core/error.h"
#include "tools/cli/child.h"

namespace tw::cli {
namespace {

using nlohmann::json;
using Row = std::vector<std::string>;

/// RFC 4180: fields in quotes may hold commas, quotes, twice, and line ends.
std::vector<Row> parse_csv(std::string_view text) {
  std::vector<Row> rows;
  Row row{""};
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      row.back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      row.emplace_back();
    } else if (!quoted && c == '\n') {
      rows.push_back(std::exchange(row, {""}));
    } else if (quoted || c != '\r') {
      row.back() += c;
    }
  }
  if (row.size() > 1) rows.push_back(std::move(row));
  return rows;
}

/// A number, in which commas may separate thousands; nullopt: none, as "n/a" of what was not
/// measured.
std::optional<double> number(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return value;
}

double microseconds(double value, const std::string& unit) {
  if (unit == "ns" || unit == "nsecond") return value * 1e-3;
  if (unit == "ms" || unit == "msecond") return value * 1e3;
  if (unit == "s" || unit == "second") return value * 1e6;
  return value;
}

/// The middle of a name between two texts; nullopt: it is another name.
std::optional<std::string> between(std::string_view name, std::string_view head,
                                   std::string_view tail) {
  if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
    return std::nullopt;
  return std::string(name.substr(head.size(), name.size() - head.size() - tail.size()));
}

constexpr std::pair<const char*, const char*> kThroughput[] = {
    {"memory", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"},
    {"sm", "sm__throughput.avg.pct_of_peak_sustained_elapsed"},
    {"issue", "sm__inst_issued.avg.pct_of_peak_sustained_active"},
    {"dram", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"},
    {"l1", "l1tex__throughput.avg.pct_of_peak_sustained_active"},
    {"l2", "lts__throughput.avg.pct_of_peak_sustained_elapsed"}};

/// Pipes have a metric of issued instructions, of active cycles, or both; the larger says how near
/// the limit is. Those of the tensor core are one.
void add_pipe(std::string_view metric, double value, std::map<std::string, double>& pipes) {
  constexpr std::string_view kTail = ".avg.pct_of_peak_sustained_active";
  auto pipe = between(metric, "sm__inst_executed_pipe_", kTail);
  if (!pipe) pipe = between(metric, "sm__pipe_", "_cycles_active" + std::string(kTail));
  if (!pipe) return;
  if (pipe->starts_with("tensor") || *pipe == "tc") pipe = "tensor";
  double& most = pipes[*pipe];
  most = std::max(most, value);
}

/// Why warps did not issue: cycles for each instruction, or samples, made shares of their sum.
class Stalls {
 public:
  void add(std::string_view metric, double value) {
    constexpr std::string_view kSamples = "smsp__pcsamp_warps_issue_stalled_";
    if (const auto stall =
            between(metric, "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"))
      cycles_[*stall] = value;
    else if (metric.starts_with(kSamples) && !metric.ends_with("_not_issued"))
      samples_[std::string(metric.substr(kSamples.size()))] = value;
  }
  json shares() const {
    const auto& from = cycles_.empty() ? samples_ : cycles_;
    double sum = 0;
    for (const auto& [stall, value] : from) sum += value;
    json out = json::object();
    for (const auto& [stall, value] : from)
      if (stall != "selected" && sum > 0) out[stall] = 100 * value / sum;  // that one issued
    return out;
  }

 private:
  std::map<std::string, double> cycles_, samples_;
};

json summary(const Row& names, const Row& units, const Row& row) {
  json out, throughput = json::object();
  std::map<std::string, double> pipes;
  Stalls stalls;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "Kernel Name") out["kernel"] = row[i];
    if (names[i] == "Grid Size") out["grid"] = row[i];
    if (names[i] == "Block Size") out["block"] = row[i];
    const std::optional<double> value = number(row[i]);
    if (!value) continue;
    if (names[i] == "gpu__time_duration.sum") out["duration_us"] = microseconds(*value, units[i]);
    for (const auto& [name, metric] : kThroughput)
      if (names[i] == metric) throughput[name] = *value;
    add_pipe(names[i], *value, pipes);
    stalls.add(names[i], *value);
  }
  out["throughput"] = std::move(throughput);
  out["pipes"] = pipes;
  out["stalls"] = stalls.shares();
  return out;
}

std::string raw_page(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::kIo, path + ": cannot be read");
  if (path.ends_with(".csv")) return {std::istreambuf_iterator<char>(file), {}};
  const Captured out = capture_child({find_program("ncu", "Nsight Compute"), "--import", path,
                                      "--csv", "--page", "raw", "--print-units", "base"});
  if (out.exit_code != 0)
    throw Error(ErrorKind::kBadFile, path + ": ncu cannot import it (exit code " +
                                         std::to_string(out.exit_code) +
                                         "): " + out.out.substr(0, 500));
  return out.out;
}

/// The largest first.
void print_line(const char* title, const json& values) {
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, value] : values.items())
    if (value.get<double>() >= 0.05) sorted.emplace_back(-value.get<double>(), name);
  std::sort(sorted.begin(), sorted.end());
  std::printf("  %-11s", title);
  if (sorted.empty()) std::printf(values.empty() ? " not measured" : " none");
  for (const auto& [value, name] : sorted) std::printf(" %s %.1f %%", name.c_str(), -value);
  std::printf("\n");
}

}  // namespace

json read_ncu_report(const std::string& path, std::string_view kernel) {
  const std::string text = raw_page(path);
  // What a program printed while it was profiled, or ncu itself, may stand before the table.
  const size_t at = text.starts_with("\"ID\",") ? 0 : text.find("\n\"ID\",");
  const auto rows = parse_csv(std::string_view(text).substr(std::min(at, text.size())));
  std::vector<Row> table;
  for (const Row& row : rows)
    if (row.size() > 1) table.push_back(row);
  if (table.size() < 2)
    throw Error(ErrorKind::kBadFile, path + ": holds no table of ncu's raw page");
  const Row& names = table[0];
  const auto name_at = std::find(names.begin(), names.end(), "Kernel Name");
  if (name_at == names.end())
    throw Error(ErrorKind::kBadFile, path + ": its table has no column \"Kernel Name\"");
  json out = json::array();
  for (size_t i = 2; i < table.size(); ++i) {
    if (table[i].size() != names.size() || table[1].size() != names.size())
      throw Error(ErrorKind::kBadFile, path + ": row " + std::to_string(i + 1) + " has " +
                                           std::to_string(table[i].size()) + " fields, not " +
                                           std::to_string(names.size()));
    const std::string& name = table[i][size_t(name_at - names.begin())];
    if (name.find(kernel) != std::string::npos) out.push_back(summary(names, table[1], table[i]));
  }
  if (out.empty())
    throw Error(ErrorKind::kInvalidArgument,
                path + ": no kernel's name contains \"" + std::string(kernel) + "\"");
  return out;
}

void print_ncu_report(const json& kernels) {
  for (const json& kernel : kernels) {
    std::printf("%s grid %s block %s", kernel["kernel"].get<std::string>().c_str(),
                kernel.value("grid", "").c_str(), kernel.value("block", "").c_str());
    if (kernel.contains("duration_us"))
      std::printf(" %.2f us", kernel["duration_us"].get<double>());
    std::printf("\n");
    print_line("throughput", kernel["throughput"]);
    print_line("pipes", kernel["pipes"]);
    print_line("stalls", kernel["stalls"]);
  }
}

}  // namespace tw::cli
