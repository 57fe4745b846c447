#pragma once

#include "tilewright/ops/core/linear_int.h"

namespace tw::ops {

/// Linear layer with weights of 4-bit numbers without sign, two in a byte with the low half first,
/// less the zero point of their group (8, where there is none) and times its scale. Activations are
/// not rounded; sums are float32.
struct LinearInt4 : LinearIntDefinition<4> {
  static constexpr Schema kSchema{
      "linear_int4(x: T[*, 2*P], weight: i8[N, P], scale: T[N, G], zero: i8[N, G]?, bias: T[N]?, "
      "group_size: i64 = 128) -> out: T[*, N]"};

  // On Hopper: one kernel for up to four tokens, long k and groups of 128, one for few tokens by
  // the length of a group, one for many. On a CPU few are up to 24 (6 with AVX2), of
  // groups that are no whole vectors up to 6 (3).
  static constexpr Case kEdgeCases[] = {
      {"no tokens", "*=0 P=8 N=3 G=1"},
      {"no features", "*=3 P=8 N=0 G=1"},
      {"empty sums", "*=2 P=0 N=5 G=0 +bias"},
      {"one byte", "*=1 P=1 N=1 G=1 +zero"},
      {"odd groups", "*=2x3 P=17 N=35 G=5 group_size=7 +zero +bias"},
      {"several stretches of k, tiles and panels", "*=53 P=300 N=150 G=5 +bias"},
      {"one token", "*=1 P=320 N=70 G=5 +zero +bias"},
      {"one token, a span for each warp", "*=1 P=512 N=70 G=8 +zero +bias"},
      {"one token, groups longer than k", "*=1 P=528 N=20 G=1 group_size=2000 +bias"},
      {"three tokens, steps of k, the last one ragged", "*=3 P=2576 N=33 G=41 +zero"},
      {"two tokens, more tiles than blocks", "*=2 P=512 N=6400 G=4 group_size=256 +bias"},
      {"a tile of tokens, groups of 32", "*=8 P=144 N=64 G=9 group_size=32 +zero"},
      {"several tiles of tokens", "*=29 P=512 N=131 G=8 +bias"},
      {"tokens, groups of 64", "*=19 P=96 N=40 G=3 group_size=64 +zero"},
      {"many tokens", "*=140 P=416 N=264 G=7 +zero +bias"},
      {"tokens times many features", "*=17 P=64 N=12700 G=1 +bias"},
      {"many tokens times many features", "*=65 P=16 N=12700 G=1"},
      {"many tokens, groups of 64", "*=60 P=160 N=90 G=5 group_size=64 +zero"},
      {"many tokens, groups of 32", "*=70 P=80 N=24 G=5 group_size=32"},
      {"two tokens, groups of one", "*=2 P=70 N=17 G=140 group_size=1 +zero"},
      {"few tokens, groups read in several pieces", "*=4 P=300 N=37 G=86 group_size=7 +zero"},
      {"stretches of k in groups that share vectors", "*=9 P=547 N=37 G=79 group_size=14 +zero"},
      {"tiles of few tokens, the last one smaller", "*=23 P=550 N=6 G=9 +bias"},
      {"one group", "*=40 P=272 N=33 G=1 group_size=1000 +zero"},
      {"much k", "*=2 P=4112 N=16 G=65 +zero"}};
  static constexpr Case kWorkloads[] = {
      {"llama-3.1-8b/o, decode", "*=1 P=2048 N=4096 G=32 +zero"},
      {"llama-3.1-8b/up, decode", "*=1 P=2048 N=14336 G=32 +zero"},
      {"llama-3.1-8b/up, batch 16", "*=16 P=2048 N=14336 G=32 +zero"},
      {"llama-3.1-8b/up, batch 32", "*=32 P=2048 N=14336 G=32 +zero"},
      {"llama-3.1-8b/up, batch 64", "*=64 P=2048 N=14336 G=32 +zero"},
      {"llama-3.1-8b/up, batch 128", "*=128 P=2048 N=14336 G=32 +zero"}};
};

}  // namespace tw::ops
