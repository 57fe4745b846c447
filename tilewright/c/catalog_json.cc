#include "tilewright/c/catalog_json.h"

#include <nlohmann/json.hpp>

#include "tilewright/runtime/operators.h"

namespace tw::c {
namespace {

using nlohmann::json;

constexpr const char* kKinds[] = {"tensor", "float", "int", "bool", "choice", "text"};

json argument_json(const ops::Arg& arg) {
  return {{"name", arg.name},           {"kind", kKinds[static_cast<int>(arg.kind)]},
          {"type", arg.type},           {"dims", dims_text(arg)},
          {"output", arg.output},       {"optional", arg.optional},
          {"default", arg.default_text}};
}

json cases_json(std::span<const ops::Case> cases) {
  json out = json::array();
  for (const ops::Case& c : cases) out.push_back({{"label", c.label}, {"case", c.text}});
  return out;
}

json dtypes_json(const ops::Schema& schema, const std::vector<std::vector<DType>>& combos) {
  json out = json::array();
  for (const std::vector<DType>& combo : combos) {
    json one = json::object();
    for (int i = 0; i < schema.type_count(); ++i)
      one[std::string(schema.type(i))] = name(combo[static_cast<size_t>(i)]);
    out.push_back(std::move(one));
  }
  return out;
}

json value_json(const ops::Gradient::Value& value) {
  return {{"parameter", value.parameter},
          {"name", value.name},
          {"number", value.number},
          {"grad", value.is_grad},
          {"transposed", value.is_transposed},
          {"matrix", value.is_matrix},
          {"shape", value.is_shape},
          {"inverse", value.is_inverse},
          {"negated", value.is_negated}};
}

json gradient_json(const ops::Gradient& gradient) {
  json conditions = json::object(), steps = json::array();
  for (int i = 0; i < gradient.condition_count; ++i)
    conditions[std::string(gradient.conditions[i].name)] = gradient.conditions[i].value;
  for (const ops::Gradient::Step& step : gradient) {
    json inputs = json::array(), results = json::array();
    for (int i = 0; i < step.input_count; ++i) inputs.push_back(value_json(step.inputs[i]));
    for (int r = 0; r < step.result_count; ++r)
      results.push_back(std::string(step.results[r].name) +
                        (step.results[r].is_grad ? ".grad" : ""));
    steps.push_back({{"op", step.op}, {"inputs", inputs}, {"results", results}});
  }
  return {{"text", gradient.text}, {"conditions", conditions}, {"steps", steps}};
}

json operator_json(const runtime::OperatorInfo& op) {
  json arguments = json::array();
  for (const ops::Arg& arg : *op.schema) arguments.push_back(argument_json(arg));
  return {{"name", op.name()},
          {"schema", op.schema->text()},
          {"arguments", std::move(arguments)},
          {"dtypes", dtypes_json(*op.schema, op.combos)},
          {"reference_dtypes", dtypes_json(*op.schema, op.reference_combos)},
          {"gradient", op.gradient ? gradient_json(*op.gradient) : json()},
          {"on_cuda", op.on_cuda},
          {"sequences", op.sequences},
          {"tolerance_scale", op.tolerance_scale},
          {"gpu_tolerance_scale", op.gpu_tolerance_scale},
          {"edge_cases", cases_json(op.edge_cases)},
          {"workloads", cases_json(op.workloads)}};
}

}  // namespace

std::string dims_text(const ops::Arg& arg) {
  std::string out;
  for (int d = 0; d < arg.rank; ++d) out += (d > 0 ? ", " : "") + std::string(arg.dims[d].text);
  return out;
}

std::string catalog_json() {
  json out = json::array();
  for (const runtime::OperatorInfo& op : runtime::operators()) out.push_back(operator_json(op));
  return out.dump();
}

}  // namespace tw::c
