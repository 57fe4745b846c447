// Each kind of malformed file: refused with the right kind and one line that says where.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/models/gguf_builder.h"
#include "tilewright/core/block_formats.h"
#include "tilewright/core/error.h"
#include "tilewright/models/gguf.h"

namespace tw::models {
namespace {

struct Refusal {
  ErrorKind kind;
  std::string message;
};

Refusal refusal(const GgufBuilder& builder) {
  try {
    builder.parse();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::kInternal, "accepted"};
}

void expect_bad(const GgufBuilder& builder, const std::string& message) {
  const Refusal got = refusal(builder);
  EXPECT_EQ(got.message, message);
  EXPECT_EQ(got.kind, ErrorKind::kBadFile);
}

void expect_unsupported(const GgufBuilder& builder, const std::string& message) {
  const Refusal got = refusal(builder);
  EXPECT_EQ(got.message, message);
  EXPECT_EQ(got.kind, ErrorKind::kUnsupported);
}

constexpr uint64_t kHuge = 1'000'000'000'000'000'000;

TEST(GgufMalformed, Header) {
  const auto parse = [](std::string_view text) {
    try {
      GgufFile::parse(std::as_bytes(std::span(text)), "t.gguf");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(parse(""),
            "t.gguf: header: magic needs 4 bytes, but the file ends at byte 0 "
            "(at byte 0)");
  EXPECT_EQ(parse("PK\x03\x04rest of an archive"),
            "t.gguf: header: not a GGUF file: starts with 'PK\\x03\\x04' (at byte 0)");
  expect_unsupported(GgufBuilder(0, 0, 1),
                     "t.gguf: header: version 1 is not supported, only 2 and 3 (at byte 4)");
  expect_unsupported(GgufBuilder(0, 0, 4),
                     "t.gguf: header: version 4 is not supported, only 2 and 3 (at byte 4)");
  expect_unsupported(GgufBuilder(0, 0, 0x03000000),
                     "t.gguf: header: big-endian files are not supported (at byte 4)");
  expect_bad(GgufBuilder(kHuge, 0).zeros(100),
             "t.gguf: header: tensor count: 1000000000000000000 items of at least 25 bytes exceed "
             "the 100 left in the file (at byte 24)");
  expect_bad(GgufBuilder(0, kHuge).zeros(100),
             "t.gguf: header: metadata count: 1000000000000000000 items of at least 14 bytes "
             "exceed the 100 left in the file (at byte 24)");
}

TEST(GgufMalformed, Keys) {
  expect_bad(GgufBuilder(0, 1).put(kHuge).zeros(20),
             "t.gguf: metadata 0: key of 1000000000000000000 bytes exceeds the 20 left in the file "
             "(at byte 24)");
  expect_bad(GgufBuilder(0, 1).string("").zeros(20),
             "t.gguf: metadata 0: key has 0 bytes, not 1 to 65535 (at byte 24)");
  GgufBuilder twice(0, 2);
  twice.entry("k", GgufType::kU8, uint8_t(0)).entry("k", GgufType::kU8, uint8_t(0));
  expect_bad(twice, "t.gguf: metadata 'k': the key occurs twice (at byte 38)");
  GgufBuilder odd(0, 1);
  odd.key("a\n\x1b", GgufType(13)).zeros(20);
  expect_bad(odd, "t.gguf: metadata 'a\\n\\x1b': value type 13 is unknown (at byte 35)");
}

TEST(GgufMalformed, Values) {
  expect_bad(GgufBuilder(0, 1).entry("k", GgufType::kU64, uint32_t(1)),
             "t.gguf: metadata 'k': value: 1 items of at least 8 bytes exceed the 4 left in the "
             "file (at byte 37)");
  expect_bad(GgufBuilder(0, 1).entry("k", GgufType::kBool, uint8_t(2)),
             "t.gguf: metadata 'k': bool is 2, not 0 or 1 (at byte 37)");
  expect_bad(GgufBuilder(0, 1).key("k", GgufType::kString).put(kHuge),
             "t.gguf: metadata 'k': string of 1000000000000000000 bytes exceeds the 0 left in the "
             "file (at byte 37)");
  expect_bad(GgufBuilder(0, 1).array("k", GgufType::kF64, kHuge).zeros(64),
             "t.gguf: metadata 'k': array length: 1000000000000000000 items of at least 8 bytes "
             "exceed the 64 left in the file (at byte 49)");
  expect_bad(GgufBuilder(0, 1).array("k", GgufType(99), 1).zeros(64),
             "t.gguf: metadata 'k': array element type 99 is unknown (at byte 37)");
  expect_bad(GgufBuilder(0, 1).array("k", GgufType::kBool, 2).put(uint8_t(1)).put(uint8_t(9)),
             "t.gguf: metadata 'k': bool is 9, not 0 or 1 (at byte 50)");
  // The second string's length is one more than what is left.
  expect_bad(GgufBuilder(0, 1).array("k", GgufType::kString, 2).string("ab").put(uint64_t(1)),
             "t.gguf: metadata 'k': string of 1 bytes exceeds the 0 left in the file (at byte 59)");
}

TEST(GgufMalformed, DeepNesting) {
  GgufBuilder four(0, 1);
  four.array("k", GgufType::kArray, 1);
  for (int i = 0; i < 2; ++i) four.put(GgufType::kArray).put(uint64_t(1));
  four.put(GgufType::kU8).put(uint64_t(1)).put(uint8_t(5));
  EXPECT_EQ(refusal(four).message, "accepted");

  GgufBuilder deep(0, 1);
  deep.array("k", GgufType::kArray, 1);
  for (int i = 0; i < 100'000; ++i) deep.put(GgufType::kArray).put(uint64_t(1));
  deep.put(GgufType::kU8).put(uint64_t(0));
  expect_bad(deep, "t.gguf: metadata 'k': arrays are nested deeper than 4 (at byte 85)");
}

TEST(GgufMalformed, AlignmentAndSplit) {
  const auto with = [](const char* key, uint32_t value) {
    return GgufBuilder(0, 1).entry(key, GgufType::kU32, value);
  };
  for (const uint32_t bad : {0u, 1u, 4u, 24u, 33u}) {
    expect_bad(with("general.alignment", bad),
               "t.gguf: metadata 'general.alignment': " + std::to_string(bad) +
                   " is no power of two of at least 8 (at byte 24)");
  }
  EXPECT_EQ(refusal(with("general.alignment", 1u << 31)).message, "accepted");
  expect_bad(GgufBuilder(0, 1).string_entry("general.alignment", "32"),
             "t.gguf: metadata 'general.alignment': is string, expected an integer (at byte 24)");
  EXPECT_EQ(refusal(with("split.count", 1)).message, "accepted");
  expect_unsupported(with("split.count", 3),
                     "t.gguf: metadata 'split.count': one of 3 parts of a "
                     "split model; merge them first (at byte 24)");
}

TEST(GgufMalformed, TensorHeaders) {
  const auto one = [](const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    return GgufBuilder(1, 0).tensor("w", dims, type, offset).pad().zeros(256);
  };
  EXPECT_EQ(refusal(one({}, 0, 0)).message, "accepted");
  EXPECT_EQ(refusal(one({1, 1, 1, 1}, 0, 0)).message, "accepted");
  expect_bad(one({1, 1, 1, 1, 1}, 0, 0), "t.gguf: tensor 'w': rank 5 is above 4 (at byte 33)");
  expect_bad(one({8, 0}, 0, 0), "t.gguf: tensor 'w': dimension 1 is 0 (at byte 45)");
  expect_bad(one({UINT64_MAX}, 0, 0),
             "t.gguf: tensor 'w': dimension 0 is 18446744073709551615 (at byte 37)");
  expect_bad(one({uint64_t(1) << 40, uint64_t(1) << 40}, 0, 0),
             "t.gguf: tensor 'w': the number of elements overflows 64 bits: 1099511627776 * "
             "1099511627776 (at byte 24)");
  expect_bad(one({uint64_t(1) << 62}, 0, 0),
             "t.gguf: tensor 'w': the size in bytes overflows 64 bits: 4611686018427387904 * 4 "
             "(at byte 24)");
  expect_bad(one({32}, 4, 0), "t.gguf: tensor 'w': type 4 is unknown (at byte 45)");
  expect_bad(one({32}, 1000, 0), "t.gguf: tensor 'w': type 1000 is unknown (at byte 45)");
  expect_unsupported(one({256}, 16, 0),
                     "t.gguf: tensor 'w': type 16 (iq2_xxs) is not supported (at byte 45)");
  expect_bad(one({48, 2}, 2, 0),
             "t.gguf: tensor 'w': rows of 48 elements do not divide into q4_0 "
             "blocks of 32 (at byte 57)");
  expect_bad(GgufBuilder(1, 0).tensor("", {1}, 0, 0).zeros(64),
             "t.gguf: tensor 0: name has 0 bytes, not 1 to 65535 (at byte 24)");
}

TEST(GgufMalformed, TensorPlaces) {
  const auto one = [](uint64_t elements, uint64_t offset) {
    return GgufBuilder(1, 0).tensor("w", {elements}, 0, offset).pad().zeros(64);  // data at 64
  };
  EXPECT_EQ(refusal(one(16, 0)).message, "accepted");
  expect_bad(one(17, 0),
             "t.gguf: tensor 'w': offset 64 + 68 bytes exceeds the file's 128 bytes "
             "(header at byte 24)");
  expect_bad(one(16, 32),
             "t.gguf: tensor 'w': offset 96 + 64 bytes exceeds the file's 128 bytes "
             "(header at byte 24)");
  expect_bad(one(1, 8), "t.gguf: tensor 'w': offset 8 is no multiple of 32 (header at byte 24)");
  expect_bad(one(1, kHuge),
             "t.gguf: tensor 'w': offset 1000000000000000000 exceeds the file's 128 "
             "bytes (at byte 49)");
  const auto two = [](const char* name, uint64_t offset) {
    GgufBuilder out(2, 0);
    out.tensor("later", {8}, 0, offset).tensor(name, {9}, 0, 0);
    return out.pad().zeros(128);
  };
  EXPECT_EQ(refusal(two("w", 64)).message, "accepted");
  expect_bad(two("w", 32),
             "t.gguf: tensor 'later': data at byte 128 overlaps that of 'w' (36 "
             "bytes at 96) (header at byte 24)");
  expect_bad(two("later", 64), "t.gguf: tensor 'later': the name occurs twice (at byte 61)");
}

/// Reads everything that an accepted file offers.
int64_t touch(const GgufFile& file) {
  int64_t sum = 0;
  for (const GgufEntry& entry : file.metadata()) {
    if (entry.value.element_type() == GgufType::kString) {
      for (const std::string_view text : entry.value.strings()) {
        for (const char c : text) sum += c;
      }
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    for (int64_t i = 0; i < tensor.bytes; ++i) sum += int64_t(tensor.data[i]);
  }
  return sum;
}

// Only an Error may come out; the copies end where the bytes end, so a sanitizer sees any overrun.
void parse_and_touch(const std::vector<std::byte>& bytes) {
  try {
    EXPECT_NE(touch(GgufFile::parse(bytes, "t.gguf")), INT64_MIN);  // uses what was read
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find("t.gguf: "), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find(" byte "), std::string::npos) << message;
    EXPECT_TRUE(error.kind() == ErrorKind::kBadFile || error.kind() == ErrorKind::kUnsupported)
        << message;
  }
}

TEST(GgufMalformed, EveryTruncationIsRefused) {
  const std::vector<std::byte> whole = small_file().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + std::ptrdiff_t(size));
    EXPECT_THROW(GgufFile::parse(part, "t.gguf"), Error) << size;
    parse_and_touch(part);
  }
}

TEST(GgufMalformed, NoByteCanBreakTheReader) {
  const std::vector<std::byte> whole = small_file().bytes();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x08, 0x09, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> changed = whole;
      changed[i] = std::byte(value);
      parse_and_touch(changed);
    }
  }
}

}  // namespace
}  // namespace tw::models
