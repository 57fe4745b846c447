#include "tilewright/models/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "tilewright/core/checked.h"
#include "tilewright/core/printable.h"
#include "tilewright/models/gguf_parse.h"

namespace tw::models {
namespace {

constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMinAlignment = 8;    // what the widest scalar type needs
constexpr size_t kShownNameBytes = 96;  // of a name in a message

std::string quoted(std::string_view text) {
  return "'" + printable(text, kShownNameBytes) + "'";
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

/// Sorts `offsets` of entries or tensors by name. Calls `duplicate(offset)` on one whose name
/// another one before it in the file has too.
template <class Duplicate>
void sort_by_name(std::span<const std::byte> bytes, std::vector<int64_t>& offsets,
                  Duplicate duplicate) {
  const auto name_of = [&](int64_t offset) { return gguf::name_at(bytes, offset); };
  std::sort(offsets.begin(), offsets.end(), [&](int64_t a, int64_t b) {
    return std::pair(name_of(a), a) < std::pair(name_of(b), b);
  });
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (name_of(offsets[i - 1]) == name_of(offsets[i])) duplicate(offsets[i]);
  }
}

std::optional<int64_t> find_sorted(std::span<const std::byte> bytes,
                                   const std::vector<int64_t>& offsets, std::string_view wanted) {
  const auto at = std::lower_bound(
      offsets.begin(), offsets.end(), wanted,
      [&](int64_t offset, std::string_view text) { return gguf::name_at(bytes, offset) < text; });
  if (at == offsets.end() || gguf::name_at(bytes, *at) != wanted) return std::nullopt;
  return *at;
}

bool is_bool(GgufType type) {
  return type == GgufType::kBool;
}
bool is_string(GgufType type) {
  return type == GgufType::kString;
}
bool is_integer_type(GgufType type) {
  return is_integer(type);
}
bool is_float_type(GgufType type) {
  return is_float(type);
}
bool is_integer_or_bool(GgufType type) {
  return is_integer(type) || is_bool(type);
}

bool above_int64(const GgufValue& value, int64_t i) {
  return value.element_type() == GgufType::kU64 && value.as_int(i) < 0;
}

}  // namespace

std::string_view name(GgufType type) {
  constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[size_t(type)];
}

std::string GgufValue::type_name() const {
  const std::string element(name(type_));
  return is_array_ ? "array<" + element + ">" : element;
}

int64_t GgufValue::as_int(int64_t i) const {
  switch (type_) {
    case GgufType::kU8:
    case GgufType::kBool:
      return gguf::load<uint8_t>(data_ + i);
    case GgufType::kI8:
      return gguf::load<int8_t>(data_ + i);
    case GgufType::kU16:
      return gguf::load<uint16_t>(data_ + 2 * i);
    case GgufType::kI16:
      return gguf::load<int16_t>(data_ + 2 * i);
    case GgufType::kU32:
      return gguf::load<uint32_t>(data_ + 4 * i);
    case GgufType::kI32:
      return gguf::load<int32_t>(data_ + 4 * i);
    case GgufType::kU64:
    case GgufType::kI64:
      return gguf::load<int64_t>(data_ + 8 * i);
    default:
      throw Error(ErrorKind::kInternal, "GgufValue::as_int on " + type_name());
  }
}

double GgufValue::as_float(int64_t i) const {
  if (type_ == GgufType::kF32) return double(gguf::load<float>(data_ + 4 * i));
  if (type_ == GgufType::kF64) return gguf::load<double>(data_ + 8 * i);
  throw Error(ErrorKind::kInternal, "GgufValue::as_float on " + type_name());
}

template <>
void GgufRange<GgufEntry>::Iterator::read() {
  if (left_ == 0) return;
  gguf::Cursor cursor(range_.bytes_, "", range_.first_);
  item_ = gguf::read_entry(cursor);
  gguf::skip_elements(cursor, item_.value);
  range_.first_ = cursor.position();
}

template <>
void GgufRange<GgufTensor>::Iterator::read() {
  if (left_ == 0) return;
  gguf::Cursor cursor(range_.bytes_, "", range_.first_);
  item_ = gguf::read_tensor(cursor);
  gguf::place(range_.bytes_, range_.data_offset_, item_);
  range_.first_ = cursor.position();
}

GgufFile GgufFile::open(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(MappedFile::open(path));
  GgufFile out = parse(file->bytes(), path);
  out.file_ = std::move(file);
  return out;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  GgufFile out;
  out.bytes_ = bytes;
  out.name_ = std::move(name);
  gguf::Cursor cursor(bytes, out.name_);
  const auto refuse_twice = [&](const char* kind, const char* problem) {
    return [=, &cursor](int64_t offset) {
      cursor.set_subject({kind, gguf::kNoIndex, gguf::name_at(bytes, offset)});
      cursor.fail(problem, offset);
    };
  };
  const gguf::Header header = gguf::read_header(cursor);
  out.version_ = header.version;
  out.metadata_offset_ = cursor.position();
  out.entries_by_key_ = gguf::read_entries(cursor, header.entries);
  sort_by_name(bytes, out.entries_by_key_, refuse_twice("metadata", "the key occurs twice"));
  out.check_split();
  const int64_t alignment = out.find_int("general.alignment").value_or(kDefaultAlignment);
  if (alignment < kMinAlignment || !std::has_single_bit(uint64_t(alignment))) {
    throw out.metadata_error("general.alignment", std::to_string(alignment) +
                                                      " is no power of two of at least " +
                                                      std::to_string(kMinAlignment));
  }
  out.alignment_ = alignment;
  out.headers_offset_ = cursor.position();
  out.tensors_by_name_ = gguf::read_tensors(cursor, header.tensors);
  sort_by_name(bytes, out.tensors_by_name_, refuse_twice("tensor", "the name occurs twice"));
  out.data_offset_ = round_up(cursor.position(), alignment);
  gguf::check_places({bytes, out.name_, out.headers_offset_},
                     {out.tensors_by_name_, out.data_offset_, alignment});
  return out;
}

void GgufFile::check_split() const {
  const int64_t parts = find_int("split.count").value_or(1);
  if (parts <= 1) return;
  throw Error(ErrorKind::kUnsupported,
              metadata_error("split.count", "one of " + std::to_string(parts) +
                                                " parts of a split model; merge them first")
                  .what());
}

std::optional<GgufEntry> GgufFile::find(std::string_view key) const {
  const std::optional<int64_t> offset = find_sorted(bytes_, entries_by_key_, key);
  if (!offset) return std::nullopt;
  gguf::Cursor cursor(bytes_, name_, *offset);
  return gguf::read_entry(cursor);
}

std::optional<GgufValue> GgufFile::find_scalar(std::string_view key, bool (*accepts)(GgufType),
                                               const char* wanted) const {
  const std::optional<GgufEntry> entry = find(key);
  if (!entry) return std::nullopt;
  if (!entry->value.is_array() && accepts(entry->value.element_type())) return entry->value;
  throw metadata_error(key, "is " + entry->value.type_name() + ", expected " + wanted);
}

std::optional<GgufValue> GgufFile::find_array(std::string_view key, bool (*accepts)(GgufType),
                                              const char* wanted) const {
  const std::optional<GgufEntry> entry = find(key);
  if (!entry) return std::nullopt;
  if (entry->value.is_array() && accepts(entry->value.element_type())) return entry->value;
  throw metadata_error(key, "is " + entry->value.type_name() + ", expected " + wanted);
}

std::optional<int64_t> GgufFile::find_int(std::string_view key) const {
  const std::optional<GgufValue> found = find_scalar(key, is_integer_type, "an integer");
  if (!found) return std::nullopt;
  if (above_int64(*found, 0)) {
    throw metadata_error(
        key, std::to_string(uint64_t(found->as_int())) + " is above 9223372036854775807");
  }
  return found->as_int();
}

std::optional<uint32_t> GgufFile::find_u32(std::string_view key) const {
  const std::optional<int64_t> value = find_int(key);
  if (!value) return std::nullopt;
  if (*value < 0 || *value > int64_t(UINT32_MAX)) {
    throw metadata_error(key, std::to_string(*value) + " is not in 0..4294967295");
  }
  return uint32_t(*value);
}

std::optional<float> GgufFile::find_f32(std::string_view key) const {
  const std::optional<GgufValue> found = find_scalar(key, is_float_type, "a float");
  if (!found) return std::nullopt;
  const double value = found->as_float();
  if (!(std::fabs(value) <= double(std::numeric_limits<float>::max()))) {
    throw metadata_error(key, number(value) + " is not a finite f32");
  }
  return float(value);
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const std::optional<GgufValue> found = find_scalar(key, is_bool, "a bool");
  if (!found) return std::nullopt;
  return found->as_int() != 0;
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  const std::optional<GgufValue> found = find_scalar(key, is_string, "a string");
  if (!found) return std::nullopt;
  return *found->strings().begin();
}

std::optional<GgufNumbers<int64_t>> GgufFile::find_ints(std::string_view key) const {
  const std::optional<GgufValue> found =
      find_array(key, is_integer_or_bool, "an array of integers");
  if (!found) return std::nullopt;
  for (int64_t i = 0; i < found->size(); ++i) {
    if (!above_int64(*found, i)) continue;
    throw metadata_error(key, "element " + std::to_string(i) + " is above 9223372036854775807");
  }
  return GgufNumbers<int64_t>(*found);
}

std::optional<GgufNumbers<float>> GgufFile::find_floats(std::string_view key) const {
  const std::optional<GgufValue> found = find_array(key, is_float_type, "an array of floats");
  if (!found) return std::nullopt;
  return GgufNumbers<float>(*found);
}

std::optional<GgufStrings> GgufFile::find_strings(std::string_view key) const {
  const std::optional<GgufValue> found = find_array(key, is_string, "an array of strings");
  if (!found) return std::nullopt;
  return found->strings();
}

#define TW_REQUIRE(type, kind)                                \
  type GgufFile::require_##kind(std::string_view key) const { \
    if (auto value = find_##kind(key)) return *value;         \
    throw metadata_error(key, "is missing");                  \
  }
TW_REQUIRE(int64_t, int)
TW_REQUIRE(uint32_t, u32)
TW_REQUIRE(float, f32)
TW_REQUIRE(bool, bool)
TW_REQUIRE(std::string_view, string)
TW_REQUIRE(GgufNumbers<int64_t>, ints)
TW_REQUIRE(GgufNumbers<float>, floats)
TW_REQUIRE(GgufStrings, strings)
#undef TW_REQUIRE

std::optional<GgufTensor> GgufFile::find_tensor(std::string_view tensor) const {
  const std::optional<int64_t> offset = find_sorted(bytes_, tensors_by_name_, tensor);
  if (!offset) return std::nullopt;
  gguf::Cursor cursor(bytes_, name_, *offset);
  GgufTensor out = gguf::read_tensor(cursor);
  gguf::place(bytes_, data_offset_, out);
  return out;
}

GgufTensor GgufFile::require_tensor(std::string_view tensor) const {
  if (const std::optional<GgufTensor> found = find_tensor(tensor)) return *found;
  throw tensor_error(tensor, "is missing");
}

void GgufFile::release(const GgufTensor& tensor) const {
  if (file_) file_->release({tensor.data, size_t(tensor.bytes)});
}

Error GgufFile::metadata_error(std::string_view key, const std::string& problem) const {
  const std::optional<GgufEntry> entry = find(key);
  const std::string place = entry ? " (at byte " + std::to_string(entry->offset)
                                  : " (metadata at byte " + std::to_string(metadata_offset_);
  return {ErrorKind::kBadFile,
          printable(name_) + ": metadata " + quoted(key) + ": " + problem + place + ")"};
}

Error GgufFile::tensor_error(std::string_view tensor, const std::string& problem) const {
  const std::optional<GgufTensor> found = find_tensor(tensor);
  const std::string place = found ? " (header at byte " + std::to_string(found->header_offset)
                                  : " (headers at byte " + std::to_string(headers_offset_);
  return {ErrorKind::kBadFile,
          printable(name_) + ": tensor " + quoted(tensor) + ": " + problem + place + ")"};
}

}  // namespace tw::models
