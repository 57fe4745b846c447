// Filters that give text.
#include <algorithm>
#include <utility>

#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/string_format.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

std::string input_text(Sandbox& sandbox, const Value& value) {
  std::string text = to_text(sandbox, value);
  sandbox.scan(text.size() * 8);  // the filters work character by character
  return text;
}

/// The same, and memory for what is made of it.
std::string text_to_change(Sandbox& sandbox, const Value& value) {
  std::string text = input_text(sandbox, value);
  sandbox.charge(text.size(), kChangedBytes);
  return text;
}

Value trim(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const std::string text = input_text(sandbox, self);
  const Value& characters = arguments[0];
  if (!characters.is_given() || characters.is_none()) return sandbox.string_like(self, strip(text));
  if (!characters.is_string()) sandbox.fail("'trim' needs a string of characters");
  return sandbox.string_like(self, strip(text, characters.text(), Side::kBoth));
}

Value upper(Sandbox& sandbox, const Value& self, const Arguments&) {
  return sandbox.string_like(self, to_upper(text_to_change(sandbox, self)));
}

Value lower(Sandbox& sandbox, const Value& self, const Arguments&) {
  return sandbox.string_like(self, to_lower(text_to_change(sandbox, self)));
}

Value title(Sandbox& sandbox, const Value& self, const Arguments&) {
  return sandbox.string(title_filter(text_to_change(sandbox, self)));
}

Value capitalize_text(Sandbox& sandbox, const Value& self, const Arguments&) {
  return sandbox.string_like(self, capitalize(text_to_change(sandbox, self)));
}

Value as_string(Sandbox& sandbox, const Value& self, const Arguments&) {
  return self.is_string() ? self : sandbox.adopt(to_text(sandbox, self));
}

Value replace_text(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const Value& count = arguments[2];
  const bool limited = count.is_given() && !count.is_none();
  return replace_checked(sandbox, to_text(sandbox, self), to_text(sandbox, arguments[0]),
                         to_text(sandbox, arguments[1]),
                         limited ? to_index(sandbox, count, "'replace'") : -1);
}

Value force_escape(Sandbox& sandbox, const Value& self, const Arguments&) {
  const std::string text = input_text(sandbox, self);
  sandbox.charge(text.size(), kEscapedBytes);
  return sandbox.safe(escape_html(text));
}

/// Safe text stays as it is.
Value escape(Sandbox& sandbox, const Value& self, const Arguments&) {
  if (self.is_string() && self.string().safe) return self;
  return force_escape(sandbox, self, {});
}

Value mark_safe(Sandbox& sandbox, const Value& self, const Arguments&) {
  return self.is_string() && self.string().safe ? self : sandbox.safe(to_text(sandbox, self));
}

/// The text that indents by `width`: a number of spaces, or the text itself.
std::string indentation(Sandbox& sandbox, const Value& width, int64_t otherwise) {
  if (width.is_string()) return std::string(width.text());
  const int64_t spaces = width.is_given() ? to_index(sandbox, width, "an indent") : otherwise;
  sandbox.charge(size_t(std::max<int64_t>(spaces, 0)));
  return std::string(size_t(std::max<int64_t>(spaces, 0)), ' ');
}

Value indent(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  if (!self.is_string()) sandbox.fail("'indent' needs a string, not " + quote(type_name(self)));
  sandbox.scan(self.text().size() * 8);
  const std::string margin = indentation(sandbox, arguments[0], 4);
  const bool first = is_true(arguments[1]), blank = is_true(arguments[2]);
  sandbox.charge(2 * self.text().size());  // with the end of a line that is appended
  const std::string text = std::string(self.text()) + "\n";
  constexpr size_t kLineBytes = 3 * sizeof(std::string_view);  // in a list that grows
  const auto lines = split_lines(text, false, sandbox.too_many(kLineBytes));
  sandbox.charge(lines.size(), kLineBytes);
  std::string out;
  if (first) sandbox.append(out, margin);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) {
      sandbox.append(out, "\n");
      if (blank || !lines[i].empty()) sandbox.append(out, margin);
    }
    sandbox.append(out, lines[i]);
  }
  return self.string().safe ? sandbox.safe(out) : sandbox.adopt(std::move(out));
}

/// The separators argument of json.dumps: two strings.
void set_separators(Sandbox& sandbox, const Value& separators, JsonStyle& style) {
  const bool pair = separators.is_sequence() && separators.sequence().items.size() == 2;
  if (!pair || !separators.sequence().items[0].is_string() ||
      !separators.sequence().items[1].is_string()) {
    sandbox.fail("the separators of 'tojson' are two strings");
  }
  style.item_separator = separators.sequence().items[0].text();
  style.key_separator = separators.sequence().items[1].text();
}

/// The tojson of transformers: json.dumps with its own defaults, nothing escaped for HTML.
Value tojson(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  JsonStyle style;
  style.ascii = is_true(arguments[0]);
  if (arguments[1].is_given() && !arguments[1].is_none()) {
    style.pretty = true;
    style.indent = indentation(sandbox, arguments[1], 0);
    style.item_separator = ",";
  }
  const Value& separators = arguments[2];
  if (separators.is_given() && !separators.is_none()) set_separators(sandbox, separators, style);
  style.sort_keys = is_true(arguments[3]);
  return sandbox.adopt(to_json(sandbox, self, style));
}

/// The arguments as the right side of the % operator.
Value format_filter(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  if (arguments.named.empty()) {
    return format_percent(sandbox, to_text(sandbox, self), sandbox.tuple(arguments.positional));
  }
  if (!arguments.positional.empty()) sandbox.fail("'format' takes names or positions, not both");
  Dict values;
  for (const auto& [name, value] : arguments.named) values.set(sandbox.string(name), value);
  return format_percent(sandbox, to_text(sandbox, self), sandbox.dict(std::move(values)));
}

constexpr Builtin kFilters[] = {
    {"capitalize", "", capitalize_text},
    {"e", "", escape},
    {"escape", "", escape},
    {"forceescape", "", force_escape},
    {"format", "*", format_filter},
    {"indent", "width? first? blank?", indent},
    {"lower", "", lower},
    {"replace", "old new count?", replace_text},
    {"safe", "", mark_safe},
    {"string", "", as_string},
    {"title", "", title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", tojson},
    {"trim", "chars?", trim},
    {"upper", "", upper},
};

}  // namespace

Value replace_checked(Sandbox& sandbox, std::string_view text, std::string_view from,
                      std::string_view to, int64_t limit) {
  sandbox.scan(text.size() * 8);
  int64_t count = count_occurrences(text, from);
  if (limit >= 0) count = std::min(count, limit);
  sandbox.charge(size_t(count), 2 * to.size());  // it grows as it goes
  sandbox.charge(2 * text.size());
  return sandbox.string(replace(text, from, to, limit));
}

std::span<const Builtin> text_filters() {
  return kFilters;
}

}  // namespace tw::models::chat_template
