// tilewright ops: the operator catalog.
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilewright/c/catalog_json.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/operators.h"
#include "tools/cli/commands.h"

namespace tw::cli {
namespace {

using nlohmann::json;

/// The catalog's JSON, with what an operator runs on here.
json catalog() {
  json all = json::parse(c::catalog_json());
  for (size_t i = 0; i < all.size(); ++i) {
    const runtime::OperatorInfo& op = runtime::operators()[i];
    json targets = {"reference"};
    for (const Isa isa : op.isas) targets.push_back(std::string("cpu/") + name(isa));
    if (op.on_cuda) targets.push_back("cuda");
    all[i]["targets"] = std::move(targets);
  }
  return all;
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
    std::optional<std::string> op;
    bool as_json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ops", "List the operators");
  command->add_option("NAME", options->op, "Only this one");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Example: tilewright ops rms_norm --json");
  command->callback([options] {
    const std::string only =
        options->op ? std::string(runtime::find_operator(*options->op).name()) : "";
    if (options->as_json) {
      json chosen = json::array();
      for (json& op : catalog())
        if (only.empty() || op["name"] == only) chosen.push_back(std::move(op));
      std::cout << chosen.dump(2) << "\n";
      return;
    }
    for (const runtime::OperatorInfo& op : runtime::operators())
      if (only.empty() || op.name() == only) print_human(op);
  });
}

}  // namespace tw::cli
