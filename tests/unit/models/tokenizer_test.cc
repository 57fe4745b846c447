// Tokenizers of small vocabularies written here.
#include "tilewright/models/tokenizer/tokenizer.h"

#include <cmath>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/models/vocabulary.h"
#include "tilewright/models/tokenizer/byte_map.h"
#include "tilewright/models/tokenizer/stream_decoder.h"
#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {
namespace {

using Ids = std::vector<int32_t>;

std::string spelled(std::string_view bytes) {
  std::string out;
  append_spelled(out, bytes);
  return out;
}

// A byte-level vocabulary: bytes 0..255, then what the merges make, then special tokens.
Vocabulary byte_level(const std::vector<std::pair<std::string, std::string>>& merges,
                      const std::vector<std::string>& control = {},
                      const std::vector<std::string>& user_defined = {}) {
  Vocabulary data;
  data.model = "gpt2";
  for (int byte = 0; byte < 256; ++byte) data.tokens.push_back(spelled(std::string(1, char(byte))));
  for (const auto& [left, right] : merges) {
    data.tokens.push_back(spelled(left + right));
    data.merges.push_back(spelled(left) + " " + spelled(right));
  }
  data.types.assign(data.tokens.size(), int32_t(TokenType::kNormal));
  for (const std::string& text : control) {
    data.tokens.push_back(text);
    data.types.push_back(int32_t(TokenType::kControl));
  }
  for (const std::string& text : user_defined) {
    data.tokens.push_back(text);
    data.types.push_back(int32_t(TokenType::kUserDefined));
  }
  return data;
}

// A SentencePiece vocabulary: <unk> <s> </s>, bytes if asked for, then the pieces, best first.
Vocabulary sentence_pieces(const std::vector<std::string>& pieces, bool bytes) {
  Vocabulary data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "</s>"};
  data.types = {int32_t(TokenType::kUnknown), int32_t(TokenType::kControl),
                int32_t(TokenType::kControl)};
  for (int byte = 0; bytes && byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", unsigned(byte));
    data.tokens.emplace_back(text);
    data.types.push_back(int32_t(TokenType::kByte));
  }
  data.tokens.insert(data.tokens.end(), pieces.begin(), pieces.end());
  data.types.resize(data.tokens.size(), int32_t(TokenType::kNormal));
  for (size_t i = 0; i < data.tokens.size(); ++i) data.scores.push_back(-float(i));
  data.bos_token_id = 1;
  data.eos_token_id = 2;
  return data;
}

std::string random_bytes(std::mt19937& random, int size) {
  std::string out;
  while (int(out.size()) < size) {
    switch (random() % 4) {
      case 0:
        out += char(random());
        break;
      case 1:
        append_utf8(out, char32_t(random() % 0xD800));
        break;
      case 2:
        append_utf8(out, char32_t(0x10000 + random() % 0x100000));
        break;
      default:
        out += char(' ' + random() % 95);
    }
  }
  return out;
}

TEST(TokenizerBytePair, JoinsTheLowestRankFirstAndOfThoseTheLeftmost) {
  const Tokenizer tokenizer(byte_level({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"a", "bc"}}));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{259}));  // a+(b+c), not (a+b)+c
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{257}));
  EXPECT_EQ(tokenizer.encode("aaa"), (Ids{258, 'a'}));
  EXPECT_EQ(tokenizer.encode("aabc"), (Ids{258, 256}));  // a+a has a lower rank than a+bc
  EXPECT_EQ(tokenizer.encode("ab c"), (Ids{257, ' ', 'c'}));
  EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(TokenizerBytePair, AWordThatIsATokenStaysWholeWhereTheFamilySaysSo) {
  Vocabulary data = byte_level({{"a", "b"}});
  data.tokens.push_back("abab");  // no merge makes it
  data.types.push_back(int32_t(TokenType::kNormal));
  for (const auto& [name, want] : {std::pair{"gpt-2", Ids{256, 256}}, {"llama-bpe", Ids{257}}}) {
    data.pre = name;
    EXPECT_EQ(Tokenizer(data).encode("abab"), want) << name;
  }
}

TEST(TokenizerBytePair, AnyBytesComeBack) {
  std::mt19937 random(1);
  Vocabulary data = byte_level({{"\xC3", "\xA9"}, {"\xF0", "\x9F"}, {" ", " "}, {"\xFF", "\xFE"}});
  for (const char* name : {"gpt-2", "smollm", "llama-bpe", "deepseek-r1-qwen", "tekken"}) {
    data.pre = name;
    const Tokenizer tokenizer(data);
    for (int round = 0; round < 500; ++round) {
      const std::string text = random_bytes(random, round % 50);
      std::string bytes;
      for (const int32_t id : tokenizer.encode(text)) bytes += tokenizer.token_bytes(id);
      ASSERT_EQ(bytes, text) << name;
      if (well_formed_prefix(text) == text.size()) {
        ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << name;
      }
    }
  }
}

TEST(TokenizerBytePair, QwenTextIsComposedFirst) {
  Vocabulary data = byte_level({});
  data.pre = "qwen2";
  EXPECT_EQ(Tokenizer(data).encode("e\u0301\xFF"), (Ids{0xC3, 0xA9, 0xFF}));
}

TEST(TokenizerBytePair, BytesWithoutATokenAreLeftOut) {
  Vocabulary data;
  data.model = "gpt2";
  data.tokens = {"a", "b", "ab"};
  data.merges = {"a b"};
  EXPECT_EQ(Tokenizer(data).encode("a?b ab"), (Ids{0, 1, 2}));
}

TEST(TokenizerBytePair, OneWordOfAMegabyteTakesNoQuadraticTime) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::string half = "a"; half.size() < 1024; half += half) merges.push_back({half, half});
  const Tokenizer tokenizer(byte_level(merges));
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(tokenizer.encode(text), Ids(1024, int32_t(255 + merges.size())));
}

TEST(TokenizerSpecial, ControlTokensAreReadOnlyWhenAskedFor) {
  Vocabulary data = byte_level({}, {"<s>", "</s>", "<s>x"}, {"ab"});
  data.bos_token_id = 256;
  data.eos_token_id = 257;
  data.add_bos_token = true;
  data.add_eos_token = true;
  const Tokenizer tokenizer(data);
  EXPECT_EQ(tokenizer.encode("<s>"), (Ids{256, '<', 's', '>', 257}));
  EXPECT_EQ(tokenizer.encode("<s>", {.add_special = false}), (Ids{'<', 's', '>'}));
  const EncodeOptions parse = {.add_special = false, .parse_special = true};
  EXPECT_EQ(tokenizer.encode("<s>a<s>xb<", parse), (Ids{256, 'a', 258, 'b', '<'}));
  EXPECT_EQ(tokenizer.encode("xab", {.add_special = false}), (Ids{'x', 259}));

  const Ids ids = {256, 'a', 259, 257};
  EXPECT_EQ(tokenizer.decode(ids), "<s>aab</s>");
  EXPECT_EQ(tokenizer.decode(ids, true), "aab");
  EXPECT_TRUE(tokenizer.is_special(256));
  EXPECT_FALSE(tokenizer.is_special(259));
  EXPECT_EQ(tokenizer.type(259), TokenType::kUserDefined);
}

TEST(TokenizerSpecial, RolesOfTokens) {
  Vocabulary data = byte_level({}, {"<s>", "<|im_end|>", "<|endoftext|>"});
  Tokenizer tokenizer(data);
  EXPECT_EQ(tokenizer.bos_id(), -1);
  EXPECT_EQ(tokenizer.eos_id(), -1);
  EXPECT_EQ(tokenizer.eot_id(), 257);  // by its name
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(Ids(tokenizer.text_ends().begin(), tokenizer.text_ends().end()), (Ids{257, 258}));

  data.pre = "llama-bpe";  // whose files do not say that they want it
  data.bos_token_id = data.eos_token_id = 256;
  tokenizer = Tokenizer(data);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.encode("a"), (Ids{256, 'a'}));
  EXPECT_TRUE(tokenizer.ends_text(256));
  EXPECT_TRUE(tokenizer.ends_text(257));
  EXPECT_FALSE(tokenizer.ends_text('a'));
  EXPECT_EQ(tokenizer.find("<|im_end|>"), 257);
  EXPECT_EQ(tokenizer.find("<|im_end|"), -1);
  EXPECT_EQ(tokenizer.token_text(257), "<|im_end|>");
}

TEST(TokenizerSentencePiece, JoinsTheBestScoreFirst) {
  const Tokenizer tokenizer(sentence_pieces({"▁", "a", "b", "c", "bc", "ab", "▁ab", "abc"}, false));
  const EncodeOptions plain = {.add_special = false};
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{1, 3, 10}));  // b+c before a+b, then a+bc
  EXPECT_EQ(tokenizer.encode("ab", plain), (Ids{9}));
  EXPECT_EQ(tokenizer.encode(" ab", plain), (Ids{3, 9}));
  EXPECT_EQ(tokenizer.encode("xyz", plain), (Ids{3, 0}));  // one unknown for the run
  EXPECT_EQ(tokenizer.encode("xa\xFFy", plain), (Ids{3, 0, 4, 0}));
  EXPECT_TRUE(tokenizer.encode("", plain).empty());
  EXPECT_EQ(tokenizer.decode(Ids{1, 9, 3, 5}, true), "ab b");
  EXPECT_EQ(tokenizer.decode(Ids{9, 0}), "ab<unk>");

  const Tokenizer doubles(sentence_pieces({"▁", "a", "aa"}, false));
  EXPECT_EQ(doubles.encode("aaa", plain), (Ids{3, 5, 4}));  // of equal scores the leftmost
}

TEST(TokenizerSentencePiece, CharactersWithoutAPieceBecomeBytes) {
  Vocabulary data = sentence_pieces({"▁", "a"}, true);
  data.add_space_prefix = false;
  const Tokenizer tokenizer(data);
  const auto byte = [](int value) { return int32_t(3 + value); };
  const EncodeOptions plain = {.add_special = false};
  EXPECT_EQ(tokenizer.encode("aé\xFF", plain), (Ids{260, byte(0xC3), byte(0xA9), byte(0xFF)}));
  EXPECT_EQ(tokenizer.encode(" <0x41>", plain).size(), 7u);  // the text of a byte token is text
  EXPECT_EQ(tokenizer.decode(Ids{byte(0xC3), byte(0xA9), byte(0xFF), 260}), "é\uFFFDa");
  EXPECT_EQ(tokenizer.decode(Ids{byte(0xE2), byte(0x82), 260}), "\uFFFD\uFFFDa");
}

TEST(TokenizerSentencePiece, OneWordOfAMegabyteTakesNoQuadraticTime) {
  std::vector<std::string> pieces;
  for (std::string piece = "a"; piece.size() <= 1024; piece += piece) pieces.push_back(piece);
  Vocabulary data = sentence_pieces(pieces, false);
  data.add_space_prefix = false;
  const Tokenizer tokenizer(data);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a'), {.add_special = false}),
            Ids(1024, int32_t(2 + pieces.size())));
}

TEST(TokenizerStream, GivesWholeCharactersAsSoonAsTheyAreCertain) {
  const Tokenizer tokenizer(byte_level({}));
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "\U0001F600");
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push('b'), "\uFFFDb");
  EXPECT_EQ(decoder.push(0xFF), "\uFFFD");
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push(0x82), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(TokenizerStream, DropsTheSpacePrefixOnlyAtTheStart) {
  const Tokenizer tokenizer(sentence_pieces({"▁", "a", "▁a"}, true));
  StreamDecoder decoder(tokenizer, {.skip_special = true});
  EXPECT_EQ(decoder.push(1), "");
  EXPECT_EQ(decoder.push(261), "a");
  EXPECT_EQ(decoder.push(261), " a");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push(261), "a");
  StreamDecoder middle(tokenizer, {.at_start = false});
  EXPECT_EQ(middle.push(261), " a");
}

TEST(TokenizerStream, JoinsToTheDecodedText) {
  std::mt19937 random(2);
  const Tokenizer tokenizers[] = {Tokenizer(byte_level({{"\xC3", "\xA9"}, {" ", "\xF0"}}, {"<s>"})),
                                  Tokenizer(sentence_pieces({"▁", "a", "▁a"}, true))};
  for (const Tokenizer& tokenizer : tokenizers) {
    for (int round = 0; round < 3000; ++round) {
      Ids ids;
      for (int i = 0; i < round % 12; ++i) {
        ids.push_back(int32_t(random() % uint32_t(tokenizer.vocab_size())));
      }
      StreamDecoder decoder(tokenizer, {.skip_special = round % 2 == 0});
      std::string text;
      for (const int32_t id : ids) {
        const std::string part = decoder.push(id);
        ASSERT_EQ(well_formed_prefix(part), part.size());
        text += part;
      }
      text += decoder.finish();
      ASSERT_EQ(text, tokenizer.decode(ids, round % 2 == 0));
    }
  }
}

TEST(TokenizerThreads, EncodeAtOnce) {
  const Tokenizer tokenizer(byte_level({{"a", "b"}, {"ab", "ab"}}));
  const std::string text = "abab ababab \xFF x1234 abab";
  const Ids want = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::vector<Ids> got(4);
  for (Ids& ids : got) {
    threads.emplace_back([&tokenizer, &text, &ids] {
      for (int i = 0; i < 200; ++i) ids = tokenizer.encode(text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_EQ(ids, want);
}

// What() of the error that `data` gives; empty if it gives none.
std::string complaint(const Vocabulary& data, ErrorKind kind = ErrorKind::kBadFile) {
  try {
    const Tokenizer tokenizer(data);
  } catch (const TokenizerDataError& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

TEST(TokenizerBadData, NamesTheFieldAndTheIndex) {
  const Vocabulary good = byte_level({{"a", "b"}}, {"<s>"});
  EXPECT_EQ(complaint(good), "");
  const auto check = [&](auto change, const std::string& want,
                         ErrorKind kind = ErrorKind::kBadFile) {
    Vocabulary data = good;
    change(data);
    const std::string got = complaint(data, kind);
    EXPECT_TRUE(got.starts_with("tokenizer.ggml." + want)) << got;
  };
  using Data = Vocabulary;
  check([](Data& d) { d.model = "t5"; }, "model: the tokenizer 't5'", ErrorKind::kUnsupported);
  check([](Data& d) { d.pre = "x"; }, "pre: the pre-tokenizer 'x'", ErrorKind::kUnsupported);
  check([](Data& d) { d.tokens.clear(); }, "tokens: the vocabulary is empty");
  check([](Data& d) { d.types.pop_back(); }, "token_type: has 257 entries for 258 tokens");
  check([](Data& d) { d.types[5] = 7; }, "token_type: [5] is 7");
  check([](Data& d) { d.types[5] = -1; }, "token_type: [5] is -1");
  check([](Data& d) { d.scores = {1.0f}; }, "scores: has 1 entries");
  check([](Data& d) { d.tokens[98] = "a"; }, "tokens: [98] 'a' repeats [97]");
  check([](Data& d) { d.tokens[257].resize(2000, 'x'); }, "tokens: [257] has 2000 bytes");
  check([](Data& d) { d.merges.push_back("a ?b"); }, "merges: [1] 'a ?b' needs the token '?b'");
  check([](Data& d) { d.merges.push_back("a c"); }, "merges: [1] 'a c' needs the token 'ac'");
  for (const char* line : {"", " ", "ab", " ab", "ab ", "a b c", "a  b"}) {
    check([&](Data& d) { d.merges.push_back(line); }, "merges: [1] '" + std::string(line) + "' is");
  }
  check([](Data& d) { d.bos_token_id = 258; }, "bos_token_id: is 258, but there are 258 tokens");
  check([](Data& d) { d.eos_token_id = -1; }, "eos_token_id: is -1");
  check([](Data& d) { d.padding_token_id = int64_t(1) << 40; },
        "padding_token_id: is 1099511627776");
  check([](Data& d) { d.eom_token_id = 300; }, "eom_token_id: is 300");
}

TEST(TokenizerBadData, SentencePiecesNeedScoresAndBytes) {
  Vocabulary data = sentence_pieces({"a"}, true);
  EXPECT_EQ(complaint(data), "");
  data.scores[4] = NAN;
  EXPECT_TRUE(complaint(data).starts_with("tokenizer.ggml.scores: [4] is NaN"));
  data.scores.clear();
  EXPECT_TRUE(complaint(data).starts_with("tokenizer.ggml.scores: is missing"));
  data = sentence_pieces({"a"}, true);
  data.tokens[7] = "<0x100>";
  EXPECT_TRUE(complaint(data).starts_with("tokenizer.ggml.tokens: [7] '<0x100>'"));
}

TEST(TokenizerBadData, UnusedTokensMayRepeatOthers) {
  Vocabulary data = byte_level({{"a", "b"}});
  for (int i = 0; i < 3; ++i) {
    data.tokens.push_back("a");
    data.types.push_back(int32_t(TokenType::kUnused));
  }
  const Tokenizer tokenizer(data);
  EXPECT_EQ(tokenizer.encode("a"), (Ids{'a'}));
  EXPECT_EQ(tokenizer.decode(Ids{258}), "a");

  data.types['a'] = int32_t(TokenType::kUnused);  // whichever comes first
  data.types[259] = int32_t(TokenType::kNormal);
  EXPECT_EQ(Tokenizer(data).find("a"), 259);
}

TEST(TokenizerBadData, IdsOutOfRangeAreRefused) {
  const Tokenizer tokenizer(byte_level({}));
  for (const int32_t id : {-1, 256, INT32_MAX, INT32_MIN}) {
    EXPECT_THROW(tokenizer.decode(Ids{id}), Error);
    EXPECT_THROW(tokenizer.token_bytes(id), Error);
    EXPECT_THROW(tokenizer.token_text(id), Error);
    EXPECT_THROW(tokenizer.type(id), Error);
    EXPECT_FALSE(tokenizer.ends_text(id));
  }
}

}  // namespace
}  // namespace tw::models
