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

/// The memory that a tensor lies in; of one without elements no address.
struct Extent {
  int64_t first = 0, end = 0;

  bool is_empty() const { return end == 0; }
  bool meets(const Extent& other) const { return first < other.end && other.first < end; }
};

Extent extent_of(const TensorRef& tensor) {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < static_cast<size_t>(tensor.rank); ++d) {
    if (tensor.sizes[d] == 0) return {};
    const int64_t reach = tensor.strides[d] * (tensor.sizes[d] - 1);
    if (reach < 0)
      low += reach;
    else
      high += reach;
  }
  const auto base = static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor.data));
  const int64_t bytes = element_size(tensor.dtype);
  return {base + low * bytes, base + (high + 1) * bytes};
}

/// A dimension of two tensors.
struct Steps {
  int64_t stride;  // > 0, in bytes
  int64_t a, b;    // sizes
};

/// Whether sum_d stride_d (i_d - j_d) is in [low, high] for some 0 <= i_d < a_d, 0 <= j_d < b_d.
bool reaches(std::span<const Steps> dims, int64_t low, int64_t high) {
  if (dims.empty()) return low <= 0 && 0 <= high;
  int64_t down = 0, up = 0;  // how far the other dimensions lead
  for (const Steps& dim : dims.subspan(1)) {
    down -= dim.stride * (dim.b - 1);
    up += dim.stride * (dim.a - 1);
  }
  const Steps& dim = dims[0];
  const int64_t first = std::max(1 - dim.b, (low - up) / dim.stride - 1);
  const int64_t last = std::min(dim.a - 1, (high - down) / dim.stride + 1);
  for (int64_t k = first; k <= last; ++k)
    if (reaches(dims.subspan(1), low - k * dim.stride, high - k * dim.stride)) return true;
  return false;
}

/// The dimensions of a tensor and of one with the same strides, longest steps first.
std::vector<Steps> steps_of(const TensorRef& a, const std::array<int64_t, kMaxRank>& sizes_of_b) {
  std::vector<Steps> out;
  for (size_t d = 0; d < static_cast<size_t>(a.rank); ++d)
    if (a.strides[d] != 0 && (a.sizes[d] > 1 || sizes_of_b[d] > 1))
      out.push_back({std::abs(a.strides[d]) * element_size(a.dtype), a.sizes[d], sizes_of_b[d]});
  std::sort(out.begin(), out.end(),
            [](const Steps& x, const Steps& y) { return x.stride > y.stride; });
  return out;
}

/// Whether an element has a byte in this memory.
bool lies_in(const TensorRef& tensor, const Extent& of_tensor, const Extent& memory) {
  std::array<int64_t, kMaxRank> ones;
  ones.fill(1);
  return reaches(steps_of(tensor, ones),
                 memory.first - of_tensor.first - element_size(tensor.dtype) + 1,
                 memory.end - of_tensor.first - 1);
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

bool same_dims(const Arg& a, const Arg& b) {
  return std::equal(a.dims, a.dims + a.rank, b.dims, b.dims + b.rank,
                    [](const Dim& x, const Dim& y) { return x.text == y.text; });
}

bool are_alike(const Arg& input, const Arg& output) {
  return !input.output && input.type == output.type && same_dims(input, output);
}

/// Whether each dimension steps forward over all that those behind it reach, as most tensors' do:
/// then no two elements meet.
bool is_nested(const TensorRef& tensor) {
  int64_t reach = 0;  // largest offset that the dimensions so far lead to
  for (auto d = static_cast<size_t>(tensor.rank); d-- > 0;) {
    if (tensor.sizes[d] == 1) continue;
    if (tensor.strides[d] <= reach) return false;
    reach += tensor.strides[d] * (tensor.sizes[d] - 1);
  }
  return true;
}

/// Whether the elements after one lie before it in memory.
bool steps_back(const TensorRef& tensor) {
  for (size_t d = 0; d < static_cast<size_t>(tensor.rank); ++d)
    if (tensor.sizes[d] > 1 && tensor.strides[d] < 0) return true;
  return false;
}

/// Whether two elements of a tensor may share an address.
bool may_overlap(const TensorRef& tensor) {
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

bool is_dense(const TensorRef& tensor, const Extent& extent) {
  return !may_overlap(tensor) &&
         extent.end - extent.first == tensor.count() * element_size(tensor.dtype);
}

/// Whether tensors of extents that meet share an address. Exact where their strides are equal, or
/// one is dense; of others, which few programs have, it is not known and false.
bool share_memory(const TensorRef& a, const Extent& of_a, const TensorRef& b, const Extent& of_b) {
  const int64_t size = element_size(a.dtype), distance = of_b.first - of_a.first;
  if (size == element_size(b.dtype) && same_strides(a, b))
    return reaches(steps_of(a, b.sizes), distance - size + 1, distance + size - 1);
  return (is_dense(a, of_a) && lies_in(b, of_b, of_a)) ||
         (is_dense(b, of_b) && lies_in(a, of_a, of_b));
}

}  // namespace

std::string misplaced(const Call& call, int output, bool in_place) {
  const TensorRef& tensor = call[output].tensor;
  const Extent extent = extent_of(tensor);
  if (extent.is_empty()) return {};
  if (!is_nested(tensor)) {
    if (steps_back(tensor)) return "but its strides must not be negative";
    if (may_overlap(tensor)) return "but its elements may overlap in memory";
  }
  for (int i = 0; i < output; ++i) {
    const Arg& arg = call.schema()[i];
    const TensorRef& other = call[i].tensor;
    if (arg.kind != ArgKind::kTensor || !call[i].present || other.device != tensor.device) continue;
    const Extent others = extent_of(other);
    if (!extent.meets(others) || !share_memory(tensor, extent, other, others)) continue;
    if (in_place && are_alike(arg, call.schema()[output]) && same_view(tensor, other)) continue;
    return "but it overlaps " + std::string(arg.name) + " in memory";
  }
  return {};
}

}  // namespace tw::ops
