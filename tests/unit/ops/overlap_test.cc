// Where outputs may lie, against sets of bytes.
#include "tilewright/ops/core/overlap.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/ops/core/schema.h"

namespace tw::ops {
namespace {

constexpr Schema kSchema{"pair(x: f32[*]) -> out: f32[*]"};
constexpr int64_t kBase = 1 << 20;  // an address; nothing is read there
constexpr const char* kBackwards = "but its strides must not be negative";
constexpr const char* kOverlapping = "but its elements may overlap in memory";
constexpr const char* kMeeting = "but it overlaps x in memory";

TensorRef view(int64_t address, DType dtype, const std::vector<int64_t>& sizes,
               const std::vector<int64_t>& strides) {
  TensorRef out;
  out.data = reinterpret_cast<void*>(address);
  out.dtype = dtype;
  out.rank = int(sizes.size());
  std::copy(sizes.begin(), sizes.end(), out.sizes.begin());
  std::copy(strides.begin(), strides.end(), out.strides.begin());
  return out;
}

std::string rule_of(const TensorRef& x, const TensorRef& out, bool in_place = false) {
  Call call(kSchema);
  call.set("x", x).set("out", out);
  return misplaced(call, 1, in_place);
}

/// Addresses of the bytes of all elements, as often as elements have them.
std::multiset<int64_t> bytes_of(const TensorRef& tensor) {
  std::multiset<int64_t> out;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    int64_t address = reinterpret_cast<int64_t>(tensor.data), rest = i;
    for (auto d = size_t(tensor.rank); d-- > 0; rest /= tensor.sizes[d])
      address += rest % tensor.sizes[d] * tensor.strides[d] * element_size(tensor.dtype);
    for (int64_t b = 0; b < element_size(tensor.dtype); ++b) out.insert(address + b);
  }
  return out;
}

bool has_twice(const std::multiset<int64_t>& bytes) {
  return std::set<int64_t>(bytes.begin(), bytes.end()).size() != bytes.size();
}

bool is_dense(const std::multiset<int64_t>& bytes) {
  return !bytes.empty() && !has_twice(bytes) &&
         *bytes.rbegin() - *bytes.begin() + 1 == int64_t(bytes.size());
}

bool meet(const std::multiset<int64_t>& a, const std::multiset<int64_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](int64_t byte) { return b.contains(byte); });
}

bool steps_back(const TensorRef& tensor) {
  for (size_t d = 0; d < size_t(tensor.rank); ++d)
    if (tensor.sizes[d] > 1 && tensor.strides[d] < 0) return true;
  return false;
}

/// Small views near one another, about one half of them with equal strides.
struct Views {
  explicit Views(testing::Random& random) {
    const auto within = [&](int64_t low, int64_t high) {
      return low + int64_t(random.next() % uint64_t(high - low + 1));
    };
    alike = within(0, 1) != 0;
    const bool aligned = within(0, 7) != 0;
    const DType dtype = within(0, 3) != 0 ? DType::kI16 : DType::kI32;
    std::vector<int64_t> sizes(size_t(within(0, 3))), others = sizes, strides = sizes,
                                                      steps = sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      sizes[d] = within(-1, 4) < 0 ? 0 : within(1, 4);
      others[d] = within(-1, 4) < 0 ? 0 : within(1, 4);
      strides[d] = within(0, 7) == 0 ? within(-9, 0) : within(1, 12);
      steps[d] = alike ? strides[d] : within(-9, 12);
    }
    const int64_t step = aligned ? element_size(dtype) : 1;
    out = view(kBase + step * within(0, 40), dtype, sizes, strides);
    x = view(kBase + step * within(0, 40), alike ? dtype : DType::kI16, others, steps);
  }
  TensorRef x, out;
  bool alike;
};

TEST(Overlap, IsToldAsSetsOfBytesTell) {
  testing::Random random(11);
  std::map<std::string, int> seen;
  for (int trial = 0; trial < 100000; ++trial) {
    const Views views(random);
    const auto written = bytes_of(views.out), read = bytes_of(views.x);
    const std::string rule = rule_of(views.x, views.out);
    SCOPED_TRACE(views.out.describe() + ", " + views.x.describe() + ": " + rule);
    ++seen[rule];
    if (written.empty()) {
      ASSERT_EQ(rule, "");
    } else if (steps_back(views.out)) {
      ASSERT_EQ(rule, kBackwards);
    } else if (rule == kOverlapping) {
      ASSERT_FALSE(is_dense(written));
    } else {
      ASSERT_FALSE(has_twice(written));
      const bool is_known = views.alike || is_dense(written) || is_dense(read);
      const bool is_refused = rule == kMeeting;
      ASSERT_EQ(is_refused, (is_known || is_refused) && meet(written, read));
    }
  }
  for (const char* rule : {"", kBackwards, kOverlapping, kMeeting})
    EXPECT_GT(seen[rule], 1000) << rule;
}

TEST(Overlap, TheSameViewIsInPlace) {
  const TensorRef x = view(kBase, DType::kF32, {2, 3}, {4, 1});
  EXPECT_EQ(rule_of(x, x, true), "");
  EXPECT_EQ(rule_of(x, x, false), kMeeting);
  for (const TensorRef& other :
       {view(kBase + 4, DType::kF32, {2, 3}, {4, 1}), view(kBase, DType::kF32, {2, 3}, {3, 1}),
        view(kBase, DType::kI32, {2, 3}, {4, 1}), view(kBase, DType::kF32, {3}, {1})})
    EXPECT_EQ(rule_of(x, other, true), kMeeting) << other.describe();
}

}  // namespace
}  // namespace tw::ops
