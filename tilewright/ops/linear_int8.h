#pragma once

#include "tilewright/ops/core/linear_int.h"

namespace tw::ops {

/// Linear layer with weights of 8-bit numbers with sign, less the zero point of their group (0,
/// where there is none) and times its scale. Activations are not rounded; sums are float32. One
/// scale for each feature is a group_size of K or more.
struct LinearInt8 : LinearIntDefinition<8> {
  static constexpr Schema kSchema{
      "linear_int8(x: T[*, K], weight: i8[N, K], scale: T[N, G], zero: i8[N, G]?, bias: T[N]?, "
      "group_size: i64 = 128) -> out: T[*, N]"};

  // On Hopper: one kernel for up to four tokens, long k and groups of 64, one for few tokens by the
  // length of a group, one for many. On a CPU few are up to 24 (6 with AVX2), of
  // groups that are no whole vectors up to 6 (3).
  static constexpr Case kEdgeCases[] = {
      {"no tokens", "*=0 K=16 N=3 G=1"},
      {"no features", "*=3 K=16 N=0 G=1"},
      {"empty sums", "*=2 K=0 N=5 G=0 +bias"},
      {"one byte", "*=1 K=1 N=1 G=1 +zero"},
      {"odd groups", "*=2x3 K=33 N=35 G=5 group_size=7 +zero +bias"},
      {"a scale for each feature", "*=5 K=300 N=40 G=1 group_size=300"},
      {"several stretches of k, tiles and panels", "*=53 K=601 N=150 G=5 +bias"},
      {"one token", "*=1 K=640 N=70 G=5 +zero +bias"},
      {"one token, a span for each warp", "*=1 K=512 N=70 G=8 group_size=64 +zero +bias"},
      {"one token, groups longer than k", "*=1 K=528 N=20 G=1 group_size=2000 +bias"},
      {"three tokens, steps of k, the last one ragged", "*=3 K=2576 N=33 G=21 +zero"},
      {"two tokens, more tiles than blocks", "*=2 K=512 N=6400 G=2 group_size=256 +bias"},
      {"a tile of tokens, groups of 32", "*=8 K=144 N=64 G=5 group_size=32 +zero"},
      {"several tiles of tokens", "*=29 K=512 N=131 G=4 +bias"},
      {"tokens, groups of 64", "*=19 K=96 N=40 G=2 group_size=64 +zero"},
      {"many tokens", "*=140 K=416 N=264 G=4 +zero +bias"},
      {"tokens times many features", "*=17 K=64 N=12700 G=1 +bias"},
      {"many tokens times many features", "*=65 K=16 N=12700 G=1"},
      {"many tokens, groups of 64", "*=60 K=160 N=90 G=3 group_size=64 +zero"},
      {"many tokens, groups of 32", "*=70 K=80 N=24 G=3 group_size=32"},
      {"two tokens, groups of one", "*=2 K=70 N=17 G=70 group_size=1 +zero"},
      {"few tokens, groups read in several pieces", "*=4 K=300 N=37 G=43 group_size=7 +zero"},
      {"stretches of k in groups that share vectors", "*=9 K=1100 N=37 G=79 group_size=14 +zero"},
      {"tiles of few tokens, the last one smaller", "*=23 K=1100 N=6 G=9 +bias"},
      {"one group", "*=40 K=272 N=33 G=1 group_size=1000 +zero"},
      {"much k", "*=2 K=4112 N=16 G=33 +zero"}};
  static constexpr Case kWorkloads[] = {
      {"llama-3.1-8b/o, decode", "*=1 K=4096 N=4096 G=1 group_size=4096"},
      {"llama-3.1-8b/up, decode", "*=1 K=4096 N=14336 G=1 group_size=4096"},
      {"llama-3.1-8b/up, groups of 128", "*=1 K=4096 N=14336 G=32 +zero"},
      {"llama-3.1-8b/up, batch 16", "*=16 K=4096 N=14336 G=1 group_size=4096"},
      {"llama-3.1-8b/up, batch 128", "*=128 K=4096 N=14336 G=1 group_size=4096"}};
};

}  // namespace tw::ops
