// Stands in for tile/cuda/mma.h: what the PTX manual says of mma.m16n8k16.
#pragma once

#include <cstring>

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

template <class T>
void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], T) {
  struct Fragments {
    uint32_t a[4], b[2];
  } own;
  std::memcpy(own.a, a, sizeof a);
  std::memcpy(own.b, b, sizeof b);
  const int lane = testing::lane();
  this_warp->addresses[lane] = reinterpret_cast<char*>(&own);
  this_warp->meeting.arrive_and_wait();
  const auto of = [](int other) -> const Fragments& {
    return *reinterpret_cast<const Fragments*>(this_warp->addresses[other]);
  };
  const auto number = [](uint32_t pair, int half) {
    T out;
    out.bits = uint16_t(pair >> (16 * half));
    return float(out);
  };
  for (int row = 0; row < 2; ++row)
    for (int column = 0; column < 2; ++column)
      for (int k = 0; k < 16; ++k) {
        const Fragments& left = of(lane / 4 * 4 + k % 8 / 2);
        const Fragments& right = of((2 * (lane % 4) + column) * 4 + k % 8 / 2);
        d[2 * row + column] +=
            number(left.a[row + k / 8 * 2], k % 2) * number(right.b[k / 8], k % 2);
      }
  this_warp->meeting.arrive_and_wait();
}

}  // namespace tw::tile::cuda
