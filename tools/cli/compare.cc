// tilewright compare: what differs between two measurements, beyond their noise.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tools/cli/arguments.h"
#include "tools/cli/commands.h"
#include "tools/cli/model_options.h"
#include "tools/cli/quantile.h"

namespace tw::cli {
namespace {

using nlohmann::json;

struct CompareOptions {
  std::string before, after;
  double confidence = 0.99, min_effect = 0.02;
  int resamples = 2000;
  bool as_json = false;
};

constexpr size_t kFewestSamples = 5;  // of a row

/// What the rows of both files must agree in to be of the same work.
constexpr const char* kKey[] = {"op", "workload", "case", "dtype", "pass", "threads", "backend"};

struct Interval {
  double ratio = 1, low = 1, high = 1;
  bool excludes(double value) const { return value < low || value > high; }
};

struct Row {
  std::string name;
  std::vector<double> before, after;  // microseconds
  Interval interval;                  // of after / before
  const char* verdict = "same";
};

double resampled_median(const std::vector<double>& values, std::mt19937_64& random) {
  std::uniform_int_distribution<size_t> pick(0, values.size() - 1);
  std::vector<double> drawn(values.size());
  for (double& value : drawn) value = values[pick(random)];
  return quantile(std::move(drawn), 0.5);
}

/// The middle `confidence` of the drawn ratios.
Interval interval_of(double ratio, std::vector<double> drawn, double confidence) {
  std::sort(drawn.begin(), drawn.end());
  const auto at = [&](double q) { return drawn[size_t(q * double(drawn.size() - 1) + 0.5)]; };
  return {ratio, at((1 - confidence) / 2), at((1 + confidence) / 2)};
}

/// The ratio of medians; the interval is a bootstrap's. The seed is fixed: the same files give the
/// same verdicts.
Interval bootstrap(const Row& row, const CompareOptions& options) {
  std::mt19937_64 random(1);
  std::vector<double> drawn(static_cast<size_t>(options.resamples));
  for (double& ratio : drawn)
    ratio = resampled_median(row.after, random) / resampled_median(row.before, random);
  return interval_of(quantile(row.after, 0.5) / quantile(row.before, 0.5), std::move(drawn),
                     options.confidence);
}

/// The geometric mean of the ratios; rows are drawn as pairs of before and after.
Interval overall(const std::vector<Row>& rows, const CompareOptions& options) {
  double sum = 0;
  for (const Row& row : rows) sum += std::log(row.interval.ratio);
  const double count = double(rows.size());
  std::mt19937_64 random(2);
  std::uniform_int_distribution<size_t> pick(0, rows.size() - 1);
  std::vector<double> drawn(static_cast<size_t>(options.resamples));
  for (double& ratio : drawn) {
    double total = 0;
    for (size_t i = 0; i < rows.size(); ++i) total += std::log(rows[pick(random)].interval.ratio);
    ratio = std::exp(total / count);
  }
  return interval_of(std::exp(sum / count), std::move(drawn), options.confidence);
}

std::string key_of(const json& row) {
  std::string out;
  for (const char* field : kKey)
    if (row.contains(field))
      out += (out.empty() ? "" : " ") +
             (row[field].is_string() ? row[field].get<std::string>() : row[field].dump());
  return printable(out);
}

/// The times of each row of a file, in microseconds.
///
/// Throws where no row has enough of them, but rows there are.
std::map<std::string, std::vector<double>> load(const std::string& path) {
  const json parsed = json::parse(read_text(path), nullptr, false);
  if (!parsed.is_object() || !parsed.contains("results") || !parsed["results"].is_array())
    throw Error(ErrorKind::kBadFile, printable(path) + ": holds no \"results\" of a benchmark");
  std::map<std::string, std::vector<double>> out;
  for (const json& row : parsed["results"]) {
    if (!row.is_object() || !row.contains("us_samples")) continue;
    std::vector<double> samples;
    for (const json& value : row["us_samples"])
      if (value.is_number() && value.get<double>() > 0) samples.push_back(value.get<double>());
    if (samples.size() >= kFewestSamples) out.emplace(key_of(row), std::move(samples));
  }
  if (out.empty())
    throw Error(ErrorKind::kBadFile,
                printable(path) + ": no row has " + std::to_string(kFewestSamples) +
                    " or more \"us_samples\", whose noise tells what differs; `tilewright bench "
                    "--json` and benchmarks/run.py --out without --no-samples write them");
  return out;
}

const char* verdict_of(const Interval& interval, double min_effect) {
  if (!interval.excludes(1) || std::abs(std::log(interval.ratio)) < std::log1p(min_effect))
    return "same";
  return interval.ratio < 1 ? "faster" : "slower";
}

json to_json(const Interval& interval) {
  return {{"ratio", interval.ratio}, {"low", interval.low}, {"high", interval.high}};
}

void print(const std::vector<Row>& rows, const Interval& all, const json& only) {
  size_t same = 0;
  for (const Row& row : rows) {
    same += row.verdict == std::string("same");
    if (row.verdict == std::string("same")) continue;
    std::printf("%-6s %6.3f [%.3f, %.3f]  %10.1f -> %10.1f us  %s\n", row.verdict,
                row.interval.ratio, row.interval.low, row.interval.high, quantile(row.before, 0.5),
                quantile(row.after, 0.5), row.name.c_str());
  }
  std::printf("same   %zu of %zu rows\n", same, rows.size());
  std::printf("all    %6.3f [%.3f, %.3f]  geometric mean of time after / before\n", all.ratio,
              all.low, all.high);
  for (const auto& [where, names] : only.items())
    if (!names.empty()) std::printf("only %s: %zu rows\n", where.c_str(), names.size());
}

void run_compare(const CompareOptions& options) {
  auto before = load(options.before), after = load(options.after);
  std::vector<Row> rows;
  json only{{"before", json::array()}, {"after", json::array()}};
  for (auto& [name, times] : before) {
    const auto other = after.find(name);
    if (other == after.end()) {
      only["before"].push_back(name);
      continue;
    }
    Row row{name, std::move(times), other->second, {}};
    row.interval = bootstrap(row, options);
    row.verdict = verdict_of(row.interval, options.min_effect);
    rows.push_back(std::move(row));
  }
  for (const auto& [name, times] : after)
    if (!before.contains(name)) only["after"].push_back(name);
  if (rows.empty())
    throw Error(ErrorKind::kBadFile, printable(options.before) + " and " +
                                         printable(options.after) +
                                         " share no row that has \"us_samples\" in both");
  const Interval all = overall(rows, options);
  if (!options.as_json) return print(rows, all, only);
  json out{{"confidence", options.confidence}, {"overall", to_json(all)}, {"only", only}};
  for (const Row& row : rows) {
    json one = to_json(row.interval);
    one.update({{"name", row.name}, {"verdict", row.verdict}});
    out["rows"].push_back(std::move(one));
  }
  std::cout << out.dump(1) << "\n";
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand("compare", "Compare two measurements of the operators");
  command->add_option("BEFORE", options->before, "JSON of `bench --json` or benchmarks/run.py")
      ->required();
  command->add_option("AFTER", options->after, "Another")->required();
  add_number(*command, "--confidence", options->confidence, "Of the intervals", {0.5, 0.9999});
  add_number(*command, "--min-effect", options->min_effect,
             "Differences below this share are not flagged, however certain", {0, 10});
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Example: tilewright compare before.json after.json");
  command->callback([options] { run_compare(*options); });
}

}  // namespace tw::cli
