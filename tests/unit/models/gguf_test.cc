#include "tilewright/models/gguf.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/models/gguf_builder.h"
#include "tilewright/core/block_formats.h"

namespace tw::models {
namespace {

TEST(Gguf, ReadsTensorsInPlace) {
  const GgufBuilder builder = small_file();
  const GgufFile file = builder.parse();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.alignment(), 32);
  EXPECT_EQ(file.data_offset() % 32, 0);
  ASSERT_EQ(file.tensors().size(), 2u);

  const GgufTensor w = file.require_tensor("w");
  EXPECT_EQ(w.dtype, DType::kF32);
  EXPECT_EQ(std::vector<int64_t>(w.dims().begin(), w.dims().end()), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(std::vector<int64_t>(w.shape().begin(), w.shape().end()), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w.bytes, 24);
  EXPECT_EQ(w.data, builder.bytes().data() + file.data_offset());
  std::vector<float> values(6);
  dequantize(w.dtype, w.data, values.data(), w.elements);
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));

  const auto q = file.find_tensor("q");
  ASSERT_TRUE(q);
  EXPECT_EQ(q->bytes, 36);
  EXPECT_EQ(q->data_offset, file.data_offset() + 32);
  EXPECT_FALSE(file.find_tensor("missing"));
  EXPECT_FALSE(file.find_tensor("a.count"));
}

TEST(Gguf, VersionTwoAndAnotherAlignment) {
  GgufBuilder builder(1, 1, 2);
  builder.entry("general.alignment", GgufType::kU32, uint32_t(128));
  builder.tensor("w", {1}, 24, 0).pad(128).put(int8_t(-3));
  const GgufFile file = builder.parse();
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.data_offset() % 128, 0);
  EXPECT_EQ(file.require_tensor("w").dtype, DType::kI8);
}

TEST(Gguf, ReadsEveryMetadataType) {
  GgufBuilder builder(0, 12);
  builder.entry("u8", GgufType::kU8, uint8_t(255)).entry("i8", GgufType::kI8, int8_t(-128));
  builder.entry("u16", GgufType::kU16, uint16_t(65535)).entry("i16", GgufType::kI16, int16_t(-7));
  builder.entry("u32", GgufType::kU32, UINT32_MAX).entry("i32", GgufType::kI32, INT32_MIN);
  builder.entry("u64", GgufType::kU64, uint64_t(1) << 40).entry("i64", GgufType::kI64, INT64_MIN);
  builder.entry("f32", GgufType::kF32, 0.5f).entry("f64", GgufType::kF64, 0.25);
  builder.entry("bool", GgufType::kBool, uint8_t(1)).string_entry("string", "");
  const GgufFile file = builder.parse();
  EXPECT_EQ(file.find_int("u8"), 255);
  EXPECT_EQ(file.find_int("i8"), -128);
  EXPECT_EQ(file.find_int("u16"), 65535);
  EXPECT_EQ(file.find_int("i16"), -7);
  EXPECT_EQ(file.require_u32("u32"), UINT32_MAX);
  EXPECT_EQ(file.find_int("i32"), INT32_MIN);
  EXPECT_EQ(file.find_int("u64"), int64_t(1) << 40);
  EXPECT_EQ(file.find_int("i64"), INT64_MIN);
  EXPECT_EQ(file.find_f32("f32"), 0.5f);
  EXPECT_EQ(file.require_f32("f64"), 0.25f);
  EXPECT_EQ(file.find_bool("bool"), true);
  EXPECT_EQ(file.require_string("string"), "");
  EXPECT_EQ(file.find_int("none"), std::nullopt);
  EXPECT_EQ(file.find_strings("none"), std::nullopt);
  const auto eighth = std::next(file.metadata().begin(), 8);  // the file's order
  EXPECT_EQ(eighth->key, "f32");
  EXPECT_EQ(eighth->value.type_name(), "f32");
}

TEST(Gguf, ReadsArrays) {
  GgufBuilder builder(0, 6);
  builder.array("strings", GgufType::kString, 3).string("a").string("").string("bc");
  builder.array("ints", GgufType::kI16, 2).put(int16_t(-1)).put(int16_t(300));
  builder.array("floats", GgufType::kF32, 2).put(0.5f).put(-HUGE_VALF);
  builder.array("bools", GgufType::kBool, 2).put(uint8_t(1)).put(uint8_t(0));
  builder.array("none", GgufType::kF32, 0);
  builder.array("nested", GgufType::kArray, 2);
  builder.put(GgufType::kU8).put(uint64_t(3)).raw("abc");
  builder.put(GgufType::kString).put(uint64_t(1)).string("in");
  const GgufFile file = builder.parse();
  EXPECT_EQ(file.require_strings("strings").to_vector(),
            (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(file.require_ints("ints").to_vector(), (std::vector<int64_t>{-1, 300}));
  EXPECT_EQ(file.require_floats("floats").to_vector(), (std::vector<float>{0.5f, -HUGE_VALF}));
  EXPECT_EQ(file.require_ints("bools").to_vector(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(file.require_floats("none").size(), 0);
  ASSERT_TRUE(file.find("nested"));
  EXPECT_EQ(file.find("nested")->value.type_name(), "array<array>");
  EXPECT_EQ(file.find("nested")->value.size(), 2);
}

// What a look-up throws.
template <class Call>
std::string message(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadFile) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Gguf, LookUpsNameFileKeyAndPlace) {
  GgufBuilder builder(0, 5);
  builder.string_entry("text", "x").entry("minus", GgufType::kI32, int32_t(-1));
  builder.entry("nan", GgufType::kF32, std::numeric_limits<float>::quiet_NaN());
  builder.entry("huge", GgufType::kU64, UINT64_MAX);
  builder.array("huges", GgufType::kU64, 1).put(UINT64_MAX);
  const GgufFile file = builder.parse();
  EXPECT_EQ(message([&] { (void)file.find_u32("text"); }),
            "t.gguf: metadata 'text': is string, expected an integer (at byte 24)");
  EXPECT_EQ(message([&] { (void)file.find_u32("minus"); }),
            "t.gguf: metadata 'minus': -1 is not in 0..4294967295 (at byte 49)");
  EXPECT_EQ(message([&] { (void)file.require_u32("absent"); }),
            "t.gguf: metadata 'absent': is missing (metadata at byte 24)");
  const std::string missing = message([&] { (void)file.require_tensor("blk.0"); });
  EXPECT_TRUE(missing.starts_with("t.gguf: tensor 'blk.0': is missing (headers at byte "))
      << missing;
  EXPECT_NE(message([&] { (void)file.find_f32("nan"); }).find("nan is not a finite f32"),
            std::string::npos);
  EXPECT_NE(message([&] { (void)file.find_int("huge"); }).find("18446744073709551615 is above"),
            std::string::npos);
  EXPECT_NE(message([&] { (void)file.find_ints("huges"); }).find("element 0 is above"),
            std::string::npos);
  EXPECT_NE(message([&] { (void)file.find_string("minus"); }).find("is i32, expected a string"),
            std::string::npos);
  EXPECT_NE(message([&] { (void)file.find_strings("text"); }).find("expected an array of strings"),
            std::string::npos);
  EXPECT_NE(message([&] { (void)file.find_floats("huges"); }).find("is array<u64>, expected"),
            std::string::npos);
  EXPECT_NE(message([&] { (void)file.find_int("huges"); }).find("is array<u64>, expected"),
            std::string::npos);
}

TEST(Gguf, OpenMapsAndMovesWithItsViews) {
  const std::string path = ::testing::TempDir() + "gguf_test.gguf";
  const GgufBuilder builder = small_file();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(builder.bytes().data()),
             std::streamsize(builder.bytes().size()));
  GgufFile file = GgufFile::open(path);
  const std::string_view before = file.require_string("a.name");
  const GgufFile moved = std::move(file);
  EXPECT_EQ(moved.require_string("a.name").data(), before.data());
  EXPECT_EQ(moved.name(), path);
  EXPECT_EQ(moved.require_tensor("w").bytes, 24);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(moved.require_tensor("w").data) % 32, 0u);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace tw::models
