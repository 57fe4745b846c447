#include "tools/cli/arguments.h"

#include <utility>

#include <CLI/CLI.hpp>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"

namespace tw::cli {
namespace {

constexpr size_t kShownBytes = 80;

}  // namespace

void refuse_value(const std::string& option, std::string_view text, std::string_view within,
                  const std::string& rule) {
  std::string message = option + ": '" + printable(text, kShownBytes) + "'";
  if (text.size() < within.size()) message += " in '" + printable(within, kShownBytes) + "'";
  throw Error(ErrorKind::kInvalidArgument, message + " is not " + rule);
}

std::vector<std::string_view> split_list(const std::string& option, std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, comma - from));
    if (parts.back().empty())
      refuse_value(option, text, {}, "a list of values with a comma between one and the next");
    from = comma + 1;
  }
  return parts;
}

CLI::Option* add_text(CLI::App& command, const std::string& names, const std::string& help,
                      const char* type, std::function<void(const std::string&)> read) {
  const CLI::callback_t callback = [read = std::move(read)](const CLI::results_t& results) {
    read(results.empty() ? std::string() : results.back());
    return true;
  };
  return command.add_option(names, callback, help)->type_name(type)->expected(1);
}

void show_default(CLI::Option* option, const std::string& text) {
  option->default_str(text);
}

CLI::Option* add_words(CLI::App& command, const std::string& names,
                       std::vector<std::string>& values, const std::string& help) {
  const std::string option = names.substr(names.rfind(',') + 1);
  CLI::Option* added =
      add_text(command, names, help, "TEXT,...", [=, &values](const std::string& text) {
        const auto parts = split_list(option, text);
        values.assign(parts.begin(), parts.end());
      });
  std::string shown;
  for (const std::string& value : values) shown += (shown.empty() ? "" : ",") + value;
  if (!shown.empty()) show_default(added, shown);
  return added;
}

}  // namespace tw::cli
