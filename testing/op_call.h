// A call of any operator, built from its schema and a Case: inputs from a seed, outputs poisoned.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "testing/elements.h"
#include "testing/guarded_buffer.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/runtime/operators.h"

namespace tw::testing {

enum class Layout {
  kContiguous,  // ends where a page that may be touched ends
  kStrided,     // every dimension padded, the last one with stride 2, NaN in between
  kPaddedRows,  // rows begin at multiples of 16 bytes, as bulk copies need, NaN in between
  kTurned,      // the last two dimensions lie as if they were exchanged
  kAligned,     // as an application allocates: aligned, huge pages, no guards; for benchmarks
};

/// The parsed text of a Case.
struct CaseSpec {
  std::map<std::string, int64_t> dims;
  std::vector<int64_t> lead;
  std::map<std::string, std::vector<int64_t>> shapes;  // of `...` arguments
  std::map<std::string, std::string> scalars;
  std::vector<std::string> optionals;

  /// Throws kInvalidArgument for text outside the grammar or names outside the schema.
  static CaseSpec parse(const ops::Schema& schema, std::string_view text);
  /// Throws kInvalidArgument for a number that no case of the operator has, or where one is missing
  /// that all of them have: a schema does not name what an operator makes tensors of.
  void check_numbers(const runtime::OperatorInfo& op) const;
  bool passes(std::string_view optional) const;
};

class OpCall {
 public:
  /// Throws tw::Error when the operator refuses the case.
  OpCall(const runtime::OperatorInfo& op, std::span<const DType> combo, const CaseSpec& spec,
         uint64_t seed, Layout layout);
  /// The same call in memory of its own: cheaper than to draw its operands again. Before either is
  /// run, so that outputs are poisoned.
  OpCall(const OpCall& other);
  OpCall& operator=(const OpCall&) = delete;

  ops::Call& call() { return call_; }
  /// The tensors behind the outputs, in schema order.
  const std::vector<TensorRef>& outputs() const { return outputs_; }
  /// Whether no byte in front of any tensor, nor between the elements of an output, was written.
  bool padding_intact() const;

 private:
  ops::Bindings set_scalars(const CaseSpec& spec);
  TensorRef take(const Tensor& made, Layout layout);
  TensorRef make_random(std::span<const int64_t> shape, DType dtype, Layout layout, uint64_t seed);
  TensorRef make(std::span<const int64_t> shape, DType dtype, Layout layout, bool output);
  /// From the memory of `other`, which this is a copy of, to the same place in this call's.
  void rebase(TensorRef& tensor, const OpCall& other) const;

  ops::Call call_;
  std::deque<GuardedBuffer> buffers_;
  std::vector<std::pair<TensorRef, size_t>> gapped_outputs_;  // with the index of the buffer
  std::vector<TensorRef> outputs_;
  std::vector<Tensor> kept_;
};

}  // namespace tw::testing
