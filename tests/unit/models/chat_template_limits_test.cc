// Hostile templates and variables: each must end in an Error, soon and with little memory.
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/models/chat_template/chat_template.h"

namespace tw::models {
namespace {

using nlohmann::ordered_json;

/// The message of the Error{kInvalidArgument} that `source` must give.
std::string refusal(std::string_view source, const ordered_json& variables = ordered_json::object(),
                    const ChatTemplateLimits& limits = {}) {
  try {
    const std::string text = ChatTemplate(source, "t", limits).render(variables);
    ADD_FAILURE() << "rendered " << text.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return {};
}

std::string repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

#define EXPECT_REFUSED(words, ...) \
  EXPECT_NE(refusal(__VA_ARGS__).find(words), std::string::npos) << refusal(__VA_ARGS__)

TEST(ChatTemplateLimits, Time) {
  EXPECT_REFUSED("too",  // long or much memory, whichever limit its lists meet first
                 "{% for a in range(99999) %}{% for b in range(999) %}{% endfor %}{% endfor %}");
  // Shared values double at every level: comparing and writing them would take 2^60 steps.
  const std::string doubled =
      "{% set ns = namespace(x=[], y=[]) %}{% for i in range(60) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  EXPECT_REFUSED("too long", doubled + "{{ ns.x == ns.y }}");
  EXPECT_REFUSED("too ", doubled + "{{ ns.x }}");
  EXPECT_REFUSED("too ", doubled + "{{ ns.x | tojson }}");
  const std::string tuples =
      "{% set ns = namespace(x=()) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}"
      "{% endfor %}";
  EXPECT_REFUSED("too long", tuples + "{{ {ns.x: 1} }}");
  EXPECT_REFUSED("too long", tuples + "{{ [ns.x, ns.x] | unique | list }}");
}

TEST(ChatTemplateLimits, SearchesAreLinear) {
  const ordered_json variables = {{"a", std::string(1 << 20, 'a')},
                                  {"b", std::string(1 << 19, 'a') + "b"}};
  EXPECT_EQ(ChatTemplate("{{ a.find(b) }}{{ b in a }}{{ a.rfind('b' ~ b) }}{{ a.count(b) }}"
                         "{{ a.split(b) | length }}{{ a.rsplit(b) | length }}")
                .render(variables),
            "-1False-1011");
  const ordered_json sigmas = {{"s", repeat("Σ", 100000)}};
  EXPECT_EQ(ChatTemplate("{{ s.lower() | length }}").render(sigmas), "100000");
}

TEST(ChatTemplateLimits, Memory) {
  EXPECT_REFUSED("too much memory", "{{ 'a' * 9223372036854775807 }}");
  EXPECT_REFUSED("too much memory", "{{ [1] * 999999999999 }}");
  EXPECT_REFUSED("too much memory",
                 "{% set ns = namespace(s='ab') %}{% for i in range(60) %}"
                 "{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
  // Not more occurrences: AddressSanitizer's memmem looks over all of the rest for each.
  EXPECT_REFUSED("too much memory", "{{ ('a' * 99999).replace('a', 'b' * 9999999) }}");
  EXPECT_REFUSED("too much memory", "{{ ('a\n' * 999999) | indent(999999) }}");
  EXPECT_REFUSED("too much memory", "{{ [[1]] | tojson(indent=999999999999) }}");
  EXPECT_REFUSED("too much memory", "{{ ('x' * 9999999).join(range(99999) | map('string')) }}");
  EXPECT_REFUSED("too much memory", "{{ range(99999) | join('x' * 9999999) }}");
  EXPECT_REFUSED("too much memory",
                 "{% set b = 'x' * 99999 %}{% for i in range(99999) %}{{ b }}{% endfor %}");
  ChatTemplateLimits small;
  small.bytes = 1000;
  EXPECT_REFUSED("too much memory", "{{ s }}", {{"s", std::string(2000, 'x')}}, small);
}

TEST(ChatTemplateLimits, Ranges) {
  EXPECT_REFUSED("100000", "{{ range(100001) }}");
  EXPECT_REFUSED("too large", "{{ range(-9223372036854775807, 9223372036854775807) }}");
}

TEST(ChatTemplateLimits, NestingOfTheSource) {
  for (const auto& [open, close] : {std::pair("(", ")"),
                                    {"[", "]"},
                                    {"{1:", "}"},
                                    {"-", ""},
                                    {"not ", ""},
                                    {"x[", "]"},
                                    {"f(", ")"},
                                    {"1 if 1 else ", ""}}) {
    EXPECT_REFUSED("deeper", "{{ " + repeat(open, 10000) + "1" + repeat(close, 10000) + " }}");
  }
  for (const char* chain :
       {" + 1", " and 1", " or 1", ".x", "[0]", "()", "|abs", " is odd", "**1"}) {
    EXPECT_NE(refusal("{{ 1" + repeat(chain, 10000) + " }}"), "") << chain;
  }
  EXPECT_REFUSED("deeper", repeat("{% if 1 %}", 10000) + repeat("{% endif %}", 10000));
  EXPECT_NE(refusal(repeat("{% for x in y %}", 10000)), "");
  EXPECT_NE(refusal(repeat("{% macro f() %}", 10000)), "");
}

TEST(ChatTemplateLimits, NestingOfCalls) {
  EXPECT_REFUSED("deeper", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  EXPECT_REFUSED("deeper",
                 "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}"
                 "{{ f() }}");
  // A string's characters are strings again: each argument is a level of recursion.
  EXPECT_REFUSED("deeper", "{{ 'a' | map(*(['map'] * 999)) | list }}");
}

TEST(ChatTemplateLimits, NestingOfValues) {
  EXPECT_REFUSED("nested deeper",
                 "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}"
                 "{% endfor %}");
  ordered_json deep = ordered_json::array();
  for (int i = 0; i < 200; ++i) deep = ordered_json::array({deep});
  EXPECT_REFUSED("nested deeper", "{{ x }}", {{"x", deep}});
  EXPECT_REFUSED("no text",
                 "{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self.self.self }}");
}

TEST(ChatTemplateLimits, SizeAndEncoding) {
  EXPECT_REFUSED("exceed the limit", std::string((1 << 18) + 1, 'x'));
  EXPECT_EQ(refusal("ab\xff"), "t: not valid UTF-8 at byte 2");
  EXPECT_REFUSED("not valid UTF-8", "\xed\xa0\x80");
  EXPECT_REFUSED("not valid UTF-8", "\xc0\x80");
  EXPECT_REFUSED("not valid UTF-8 at byte 1", "{{ s }}", {{"s", "a\xe9z"}});
  EXPECT_REFUSED("lone surrogate", "{{ '\\ud800' }}");
  EXPECT_REFUSED("not a JSON object", "x", ordered_json::array());
}

TEST(ChatTemplateLimits, Arguments) {
  std::string names;
  for (int i = 0; i < 300; ++i) names += "a" + std::to_string(i) + "=1,";
  EXPECT_REFUSED("too many arguments", "{{ dict(" + names + ") }}");
  EXPECT_REFUSED("too many parameters", "{% macro f(" + names + ") %}{% endmacro %}");
}

TEST(ChatTemplateLimits, ManyVariablesAreNoTrap) {
  std::string source;
  for (int i = 0; i < 15000; ++i) source += "{%set v" + std::to_string(i) + "=1%}";
  source += "{% for i in range(99999) %}{{ v14999 }}{% endfor %}";
  EXPECT_REFUSED("too long", source);
}

}  // namespace
}  // namespace tw::models
