// tilewright inspect: what a GGUF file holds.
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilewright/core/dtype.h"
#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/models/gguf.h"
#include "tools/cli/arguments.h"
#include "tools/cli/commands.h"
#include "tools/cli/model_options.h"
#include "tools/cli/npy_file.h"

namespace tw::cli {
namespace {

using models::GgufFile;
using models::GgufTensor;
using models::GgufType;
using models::GgufValue;
using nlohmann::json;

struct InspectOptions {
  std::string file;
  bool as_json = false;
  bool tensors = false;  // neither of these two: both
  bool metadata = false;
  int64_t values = 8;                 // shown of each array; -1: all
  std::optional<std::string> tensor;  // to be written to `out`
  std::string out;
};

constexpr size_t kShownText = 120;  // bytes of a string in the human table

// The sum of elements and bytes per dtype.
struct Totals {
  std::array<int64_t, kDTypeCount> tensors{};
  std::array<int64_t, kDTypeCount> bytes{};
  int64_t elements = 0;
};

Totals add_up(const GgufFile& file) {
  Totals out;
  for (const GgufTensor& tensor : file.tensors()) {
    ++out.tensors[size_t(tensor.dtype)];
    out.bytes[size_t(tensor.dtype)] += tensor.bytes;
    out.elements += tensor.elements;
  }
  return out;
}

std::string shape_text(const GgufTensor& tensor) {
  std::string out = "[";
  for (const int64_t dim : tensor.shape())
    out += (out.size() > 1 ? ", " : "") + std::to_string(dim);
  return out + "]";
}

// Elements of a value that are to be shown. Arrays in arrays are only counted.
int64_t shown(const GgufValue& value, int64_t limit) {
  if (value.element_type() == GgufType::kArray) return 0;
  return limit < 0 ? value.size() : std::min(limit, value.size());
}

json element_json(const GgufValue& value, int64_t i) {
  const GgufType type = value.element_type();
  if (is_float(type)) return value.as_float(i);
  if (type == GgufType::kBool) return value.as_int(i) != 0;
  if (type == GgufType::kU64) return uint64_t(value.as_int(i));
  return value.as_int(i);
}

// Shortest text for an f32 (1e-05, not 9.999999747378752e-06).
std::string float_text(const GgufValue& value, int64_t i) {
  char text[32];
  const double x = value.as_float(i);
  std::snprintf(text, sizeof text, "%.*g", value.element_type() == GgufType::kF32 ? 7 : 15, x);
  return text;
}

std::string value_text(const GgufValue& value, int64_t limit) {
  std::string out;
  int64_t left = shown(value, limit);
  const bool whole = left == value.size();
  if (value.element_type() == GgufType::kString) {
    for (const std::string_view text : value.strings()) {
      if (left-- == 0) break;
      out += (out.empty() ? "'" : ", '") + printable(text, kShownText) + "'";
    }
  } else {
    for (int64_t i = 0; i < left; ++i) {
      out += out.empty() ? "" : ", ";
      out += is_float(value.element_type()) ? float_text(value, i) : element_json(value, i).dump();
    }
  }
  if (!value.is_array()) return out;
  return "[" + out + (whole ? "" : out.empty() ? "..." : ", ...") + "]";
}

json value_json(const GgufValue& value, int64_t limit) {
  json elements = json::array();
  int64_t left = shown(value, limit);
  if (value.element_type() == GgufType::kString) {
    for (const std::string_view text : value.strings()) {
      if (left-- == 0) break;
      elements.push_back(std::string(text));
    }
  } else {
    for (int64_t i = 0; i < left; ++i) elements.push_back(element_json(value, i));
  }
  if (!value.is_array()) return {{"type", value.type_name()}, {"value", elements[0]}};
  return {{"type", value.type_name()}, {"count", value.size()}, {"values", elements}};
}

std::string dump(const json& value, int indent = -1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

json summary(const GgufFile& file) {
  const Totals totals = add_up(file);
  json out = {{"file", file.name()},
              {"bytes", file.size_bytes()},
              {"version", file.version()},
              {"alignment", file.alignment()},
              {"data_offset", file.data_offset()},
              {"parameters", totals.elements},
              {"dtypes", json::object()}};
  for (size_t i = 0; i < size_t(kDTypeCount); ++i) {
    if (totals.tensors[i] == 0) continue;
    out["dtypes"][kDTypes[i].name] = {{"tensors", totals.tensors[i]}, {"bytes", totals.bytes[i]}};
  }
  return out;
}

// Each entry and tensor is printed by itself: a file may have as many as it has room for, and all
// of them as JSON would take many times its size.
void print_json(const GgufFile& file, const InspectOptions& options) {
  std::string opening = dump(summary(file), 2);
  opening.resize(opening.size() - 2);  // it goes on before "\n}"
  std::cout << opening;
  if (options.metadata) {
    std::cout << ",\n  \"metadata\": {";
    const char* before = "\n    ";
    for (const auto& entry : file.metadata())
      std::cout << std::exchange(before, ",\n    ") << dump(std::string(entry.key)) << ": "
                << dump(value_json(entry.value, options.values));
    std::cout << "\n  }";
  }
  if (options.tensors) {
    std::cout << ",\n  \"tensors\": [";
    const char* before = "\n    ";
    for (const GgufTensor& tensor : file.tensors())
      std::cout << std::exchange(before, ",\n    ")
                << dump({{"name", std::string(tensor.name)},
                         {"dtype", name(tensor.dtype)},
                         {"shape",
                          std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                         {"offset", tensor.data_offset},
                         {"bytes", tensor.bytes}});
    std::cout << "\n  ]";
  }
  std::cout << "\n}\n";
}

using Cells = std::vector<std::string>;

// Left-aligned text columns, as wide as their widest cell. for_rows(f) calls f with each row, and
// is called twice, so that no row is kept.
template <class ForRows>
void print_table(ForRows&& for_rows) {
  std::vector<size_t> widths;
  for_rows([&](const Cells& row) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  });
  for_rows([&](const Cells& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      std::cout << row[i] << (last ? "\n" : std::string(widths[i] - row[i].size() + 2, ' '));
    }
  });
}

void print_human(const GgufFile& file, const InspectOptions& options) {
  const Totals totals = add_up(file);
  std::cout << printable(file.name()) << ": GGUF version " << file.version() << ", "
            << file.size_bytes() << " bytes, " << totals.elements << " parameters\n";
  print_table([&](auto&& row) {
    for (size_t i = 0; i < size_t(kDTypeCount); ++i) {
      if (totals.tensors[i] == 0) continue;
      row(Cells{"  " + std::string(kDTypes[i].name), std::to_string(totals.tensors[i]) + " tensors",
                std::to_string(totals.bytes[i]) + " bytes"});
    }
  });
  if (options.metadata) {
    std::cout << "\n";
    print_table([&](auto&& row) {
      row(Cells{"KEY", "TYPE", "VALUE"});
      for (const auto& entry : file.metadata()) {
        std::string type = entry.value.type_name();
        if (entry.value.is_array()) type += " " + std::to_string(entry.value.size());
        row(Cells{printable(entry.key, kShownText), type, value_text(entry.value, options.values)});
      }
    });
  }
  if (options.tensors) {
    std::cout << "\n";
    print_table([&](auto&& row) {
      row(Cells{"TENSOR", "DTYPE", "SHAPE", "OFFSET", "BYTES"});
      for (const GgufTensor& tensor : file.tensors())
        row(Cells{printable(tensor.name, kShownText), std::string(name(tensor.dtype)),
                  shape_text(tensor), std::to_string(tensor.data_offset),
                  std::to_string(tensor.bytes)});
    });
  }
}

void write_tensor(const GgufTensor& tensor, const std::string& path, const std::string& source) {
  NpyFile out(path, tensor.shape(), source);
  for_values(tensor, [&](int64_t, std::span<const float> values) { out.write(values); });
  out.close();
}

void run_inspect(InspectOptions options) {
  const GgufFile file = GgufFile::open(options.file);
  if (options.tensor) {
    const auto tensor = file.find_tensor(*options.tensor);
    if (!tensor) {
      throw Error(ErrorKind::kInvalidArgument,
                  printable(options.file) + " has no tensor '" + printable(*options.tensor) + "'");
    }
    return write_tensor(*tensor, options.out, options.file);
  }
  if (!options.tensors && !options.metadata) options.tensors = options.metadata = true;
  if (options.as_json) {
    print_json(file, options);
  } else {
    print_human(file, options);
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a GGUF file holds");
  command->add_option("FILE", options->file, "GGUF file")->required();
  auto* as_json = command->add_flag("--json", options->as_json, "Print JSON");
  auto* metadata = command->add_flag("--metadata", options->metadata, "Print only the metadata");
  auto* tensors =
      command->add_flag("--tensors", options->tensors, "Print only the table of tensors");
  add_number(*command, "--values", options->values, "Elements to print of each array; -1: all",
             {.least = -1});
  auto* tensor = command->add_option("--tensor", options->tensor,
                                     "Write this tensor as float32 to --out, print nothing");
  auto* out = command->add_option("--out", options->out, "Where to write it, a .npy file");
  tensor->needs(out);
  out->needs(tensor);
  for (CLI::Option* printed : {as_json, metadata, tensors}) tensor->excludes(printed);
  command->footer(
      "Example: tilewright inspect model.gguf --tensors\n"
      "         tilewright inspect model.gguf --tensor output_norm.weight --out norm.npy");
  command->callback([options] { run_inspect(*options); });
}

}  // namespace tw::cli
