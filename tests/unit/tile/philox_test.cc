#include "tilewright/tile/philox.h"

#include <gtest/gtest.h>

namespace tw::tile {
namespace {

constexpr bool equal(const PhiloxBits& a, const PhiloxBits& b) {
  for (int i = 0; i < 4; ++i)
    if (a.word[i] != b.word[i]) return false;
  return true;
}

// The known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_TRUE(equal(philox(0, 0, 0), {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  EXPECT_TRUE(
      equal(philox(~0ull, ~0ull, ~0ull), {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
  EXPECT_TRUE(equal(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
                    {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(uniform({{0, 0, 0, 0}}), 0);
  EXPECT_EQ(uniform({{~0u, ~0u, 0, 0}}), 1 - 0x1p-53);
  EXPECT_EQ(uniform({{0x80000000u, 0, 0, 0}}), 0.5);
}

}  // namespace
}  // namespace tw::tile
