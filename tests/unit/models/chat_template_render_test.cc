#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/models/chat_template/chat_template.h"

namespace tw::models {
namespace {

using nlohmann::ordered_json;

std::string render(std::string_view source,
                   const ordered_json& variables = ordered_json::object()) {
  return ChatTemplate(source).render(variables);
}

/// The message of the Error that rendering `source` gives, or what it rendered.
std::string failure(std::string_view source, ErrorKind kind = ErrorKind::kInvalidArgument,
                    const ordered_json& variables = ordered_json::object()) {
  try {
    return "rendered: " + render(source, variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
}

TEST(ChatTemplate, RendersConversations) {
  const ChatTemplate chatml(
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
      "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  const std::vector<Message> messages = {{"system", "Be kind."}, {"user", "Grüße 😀"}};
  const std::string turns =
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nGrüße 😀<|im_end|>\n";
  EXPECT_EQ(apply_chat_template(chatml, messages, false, "<s>", "</s>"), turns);
  EXPECT_EQ(apply_chat_template(chatml, messages, true, "<s>", "</s>"),
            turns + "<|im_start|>assistant\n");
}

TEST(ChatTemplate, PassesTokensAndExtraVariables) {
  const ChatTemplate parsed("{{ bos_token }}{{ eos_token }}{{ tools is none }}{{ extra }}");
  EXPECT_EQ(apply_chat_template(parsed, {}, false, "<s>", "</s>"), "<s></s>True");
  const ordered_json extra = {{"extra", 5}, {"tools", ordered_json::array()}, {"bos_token", "B"}};
  EXPECT_EQ(apply_chat_template(parsed, {}, false, "<s>", "</s>", &extra), "B</s>False5");
  const ordered_json list = ordered_json::array();
  EXPECT_THROW(apply_chat_template(parsed, {}, false, "", "", &list), Error);
}

TEST(ChatTemplate, TrimsBlocksAsTransformersDoes) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(render("a {{- 1 -}} b"), "a1b");
  EXPECT_EQ(render("a\n  {%+ if true +%}\n b{% endif %}"), "a\n  \n b");
  EXPECT_EQ(render("x  {# comment #}\ny"), "x  y");
  EXPECT_EQ(render("{% raw %}{{ x }}{% endraw %}"), "{{ x }}");
  EXPECT_EQ(render("one\r\ntwo\n\n"), "one\ntwo\n");
}

TEST(ChatTemplate, ScopesVariablesAsJinjaDoes) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [2, 3] %}{% set x = i %}{% endfor %}{{ x }}"), "1");
  EXPECT_EQ(render("{% set ns = namespace(x=1) %}{% for i in [2, 3] %}{% set ns.x = i %}"
                   "{% endfor %}{{ ns.x }}"),
            "3");
  EXPECT_EQ(render("{% for i in [1, 2] %}{{ seen }}{% set seen = i %}{% endfor %}"), "");
  EXPECT_EQ(render("{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}"),
            "1112");
}

TEST(ChatTemplate, PrintsLikePython) {
  EXPECT_EQ(render("{{ [1, 2.0, true, none, 'a\\'b', {'k': (1,)}] }}"),
            "[1, 2.0, True, None, \"a'b\", {'k': (1,)}]");
  EXPECT_EQ(render("{{ 1e16 }} {{ 0.1 + 0.2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }}"),
            "1e+16 0.30000000000000004 -4 2 3.5");
  EXPECT_EQ(render("[{{ missing }}{{ none.x }}]"), "[]");
  EXPECT_EQ(render("{{ d | tojson }}", {{"d", {{"ü<", {1, nullptr}}}}}), "{\"ü<\": [1, null]}");
}

TEST(ChatTemplate, CountsCodePoints) {
  const ordered_json variables = {{"s", "aé日😀"}};
  EXPECT_EQ(render("{{ s | length }}{{ s[1] }}{{ s[-1] }}{{ s[1:3] }}{{ s[::-1] }}", variables),
            "4é😀é日😀日éa");
  EXPECT_EQ(render("{{ s.find('😀') }}{{ s.upper() }}", variables), "3AÉ日😀");
}

TEST(ChatTemplate, NamesTheLineOfAnError) {
  EXPECT_EQ(failure("\n\n{{ x.y }}"), "chat template, line 3: 'x' is undefined");
  EXPECT_EQ(failure("{{ d.x.y }}", ErrorKind::kInvalidArgument, {{"d", ordered_json::object()}}),
            "chat template, line 1: 'dict object' has no attribute 'x'");
  EXPECT_EQ(failure("\n{{ raise_exception('Roles must alternate') }}"),
            "chat template, line 2: Roles must alternate");
  EXPECT_EQ(failure("a\n{% if x %}\nb"),
            "chat template, line 3: unexpected end of template, looking for 'endif'");
  EXPECT_EQ(failure("{{ 'a' + 1 }}"), "chat template, line 1: no '+' between 'str' and 'int'");
  const std::string start(79, 'n');  // messages quote 80 bytes, and no half of a code point
  EXPECT_EQ(failure("{{ x '" + start + "\u00e9\u00e9' }}"),
            "chat template, line 1: unexpected '" + start + "'");
}

TEST(ChatTemplate, RefusesWhatPythonRefuses) {
  for (const char* source : {"{{ 1 + }}",
                             "{{ (1 }}",
                             "{{ 'a }}",
                             "{% for %}",
                             "{% endif %}",
                             "{% unknown %}",
                             "{{ 1 2 }}",
                             "{% break %}",
                             "{% set true = 1 %}",
                             "{{ 012 }}",
                             "{{ 1 / 0 }}",
                             "{{ 1 < 'a' }}",
                             "{{ [] | first + 1 }}",
                             "{{ {[]: 1} }}",
                             "{{ l.append(1) }}",
                             "{{ 5() }}",
                             "{{ 1 in 2 }}",
                             "{% for a, b in [[1]] %}{% endfor %}",
                             "{{ 'x' | tojson(1, 2, 3, 4, 5) }}",
                             "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
                             "{% set ns = namespace(_x=1) %}"}) {
    EXPECT_THROW(render(source, {{"l", {1}}}), Error) << source;
  }
}

TEST(ChatTemplate, TellsUnsupportedFromWrong) {
  for (const char* source :
       {"{% include 'x' %}", "{% block b %}{% endblock %}", "{{ x | wordwrap }}",
        "{{ x is odder }}", "{% for x in y recursive %}{% endfor %}", "{{ '%s' % 1 }}",
        "{{ 'a'.encode() }}", "{{ strftime_now('%f') }}"}) {
    EXPECT_NE(failure(source, ErrorKind::kUnsupported), "") << source;
  }
}

TEST(ChatTemplate, IntegersDoNotWrap) {
  EXPECT_EQ(render("{{ 9223372036854775807 }}{{ -9223372036854775807 - 1 }}"),
            "9223372036854775807-9223372036854775808");
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ 9223372036854775808 }}", "{{ 2 ** 63 }}",
        "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ '9223372036854775808' | int }}", "{{ 1e19 | int }}",
        "{{ [9223372036854775807, 1] | sum }}", "{{ (-9223372036854775807 - 1) | abs }}"}) {
    EXPECT_NE(failure(source).find("64 bits"), std::string::npos) << source << failure(source);
  }
  EXPECT_THROW(render("{{ n }}", {{"n", UINT64_MAX}}), Error);
}

TEST(ChatTemplate, ManyThreadsMayRenderOne) {
  const ChatTemplate parsed("{% for i in range(100) %}{{ i ~ name }}{% endfor %}");
  const std::string expected = parsed.render({{"name", "x"}});
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results) {
    threads.emplace_back([&parsed, &result] { result = parsed.render({{"name", "x"}}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace tw::models
