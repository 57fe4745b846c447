// Values as text: str(), repr() and json.dumps() of Python.
#include <algorithm>
#include <cmath>

#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

void append_items(Sandbox& sandbox, std::string& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) sandbox.append(out, ", ");
    append_repr(sandbox, out, items[i]);
  }
}

void append_dict(Sandbox& sandbox, std::string& out, const Dict& dict) {
  sandbox.append(out, "{");
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i != 0) sandbox.append(out, ", ");
    append_repr(sandbox, out, dict.entries[i].first);
    sandbox.append(out, ": ");
    append_repr(sandbox, out, dict.entries[i].second);
  }
  sandbox.append(out, "}");
}

void append_sequence(Sandbox& sandbox, std::string& out, const Value& value) {
  const Sequence& sequence = value.sequence();
  const bool list = value.is(Type::kList);
  sandbox.append(out, list ? "[" : "(");
  append_items(sandbox, out, sequence.items);
  if (!list && sequence.items.size() == 1) sandbox.append(out, ",");
  sandbox.append(out, list ? "]" : ")");
}

void append_range(Sandbox& sandbox, std::string& out, const Range& range) {
  std::string text = "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
  if (range.step != 1) text += ", " + std::to_string(range.step);
  sandbox.append(out, text + ")");
}

void append_json_escape(std::string& out, char32_t unit) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(unit >> shift) & 0xfu];
}

/// A string between quotes, as JSON escapes it.
void append_json_string(Sandbox& sandbox, std::string& out, std::string_view text, bool ascii) {
  static constexpr std::string_view kPlain = "\"\\\n\r\t\f\b", kEscaped = "\"\\nrtfb";
  std::string quoted = "\"";
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    const size_t at = c < 0x80 ? kPlain.find(char(c)) : std::string_view::npos;
    if (at != std::string_view::npos) {
      quoted += {'\\', kEscaped[at]};
    } else if (c >= 0x10000 && ascii) {
      append_json_escape(quoted, 0xd7c0 + (c >> 10));  // a surrogate pair
      append_json_escape(quoted, 0xdc00 + (c & 0x3ffu));
    } else if (c < 0x20 || (c >= 0x7f && ascii)) {
      append_json_escape(quoted, c);
    } else {
      append_utf8(quoted, c);
    }
  }
  sandbox.append(out, quoted += '"');
}

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return format_float(value);
}

class JsonWriter {
 public:
  JsonWriter(Sandbox& sandbox, const JsonStyle& style) : sandbox_(sandbox), style_(style) {}

  void write(const Value& value, size_t level) {
    sandbox_.step();
    switch (value.type()) {
      case Type::kNone:
        return put("null");
      case Type::kBool:
        return put(value.boolean() ? "true" : "false");
      case Type::kInt:
        return put(std::to_string(value.integer()));
      case Type::kFloat:
        return put(json_float(value.real()));
      case Type::kString:
        return append_json_string(sandbox_, out_, value.text(), style_.ascii);
      case Type::kList:
      case Type::kTuple:
        return write_list(value.sequence().items, level);
      case Type::kDict:
        return write_dict(value.dict(), level);
      default:
        sandbox_.fail(quote(type_name(value)) + " can't be written as JSON");
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void put(std::string_view text) { sandbox_.append(out_, text); }

  void new_line(size_t level) {
    if (!style_.pretty) return;
    put("\n");
    for (size_t i = 0; i < level; ++i) put(style_.indent);
  }

  void write_list(const std::vector<Value>& items, size_t level) {
    if (items.empty()) return put("[]");
    put("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) put(style_.item_separator);
      new_line(level + 1);
      write(items[i], level + 1);
    }
    new_line(level);
    put("]");
  }

  void write_dict(const Dict& dict, size_t level) {
    if (dict.entries.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    sandbox_.charge(dict.entries.size(), sizeof(void*));
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* a, const auto* b) {
        return is_less(sandbox_, a->first, b->first);
      });
    }
    put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) put(style_.item_separator);
      new_line(level + 1);
      write_key(entries[i]->first);
      put(style_.key_separator);
      write(entries[i]->second, level + 1);
    }
    new_line(level);
    put("}");
  }

  void write_key(const Value& key) {
    if (key.is_string()) return append_json_string(sandbox_, out_, key.text(), style_.ascii);
    if (!key.is_number() && !key.is_none()) {
      sandbox_.fail("a key of type " + quote(type_name(key)) + " can't be written as JSON");
    }
    put("\"");
    write(key, 0);
    put("\"");
  }

  Sandbox& sandbox_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

void append_repr(Sandbox& sandbox, std::string& out, const Value& value) {
  sandbox.step();
  switch (value.type()) {
    case Type::kUndefined:
      return sandbox.append(out, "Undefined");
    case Type::kNone:
      return sandbox.append(out, "None");
    case Type::kBool:
      return sandbox.append(out, value.boolean() ? "True" : "False");
    case Type::kInt:
      return sandbox.append(out, std::to_string(value.integer()));
    case Type::kFloat:
      return sandbox.append(out, format_float(value.real()));
    case Type::kString:
      if (value.string().safe) return sandbox.append(out, "Markup(" + quote(value.text()) + ")");
      return sandbox.append(out, quote(value.text()));
    case Type::kList:
    case Type::kTuple:
      return append_sequence(sandbox, out, value);
    case Type::kDict:
      return append_dict(sandbox, out, value.dict());
    case Type::kDictView:
      sandbox.append(out, std::string(value.sequence().name) + "([");
      append_items(sandbox, out, value.sequence().items);
      return sandbox.append(out, "])");
    case Type::kRange:
      return append_range(sandbox, out, value.range());
    default:
      // Python prints addresses here, or could recurse without end.
      sandbox.fail(quote(type_name(value)) + " has no text");
  }
}

void append_text(Sandbox& sandbox, std::string& out, const Value& value) {
  if (value.is_string()) return sandbox.append(out, value.text());
  if (!value.is_undefined()) append_repr(sandbox, out, value);
}

std::string to_text(Sandbox& sandbox, const Value& value) {
  std::string out;
  append_text(sandbox, out, value);
  return out;
}

std::string to_json(Sandbox& sandbox, const Value& value, const JsonStyle& style) {
  JsonWriter writer(sandbox, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace tw::models::chat_template
