// Python's operators on values. All of them account for their work and throw through the sandbox.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tilewright/models/chat_template/sandbox.h"
#include "tilewright/models/chat_template/syntax.h"
#include "tilewright/models/chat_template/value.h"

namespace tw::models::chat_template {

/// Python's name of the value's type: "str", "int", "dict", ...
std::string_view type_name(const Value& value);

/// bool(value).
bool is_true(const Value& value);

/// Negative, zero or positive; exact between integers and floats. Neither may be NaN.
int compare_numbers(const Value& a, const Value& b);

/// a == b.
bool are_equal(Sandbox& sandbox, const Value& a, const Value& b);

/// a < b. Throws when Python has no order for the two.
bool is_less(Sandbox& sandbox, const Value& a, const Value& b);

/// value in container.
bool contains(Sandbox& sandbox, const Value& container, const Value& value);

/// a `op` b for every operator of Operator.
Value apply(Sandbox& sandbox, Operator op, const Value& a, const Value& b);

/// -value and +value.
Value negate(Sandbox& sandbox, const Value& value);
Value positive(Sandbox& sandbox, const Value& value);

/// len(value); throws when it has none.
int64_t length(Sandbox& sandbox, const Value& value);
bool has_length(const Value& value);

/// Whether a for loop can walk the value.
bool is_iterable(const Value& value);

/// What a for loop sees. Uses up an iterator. Throws when the value is not iterable.
std::span<const Value> items_of(Sandbox& sandbox, const Value& value);

/// value[key] and value.name, as the template writes them; undefined when missing.
Value get_item(Sandbox& sandbox, const Value& value, const Value& key);
Value get_attribute(Sandbox& sandbox, const Value& value, std::string_view name);

/// value[start:stop:step]; values that are not given are left out.
Value get_slice(Sandbox& sandbox, const Value& value, const Value& start, const Value& stop,
                const Value& step);

/// The index that `value` stands for (int or bool); throws naming `what` otherwise.
int64_t to_index(Sandbox& sandbox, const Value& value, std::string_view what);

/// str(value): what the template prints.
std::string to_text(Sandbox& sandbox, const Value& value);
/// Appends str(value).
void append_text(Sandbox& sandbox, std::string& out, const Value& value);
/// Appends repr(value).
void append_repr(Sandbox& sandbox, std::string& out, const Value& value);

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  bool pretty = false;
  std::string indent;  // for each level, when pretty
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// json.dumps(value).
std::string to_json(Sandbox& sandbox, const Value& value, const JsonStyle& style);

}  // namespace tw::models::chat_template
