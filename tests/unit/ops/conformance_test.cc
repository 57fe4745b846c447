// Every operator x target x dtype x edge case, against its float64 definition. A loop over the
// catalog: an operator that is listed is tested. Targets are the instruction sets that this machine
// has, and its GPU.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/device_call.h"
#include "testing/op_call.h"
#include "testing/random.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/cuda/driver.h"
#include "tilewright/runtime/operators.h"

namespace tw {
namespace {

using runtime::OperatorInfo;
using testing::CaseSpec;
using testing::Layout;
using testing::OpCall;

struct Setting {
  const OperatorInfo* op;
  std::vector<DType> combo;
  std::optional<Isa> isa;  // none: the GPU

  std::string target() const { return isa ? name(*isa) : "cuda"; }
};

std::string combo_text(const std::vector<DType>& combo) {
  std::string out;
  for (DType dtype : combo) out += (out.empty() ? "" : "_") + std::string(name(dtype));
  return out.empty() ? "untyped" : out;
}

/// Runs both calls; in different ways, where the target has any.
void run_on_cpu(const Setting& s, OpCall& got, OpCall& again) {
  runtime::Context context(runtime::default_pool(), *s.isa);
  s.op->run(got.call(), context);
  runtime::ThreadPool single(1);
  runtime::Context single_context(single, *s.isa);
  s.op->run(again.call(), single_context);
}
void run_on_gpu(const Setting& s, OpCall& got, OpCall& again) {
  runtime::Context context;
  for (OpCall* call : {&got, &again}) {
    if (call == &again) context.set_cuda_allocator(testing::poisoned_workspaces());
    testing::DeviceCall on_device(call->call());
    s.op->run(on_device.call(), context);
    on_device.fetch();
    EXPECT_TRUE(on_device.guards_intact()) << "memory outside the outputs was written";
  }
}

/// The call of the definition, run in memory of its own.
OpCall defined(const Setting& s, const OpCall& call) {
  OpCall want(call);
  s.op->reference(want.call());
  return want;
}

/// What results may be off by that are what is left of a difference between operands.
double left_over(const Setting& s, OpCall& call) {
  if (s.op->operand_tolerance == 0) return 0;
  double largest = 0;
  for (int i = 0; i < s.op->schema->size(); ++i) {
    const ops::Arg& arg = (*s.op->schema)[i];
    if (arg.kind != ops::ArgKind::kTensor || arg.output || !call.call()[i].present) continue;
    const TensorRef& operand = call.call()[i].tensor;
    if (info(operand.dtype).kind == DTypeKind::kFloat)
      largest = std::max(largest, testing::rms(operand));
  }
  return largest * s.op->operand_tolerance;
}

/// Runs the call, and compares with `want`.
void check(const Setting& s, OpCall& got, const OpCall& want) {
  OpCall again(got);
  const double besides = left_over(s, got);  // before an output that is an operand, too
  if (s.isa)
    run_on_cpu(s, got, again);
  else
    run_on_gpu(s, got, again);

  for (size_t i = 0; i < want.outputs().size(); ++i) {
    const TensorRef& expected = want.outputs()[i];
    const double scale = s.isa ? s.op->tolerance_scale : s.op->gpu_tolerance_scale;
    const double tolerance = testing::tolerance_of(expected.dtype) * scale;
    const testing::Comparison c = testing::compare(got.outputs()[i], expected, tolerance, besides);
    EXPECT_TRUE(c.ok) << c.message;
    EXPECT_TRUE(testing::compare(again.outputs()[i], got.outputs()[i], 0).ok)
        << "one thread, or a repetition on a GPU in a workspace of NaN, gives other bits";
  }
  EXPECT_TRUE(got.padding_intact()) << "memory outside the outputs was written";
}

bool can_run(const Setting& s) {
  return s.isa || runtime::cuda::availability();
}

class EdgeCases : public ::testing::Test {
 public:
  explicit EdgeCases(Setting setting) : setting_(std::move(setting)) {}
  void TestBody() override {
    if (!can_run(setting_)) GTEST_SKIP() << runtime::cuda::availability().reason();
    for (const ops::Case& c : setting_.op->edge_cases) {
      const CaseSpec spec = CaseSpec::parse(*setting_.op->schema, c.text);
      // Operands of one seed are the same in both layouts, and so is what they define: it is read
      // from the one with gaps. RandomShapes reads it from every layout.
      std::optional<OpCall> want;
      for (const Layout layout : {Layout::kStrided, Layout::kContiguous}) {
        SCOPED_TRACE(std::string(c.label) + ": " + std::string(c.text) +
                     (layout == Layout::kStrided ? " (strided)" : ""));
        OpCall got(*setting_.op, setting_.combo, spec, 42, layout);
        if (!want) want.emplace(defined(setting_, got));
        check(setting_, got, *want);
      }
    }
  }

 private:
  Setting setting_;
};

/// What the float64 definition is waited for, and what is filled with random numbers for it.
constexpr double kMaxFlops = 1e7, kMaxElements = 1e6;

/// Elements of the tensors whose sizes have names.
double elements(const ops::Schema& schema, const CaseSpec& spec) {
  double sum = 0;
  for (const ops::Arg& arg : schema) {
    if (arg.kind != ops::ArgKind::kTensor || arg.is_broadcast()) continue;
    double count = 1;
    for (int d = 0; d < arg.rank; ++d) {
      const auto size = spec.dims.find(std::string(arg.dims[d].name));
      if (size != spec.dims.end()) count *= static_cast<double>(size->second);
    }
    sum += count;
  }
  return sum;
}

/// Those of random shapes. Bulk copies need rows whose elements are next to each other.
constexpr Layout kLayouts[] = {Layout::kContiguous, Layout::kStrided, Layout::kPaddedRows,
                               Layout::kTurned};

/// How many of an operator's shapes are drawn for each combination of dtypes.
int draws() {
  const char* given = std::getenv("TILEWRIGHT_DRAWS");
  return given == nullptr ? 12 : std::max(std::atoi(given), 1);
}

/// An edge case with its dimensions redrawn: small, odd and empty sizes in every combination. Draws
/// outside the operator's rules are refused by it and drawn again.
class RandomShapes : public ::testing::Test {
 public:
  explicit RandomShapes(Setting setting) : setting_(std::move(setting)) {}
  void TestBody() override {
    if (!can_run(setting_)) GTEST_SKIP() << runtime::cuda::availability().reason();
    testing::Random random(std::hash<std::string_view>{}(setting_.op->name()));
    const int wanted = draws();
    int accepted = 0;
    for (int draw = 0; draw < 10 * wanted && accepted < wanted; ++draw) {
      const auto cases = setting_.op->edge_cases;
      const auto& base = cases[size_t(random.below(int64_t(cases.size())))];
      CaseSpec spec = CaseSpec::parse(*setting_.op->schema, base.text);
      redraw(spec, random);
      if (elements(*setting_.op->schema, spec) > kMaxElements) continue;
      const uint64_t seed = random.next();
      const Layout layout = kLayouts[random.below(std::size(kLayouts))];
      std::optional<OpCall> got;
      try {
        got.emplace(*setting_.op, setting_.combo, spec, seed, layout);
        if (setting_.op->cost(got->call()).flops > kMaxFlops) continue;
      } catch (const Error& e) {
        ASSERT_EQ(e.kind(), ErrorKind::kInvalidArgument) << e.what();
        continue;
      }
      ++accepted;
      SCOPED_TRACE(std::string(base.text) + " redrawn with seed " + std::to_string(seed) +
                   ", layout " + std::to_string(int(layout)));
      check(setting_, *got, defined(setting_, *got));
    }
    EXPECT_GE(2 * accepted, wanted) << "few random draws were accepted";
  }

 private:
  static void redraw(CaseSpec& spec, testing::Random& random) {
    for (auto& [name, size] : spec.dims)
      if (random.below(2) == 0) size = random.below(random.below(4) == 0 ? 300 : 40);
    for (int64_t& size : spec.lead) size = random.below(6);
    std::map<int64_t, int64_t> sizes;  // equal sizes stay equal, so that shapes still broadcast
    size_t rank = 0;
    for (const auto& [name, shape] : spec.shapes) rank = std::max(rank, shape.size());
    const int64_t end = rank > 3 ? 14 : 60;  // 14^5 elements are half a second
    for (auto& [name, shape] : spec.shapes)
      for (int64_t& size : shape)
        if (size != 1) size = sizes.emplace(size, random.below(end)).first->second;
  }

  Setting setting_;
};

/// What every operator must refuse, with an error that begins with its name.
class BadCalls : public ::testing::Test {
 public:
  explicit BadCalls(const OperatorInfo* op) : op_(op) {}
  void TestBody() override {
    const CaseSpec spec = CaseSpec::parse(*op_->schema, op_->edge_cases.back().text);
    for (int i = 0; i < op_->schema->size(); ++i) {
      const ops::Arg& arg = (*op_->schema)[i];
      if (arg.kind != ops::ArgKind::kTensor) continue;
      expect_refused(
          i, "missing", [&](ops::Slot& slot) { slot.present = arg.optional; }, spec, arg.optional);
      expect_refused(
          i, "rank", [](ops::Slot& s) { s.tensor.rank = 0; }, spec,
          arg.is_broadcast() || (arg.has_lead() && arg.rank == 1) || arg.rank == 0);
      expect_refused(
          i, "dtype",
          [](ops::Slot& s) {
            s.tensor.dtype = s.tensor.dtype == DType::kI16 ? DType::kU8 : DType::kI16;
          },
          spec, false);
      expect_refused(i, "null", [](ops::Slot& s) { s.tensor.data = nullptr; }, spec, false);
    }
    ops::Call call(*op_->schema);
    EXPECT_THROW(call.set("no_such_argument", 1), Error);
  }

 private:
  template <class F>
  void expect_refused(int i, const char* what, F&& spoil, const CaseSpec& spec, bool skip) {
    OpCall call(*op_, op_->combos[0], spec, 1, Layout::kContiguous);
    ops::Slot& slot = call.call()[i];
    if (skip || !slot.present || slot.tensor.count() == 0) return;
    spoil(slot);
    runtime::Context context;
    try {
      op_->run(call.call(), context);
      ADD_FAILURE() << (*op_->schema)[i].name << ": a bad " << what << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).rfind(op_->name(), 0), 0u) << e.what();
    }
  }
  const OperatorInfo* op_;
};

const bool kRegistered = [] {
  for (const OperatorInfo& op : runtime::operators()) {
    ::testing::RegisterTest("BadCalls", std::string(op.name()).c_str(), nullptr, nullptr, __FILE__,
                            __LINE__, [&op]() -> BadCalls* { return new BadCalls(&op); });
    std::vector<std::optional<Isa>> targets;
    for (const Isa isa : op.isas)
      if (runtime::runs(isa, runtime::cpu_info().features)) targets.emplace_back(isa);
    if (op.on_cuda) targets.emplace_back();
    for (const std::optional<Isa> isa : targets) {
      for (const auto& combo : op.combos) {
        const Setting setting{&op, combo, isa};
        const std::string test =
            std::string(op.name()) + "/" + setting.target() + "/" + combo_text(combo);
        ::testing::RegisterTest("EdgeCases", test.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                                [setting]() -> EdgeCases* { return new EdgeCases(setting); });
        ::testing::RegisterTest("RandomShapes", test.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                                [setting]() -> RandomShapes* { return new RandomShapes(setting); });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace tw
