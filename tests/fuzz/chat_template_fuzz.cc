// Any text as a chat template: parse and render within small limits. Only tw::Error may escape, its
// message must name a line, and the same template must give the same text again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/models/chat_template/chat_template.h"

namespace {

using tw::models::ChatTemplate;
using tw::models::ChatTemplateLimits;

const nlohmann::ordered_json& variables() {
  static const auto value = nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": "H\u00e9llo \ud83d\ude00 \u03a3\u00df"},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "abcdefghi", "type": "function",
         "function": {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]},
      {"role": "tool", "content": "{}", "tool_call_id": "abcdefghi"},
      {"role": "user", "content": "and?"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
      {"type": "object", "properties": {"x": {"type": "array", "description": "y"}}}}}],
    "documents": null, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>",
    "n": 7, "f": 2.5, "s": "text", "l": [3, 1, 2], "d": {"b": 1, "a": "x"}})");
  return value;
}

/// The rendered text, or the error's message.
std::string run(std::string_view source) {
  ChatTemplateLimits limits;
  limits.steps = 200'000;
  limits.bytes = 8 << 20;
  try {
    return ChatTemplate(source, "template", limits).render(variables());
  } catch (const tw::Error& error) {
    const std::string message = error.what();
    const bool located = message.starts_with("template, line ");
    const bool whole = message.starts_with("template: ");  // about the source as a whole
    if (!located && !whole) std::abort();
    return message;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const std::string first = run(source);
  const bool has_clock = source.find("strftime_now") != std::string_view::npos;
  if (!has_clock && run(source) != first) std::abort();
  return 0;
}
