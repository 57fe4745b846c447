#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/models/chat_template/literals.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

using Parts = std::vector<std::string_view>;

TEST(ChatTemplateText, FindsInvalidUtf8) {
  EXPECT_EQ(find_invalid_utf8("aé日😀"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("\xf4\x8f\xbf\xbf"), std::string_view::npos);  // U+10FFFF
  for (const std::string_view bad :
       {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xe6\x97", "\xff"}) {
    EXPECT_EQ(find_invalid_utf8("ab" + std::string(bad)), 2u);
  }
}

TEST(ChatTemplateText, ReadsAndWritesCodePoints) {
  for (const char32_t c :
       {U'a', U'\x7f', U'\x80', U'\x7ff', U'\x800', U'\xffff', U'\x10000', U'\x10ffff'}) {
    std::string text;
    append_utf8(text, c);
    size_t pos = 0;
    EXPECT_EQ(next_code_point(text, pos), c);
    EXPECT_EQ(pos, text.size());
    EXPECT_EQ(count_code_points(text), 1);
  }
}

TEST(ChatTemplateText, ChangesCase) {
  EXPECT_EQ(to_upper("aß ﬁ éàÿ ŉ ǆ ա 𐐨"), "ASS FI ÉÀŸ ʼN Ǆ Ա 𐐀");
  EXPECT_EQ(to_lower("ÀÉ Ÿ Ǆ Ա 𐐀 ΑΣ ΑΣΑ Σ"), "àé ÿ ǆ ա 𐐨 ας ασα σ");
  EXPECT_EQ(capitalize("ǆaB"), "ǅab");
  EXPECT_EQ(title_words("they're éa-b 1a"), "They'Re Éa-B 1A");
  EXPECT_EQ(title_filter("they're éa-b (x 1a"), "They're Éa-B (X 1a");
  EXPECT_TRUE(is_upper("ÉA 1"));
  EXPECT_FALSE(is_upper("Éa"));
  EXPECT_FALSE(is_lower("12"));
}

TEST(ChatTemplateText, StripsWhiteSpaceOfUnicode) {
  EXPECT_EQ(strip("\u00a0 \u3000a b\u2028\x1f"), "a b");
  EXPECT_EQ(strip("éaé", "é", Side::kLeft), "aé");
  EXPECT_EQ(strip("xyaxy", "yx", Side::kBoth), "a");
}

TEST(ChatTemplateText, Splits) {
  EXPECT_EQ(split("a--b--c", "--", 1), (Parts{"a", "b--c"}));
  EXPECT_EQ(rsplit("a--b--c", "--", 1), (Parts{"a--b", "c"}));
  EXPECT_EQ(rsplit("aaa", "aa", -1), (Parts{"a", ""}));
  EXPECT_EQ(split_space(" a  b c ", 1, false), (Parts{"a", "b c "}));
  EXPECT_EQ(split_space(" a  b c ", 1, true), (Parts{" a  b", "c"}));
  EXPECT_EQ(split_lines("a\r\nb\u2028c\n", false), (Parts{"a", "b", "c"}));
  EXPECT_EQ(split_lines("a\r\nb", true), (Parts{"a\r\n", "b"}));
}

TEST(ChatTemplateText, Quotes) {
  EXPECT_EQ(quote("it's"), "\"it's\"");
  EXPECT_EQ(quote("it's \"x\""), "'it\\'s \"x\"'");
  EXPECT_EQ(quote("\n\\\x01\x7f\u00ad\u200b\U000e0001é"),
            "'\\n\\\\\\x01\\x7f\\xad\\u200b\\U000e0001é'");
}

TEST(ChatTemplateText, ReadsNumbers) {
  int64_t integer = 0;
  EXPECT_EQ(parse_integer(" -1_000 ", 10, integer), NumberParse::kOk);
  EXPECT_EQ(integer, -1000);
  EXPECT_EQ(parse_integer("-9223372036854775808", 10, integer), NumberParse::kOk);
  EXPECT_EQ(parse_integer("9223372036854775808", 10, integer), NumberParse::kOutOfRange);
  EXPECT_EQ(parse_integer("0xFf", 0, integer), NumberParse::kOk);
  EXPECT_EQ(integer, 255);
  for (const char* text : {"", "-", "1__0", "_1", "1_", "1.0", "0x", "12a", "- 1"}) {
    EXPECT_EQ(parse_integer(text, 10, integer), NumberParse::kNoNumber) << text;
  }
  double real = 0;
  for (const char* text : {"", ".", "1e", "e5", "1__0.0", "0x1p3", "1.5f", "infin"}) {
    EXPECT_FALSE(parse_float(text, real)) << text;
  }
  EXPECT_TRUE(parse_float(" -1_0.5e-1 ", real));
  EXPECT_EQ(real, -1.05);
}

TEST(ChatTemplateText, WritesFloats) {
  EXPECT_EQ(format_float(1), "1.0");
  EXPECT_EQ(format_float(1e16), "1e+16");
  EXPECT_EQ(format_float(9999999999999998.0), "9999999999999998.0");
  EXPECT_EQ(format_float(1e-5), "1e-05");
  EXPECT_EQ(format_float(0.0001), "0.0001");
  EXPECT_EQ(format_float(5e-324), "5e-324");
  EXPECT_EQ(format_float(-0.0), "-0.0");
}

}  // namespace
}  // namespace tw::models::chat_template
