// Options whose values are numbers, lists and words, read strictly: all of the text must be a value
// of the range, or an Error names the option, the text and the rule. (CLI11's own conversions read
// an empty value as 0, `010` as 8, and leave out the empty elements of a list.)
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tw::cli {

/// Least and greatest value, both allowed.
template <class T>
struct Range {
  T least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
};

/// "an integer in 1..8", "a finite number of at least 0".
template <class T>
std::string describe(const Range<T>& range) {
  const auto text = [](T value) {
    char buffer[64];
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  };
  const std::string bounds = text(range.least) + ".." + text(range.most);
  if constexpr (std::is_integral_v<T>) return "an integer in " + bounds;
  constexpr Range<T> kAll;
  if (range.most < kAll.most) return "a number in " + bounds;
  return range.least == kAll.least ? "a finite number"
                                   : "a finite number of at least " + text(range.least);
}

/// Throws kInvalidArgument: "--tokens: 'x' in '1,x' is not an integer in 0..9".
[[noreturn]] void refuse_value(const std::string& option, std::string_view text,
                               std::string_view within, const std::string& rule);

/// The value that `text` is, decimal without sign or space around it but for a minus.
template <class T>
T parse_number(const std::string& option, std::string_view text, Range<T> range = {},
               std::string_view within = {}) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc() || end != text.data() + text.size() ||
      !(value >= range.least && value <= range.most))
    refuse_value(option, text, within, describe(range));
  return value;
}

/// The elements of a list separated by commas; an empty one, or an empty list, is an Error.
std::vector<std::string_view> split_list(const std::string& option, std::string_view text);

/// Adds an option with one value, which `read` is called with.
CLI::Option* add_text(CLI::App& command, const std::string& names, const std::string& help,
                      const char* type, std::function<void(const std::string&)> read);

/// Says in --help what an option that is not given means.
void show_default(CLI::Option* option, const std::string& text);

/// Adds an option that sets `value`, and shows what it is now as the default.
template <class T>
CLI::Option* add_number(CLI::App& command, const std::string& names, T& value,
                        const std::string& help, Range<T> range = {}, bool has_default = true) {
  const std::string option = names.substr(names.rfind(',') + 1);
  CLI::Option* added = add_text(
      command, names, help, std::is_integral_v<T> ? "INT" : "FLOAT",
      [=, &value](const std::string& text) { value = parse_number<T>(option, text, range); });
  if (has_default) {
    char buffer[64];
    show_default(added, {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr});
  }
  return added;
}

/// Adds an option for integers separated by commas.
template <class T>
CLI::Option* add_numbers(CLI::App& command, const std::string& names, std::vector<T>& values,
                         const std::string& help, Range<T> range = {}) {
  const std::string option = names.substr(names.rfind(',') + 1);
  return add_text(command, names, help, "INT,...", [=, &values](const std::string& text) {
    values.clear();
    for (const std::string_view part : split_list(option, text))
      values.push_back(parse_number<T>(option, part, range, text));
  });
}

/// Adds an option for words separated by commas.
CLI::Option* add_words(CLI::App& command, const std::string& names,
                       std::vector<std::string>& values, const std::string& help);

/// Token ids: what no vocabulary can have is refused before a model is read.
inline constexpr Range<int32_t> kTokenIds{0, std::numeric_limits<int32_t>::max()};

}  // namespace tw::cli
