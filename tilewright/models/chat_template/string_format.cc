// Python's two ways to put values into a text: str.format and the % operator.
#include "tilewright/models/chat_template/string_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "tilewright/models/chat_template/field_format.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

std::string repr_of(Sandbox& sandbox, const Value& value) {
  std::string out;
  append_repr(sandbox, out, value);
  return out;
}

/// str.format: walks the text and its replacement fields.
class BraceFormatter {
 public:
  BraceFormatter(Sandbox& sandbox, const Arguments& arguments)
      : sandbox_(sandbox), arguments_(arguments) {}

  std::string run(std::string_view text, int depth) {
    if (depth > 3) sandbox_.fail("Max string recursion exceeded");
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const char c = text[pos];
      if (c != '{' && c != '}') {
        const size_t end = std::min(text.find_first_of("{}", pos), text.size());
        sandbox_.append(out, text.substr(pos, end - pos));
        pos = end;
      } else if (pos + 1 < text.size() && text[pos + 1] == c) {
        sandbox_.append(out, text.substr(pos, 1));
        pos += 2;
      } else if (c == '}') {
        sandbox_.fail("Single '}' encountered in format string");
      } else {
        const size_t end = field_end(text, pos + 1);
        sandbox_.append(out, field(text.substr(pos + 1, end - pos - 1), depth).text());
        pos = end + 1;
      }
    }
    return out;
  }

 private:
  size_t field_end(std::string_view text, size_t pos) {
    bool in_brackets = false;
    for (int open = 1; pos < text.size(); ++pos) {
      if (text[pos] == '[' && open == 1) in_brackets = true;
      if (text[pos] == ']') in_brackets = false;
      if (in_brackets) continue;
      if (text[pos] == '{') ++open;
      if (text[pos] == '}' && --open == 0) return pos;
    }
    sandbox_.fail("expected '}' before end of string");
  }

  /// NAME[!CONVERSION][:SPEC].
  Value field(std::string_view text, int depth) {
    sandbox_.step();
    size_t end = 0;
    for (bool in_brackets = false; end < text.size(); ++end) {
      if (text[end] == '[') in_brackets = true;
      if (text[end] == ']') in_brackets = false;
      if (!in_brackets && (text[end] == ':' || text[end] == '!')) break;
      if (text[end] == '{') sandbox_.fail("unexpected '{' in field name");
    }
    Value value = look_up(text.substr(0, end));
    std::string_view rest = text.substr(end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        sandbox_.fail("expected ':' after conversion specifier");
      }
      if (rest[1] == 'r') {
        value = sandbox_.adopt(repr_of(sandbox_, value));
      } else if (rest[1] == 's') {
        value = sandbox_.adopt(to_text(sandbox_, value));
      } else {
        sandbox_.fail("Unknown conversion specifier", ErrorKind::kUnsupported);
      }
      rest.remove_prefix(2);
    }
    if (!rest.empty()) rest.remove_prefix(1);
    return format_value(sandbox_, value, run(rest, depth + 1));
  }

  /// An argument, and what follows it: .name and [key].
  Value look_up(std::string_view path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    while (end < path.size()) {
      const size_t from = end + 1;
      if (path[end] == '.') {
        end = std::min(path.find_first_of(".[", from), path.size());
        if (end == from) sandbox_.fail("Empty attribute in format string");
        value = get_attribute(sandbox_, value, path.substr(from, end - from));
        continue;
      }
      end = path.find(']', from);
      if (path[from - 1] != '[' || end == std::string_view::npos) {
        sandbox_.fail("Only '.' or '[' may follow ']' in format field specifier");
      }
      if (end == from) sandbox_.fail("Empty attribute in format string");
      const std::string_view key = path.substr(from, end - from);
      const int64_t index = number(key);
      value = get_item(sandbox_, value, index >= 0 ? Value::integer(index) : sandbox_.string(key));
      ++end;
    }
    return value;
  }

  Value argument(std::string_view name) {
    int64_t index = number(name);
    if (name.empty() || index >= 0) {
      const bool manual = !name.empty();
      if (numbering_known_ && manual != manual_) {
        sandbox_.fail("cannot switch between automatic and manual field numbering");
      }
      numbering_known_ = true;
      manual_ = manual;
      if (!manual) index = next_++;
      if (index >= int64_t(arguments_.positional.size())) {
        sandbox_.fail("Replacement index " + std::to_string(index) + " out of range");
      }
      return arguments_.positional[size_t(index)];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    sandbox_.fail("no argument " + quote_start(name) + " to format");
  }

  /// The number that all of `text` is; -1 when it is none.
  static int64_t number(std::string_view text) {
    int64_t value = -1;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = !text.empty() && text[0] != '-' && status == std::errc() &&
                           end == text.data() + text.size();
    return is_number ? value : -1;
  }

  Sandbox& sandbox_;
  const Arguments& arguments_;
  bool numbering_known_ = false, manual_ = false;
  int64_t next_ = 0;
};

/// The % operator: walks the text and its conversions.
class PercentFormatter {
 public:
  PercentFormatter(Sandbox& sandbox, const Value& values) : sandbox_(sandbox), values_(values) {}

  std::string run(std::string_view text) {
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const size_t end = std::min(text.find('%', pos), text.size());
      sandbox_.append(out, text.substr(pos, end - pos));
      pos = end;
      if (pos < text.size()) sandbox_.append(out, conversion(text, ++pos));
    }
    const bool all_used = values_.is(Type::kTuple) ? next_ >= values_.sequence().items.size()
                                                   : next_ > 0 || has_items();
    if (!all_used) sandbox_.fail("not all arguments converted during string formatting");
    return out;
  }

 private:
  bool has_items() const {  // what Python takes for a mapping here
    return values_.is(Type::kDict) || values_.is(Type::kList) || values_.is(Type::kRange) ||
           values_.is_undefined();
  }

  Value next() {
    if (!values_.is(Type::kTuple)) {
      if (next_++ > 0) sandbox_.fail("not enough arguments for format string");
      return values_;
    }
    const auto& items = values_.sequence().items;
    if (next_ >= items.size()) sandbox_.fail("not enough arguments for format string");
    return items[next_++];
  }

  int64_t size_at(std::string_view text, size_t& pos) {
    if (pos < text.size() && text[pos] == '*') {
      ++pos;
      return to_index(sandbox_, next(), "'*' in a format");
    }
    return take_number(sandbox_, text, pos, kMaxWidth);
  }

  std::string conversion(std::string_view text, size_t& pos) {
    sandbox_.step();
    const size_t start = pos;
    Value value;
    if (pos < text.size() && text[pos] == '(') {
      const size_t end = text.find(')', pos);
      if (end == std::string_view::npos) sandbox_.fail("incomplete format key");
      if (!values_.is(Type::kDict)) sandbox_.fail("format requires a mapping");
      const Value* found = values_.dict().find(text.substr(pos + 1, end - pos - 1));
      if (found == nullptr) sandbox_.fail("no key of that name to format");
      value = *found;
      next_ = 1;  // the mapping is no value for conversions without a name
      pos = end + 1;
    }
    FieldSpec spec;
    bool left = false, zero = false;
    for (; pos < text.size() && is_one_of(text[pos], "-+# 0"); ++pos) {
      left = left || text[pos] == '-';
      zero = zero || text[pos] == '0';
      spec.alternate = spec.alternate || text[pos] == '#';
      if (text[pos] == '+' || (text[pos] == ' ' && spec.sign != '+')) spec.sign = text[pos];
    }
    spec.width = size_at(text, pos);
    if (spec.width < -1)
      sandbox_.fail("a negative width is not supported", ErrorKind::kUnsupported);
    if (pos < text.size() && text[pos] == '.') {
      spec.precision = std::max<int64_t>(size_at(text, ++pos), 0);
    }
    if (pos >= text.size()) sandbox_.fail("incomplete format");
    spec.width = std::max<int64_t>(spec.width, 0);
    if (spec.width > kMaxWidth) sandbox_.fail("a format is too wide");
    spec.align = left ? '<' : '>';
    const char type = text[pos++];
    if (type == '%' && pos - 1 == start) return "%";
    if (!value.is_given()) value = next();
    if (is_one_of(type, "diouxXeEfFgG") && zero && !left) {
      spec.align = '=';
      spec.fill = "0";
    }
    return std::string(converted(value, type, spec).text());
  }

  Value converted(const Value& value, char type, FieldSpec& spec) {
    if (type == 's' || type == 'r') {
      const std::string text = type == 's' ? to_text(sandbox_, value) : repr_of(sandbox_, value);
      spec.sign = 0;
      spec.alternate = false;
      return format_text(sandbox_, text, spec);
    }
    if (type == 'c' && value.is_string() && value.string().length == 1) {
      return format_text(sandbox_, value.text(), {.align = spec.align, .width = spec.width});
    }
    if (!is_one_of(type, "diuoxXeEfFgGc")) {
      sandbox_.fail("unsupported format character " + quote(std::string(1, type)),
                    ErrorKind::kUnsupported);
    }
    if (!value.is_number())
      sandbox_.fail("%" + std::string(1, type) + " needs a number, not " + quote(type_name(value)));
    if (is_one_of(type, kFloatTypes)) {
      spec.type = type;
      return format_float_as(sandbox_, value.as_double(), spec);
    }
    if (value.is(Type::kFloat) && !is_one_of(type, "diu")) {
      sandbox_.fail("%" + std::string(1, type) + " needs an integer, not 'float'");
    }
    if (spec.precision >= 0) {
      sandbox_.fail("a precision of integers is not supported", ErrorKind::kUnsupported);
    }
    spec.type = is_one_of(type, "diu") ? 'd' : type;
    if (type == 'c') spec.sign = 0;
    const int64_t integer = value.is(Type::kFloat) ? whole(value.real()) : value.integer();
    return format_integer(sandbox_, integer, spec);
  }

  int64_t whole(double value) {
    if (!(std::abs(value) < 9.2e18)) sandbox_.fail("integer beyond 64 bits");
    return int64_t(value);
  }

  Sandbox& sandbox_;
  const Value& values_;
  size_t next_ = 0;
};

}  // namespace

Value format_braces(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  if (self.string().safe) {
    sandbox.fail("formatting of safe text is not supported", ErrorKind::kUnsupported);
  }
  sandbox.scan(self.text().size() * 8);
  return sandbox.adopt(BraceFormatter(sandbox, arguments).run(self.text(), 1));
}

Value format_percent(Sandbox& sandbox, std::string_view text, const Value& values) {
  sandbox.scan(text.size() * 8);
  return sandbox.adopt(PercentFormatter(sandbox, values).run(text));
}

}  // namespace tw::models::chat_template
