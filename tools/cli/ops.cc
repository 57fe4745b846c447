// tilewright ops: the operator catalog.
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/operators.h"
#include "tools/cli/commands.h"

namespace tw::cli {
namespace {

using nlohmann::json;

json cases(std::span<const ops::Case> list) {
  json out = json::array();
  for (const ops::Case& c : list) out.push_back({{"label", c.label}, {"case", c.text}});
  return out;
}

json combos(const ops::Schema& schema, const std::vector<std::vector<DType>>& list) {
  json out = json::array();
  for (const auto& combo : list) {
    json dtypes = json::object();
    for (int i = 0; i < schema.type_count(); ++i)
      dtypes[std::string(schema.type(i))] = name(combo[size_t(i)]);
    out.push_back(dtypes);
  }
  return out;
}

json to_json(const runtime::OperatorInfo& op) {
  json targets = {"reference"};
  for (const Isa isa : runtime::built_isas()) targets.push_back(std::string("cpu/") + name(isa));
  return {{"name", op.name()},
          {"schema", op.schema->text()},
          {"dtypes", combos(*op.schema, op.combos)},
          {"reference_dtypes", combos(*op.schema, op.reference_combos)},
          {"gradient", op.gradient ? json(op.gradient->text) : json()},
          {"targets", targets},
          {"edge_cases", cases(op.edge_cases)},
          {"workloads", cases(op.workloads)}};
}

std::string dtypes_text(const std::vector<std::vector<DType>>& list) {
  std::string out;
  for (const auto& combo : list) {
    std::string one;
    for (const DType dtype : combo) one += (one.empty() ? "" : "/") + std::string(name(dtype));
    if (!one.empty()) out += (out.empty() ? "" : " ") + one;
  }
  return out;
}

void print_human(const runtime::OperatorInfo& op) {
  const std::string dtypes = dtypes_text(op.combos), defined = dtypes_text(op.reference_combos);
  std::printf("%s\n    dtypes: %s\n", std::string(op.schema->text()).c_str(),
              dtypes.empty() ? "as stated" : dtypes.c_str());
  if (!defined.empty()) std::printf("    by its definition: %s\n", defined.c_str());
  if (op.gradient) std::printf("    gradient: %s\n", std::string(op.gradient->text).c_str());
}

}  // namespace

void add_ops(CLI::App& app) {
  struct Options {
    std::string op;
    bool as_json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ops", "List the operators");
  command->add_option("NAME", options->op, "Only this one");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Example: tilewright ops rms_norm --json");
  command->callback([options] {
    json all = json::array();
    for (const runtime::OperatorInfo& op : runtime::operators()) {
      if (!options->op.empty() && op.name() != runtime::find_operator(options->op).name()) continue;
      if (options->as_json)
        all.push_back(to_json(op));
      else
        print_human(op);
    }
    if (options->as_json) std::cout << all.dump(2) << "\n";
  });
}

}  // namespace tw::cli
