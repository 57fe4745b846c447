// The functions that every template can call.
#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "tilewright/core/printable.h"
#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

Value raise_exception(Sandbox& sandbox, const Value&, const Arguments& arguments) {
  sandbox.fail(printable(to_text(sandbox, arguments[0])));
}

/// Directives of strftime that mean the same in C and in Python, without a time zone or
/// microseconds.
constexpr std::string_view kDirectives = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY%";

Value strftime_now(Sandbox& sandbox, const Value&, const Arguments& arguments) {
  if (!arguments[0].is_string()) sandbox.fail("'strftime_now' needs a format string");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) sandbox.fail("the clock has no local time");
  const std::string_view format = arguments[0].text();
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      sandbox.append(out, format.substr(i, 1));
      continue;
    }
    std::string directive = "%";
    if (i + 1 < format.size() && format[i + 1] == '-') directive += format[++i];
    if (i + 1 < format.size()) directive += format[++i];
    if (directive.size() < 2 || kDirectives.find(directive.back()) == std::string_view::npos) {
      sandbox.fail("'strftime_now' does not support " + quote(directive), ErrorKind::kUnsupported);
    }
    std::array<char, 128> buffer{};
    const size_t length = std::strftime(buffer.data(), buffer.size(), directive.c_str(), &local);
    sandbox.append(out, std::string_view(buffer.data(), length));
  }
  return sandbox.adopt(std::move(out));
}

Value range(Sandbox& sandbox, const Value&, const Arguments& arguments) {
  constexpr int64_t kMaxBound = int64_t{1} << 53;
  const auto bound = [&](const Value& value) {
    const int64_t x = to_index(sandbox, value, "'range'");
    if (x < -kMaxBound || x > kMaxBound) sandbox.fail("'range' of too large numbers");
    return x;
  };
  Range out;
  out.stop = bound(arguments[0]);
  if (arguments[1].is_given()) {
    out.start = out.stop;
    out.stop = bound(arguments[1]);
  }
  if (arguments[2].is_given()) out.step = bound(arguments[2]);
  if (out.step == 0) sandbox.fail("the step of 'range' can't be zero");
  const int64_t span = out.step > 0 ? out.stop - out.start : out.start - out.stop;
  out.length = span <= 0 ? 0 : (span - 1) / std::abs(out.step) + 1;
  if (out.length > kMaxRange) {
    sandbox.fail("'range' of more than " + std::to_string(kMaxRange) + " numbers");
  }
  return sandbox.range(out);
}

/// The entries that dict(...) and namespace(...) are given.
Dict make_entries(Sandbox& sandbox, const Arguments& arguments) {
  if (arguments.positional.size() > 1) sandbox.fail("'dict' takes at most 1 argument");
  Dict out;
  const auto add = [&](const Value& key, const Value& value) {
    sandbox.require_hashable(key);
    sandbox.charge(2 * sizeof(Value));
    out.set(key, value);
  };
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Type::kDict)) {
      for (const auto& [key, value] : source.dict().entries) add(key, value);
    } else {
      for (const Value& item : items_of(sandbox, source)) {
        const auto pair = items_of(sandbox, item);
        if (pair.size() != 2) sandbox.fail("'dict' needs pairs");
        add(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) add(sandbox.string(name), value);
  return out;
}

Value make_dict(Sandbox& sandbox, const Value&, const Arguments& arguments) {
  return sandbox.dict(make_entries(sandbox, arguments));
}

Value make_namespace(Sandbox& sandbox, const Value&, const Arguments& arguments) {
  const Value out = sandbox.make_namespace();
  for (const auto& [key, value] : make_entries(sandbox, arguments).entries) {
    if (!key.is_string()) continue;  // such an attribute could not be asked for
    if (key.text().starts_with('_')) sandbox.fail(kNamespaceUnderscore);
    out.name_space().attributes.emplace_back(key.text(), value);
  }
  return out;
}

constexpr Builtin kGlobals[] = {
    {"dict", "*", make_dict},
    {"namespace", "*", make_namespace},
    {"raise_exception", "message", raise_exception},
    {"range", "/start stop? step?", range},
    {"strftime_now", "format", strftime_now},
};

}  // namespace

std::span<const Builtin> globals() {
  return kGlobals;
}

}  // namespace tw::models::chat_template
