// The operators that look into a value: length, iteration, subscripts, attributes and slices.
#include <algorithm>
#include <utility>

#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

std::vector<Value> characters(Sandbox& sandbox, const Value& value) {
  std::vector<Value> out;
  const std::string_view text = value.text();
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    next_code_point(text, pos);
    sandbox.charge(2 * sizeof(Value));  // the list grows
    out.push_back(sandbox.string(text.substr(start, pos - start)));
  }
  return out;
}

Value subscript(Sandbox& sandbox, const Value& value, int64_t index) {
  const int64_t size = length(sandbox, value);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  switch (value.type()) {
    case Type::kString: {
      const CodePoints points{value.text(), value.string().length};
      if (!points.ascii()) sandbox.scan(value.text().size());
      return sandbox.string_like(value, points.slice(index, index + 1));
    }
    case Type::kRange:
      return Value::integer(value.range().at(index));
    default:
      return value.sequence().items[size_t(index)];
  }
}

/// The element at `key` of a value with elements; not given when there is none.
Value find_item(Sandbox& sandbox, const Value& value, const Value& key) {
  if (value.is(Type::kDict)) {
    // A list or dict is no key, so nothing can be found.
    if (key.is(Type::kList) || key.is(Type::kDict) || key.is(Type::kDictView)) return {};
    sandbox.require_hashable(key);
    const Value* found = value.dict().find(key);
    return found == nullptr ? Value() : *found;
  }
  const bool indexable = value.is_string() || value.is_sequence() || value.is(Type::kRange);
  return indexable && key.is_integral() ? subscript(sandbox, value, key.integer()) : Value();
}

struct Bounds {
  int64_t start, stop, step, count;
};

/// slice(start, stop, step).indices(size) of Python.
Bounds slice_bounds(Sandbox& sandbox, const Value& start, const Value& stop, const Value& step,
                    int64_t size) {
  const auto given = [](const Value& x) { return x.is_given() && !x.is_none(); };
  // A step beyond the size is as good as any; limiting it keeps the sums below from overflowing.
  const int64_t wanted = given(step) ? to_index(sandbox, step, "a slice") : 1;
  const int64_t by = std::clamp(wanted, -size - 1, size + 1);
  if (wanted == 0) sandbox.fail("a slice's step can't be zero");
  const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
  const auto bound = [&](const Value& x, int64_t otherwise) {
    if (!given(x)) return otherwise;
    const int64_t index = to_index(sandbox, x, "a slice");
    return index < 0 ? std::max(index + size, low) : std::min(index, high);
  };
  const int64_t first = bound(start, by < 0 ? high : low);
  const int64_t last = bound(stop, by < 0 ? low : high);
  const int64_t span = by < 0 ? first - last : last - first;
  const int64_t stride = by < 0 ? -by : by;
  return {first, last, by, span <= 0 ? 0 : (span - 1) / stride + 1};
}

Value slice_string(Sandbox& sandbox, const Value& value, const Bounds& bounds) {
  const CodePoints points{value.text(), value.string().length};
  sandbox.scan(value.text().size());
  if (bounds.count == 0) return sandbox.string_like(value, {});
  if (bounds.step == 1) {
    return sandbox.string_like(value, points.slice(bounds.start, bounds.start + bounds.count));
  }
  std::vector<size_t> offsets;  // of every code point
  sandbox.charge(size_t(points.length), sizeof(size_t));
  for (size_t pos = 0; pos < points.text.size(); next_code_point(points.text, pos)) {
    offsets.push_back(pos);
  }
  std::string out;
  for (int64_t i = 0; i < bounds.count; ++i) {
    size_t pos = offsets[size_t(bounds.start + i * bounds.step)];
    append_utf8(out, next_code_point(points.text, pos));
  }
  return sandbox.string_like(value, out);
}

}  // namespace

bool has_length(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined:
    case Type::kString:
    case Type::kList:
    case Type::kTuple:
    case Type::kDict:
    case Type::kDictView:
    case Type::kRange:
    case Type::kLoop:
      return true;
    default:
      return false;
  }
}

int64_t length(Sandbox& sandbox, const Value& value) {
  switch (value.type()) {
    case Type::kUndefined:
      return 0;
    case Type::kString:
      return value.string().length;
    case Type::kList:
    case Type::kTuple:
    case Type::kDictView:
      return int64_t(value.sequence().items.size());
    case Type::kDict:
      return int64_t(value.dict().entries.size());
    case Type::kRange:
      return value.range().length;
    case Type::kLoop:
      return int64_t(value.loop().items.size());
    default:
      sandbox.fail(quote(type_name(value)) + " has no length");
  }
}

bool is_iterable(const Value& value) {
  return (has_length(value) && !value.is(Type::kLoop)) || value.is(Type::kIterator);
}

std::span<const Value> items_of(Sandbox& sandbox, const Value& value) {
  std::vector<Value> items;
  switch (value.type()) {
    case Type::kUndefined:
      return {};
    case Type::kList:
    case Type::kTuple:
    case Type::kDictView:
      return value.sequence().items;
    case Type::kIterator: {
      Sequence& sequence = value.sequence();
      return std::span<const Value>(sequence.items)
          .subspan(std::exchange(sequence.position, sequence.items.size()));
    }
    case Type::kString:
      items = characters(sandbox, value);
      break;
    case Type::kDict:
      sandbox.charge(value.dict().entries.size(), sizeof(Value));
      for (const auto& [key, unused] : value.dict().entries) items.push_back(key);
      break;
    case Type::kRange:
      sandbox.charge(size_t(value.range().length), sizeof(Value));
      for (int64_t i = 0; i < value.range().length; ++i) {
        items.push_back(Value::integer(value.range().at(i)));
      }
      break;
    default:
      sandbox.fail(quote(type_name(value)) + " is not iterable");
  }
  return sandbox.list(std::move(items)).sequence().items;
}

Value get_item(Sandbox& sandbox, const Value& value, const Value& key) {
  if (value.is_undefined()) sandbox.fail_undefined(value);
  Value found = find_item(sandbox, value, key);
  if (found.is_given()) return found;
  if (!key.is_string()) return sandbox.undefined({}, {}, "there is no such element");
  found = find_method(sandbox, value, key.text());
  return found.is_given() ? found : sandbox.undefined(type_name(value), key.text());
}

Value get_attribute(Sandbox& sandbox, const Value& value, std::string_view name) {
  if (value.is_undefined()) sandbox.fail_undefined(value);
  const Value method = find_method(sandbox, value, name);
  if (method.is_given()) return method;
  if (value.is(Type::kDict)) {
    sandbox.scan(name.size());
    const Value* found = value.dict().find(name);
    if (found != nullptr) return *found;
  }
  return sandbox.undefined(type_name(value), name);
}

Value get_slice(Sandbox& sandbox, const Value& value, const Value& start, const Value& stop,
                const Value& step) {
  if (value.is_undefined()) sandbox.fail_undefined(value);
  if (!value.is_string() && !value.is_sequence() && !value.is(Type::kRange)) {
    sandbox.fail(quote(type_name(value)) + " can't be sliced");
  }
  const Bounds bounds = slice_bounds(sandbox, start, stop, step, length(sandbox, value));
  if (value.is_string()) return slice_string(sandbox, value, bounds);
  if (value.is(Type::kRange)) {
    const Range& whole = value.range();
    return sandbox.range(
        {whole.at(bounds.start), whole.at(bounds.stop), whole.step * bounds.step, bounds.count});
  }
  std::vector<Value> items;
  sandbox.charge(size_t(bounds.count), sizeof(Value));
  for (int64_t i = 0; i < bounds.count; ++i) {
    items.push_back(value.sequence().items[size_t(bounds.start + i * bounds.step)]);
  }
  return sandbox.sequence(value.type(), std::move(items));
}

int64_t to_index(Sandbox& sandbox, const Value& value, std::string_view what) {
  if (value.is_undefined() && value.is_given()) sandbox.fail_undefined(value);
  if (!value.is_integral()) {
    sandbox.fail(std::string(what) + " needs an integer, not " + quote(type_name(value)));
  }
  return value.integer();
}

}  // namespace tw::models::chat_template
