// The pieces that tokenizers are put together from.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/models/vocabulary.h"
#include "tilewright/models/tokenizer/byte_map.h"
#include "tilewright/models/tokenizer/character_classes.h"
#include "tilewright/models/tokenizer/merge_table.h"
#include "tilewright/models/tokenizer/normalize.h"
#include "tilewright/models/tokenizer/pre_tokenizer.h"
#include "tilewright/models/tokenizer/sentence_piece.h"
#include "tilewright/models/tokenizer/special_matcher.h"
#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {
namespace {

using Kind = Utf8Step::Kind;
using Pieces = std::vector<std::string_view>;

std::string utf8(char32_t code) {
  std::string out;
  append_utf8(out, code);
  return out;
}

TEST(TokenizerUtf8, EveryScalarValueComesBack) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    const std::string text = utf8(code);
    const Utf8Step step = next_utf8(text);
    ASSERT_EQ(step.kind, Kind::kCharacter) << std::hex << uint32_t(code);
    ASSERT_EQ(step.code, code);
    ASSERT_EQ(step.bytes, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Step part = next_utf8(std::string_view(text).substr(0, cut));
      ASSERT_EQ(part.kind, Kind::kCutShort);
      ASSERT_EQ(part.bytes, cut);
    }
  }
}

TEST(TokenizerUtf8, MalformedBytesEndAtTheLongestPrefixOfACharacter) {
  const auto check = [](std::string_view text, int bytes) {
    const Utf8Step step = next_utf8(text);
    EXPECT_EQ(step.kind, Kind::kMalformed) << text;
    EXPECT_EQ(int(step.bytes), bytes) << text;
  };
  check("\x80", 1);
  check("\xC0\x80", 1);  // overlong
  check("\xC1\xBF", 1);
  check("\xE0\x9F\xBF", 1);      // overlong
  check("\xED\xA0\x80", 1);      // surrogate
  check("\xF0\x8F\xBF\xBF", 1);  // overlong
  check("\xF4\x90\x80\x80", 1);  // above U+10FFFF
  check("\xF5\x80\x80\x80", 1);
  check("\xFF", 1);
  check("\xC3(", 1);
  check("\xE2\x82(", 2);
  check("\xF0\x9F\x98(", 3);
  EXPECT_EQ(well_formed_prefix("a\xC3\xA9\xF0\x9F\x98\x80\xFFz"), 7u);
  EXPECT_EQ(well_formed_prefix("abc"), 3u);
  EXPECT_EQ(well_formed_prefix("\xE2\x82"), 0u);
}

TEST(TokenizerByteMap, SpellsEveryByteAsItsOwnCharacter) {
  EXPECT_EQ(byte_character(' '), U'\u0120');
  EXPECT_EQ(byte_character('\n'), U'\u010A');
  EXPECT_EQ(byte_character('!'), U'!');
  EXPECT_EQ(byte_character(0xAD), U'\u0143');
  std::set<char32_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    seen.insert(byte_character(uint8_t(byte)));
    EXPECT_EQ(character_byte(byte_character(uint8_t(byte))), byte);
  }
  EXPECT_EQ(seen.size(), 256u);
  EXPECT_EQ(character_byte(U' '), -1);
  EXPECT_EQ(character_byte(U'\u0144'), -1);
  EXPECT_EQ(character_byte(U'\U0001F600'), -1);
}

TEST(TokenizerByteMap, TextThatSpellsNoBytesStaysAsItIs) {
  std::string out = "x";
  append_spelled(out, " a\xFF");
  EXPECT_EQ(out, "xĠaÿ");
  std::string bytes = "x";
  append_unspelled(bytes, "Ġaÿ");
  EXPECT_EQ(bytes, "x a\xFF");
  append_unspelled(bytes, "Ġ Ġ");  // a space spells nothing
  EXPECT_EQ(bytes, "x a\xFFĠ Ġ");
  append_unspelled(bytes, "\xFF");
  EXPECT_EQ(bytes, "x a\xFFĠ Ġ\xFF");
}

TEST(TokenizerByteTokens, AreTwoHexadecimalDigits) {
  EXPECT_EQ(byte_of_token("<0x00>"), 0);
  EXPECT_EQ(byte_of_token("<0xFF>"), 255);
  EXPECT_EQ(byte_of_token("<0xab>"), 171);
  for (const char* text :
       {"", "<0x0>", "<0x000>", "<0xG0>", "<0x-1>", "<0x 1>", "<0x0G>", "0x00"}) {
    EXPECT_EQ(byte_of_token(text), -1) << text;
  }
}

// A table of texts, and a matcher for all of them.
struct Specials {
  explicit Specials(const std::vector<std::string>& texts, const std::set<int32_t>& always = {})
      : table(Vocabulary::packed(texts, bytes), {}), matcher(table) {
    for (int32_t id = 0; id < int32_t(texts.size()); ++id) matcher.add(id, always.contains(id));
    matcher.sort();
  }
  std::vector<std::byte> bytes;
  TokenTable table;
  SpecialMatcher matcher;
};

TEST(TokenizerSpecialMatcher, FindsTheLeftmostThenTheLongest) {
  const std::vector<std::string> texts = {"ab", "abcd", "bc", "abcde!", "", "\xFF\xFE"};
  const Specials specials(texts);
  const auto check = [&](std::string_view text, size_t from, size_t start, int32_t id) {
    const auto match = specials.matcher.find(text, from, true);
    EXPECT_EQ(match.id, id) << text;
    if (id < 0) return;
    EXPECT_EQ(match.start, start) << text;
    EXPECT_EQ(match.bytes, texts[size_t(id)].size()) << text;
  };
  check("xxabcdx", 0, 2, 1);
  check("xxabcd", 0, 2, 1);
  check("xxabc", 0, 2, 0);
  check("xxabcde", 0, 2, 1);
  check("xxabcde!", 0, 2, 3);
  check("xxabcde!", 3, 3, 2);
  check("a\xFF\xFE", 0, 1, 5);
  check("xyz", 0, 0, -1);
  check("", 0, 0, -1);
  check("ab", 2, 0, -1);
  EXPECT_EQ(Specials({}).matcher.find("anything", 0, true).id, -1);

  const Specials zeros({"x", std::string("x\0", 2)});
  EXPECT_EQ(zeros.matcher.find(std::string("ax\0", 3), 0, true).id, 1);
}

TEST(TokenizerSpecialMatcher, SomeAreAlwaysFound) {
  const Specials specials({"ab", "abc", "abcd", "x"}, {1});
  const auto find = [&](std::string_view text, bool all) {
    return specials.matcher.find(text, 0, all);
  };
  EXPECT_EQ(find("xabcd", false).id, 1);
  EXPECT_EQ(find("xabcd", false).start, 1u);
  EXPECT_EQ(find("xabcd", true).id, 3);
  EXPECT_EQ(find("abcd", true).id, 2);
  EXPECT_EQ(find("x ab", false).id, -1);
}

// Against a list of the lines: every pair, in vocabularies of which the table's buckets see all
// kinds of ids, with lines that come again.
TEST(TokenizerMergeTable, FindsTheLastRankOfEveryPair) {
  std::mt19937 random(1);
  std::vector<std::string> texts;
  for (char a = 'a'; a <= 'f'; ++a) texts.push_back({a});
  const size_t letters = texts.size();
  for (size_t i = 0; i < letters; ++i)
    for (size_t j = 0; j < letters; ++j) texts.push_back(texts[i] + texts[j]);
  const size_t pairs = texts.size();
  for (size_t i = 0; i < pairs; ++i)
    if (texts[i].size() == 2)
      for (size_t j = 0; j < pairs; ++j)
        if (texts[j].size() == 2) texts.push_back(texts[i] + texts[j]);
  std::shuffle(texts.begin(), texts.end(), random);
  std::vector<std::byte> token_bytes;
  const TokenTable tokens(Vocabulary::packed(texts, token_bytes), {});
  for (const size_t count : {0u, 1u, 7u, 100u, 3000u}) {
    std::vector<std::string> lines;
    std::map<std::pair<int32_t, int32_t>, std::pair<uint32_t, int32_t>> want;
    while (lines.size() < count) {
      const std::string& joined = texts[random() % texts.size()];
      if (joined.size() < 2) continue;
      const std::string left = joined.substr(0, joined.size() / 2);
      const std::string right = joined.substr(joined.size() / 2);
      want[{tokens.find(left), tokens.find(right)}] = {lines.size(), tokens.find(joined)};
      lines.push_back(left + " " + right);
    }
    std::vector<std::byte> merge_bytes;
    const MergeTable table(Vocabulary::packed(lines, merge_bytes), tokens);
    for (int32_t left = 0; left < int32_t(texts.size()); ++left) {
      for (int32_t right = 0; right < int32_t(texts.size()); ++right) {
        const auto at = want.find({left, right});
        const Merge found = table.find(left, right);
        if (at == want.end()) {
          ASSERT_EQ(found.rank, Merge::kNone) << texts[size_t(left)] << " " << texts[size_t(right)];
        } else {
          ASSERT_EQ(std::pair(found.rank, found.joined), at->second);
        }
      }
    }
  }
}

TEST(TokenizerNormalize, ComposesToFormC) {
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("a\u0301\u0316"), "\u00E1\u0316");
  EXPECT_EQ(nfc("a\u0316\u0301"), "\u00E1\u0316");
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "\uD55C");    // Hangul
  EXPECT_EQ(nfc("\u212B\u2126"), "\u00C5\u03A9");    // singletons
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");          // excluded from composition
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");  // order of marks
  EXPECT_EQ(nfc("\U0001D15E"), "\U0001D157\U0001D165");
  EXPECT_EQ(nfc("\uFB01 x\uFFFF\U0010FFFF"), "\uFB01 x\uFFFF\U0010FFFF");
  EXPECT_EQ(nfc(""), "");
  EXPECT_TRUE(is_below_combining_marks("plain \u00E9 \u02FF"));
  EXPECT_FALSE(is_below_combining_marks("e\u0301"));
}

TEST(TokenizerNormalize, LongRunsOfMarksTakeNoQuadraticTime) {
  std::string text = "q", want = "q";
  constexpr int kMarks = 200'000;
  for (int i = 0; i < kMarks; ++i) text += "\u0307\u0323";
  for (int i = 0; i < kMarks; ++i) want += "\u0323";
  for (int i = 0; i < kMarks; ++i) want += "\u0307";
  EXPECT_EQ(nfc(text), want);
}

Pieces split(const char* pattern, std::string_view text) {
  return PreTokenizer({.names = {}, .patterns = {pattern}}).split(text);
}

TEST(TokenizerPreTokenizer, ClassesAreThoseOfUnicode16) {
  EXPECT_EQ(expand_classes(R"(\\s\pL[a\s])").substr(0, 8), R"(\\s\pL[a)");
  int spaces = 0;
  for (char32_t code = 0; code < 0x3100; ++code) {
    if (code == 0) continue;
    spaces += split(R"(\s)", "x" + utf8(code) + "x").size() == 3;
  }
  EXPECT_EQ(spaces, 25);
  const std::string inside = "a\u180E\U00031350\U0001E030b";  // a format character, two letters
  EXPECT_EQ(split(R"(\p{L}+)", inside), (Pieces{"a", "\u180E", "\U00031350\U0001E030b"}));
  EXPECT_EQ(split(R"([^\p{L}\p{N}])", "a\u180E1"), (Pieces{"a", "\u180E", "1"}));
  EXPECT_EQ(split(R"(x(?!\S))", "xxx y"), (Pieces{"xx", "x", " y"}));
}

TEST(TokenizerPreTokenizer, CutsAsItsFamilyDoes) {
  const auto cut = [](const char* name, std::string_view text) {
    const PreTokenizerSpec* spec = find_pre_tokenizer(name);
    EXPECT_NE(spec, nullptr) << name;
    return PreTokenizer(*spec).split(text);
  };
  const std::string_view text = "I'm  1234\n\n x'LL";
  EXPECT_EQ(cut("gpt-2", text), (Pieces{"I", "'m", " ", " 1234", "\n\n", " x", "'", "LL"}));
  EXPECT_EQ(cut("smollm", text),
            (Pieces{"I", "'m", "  ", "1", "2", "3", "4", "\n\n", " x", "'", "LL"}));
  EXPECT_EQ(cut("llama-bpe", text), (Pieces{"I", "'m", " ", " ", "123", "4", "\n\n", " x", "'LL"}));
  EXPECT_EQ(cut("qwen2", text),
            (Pieces{"I", "'m", " ", " ", "1", "2", "3", "4", "\n\n", " x", "'LL"}));
  EXPECT_EQ(cut("tekken", "HTTPServer's URL"), (Pieces{"HTTPServer", "'s", " URL"}));
  EXPECT_EQ(cut("gpt-4o", "myURL's aB"), (Pieces{"my", "URL's", " a", "B"}));
  EXPECT_EQ(find_pre_tokenizer("no such"), nullptr);
  EXPECT_EQ(find_pre_tokenizer(""), find_pre_tokenizer("gpt-2"));
}

TEST(TokenizerPreTokenizer, PiecesJoinToTheText) {
  std::mt19937 random(7);
  const std::u32string letters = U"aB1 \t\n\r'sſéß日\u0301\u180E\u3000.<|>/٣½Ⅳ\U0001F600\U00031350";
  std::set<std::string_view> names;
  for (const PreTokenizerSpec& spec : pre_tokenizers()) {
    for (const std::string_view name : spec.names) EXPECT_TRUE(names.insert(name).second) << name;
    const PreTokenizer pre_tokenizer(spec);
    EXPECT_TRUE(pre_tokenizer.split("").empty());
    for (int round = 0; round < 300; ++round) {
      std::string text, joined;
      for (int i = 0; i < round % 40; ++i) append_utf8(text, letters[random() % letters.size()]);
      for (const std::string_view piece : pre_tokenizer.split(text)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text) << spec.names[0];
    }
  }
}

// Each of these makes some expression scan far ahead before it fails. Were that repeated at every
// position, a run would take hours.
TEST(TokenizerPreTokenizer, HostileTextsTakeLinearTime) {
  constexpr size_t kBytes = 200'000;
  for (const PreTokenizerSpec& spec : pre_tokenizers()) {
    const PreTokenizer pre_tokenizer(spec);
    for (const std::string_view unit :
         {" ", "A", "a", "1", ".", "\n", " \n", "' ", "\u0301", "日"}) {
      for (const std::string_view end : {"", "x", "\n", " "}) {
        std::string text;
        while (text.size() < kBytes) text += unit;
        text += end;
        EXPECT_FALSE(pre_tokenizer.split(text).empty());
      }
    }
  }
}

}  // namespace
}  // namespace tw::models
