#include "tilewright/models/chat_template/builtins.h"

#include <algorithm>
#include <utility>

#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto it = std::find_if(table.begin(), table.end(),
                               [name](const Builtin& entry) { return entry.name == name; });
  return it == table.end() ? nullptr : &*it;
}

struct Parameter {
  std::string_view name;
  bool optional;
};

/// Cuts "old new count?" into its parameters.
std::vector<Parameter> parse_parameters(std::string_view list) {
  std::vector<Parameter> parameters;
  for (const std::string_view word : split_space(list, -1, false)) {
    const bool optional = word.ends_with('?');
    parameters.push_back({optional ? word.substr(0, word.size() - 1) : word, optional});
  }
  return parameters;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), part_filters(), number_filters()}) {
    if (const Builtin* found = find_in(table, name)) return found;
  }
  return nullptr;
}

const Builtin* find_test(std::string_view name) {
  return find_in(tests(), name);
}

const Builtin* find_global(std::string_view name) {
  return find_in(globals(), name);
}

Value call_builtin(Sandbox& sandbox, const Builtin& builtin, const Value& self,
                   Arguments arguments) {
  const Sandbox::Nesting nesting(sandbox);
  sandbox.step();
  std::string_view list = builtin.parameters;
  if (list == "*") return builtin.call(sandbox, self, arguments);
  const bool positional_only = list.starts_with('/');
  if (positional_only) list.remove_prefix(1);
  const std::vector<Parameter> parameters = parse_parameters(list);
  const std::string name(builtin.name);
  if (arguments.positional.size() > parameters.size()) {
    sandbox.fail(quote(name) + " takes at most " + std::to_string(parameters.size()) +
                 " argument(s), not " + std::to_string(arguments.positional.size()));
  }
  arguments.positional.resize(parameters.size());
  for (const auto& [key, value] : arguments.named) {
    const auto it = std::find_if(parameters.begin(), parameters.end(),
                                 [&wanted = key](const Parameter& p) { return p.name == wanted; });
    const auto at = size_t(it - parameters.begin());
    if (positional_only || it == parameters.end() || arguments.positional[at].is_given()) {
      sandbox.fail(quote(name) + " takes no keyword argument " + quote_start(key) + " here");
    }
    arguments.positional[at] = value;
  }
  arguments.named.clear();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].optional && !arguments.positional[i].is_given()) {
      sandbox.fail(quote(name) + " needs its argument " + quote(parameters[i].name));
    }
  }
  return builtin.call(sandbox, self, arguments);
}

}  // namespace tw::models::chat_template
