#include "tilewright/models/gguf_parse.h"

#include <algorithm>

#include "tilewright/core/checked.h"
#include "tilewright/core/printable.h"

namespace tw::models::gguf {
namespace {

constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;       // key length, key, type, value
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;  // name length, name, rank, type, offset
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kMaxNameBytes = 65535;
constexpr size_t kShownNameBytes = 96;  // of a name in a message

// Bytes of a fixed-size value; for strings and arrays the fewest that one can have.
uint64_t smallest_value(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kString:
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kArray:
      return 12;
  }
  return 1;
}

GgufType read_type(Cursor& cursor, const char* field) {
  const int64_t start = cursor.position();
  const auto id = cursor.read<uint32_t>(field);
  if (id > uint32_t(GgufType::kF64)) {
    cursor.fail(std::string(field) + " " + std::to_string(id) + " is unknown", start);
  }
  return GgufType(id);
}

// Moves past `count` values of one type, checking each.
void skip_values(Cursor& cursor, GgufType type, uint64_t count, int depth) {
  if (type == GgufType::kBool) {
    for (uint64_t i = 0; i < count; ++i) {
      const auto value = cursor.read<uint8_t>("bool");
      if (value > 1) {
        cursor.fail("bool is " + std::to_string(value) + ", not 0 or 1", cursor.position() - 1);
      }
    }
  } else if (type == GgufType::kString) {
    for (uint64_t i = 0; i < count; ++i) cursor.read_string("string");
  } else if (type == GgufType::kArray) {
    if (depth > kMaxArrayDepth) {
      cursor.fail("arrays are nested deeper than " + std::to_string(kMaxArrayDepth));
    }
    for (uint64_t i = 0; i < count; ++i) {
      const GgufType inner = read_type(cursor, "array element type");
      const auto inner_count = cursor.read<uint64_t>("array length");
      cursor.check_count(inner_count, smallest_value(inner), "array length");
      skip_values(cursor, inner, inner_count, depth + 1);
    }
  } else {
    cursor.skip(count, smallest_value(type), "value");
  }
}

// Stops at the first element.
GgufValue read_value(Cursor& cursor) {
  GgufType type = read_type(cursor, "value type");
  const bool is_array = type == GgufType::kArray;
  uint64_t count = 1;
  if (is_array) {
    type = read_type(cursor, "array element type");
    count = cursor.read<uint64_t>("array length");
    cursor.check_count(count, smallest_value(type), "array length");
  }
  return {type, is_array, cursor.here(), int64_t(count)};
}

struct TensorType {
  const char* name;
  bool supported;
  DType dtype;
};

// By ggml's type number. An empty name: the number was never used or has been withdrawn.
constexpr TensorType kTensorTypes[] = {
    {"f32", true, DType::kF32},       // 0
    {"f16", true, DType::kF16},       // 1
    {"q4_0", true, DType::kQ4_0},     // 2
    {"q4_1", true, DType::kQ4_1},     // 3
    {"", false, DType::kU8},          // 4
    {"", false, DType::kU8},          // 5
    {"q5_0", true, DType::kQ5_0},     // 6
    {"q5_1", true, DType::kQ5_1},     // 7
    {"q8_0", true, DType::kQ8_0},     // 8
    {"q8_1", false, DType::kU8},      // 9
    {"q2_k", true, DType::kQ2K},      // 10
    {"q3_k", true, DType::kQ3K},      // 11
    {"q4_k", true, DType::kQ4K},      // 12
    {"q5_k", true, DType::kQ5K},      // 13
    {"q6_k", true, DType::kQ6K},      // 14
    {"q8_k", false, DType::kU8},      // 15
    {"iq2_xxs", false, DType::kU8},   // 16
    {"iq2_xs", false, DType::kU8},    // 17
    {"iq3_xxs", false, DType::kU8},   // 18
    {"iq1_s", false, DType::kU8},     // 19
    {"iq4_nl", true, DType::kIq4Nl},  // 20
    {"iq3_s", false, DType::kU8},     // 21
    {"iq2_s", false, DType::kU8},     // 22
    {"iq4_xs", true, DType::kIq4Xs},  // 23
    {"i8", true, DType::kI8},         // 24
    {"i16", true, DType::kI16},       // 25
    {"i32", true, DType::kI32},       // 26
    {"i64", true, DType::kI64},       // 27
    {"f64", true, DType::kF64},       // 28
    {"iq1_m", false, DType::kU8},     // 29
    {"bf16", true, DType::kBf16},     // 30
    {"", false, DType::kU8},          // 31
    {"", false, DType::kU8},          // 32
    {"", false, DType::kU8},          // 33
    {"tq1_0", false, DType::kU8},     // 34
    {"tq2_0", false, DType::kU8},     // 35
    {"", false, DType::kU8},          // 36
    {"", false, DType::kU8},          // 37
    {"", false, DType::kU8},          // 38
    {"mxfp4", true, DType::kMxfp4},   // 39
    {"nvfp4", false, DType::kU8},     // 40
};

DType read_dtype(Cursor& cursor) {
  const int64_t start = cursor.position();
  const auto id = cursor.read<uint32_t>("type");
  const std::string label = "type " + std::to_string(id);
  if (id >= std::size(kTensorTypes) || kTensorTypes[id].name[0] == '\0') {
    cursor.fail(label + " is unknown", start);
  }
  if (!kTensorTypes[id].supported) {
    cursor.fail(label + " (" + kTensorTypes[id].name + ") is not supported", start,
                ErrorKind::kUnsupported);
  }
  return kTensorTypes[id].dtype;
}

// Reads rank and dims; sets elements and both orders of the dimensions.
void read_dims(Cursor& cursor, GgufTensor& tensor) {
  const int64_t start = cursor.position();
  const auto rank = cursor.read<uint32_t>("rank");
  if (rank > uint32_t(GgufTensor::kMaxRank)) {
    cursor.fail(
        "rank " + std::to_string(rank) + " is above " + std::to_string(GgufTensor::kMaxRank),
        start);
  }
  tensor.rank = int(rank);
  tensor.elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    const auto dim = cursor.read<uint64_t>("dimension");
    if (dim == 0 || dim > uint64_t(INT64_MAX)) {
      cursor.fail("dimension " + std::to_string(i) + " is " + std::to_string(dim),
                  cursor.position() - 8);
    }
    tensor.dim_list[i] = int64_t(dim);
    tensor.shape_list[rank - 1 - i] = int64_t(dim);
    tensor.elements = checked_mul(tensor.elements, int64_t(dim), "the number of elements");
  }
}

// The offset that a validated tensor header has.
uint64_t offset_at(std::span<const std::byte> bytes, int64_t header) {
  const std::byte* at = bytes.data() + header;
  at += 8 + load<uint64_t>(at);
  return load<uint64_t>(at + 4 + 8 * load<uint32_t>(at) + 4);
}

// Every tensor alone: aligned, and inside the file.
void check_each_place(Cursor& cursor, const TensorHeaders& headers) {
  for (size_t i = 0; i < headers.by_name.size(); ++i) {
    const GgufTensor tensor = read_tensor(cursor);
    cursor.set_subject({"tensor", 0, tensor.name, tensor.header_offset});
    if (tensor.data_offset % headers.alignment != 0) {
      cursor.fail("offset " + std::to_string(tensor.data_offset) + " is no multiple of " +
                  std::to_string(headers.alignment));
    }
    const int64_t start = checked_add(headers.data_offset, tensor.data_offset, "offset");
    if (start > cursor.size() || tensor.bytes > cursor.size() - start) {
      cursor.fail("offset " + std::to_string(start) + " + " + std::to_string(tensor.bytes) +
                  " bytes exceeds the file's " + std::to_string(cursor.size()) + " bytes");
    }
  }
}

}  // namespace

std::string_view Cursor::read_string(const char* field) {
  const int64_t start = position_;
  const auto length = read<uint64_t>(field);
  if (length > remaining()) {
    fail(std::string(field) + " of " + std::to_string(length) + " bytes exceeds the " +
             std::to_string(remaining()) + " left in the file",
         start);
  }
  const std::string_view out(reinterpret_cast<const char*>(here()), length);
  position_ += int64_t(length);
  return out;
}

std::string_view Cursor::read_name(const char* field) {
  const int64_t start = position_;
  const std::string_view out = read_string(field);
  if (out.empty() || out.size() > kMaxNameBytes) {
    fail(std::string(field) + " has " + std::to_string(out.size()) + " bytes, not 1 to " +
             std::to_string(kMaxNameBytes),
         start);
  }
  return out;
}

void Cursor::skip(uint64_t count, uint64_t item_bytes, const char* field) {
  check_count(count, item_bytes, field);
  position_ += int64_t(count * item_bytes);
}

void Cursor::check_count(uint64_t count, uint64_t smallest_item, const char* field) const {
  if (count <= remaining() / smallest_item) return;
  fail(std::string(field) + ": " + std::to_string(count) + " items of at least " +
       std::to_string(smallest_item) + " bytes exceed the " + std::to_string(remaining()) +
       " left in the file");
}

void Cursor::need(uint64_t bytes, const char* field) const {
  if (bytes <= remaining()) return;
  fail(std::string(field) + " needs " + std::to_string(bytes) +
       " bytes, but the file ends at byte " + std::to_string(bytes_.size()));
}

void Cursor::fail(const std::string& problem, int64_t position, ErrorKind kind) const {
  std::string text = printable(file_) + ": " + subject_.kind;
  if (!subject_.name.empty()) {
    text += " '" + printable(subject_.name, kShownNameBytes) + "'";
  } else if (subject_.index != kNoIndex) {
    text += " " + std::to_string(subject_.index);
  }
  text += ": " + problem;
  text += (subject_.header >= 0 ? " (header at byte " + std::to_string(subject_.header)
                                : " (at byte " + std::to_string(position)) +
          ")";
  throw Error(kind, text);
}

Header read_header(Cursor& cursor) {
  const auto magic = cursor.read<std::array<char, 4>>("magic");
  if (std::string_view(magic.data(), 4) != "GGUF") {
    cursor.fail("not a GGUF file: starts with '" + printable({magic.data(), 4}) + "'", 0);
  }
  Header out{};
  out.version = cursor.read<uint32_t>("version");
  if (out.version != 0 && (out.version & 0xffff) == 0) {
    cursor.fail("big-endian files are not supported", 4, ErrorKind::kUnsupported);
  }
  if (out.version != 2 && out.version != 3) {
    cursor.fail("version " + std::to_string(out.version) + " is not supported, only 2 and 3", 4,
                ErrorKind::kUnsupported);
  }
  out.tensors = cursor.read<uint64_t>("tensor count");
  out.entries = cursor.read<uint64_t>("metadata count");
  cursor.check_count(out.tensors, kMinTensorBytes, "tensor count");
  cursor.check_count(out.entries, kMinEntryBytes, "metadata count");
  if (std::max(out.tensors, out.entries) > UINT32_MAX) {
    cursor.fail("more than 4294967295 tensors or metadata entries", 8, ErrorKind::kUnsupported);
  }
  return out;
}

std::string_view name_at(std::span<const std::byte> bytes, int64_t offset) {
  const std::byte* at = bytes.data() + offset;
  return {reinterpret_cast<const char*>(at + 8), load<uint64_t>(at)};
}

GgufEntry read_entry(Cursor& cursor, uint64_t index) {
  const int64_t start = cursor.position();
  cursor.set_subject({"metadata", index});
  const std::string_view key = cursor.read_name("key");
  cursor.set_subject({"metadata", index, key});
  return {key, read_value(cursor), start};
}

void skip_elements(Cursor& cursor, const GgufValue& value) {
  skip_values(cursor, value.element_type(), uint64_t(value.size()), 2);
}

GgufTensor read_tensor(Cursor& cursor, uint64_t index) {
  GgufTensor tensor{};
  tensor.header_offset = cursor.position();
  cursor.set_subject({"tensor", index});
  tensor.name = cursor.read_name("name");
  cursor.set_subject({"tensor", index, tensor.name});
  try {
    read_dims(cursor, tensor);
    tensor.dtype = read_dtype(cursor);
    const int64_t in_block = info(tensor.dtype).block_elements;
    const int64_t row = tensor.rank > 0 ? tensor.dim_list[0] : 1;
    if (row % in_block != 0) {
      cursor.fail("rows of " + std::to_string(row) + " elements do not divide into " +
                  std::string(name(tensor.dtype)) + " blocks of " + std::to_string(in_block));
    }
    tensor.bytes =
        checked_mul(tensor.elements / in_block, element_size(tensor.dtype), "the size in bytes");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    cursor.fail(error.what(), tensor.header_offset);  // an overflow: say whose
  }
  const auto offset = cursor.read<uint64_t>("offset");
  if (offset > uint64_t(cursor.size())) {
    cursor.fail("offset " + std::to_string(offset) + " exceeds the file's " +
                    std::to_string(cursor.size()) + " bytes",
                cursor.position() - 8);
  }
  tensor.data_offset = int64_t(offset);
  return tensor;
}

void place(std::span<const std::byte> bytes, int64_t data_offset, GgufTensor& tensor) {
  tensor.data_offset += data_offset;
  tensor.data = bytes.data() + tensor.data_offset;
}

std::vector<int64_t> read_entries(Cursor& cursor, uint64_t count) {
  std::vector<int64_t> out;
  out.reserve(count);  // read_header() has found bytes for so many
  for (uint64_t i = 0; i < count; ++i) {
    out.push_back(cursor.position());
    skip_elements(cursor, read_entry(cursor, i).value);
  }
  return out;
}

std::vector<int64_t> read_tensors(Cursor& cursor, uint64_t count) {
  cursor.check_count(count, kMinTensorBytes, "tensor count");
  std::vector<int64_t> out;
  out.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    out.push_back(cursor.position());
    read_tensor(cursor, i);
  }
  return out;
}

void check_places(Cursor cursor, const TensorHeaders& headers) {
  check_each_place(cursor, headers);
  std::vector<int64_t> order(headers.by_name.begin(), headers.by_name.end());
  const auto bytes = cursor.bytes();
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(offset_at(bytes, a), a) < std::pair(offset_at(bytes, b), b);
  });
  GgufTensor before;
  for (size_t i = 0; i < order.size(); ++i) {
    cursor.seek(order[i]);
    GgufTensor tensor = read_tensor(cursor);
    place(bytes, headers.data_offset, tensor);
    if (i > 0 && tensor.data_offset - before.data_offset < before.bytes) {
      cursor.set_subject({"tensor", 0, tensor.name, tensor.header_offset});
      cursor.fail("data at byte " + std::to_string(tensor.data_offset) + " overlaps that of '" +
                  printable(before.name, kShownNameBytes) + "' (" + std::to_string(before.bytes) +
                  " bytes at " + std::to_string(before.data_offset) + ")");
    }
    before = tensor;
  }
}

}  // namespace tw::models::gguf
