#include "tilewright/ops/core/overlap.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tw::ops {
namespace {

/// Addresses of the first and the last element, the lower one first.
std::pair<int64_t, int64_t> ends(const TensorRef& tensor) {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < static_cast<size_t>(tensor.rank); ++d)
    (tensor.strides[d] < 0 ? low : high) += tensor.strides[d] * (tensor.sizes[d] - 1);
  const auto base = static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor.data));
  const int64_t bytes = element_size(tensor.dtype);
  return {base + low * bytes, base + high * bytes};
}

/// A dimension of two tensors.
struct Steps {
  int64_t stride;  // > 0
  int64_t a, b;    // sizes
};

/// Whether sum_d stride_d (i_d - j_d) is `distance` for some 0 <= i_d < a_d, 0 <= j_d < b_d.
bool reaches(std::span<const Steps> dims, int64_t distance) {
  if (dims.empty()) return distance == 0;
  int64_t down = 0, up = 0;  // how far the other dimensions lead
  for (const Steps& dim : dims.subspan(1)) {
    down -= dim.stride * (dim.b - 1);
    up += dim.stride * (dim.a - 1);
  }
  const Steps& dim = dims[0];
  const int64_t first = std::max(1 - dim.b, (distance - up) / dim.stride - 1);
  const int64_t last = std::min(dim.a - 1, (distance - down) / dim.stride + 1);
  for (int64_t k = first; k <= last; ++k)
    if (reaches(dims.subspan(1), distance - k * dim.stride)) return true;
  return false;
}

bool same_strides(const TensorRef& a, const TensorRef& b) {
  if (a.rank != b.rank) return false;
  for (size_t d = 0; d < static_cast<size_t>(a.rank); ++d)
    if (a.strides[d] != b.strides[d] && (a.sizes[d] > 1 || b.sizes[d] > 1)) return false;
  return true;
}

bool same_view(const TensorRef& a, const TensorRef& b) {
  return a.data == b.data && a.dtype == b.dtype && same_strides(a, b) &&
         std::equal(a.sizes.begin(), a.sizes.begin() + a.rank, b.sizes.begin());
}

bool is_dense(const TensorRef& tensor) {
  const auto [low, high] = ends(tensor);
  return !may_overlap(tensor) && high - low == (tensor.count() - 1) * element_size(tensor.dtype);
}

bool same_dims(const Arg& a, const Arg& b) {
  return std::equal(a.dims, a.dims + a.rank, b.dims, b.dims + b.rank,
                    [](const Dim& x, const Dim& y) { return x.text == y.text; });
}

bool are_alike(const Arg& input, const Arg& output) {
  return !input.output && input.type == output.type && same_dims(input, output);
}

/// Whether the elements after one lie before it in memory.
bool steps_back(const TensorRef& tensor) {
  if (tensor.count() == 0) return false;
  for (size_t d = 0; d < static_cast<size_t>(tensor.rank); ++d)
    if (tensor.sizes[d] > 1 && tensor.strides[d] < 0) return true;
  return false;
}

}  // namespace

bool may_overlap(const TensorRef& tensor) {
  if (tensor.count() == 0) return false;
  std::array<std::pair<int64_t, int64_t>, kMaxRank> dims;  // stride, size; sorted
  size_t rank = 0;
  for (size_t d = 0; d < static_cast<size_t>(tensor.rank); ++d) {
    if (tensor.sizes[d] <= 1) continue;
    const std::pair next{std::abs(tensor.strides[d]), tensor.sizes[d]};
    size_t at = rank++;
    for (; at > 0 && dims[at - 1] > next; --at) dims[at] = dims[at - 1];
    dims[at] = next;
  }
  int64_t reach = 0;  // largest offset that the dimensions so far lead to
  for (size_t d = 0; d < rank; ++d) {
    if (dims[d].first <= reach) return true;
    reach += dims[d].first * (dims[d].second - 1);
  }
  return false;
}

bool share_memory(const TensorRef& a, const TensorRef& b) {
  if (a.device != b.device || a.count() == 0 || b.count() == 0) return false;
  const int64_t size_a = element_size(a.dtype);
  const int64_t size_b = element_size(b.dtype);
  const auto [first_a, last_a] = ends(a);
  const auto [first_b, last_b] = ends(b);
  if (last_a + size_a <= first_b || last_b + size_b <= first_a) return false;
  if (size_a == size_b && (first_b - first_a) % size_a == 0 && same_strides(a, b)) {
    std::vector<Steps> dims;
    for (size_t d = 0; d < static_cast<size_t>(a.rank); ++d)
      if (a.strides[d] != 0 && (a.sizes[d] > 1 || b.sizes[d] > 1))
        dims.push_back({std::abs(a.strides[d]), a.sizes[d], b.sizes[d]});
    std::sort(dims.begin(), dims.end(),
              [](const Steps& x, const Steps& y) { return x.stride > y.stride; });
    return reaches(dims, (first_b - first_a) / size_a);
  }
  const auto is_in = [](int64_t address, int64_t first, int64_t last) {
    return first <= address && address <= last;
  };
  return (is_dense(a) && (is_in(first_b, first_a, last_a) || is_in(last_b, first_a, last_a))) ||
         (is_dense(b) && (is_in(first_a, first_b, last_b) || is_in(last_a, first_b, last_b)));
}

std::string misplaced(const Call& call, int output, bool in_place) {
  const TensorRef& tensor = call[output].tensor;
  if (steps_back(tensor)) return "but its strides must not be negative";
  if (may_overlap(tensor)) return "but its elements may overlap in memory";
  for (int i = 0; i < output; ++i) {
    const Arg& other = call.schema()[i];
    if (other.kind != ArgKind::kTensor || !call[i].present) continue;
    if (!share_memory(tensor, call[i].tensor)) continue;
    if (in_place && are_alike(other, call.schema()[output]) && same_view(tensor, call[i].tensor))
      continue;
    return "but it overlaps " + std::string(other.name) + " in memory";
  }
  return "";
}

}  // namespace tw::ops
