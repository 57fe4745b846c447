#include "tilewright/models/chat_template/value.h"

#include <cmath>
#include <functional>
#include <utility>

#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

constexpr size_t kIndexedFrom = 8;  // entries; a scan is quicker below

/// Classes of keys that never equal each other.
int key_class(const Value& key) {
  if (key.is_number()) return 0;
  switch (key.type()) {
    case Type::kUndefined:
      return 1;  // all undefined values are one key
    case Type::kNone:
      return 2;
    case Type::kString:
      return 3;
    case Type::kTuple:
      return 4;
    default:
      return 5;  // by identity
  }
}

int compare_keys(const Value& a, const Value& b);

int compare_number_keys(const Value& a, const Value& b) {
  const bool a_nan = std::isnan(a.as_double()), b_nan = std::isnan(b.as_double());
  if (a_nan || b_nan) return int(a_nan) - int(b_nan);
  return compare_numbers(a, b);
}

int compare_tuple_keys(const Sequence& a, const Sequence& b) {
  for (size_t i = 0; i < a.items.size() && i < b.items.size(); ++i) {
    const int order = compare_keys(a.items[i], b.items[i]);
    if (order != 0) return order;
  }
  return int(a.items.size() > b.items.size()) - int(a.items.size() < b.items.size());
}

/// A total order of the hashable values: negative, zero or positive.
int compare_keys(const Value& a, const Value& b) {
  const int a_class = key_class(a), b_class = key_class(b);
  if (a_class != b_class) return a_class - b_class;
  switch (a_class) {
    case 0:
      return compare_number_keys(a, b);
    case 1:
    case 2:
      return 0;
    case 3:
      return a.text().compare(b.text());
    case 4:
      return compare_tuple_keys(a.sequence(), b.sequence());
    default:
      if (a.object() == b.object()) return 0;
      return std::less<>()(a.object(), b.object()) ? -1 : 1;
  }
}

}  // namespace

String::String(std::string content) : text(std::move(content)), length(count_code_points(text)) {}

std::string_view Value::text() const {
  return string().text;
}

bool KeyLess::operator()(const Value& a, const Value& b) const {
  return compare_keys(a, b) < 0;
}

size_t Dict::position(const Value& key) const {
  if (!index_.empty()) {
    const auto it = index_.find(key);
    return it == index_.end() ? entries.size() : it->second;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (compare_keys(entries[i].first, key) == 0) return i;
  }
  return entries.size();
}

const Value* Dict::find(const Value& key) const {
  const size_t i = position(key);
  return i < entries.size() ? &entries[i].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (index_.empty()) {
    for (const auto& [name, value] : entries) {
      if (name.is_string() && name.text() == key) return &value;
    }
    return nullptr;
  }
  const String name{std::string(key)};
  return find(Value::of(&name));
}

void Dict::set(const Value& key, const Value& value) {
  const size_t i = position(key);
  if (i < entries.size()) {
    entries[i].second = value;
    return;
  }
  entries.emplace_back(key, value);
  if (!index_.empty()) {
    index_.emplace(key, i);
  } else if (entries.size() > kIndexedFrom) {
    for (size_t k = 0; k < entries.size(); ++k) index_.emplace(entries[k].first, k);
  }
}

}  // namespace tw::models::chat_template
