// Filters that cut sequences and texts, and look attributes up.
#include <algorithm>
#include <utility>

#include "tilewright/models/chat_template/builtins.h"
#include "tilewright/models/chat_template/operators.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

bool given(const Value& value) {
  return value.is_given() && !value.is_none();
}

/// Appends `filler` until the list has `size` items.
void fill_up(Sandbox& sandbox, std::vector<Value>& list, int64_t size, const Value& filler) {
  const int64_t missing = size - int64_t(list.size());
  if (missing <= 0 || !given(filler)) return;
  sandbox.charge(size_t(missing), sizeof(Value));
  list.insert(list.end(), size_t(missing), filler);
}

/// Lists of so many items.
Value batch(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const int64_t size = to_index(sandbox, arguments[0], "'batch'");
  std::vector<Value> out, row;
  for (const Value& item : items_of(sandbox, self)) {
    if (int64_t(row.size()) == size) out.push_back(sandbox.list(std::exchange(row, {})));
    row.push_back(item);
  }
  fill_up(sandbox, row, row.empty() ? 0 : size, arguments[1]);
  if (!row.empty()) out.push_back(sandbox.list(std::move(row)));
  return sandbox.iterator(std::move(out));
}

/// So many lists; the first ones are longer where the items do not come out even.
Value slice(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const auto items = items_of(sandbox, self);
  const int64_t slices = to_index(sandbox, arguments[0], "'slice'");
  if (slices == 0) sandbox.fail("division by zero");
  if (slices < 0) return sandbox.iterator({});
  const int64_t each = int64_t(items.size()) / slices, extra = int64_t(items.size()) % slices;
  std::vector<Value> out;
  sandbox.charge(size_t(slices), sizeof(Value));
  for (int64_t i = 0, at = 0; i < slices; ++i) {
    const int64_t size = each + int64_t(i < extra);
    std::vector<Value> row(items.begin() + at, items.begin() + at + size);
    if (i >= extra && given(arguments[1])) row.push_back(arguments[1]);
    out.push_back(sandbox.list(std::move(row)));
    at += size;
  }
  return sandbox.iterator(std::move(out));
}

/// What is an attribute only, never an element.
Value attr(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  if (self.is_undefined()) sandbox.fail_undefined(self);
  if (!arguments[0].is_string()) sandbox.fail("'attr' needs a name");
  const Value found = find_method(sandbox, self, arguments[0].text());
  return found.is_given() ? found : sandbox.undefined(type_name(self), arguments[0].text());
}

Value truncate(Sandbox& sandbox, const Value& self, const Arguments& arguments) {
  const auto number = [&](const Value& value, int64_t otherwise) {
    return value.is_given() ? to_index(sandbox, value, "'truncate'") : otherwise;
  };
  if (!self.is_string()) {
    if (self.is_undefined()) return sandbox.string({});
    sandbox.fail("'truncate' needs a string, not " + quote(type_name(self)));
  }
  sandbox.scan(self.text().size() * 8);
  const std::string end = arguments[2].is_given() ? to_text(sandbox, arguments[2]) : "...";
  const int64_t length = number(arguments[0], 255), end_length = count_code_points(end);
  const int64_t leeway = given(arguments[3]) ? number(arguments[3], 0) : 5;
  if (length < end_length) sandbox.fail("'truncate' to less than its end");
  if (leeway < 0) sandbox.fail("'truncate' needs a leeway of at least 0");
  const CodePoints points{self.text(), self.string().length};
  if (points.length - length <= leeway) return self;
  std::string_view kept = points.slice(0, std::min(length - end_length, points.length));
  if (!is_true(arguments[1])) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  sandbox.charge(kept.size() + end.size());
  return sandbox.adopt(std::string(kept) + end);
}

constexpr Builtin kFilters[] = {
    {"attr", "name", attr},
    {"batch", "linecount fill_with?", batch},
    {"slice", "slices fill_with?", slice},
    {"truncate", "length? killwords? end? leeway?", truncate},
};

}  // namespace

std::span<const Builtin> part_filters() {
  return kFilters;
}

}  // namespace tw::models::chat_template
