// Any text as a modification of scores and as a mask: parse it, print it for a GPU, and run
// attention with it by its kernel and by its definition. Only tw::Error may escape, and its message
// must say where in the text.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/c/operators.h"
#include "tilewright/core/error.h"
#include "tilewright/ops/core/score_parser.h"
#include "tilewright/ops/core/score_text.h"

namespace {

using tw::ops::ScoreText;

constexpr int64_t kQueries = 3, kKeys = 70, kDims = 8, kNumbers = 5;

/// Of one sequence and one head.
struct Rows {
  std::array<int64_t, 4> shape;
  std::vector<float> data;
  tw_tensor tensor;

  explicit Rows(int64_t rows) : shape{1, rows, 1, kDims}, data(size_t(rows * kDims), 0.25f) {
    tensor = {data.data(), {1, 0}, 4, {2, 32, 1}, shape.data(), nullptr, 0};
  }
};

bool parses(std::string_view text, ScoreText kind) {
  try {
    const tw::kernels::ScoreProgram program = tw::ops::parse_score_program(text, kind);
    tw::kernels::ScoreMods mods;
    (kind == ScoreText::kScore ? mods.score : mods.mask) = &program;
    if (tw::ops::print_score_mods(mods).empty()) std::abort();
    return true;
  } catch (const tw::Error& error) {
    if (!std::string_view(error.what()).starts_with("at ")) std::abort();
    return false;
  }
}

void attend(const std::string& score_mod, const std::string& mask_mod) {
  static tw_context* const context = [] {
    tw_context* made = nullptr;
    if (tw_context_new(1, &made) != TW_OK) std::abort();
    return made;
  }();
  static float floats[kNumbers] = {0.5f, -1, 3, 0, 1e9f};
  static int32_t ints[kNumbers] = {0, 3, -1, 70, 1 << 30};
  int64_t numbers = kNumbers;
  Rows q(kQueries), k(kKeys), v(kKeys), out(kQueries);
  tw_tensor mod_f32{floats, {1, 0}, 1, {2, 32, 1}, &numbers, nullptr, 0};
  tw_tensor mod_i32{ints, {1, 0}, 1, {0, 32, 1}, &numbers, nullptr, 0};
  const tw_status status =
      tw_attention(context, &q.tensor, &k.tensor, &v.tensor, nullptr, nullptr, nullptr, nullptr,
                   nullptr, nullptr, 0, 0, -1, -1, 0, score_mod.c_str(), mask_mod.c_str(), &mod_f32,
                   &mod_i32, &out.tensor, nullptr);
  if (status != TW_OK) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (parses(text, ScoreText::kScore)) attend(text, "");
  if (parses(text, ScoreText::kMask)) attend("", text);
  return 0;
}
