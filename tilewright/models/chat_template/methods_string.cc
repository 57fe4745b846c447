// The methods of str.
#include <algorithm>
#include <optional>
#include <utility>

#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/string_format.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

/// The text of self, paid for: the methods work character by character.
std::string_view subject(Sandbox& sandbox, const Value& self) {
  sandbox.scan(self.text().size() * 8);
  return self.text();
}

std::string_view text_argument(Sandbox& sandbox, const Value& value) {
  if (value.is_undefined()) sandbox.fail_undefined(value);
  if (!value.is_string()) {
    sandbox.fail("a method of str needs a string, not " + quote(type_name(value)));
  }
  sandbox.scan(value.text().size() * 8);
  return value.text();
}

bool given(const Value& value) {
  return value.is_given() && !value.is_none();
}

int64_t limit_argument(Sandbox& sandbox, const Value& value) {
  return value.is_given() ? to_index(sandbox, value, "a limit") : -1;
}

/// What a part of a string takes until it is in a list: places in lists that grow, a string.
constexpr size_t kPartBytes = 4 * sizeof(std::string_view) + 2 * sizeof(Value) + sizeof(String);

Value list_of(Sandbox& sandbox, const Value& self, const std::vector<std::string_view>& parts) {
  sandbox.charge(parts.size(), kPartBytes);
  std::vector<Value> items;
  for (const std::string_view part : parts) items.push_back(sandbox.string_like(self, part));
  return sandbox.list(std::move(items));
}

template <Side kSide>
Value strip_method(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::string_view text = subject(sandbox, self);
  if (!given(arguments[0])) {
    if (arguments[0].is_given() && arguments[0].is_undefined()) {
      sandbox.fail_undefined(arguments[0]);
    }
    return sandbox.string_like(self, strip(text, kSide));
  }
  return sandbox.string_like(self, strip(text, text_argument(sandbox, arguments[0]), kSide));
}

template <bool kFromRight>
Value split_method(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::string_view text = subject(sandbox, self);
  if (kFromRight) sandbox.charge(text.size());  // its mirror image
  // No more parts than list_of() can pay for, and one.
  const auto most = int64_t(sandbox.too_many(kPartBytes));
  const int64_t asked = limit_argument(sandbox, arguments[1]);
  const int64_t limit = asked < 0 ? most : std::min(asked, most);
  if (!given(arguments[0])) return list_of(sandbox, self, split_space(text, limit, kFromRight));
  const std::string_view separator = text_argument(sandbox, arguments[0]);
  if (separator.empty()) sandbox.fail("empty separator");
  return list_of(sandbox, self,
                 kFromRight ? rsplit(text, separator, limit) : split(text, separator, limit));
}

Value splitlines(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  return list_of(
      sandbox, self,
      split_lines(subject(sandbox, self), is_true(arguments[0]), sandbox.too_many(kPartBytes)));
}

/// The part of a string that start and end arguments leave, and where it begins.
struct Window {
  std::string_view text;
  int64_t start;
};

std::optional<Window> window(Sandbox& sandbox, const Value& self, const Value& start,
                             const Value& end) {
  const CodePoints points{subject(sandbox, self), self.string().length};
  const auto bound = [&](const Value& value, int64_t otherwise) {
    if (!given(value)) return otherwise;
    const int64_t index = to_index(sandbox, value, "a position");
    return index < 0 ? std::max<int64_t>(index + points.length, 0) : index;
  };
  const int64_t first = bound(start, 0), last = std::min(bound(end, points.length), points.length);
  if (first > last) return std::nullopt;
  return Window{points.slice(first, last), first};
}

template <bool kAtEnd>
Value has_affix(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const auto part = window(sandbox, self, arguments[1], arguments[2]);
  const auto matches = [&](const Value& affix) {
    const std::string_view text = text_argument(sandbox, affix);
    return part.has_value() && (kAtEnd ? part->text.ends_with(text) : part->text.starts_with(text));
  };
  if (!arguments[0].is(Type::kTuple)) return Value::boolean(matches(arguments[0]));
  const auto& affixes = arguments[0].sequence().items;
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

/// Position of a substring, in code points of the whole string; -1 when absent.
int64_t find_position(Sandbox& sandbox, const Value& self, const Arguments& arguments,
                      bool from_right) {
  const std::string_view needle = text_argument(sandbox, arguments[0]);
  const auto part = window(sandbox, self, arguments[1], arguments[2]);
  if (!part.has_value()) return -1;
  const size_t at = from_right ? rfind_bytes(part->text, needle) : find_bytes(part->text, needle);
  if (at == std::string_view::npos) return -1;
  return part->start + count_code_points(part->text.substr(0, at));
}

template <bool kFromRight>
Value find(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  return Value::integer(find_position(sandbox, self, arguments, kFromRight));
}

Value index(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const int64_t at = find_position(sandbox, self, arguments, false);
  if (at < 0) sandbox.fail("substring not found");
  return Value::integer(at);
}

Value count(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::string_view needle = text_argument(sandbox, arguments[0]);
  const auto part = window(sandbox, self, arguments[1], arguments[2]);
  return Value::integer(part.has_value() ? count_occurrences(part->text, needle) : 0);
}

[[noreturn]] void fail_safe(Sandbox& sandbox, const char* method) {
  sandbox.fail(std::string("the method '") + method + "' of safe text is not supported",
               ErrorKind::kUnsupported);
}

Value replace_method(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  if (self.string().safe) fail_safe(sandbox, "replace");
  return replace_checked(sandbox, self.text(), text_argument(sandbox, arguments[0]),
                         text_argument(sandbox, arguments[1]),
                         limit_argument(sandbox, arguments[2]));
}

Value join(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  if (self.string().safe) fail_safe(sandbox, "join");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(sandbox, arguments[0])) {
    if (!first) sandbox.append(out, self.text());
    first = false;
    sandbox.append(out, text_argument(sandbox, item));
  }
  return sandbox.adopt(std::move(out));
}

template <std::string (*kFunction)(std::string_view)>
Value transform(Sandbox& sandbox, const Value& self, const Arguments&) {
  const std::string_view text = subject(sandbox, self);
  sandbox.charge(text.size(), kChangedBytes);
  return sandbox.string_like(self, kFunction(text));
}

template <bool (*kFunction)(std::string_view)>
Value check(Sandbox& sandbox, const Value& self, const Arguments&) {
  return Value::boolean(kFunction(subject(sandbox, self)));
}

bool is_all_space(std::string_view text) {
  return !text.empty() && strip(text).empty();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_letter_or_digit(char c) {
  return is_letter(c) || is_digit(c);
}

/// isdigit and its relatives, for ASCII.
template <bool (*kPredicate)(char)>
Value check_all(Sandbox& sandbox, const Value& self, const Arguments&) {
  const std::string_view text = subject(sandbox, self);
  if (self.string().length != int64_t(text.size())) {
    sandbox.fail("character classes of non-ASCII text are not supported", ErrorKind::kUnsupported);
  }
  return Value::boolean(!text.empty() && std::all_of(text.begin(), text.end(), kPredicate));
}

Value removeprefix(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::string_view prefix = text_argument(sandbox, arguments[0]);
  const std::string_view text = self.text();
  return text.starts_with(prefix) ? sandbox.string_like(self, text.substr(prefix.size())) : self;
}

Value removesuffix(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::string_view suffix = text_argument(sandbox, arguments[0]);
  const std::string_view text = self.text();
  if (!text.ends_with(suffix)) return self;
  return sandbox.string_like(self, text.substr(0, text.size() - suffix.size()));
}

constexpr Builtin kMethods[] = {
    {"capitalize", "", transform<capitalize>},
    {"count", "/sub start? end?", count},
    {"endswith", "/suffix start? end?", has_affix<true>},
    {"find", "/sub start? end?", find<false>},
    {"format", "*", format_braces},
    {"index", "/sub start? end?", index},
    {"isalnum", "", check_all<is_letter_or_digit>},
    {"isalpha", "", check_all<is_letter>},
    {"isdigit", "", check_all<is_digit>},
    {"islower", "", check<is_lower>},
    {"isspace", "", check<is_all_space>},
    {"isupper", "", check<is_upper>},
    {"join", "/iterable", join},
    {"lower", "", transform<to_lower>},
    {"lstrip", "/chars?", strip_method<Side::kLeft>},
    {"removeprefix", "/prefix", removeprefix},
    {"removesuffix", "/suffix", removesuffix},
    {"replace", "/old new count?", replace_method},
    {"rfind", "/sub start? end?", find<true>},
    {"rsplit", "sep? maxsplit?", split_method<true>},
    {"rstrip", "/chars?", strip_method<Side::kRight>},
    {"split", "sep? maxsplit?", split_method<false>},
    {"splitlines", "keepends?", splitlines},
    {"startswith", "/prefix start? end?", has_affix<false>},
    {"strip", "/chars?", strip_method<Side::kBoth>},
    {"title", "", transform<title_words>},
    {"upper", "", transform<to_upper>},
};

}  // namespace

std::span<const Builtin> string_methods() {
  return kMethods;
}

}  // namespace tw::models::chat_template
