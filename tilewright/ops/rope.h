#pragma once

#include <cmath>
#include <string>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/rope.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/numbered.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Rotary position embedding from tables of cosines and sines (ops/core/rope_tables.h makes them,
/// with linear, NTK, YaRN and Llama 3.1 scaling). Rotates the first 2 R of D dimensions and copies
/// the others; `inverse` turns the other way. `out` may alias `x`. Throws kInvalidArgument for a
/// position outside the tables.
struct Rope {
  static constexpr Schema kSchema{
      "rope(x: T[B, S, H, D], cos: f32[P, R], sin: f32[P, R], positions: i32[B, S]?, "
      "interleaved: bool = false, inverse: bool = false) -> out: T[B, S, H, D]"};
  static constexpr Gradient kGradient{
      "rope(x=out.grad, cos, sin, positions, interleaved, inverse=!inverse) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Rope<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    const int64_t pairs = k.cos.size(1), dim = k.x.size(3), rows = k.cos.size(0);
    if (2 * pairs > dim)
      return Support::no("cos and sin rotate " + std::to_string(2 * pairs) +
                         " dimensions, but a head has " + std::to_string(dim));
    if (!k.positions && k.x.size(1) > rows && k.x.size(0) > 0)
      return Support::no("the tables hold " + std::to_string(rows) +
                         " positions, but S = " + std::to_string(k.x.size(1)));
    return Support::yes();
  }
  template <class T>
  static Support supports(const Kernel<T>& k) {
    if (Support shapes = supports_shapes(k); !shapes || !k.positions) return shapes;
    const int64_t rows = k.cos.size(0);
    for (int64_t b = 0; b < k.positions.size(0); ++b)
      for (int64_t s = 0; s < k.positions.size(1); ++s)
        if (k.positions(b, s) < 0 || k.positions(b, s) >= rows)
          return Support::no("position " + std::to_string(k.positions(b, s)) +
                             " is outside the tables' " + std::to_string(rows) + " rows");
    return Support::yes();
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t pairs = k.cos.size(1);
    for (int64_t b = 0; b < k.x.size(0); ++b)
      for (int64_t s = 0; s < k.x.size(1); ++s)
        for (int64_t h = 0; h < k.x.size(2); ++h) {
          const int64_t position = k.positions ? k.positions(b, s) : s;
          for (int64_t i = 0; i < pairs; ++i) {
            const int64_t ia = k.interleaved ? 2 * i : i,
                          ib = k.interleaved ? 2 * i + 1 : i + pairs;
            const double a = double(k.x(b, s, h, ia)), o = double(k.x(b, s, h, ib));
            const double c = double(k.cos(position, i)),
                         n = (k.inverse ? -1 : 1) * double(k.sin(position, i));
            k.out(b, s, h, ia) = T(a * c - o * n);
            k.out(b, s, h, ib) = T(o * c + a * n);
          }
          for (int64_t d = 2 * pairs; d < k.x.size(3); ++d) k.out(b, s, h, d) = k.x(b, s, h, d);
        }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double tokens = double(k.x.size(0)) * double(k.x.size(1));
    const double n = tokens * double(k.x.size(2)) * double(k.x.size(3));
    return {.flops = 3 * n,
            .bytes = double(sizeof(T)) * 2 * n + 8 * tokens * double(k.cos.size(1))};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "positions") return std::nullopt;
    return random_numbers({known["B"], known["S"]}, known["P"], seed, 0);
  }

  static constexpr Case kEdgeCases[] = {
      {"no tokens", "B=1 S=0 H=2 D=8 P=4 R=4"},
      {"one pair", "B=1 S=1 H=1 D=2 P=1 R=1"},
      {"neox", "B=2 S=5 H=3 D=64 P=7 R=32"},
      {"partial", "B=1 S=4 H=2 D=80 P=4 R=16"},
      {"odd rest", "B=1 S=3 H=2 D=33 P=3 R=13"},
      {"inverse", "B=1 S=6 H=2 D=48 P=6 R=24 inverse=1"},
      {"interleaved", "B=1 S=6 H=2 D=48 P=6 R=24 interleaved=1"},
      {"words", "B=2 S=3 H=6 D=80 P=3 R=20"},
      {"interleaved words and the rest", "B=1 S=3 H=5 D=64 P=3 R=22 interleaved=1"},
      {"half words", "B=1 S=3 H=2 D=28 P=3 R=14"},
      {"wide heads", "B=1 S=2 H=1 D=1200 P=2 R=32"},
      {"many heads", "B=2 S=700 H=6 D=16 P=700 R=8"},
      {"positions", "B=2 S=9 H=2 D=32 P=40 R=16 +positions"}};
  static constexpr Case kWorkloads[] = {
      {"llama-3.1-8b/prefill q", "B=1 S=2048 H=32 D=128 P=2048 R=64"},
      {"llama-3.1-8b/decode q", "B=1 S=1 H=32 D=128 P=2048 R=64"},
      {"llama-3.1-8b/batch-16 q", "B=16 S=1 H=32 D=128 P=2048 R=64 +positions"},
      {"llama-3.1-8b/batch-32 q", "B=32 S=1 H=32 D=128 P=2048 R=64 +positions"},
      {"llama-3.1-8b/batch-64 q", "B=64 S=1 H=32 D=128 P=2048 R=64 +positions"}};
};

}  // namespace tw::ops
