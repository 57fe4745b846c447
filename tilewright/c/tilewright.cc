#include "tilewright/c/tilewright.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilewright/built_cuda.h"
#include "tilewright/c/catalog_json.h"
#include "tilewright/c/clear.h"
#include "tilewright/c/dlpack.h"
#include "tilewright/c/guarded.h"
#include "tilewright/c/tensor.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/cuda/driver.h"
#include "tilewright/runtime/cuda/nvml.h"
#include "tilewright/runtime/matmul_precision.h"
#include "tilewright/runtime/operators.h"
#include "tilewright/runtime/thread_count.h"

struct tw_operator {
  const tw::runtime::OperatorInfo* info;
  std::string name, schema;
  std::vector<std::string> texts;  // what the arguments point into
  std::vector<tw_argument> arguments;
};

struct tw_context {
  std::unique_ptr<tw::runtime::ThreadPool> host_pool;  // null: the pool is shared
  tw::runtime::Context context;
};

namespace {

using tw::DType;
using tw::Error;
using tw::ErrorKind;
using tw::TensorRef;
using tw::c::guarded;
using tw::ops::Arg;
using tw::ops::ArgKind;
using tw::ops::Call;

static_assert(TW_MAX_RANK == tw::kMaxRank);
static_assert(offsetof(tw_tensor, shape) == 24 && sizeof(tw_tensor) == 48, "DLTensor's layout");

/// For pointers that a caller must give.
void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Error(ErrorKind::kInvalidArgument, std::string(what) + " is NULL");
}

[[noreturn]] void refuse(const tw_operator& op, const std::string& message) {
  throw Error(ErrorKind::kInvalidArgument, op.name + ": " + message + "\n  in " + op.schema);
}

void set_scalar(Call& call, const Arg& arg, const tw_value& value) {
  if (value.kind == TW_TEXT)
    call.set_text(arg.name, value.as.text == nullptr ? "" : value.as.text);
  else if (value.kind == TW_FLOAT)
    call.set(arg.name, value.as.f64);
  else
    call.set_integer(arg.name, value.as.i64);
}

Call make_call(const tw_operator& op, const tw_value* arguments, int32_t count, bool outputs) {
  Call call(*op.info->schema);
  if (count < 0 || count > call.schema().size())
    refuse(op, std::to_string(count) + " arguments given, but there are " +
                   std::to_string(call.schema().size()));
  if (count > 0 && arguments == nullptr) refuse(op, "arguments is NULL");
  for (int i = 0; i < count; ++i) {
    const Arg& arg = call.schema()[i];
    const tw_value& value = arguments[i];
    if (value.kind == TW_ABSENT || (arg.output && (!outputs || value.kind == TW_ALLOCATE)))
      continue;
    if ((value.kind == TW_TENSOR) != (arg.kind == ArgKind::kTensor) || value.kind < TW_ABSENT ||
        value.kind > TW_TEXT)
      refuse(op, std::string(arg.name) +
                     (arg.kind == ArgKind::kTensor ? " must be a tensor" : " must be a scalar"));
    if (value.kind == TW_TENSOR) {
      call[i].present = true;
      call[i].tensor = tw::c::read_tensor(value.as.tensor, call, arg);
    } else {
      set_scalar(call, arg, value);
    }
  }
  return call;
}

tw_shape shape_of(const Call& call, int i, const std::vector<int64_t>& sizes) {
  tw_shape out{};
  out.rank = static_cast<int32_t>(sizes.size());
  out.dtype = tw::c::dlpack_dtype(call.dtype_of_arg(i));
  for (size_t d = 0; d < sizes.size() && d < TW_MAX_RANK; ++d) out.sizes[d] = sizes[d];
  return out;
}

/// "4096 bytes"
std::string size_text(DType dtype, const std::vector<int64_t>& sizes) {
  double bytes = static_cast<double>(tw::element_size(dtype));  // may be more than 64 bits tell
  for (const int64_t size : sizes) bytes *= static_cast<double>(size);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), bytes < 1e15 ? "%.0f bytes" : "%.3g bytes", bytes);
  return text.data();
}

/// Has the caller allocate the outputs that are required or wanted, but not given.
void allocate_outputs(const tw_operator& op, const tw_value* arguments, int32_t count, Call& call,
                      tw_allocate allocate, void* user, void* stream = nullptr) {
  const auto is_wanted = [&](int i) {
    const Arg& arg = call.schema()[i];
    return arg.output && !call[i].present &&
           (!arg.optional || (i < count && arguments[i].kind == TW_ALLOCATE));
  };
  bool any = false;
  for (int i = 0; i < call.schema().size(); ++i) any |= is_wanted(i);
  if (!any || allocate == nullptr) return;
  const std::vector<std::vector<int64_t>> shapes = op.info->infer(call);
  std::vector<TensorRef> made;
  size_t next = 0;
  for (int i = 0; i < call.schema().size(); ++i) {
    const Arg& arg = call.schema()[i];
    if (!arg.output) continue;
    const std::vector<int64_t>& sizes = shapes[next++];
    if (!is_wanted(i)) continue;
    tw_tensor tensor{};
    const tw_shape shape = shape_of(call, i, sizes);
    if (allocate(user, i, &shape, &tensor) != 0)
      throw Error(ErrorKind::kOutOfMemory,
                  op.name + ": " + std::string(arg.name) + tw::shape_to_string(sizes) + ", " +
                      size_text(call.dtype_of_arg(i), sizes) + ", was not allocated");
    call[i].present = true;
    made.emplace_back(call[i].tensor = tw::c::read_tensor(&tensor, call, arg));
  }
  tw::c::clear_left_out(*op.info, call, made, stream);
}

std::vector<tw_operator> describe_operators() {
  std::vector<tw_operator> out;
  for (const tw::runtime::OperatorInfo& info : tw::runtime::operators()) {
    tw_operator& op = out.emplace_back();
    op.info = &info;
    op.name = info.name();
    op.schema = info.schema->text();
    op.texts.reserve(4 * static_cast<size_t>(info.schema->size()));
    const auto keep = [&](std::string text) {
      op.texts.push_back(std::move(text));
      return op.texts.back().c_str();
    };
    for (const Arg& arg : *info.schema)
      op.arguments.push_back({keep(std::string(arg.name)), keep(std::string(arg.type)),
                              keep(tw::c::dims_text(arg)), keep(std::string(arg.default_text)),
                              static_cast<int32_t>(arg.kind), arg.output, arg.optional});
  }
  return out;
}

const std::vector<tw_operator>& table() {
  // Never destroyed: threads may still be in calls when the process ends.
  static const auto& kTable = *new std::vector<tw_operator>(describe_operators());
  return kTable;
}

/// The threads that all contexts of one count share; never ended, as the default pool is not.
tw::runtime::ThreadPool& pool_of(int threads) {
  static std::mutex mutex;
  static auto& pools = *new std::map<int, std::unique_ptr<tw::runtime::ThreadPool>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<tw::runtime::ThreadPool>& pool = pools[threads];
  if (!pool) pool = std::make_unique<tw::runtime::ThreadPool>(threads);
  return *pool;
}

std::atomic<tw_observer> current_observer{nullptr};

/// Not under `guarded`, which lets nothing unwind it: Python, as it ends, ends threads that come
/// back to it in here.
tw_status tell_observer(tw_status status, const tw_answer& answer) {
  const tw_observer observer = current_observer.load(std::memory_order_acquire);
  if (status == TW_OK && observer != nullptr) [[unlikely]]
    observer(&answer);
  return status;
}

}  // namespace

const char* tw_version(void) {
  return TILEWRIGHT_VERSION;
}
int32_t tw_abi_version(void) {
  return TW_ABI_VERSION;
}
const char* tw_isa(void) {
  const char* out = "";
  guarded([&] { out = tw::name(tw::runtime::detect_isa()); });
  return out;
}
const char* tw_cuda_unavailable(void) {
  if (!tw::runtime::kHasCuda) return "this build has no kernels for GPUs";
  const tw::Support& support = tw::runtime::cuda::availability();
  return support ? "" : support.reason().c_str();
}
tw_status tw_cuda_state(int32_t device, tw_gpu_state* state) {
  return guarded([&] {
    require(state, "tw_cuda_state: state");
    tw::runtime::cuda::GpuState told;
    if (const tw::Support support = tw::runtime::cuda::read_gpu_state(device, told); !support)
      throw Error(ErrorKind::kUnsupported, "cuda: " + support.reason());
    *state = {told.sm_mhz, told.memory_mhz, told.power_w, told.power_limit_w, told.temperature_c};
  });
}
const char* tw_catalog(void) {
  static const std::string kText = tw::c::catalog_json();
  return kText.c_str();
}

int32_t tw_operator_count(void) {
  return static_cast<int32_t>(table().size());
}
const tw_operator* tw_operator_at(int32_t index) {
  return index >= 0 && index < tw_operator_count() ? &table()[static_cast<size_t>(index)] : nullptr;
}
tw_status tw_operator_find(const char* name, const tw_operator** op) {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, const tw_operator*> out;
    for (const tw_operator& each : table()) out.emplace(each.name, &each);
    return out;
  }();
  return guarded([&] {
    require(name, "tw_operator_find: name");
    require(op, "tw_operator_find: op");
    const auto it = kByName.find(name);
    if (it == kByName.end()) tw::runtime::find_operator(name);  // throws, with suggestions
    *op = it->second;
  });
}
const char* tw_operator_name(const tw_operator* op) {
  return op->name.c_str();
}
const char* tw_operator_schema(const tw_operator* op) {
  return op->schema.c_str();
}
int32_t tw_operator_argument_count(const tw_operator* op) {
  return static_cast<int32_t>(op->arguments.size());
}
const tw_argument* tw_operator_argument(const tw_operator* op, int32_t index) {
  return index >= 0 && index < tw_operator_argument_count(op)
             ? &op->arguments[static_cast<size_t>(index)]
             : nullptr;
}

tw_status tw_context_new(int32_t threads, tw_context** context) {
  return guarded([&] {
    require(context, "tw_context_new: context");
    const int count = tw::runtime::resolve_threads(threads).threads;
    *context = new tw_context{nullptr, tw::runtime::Context(pool_of(count))};
  });
}
tw_status tw_context_new_on_host(int32_t threads, tw_fork fork, void* host, tw_context** context) {
  return guarded([&] {
    require(reinterpret_cast<const void*>(fork), "tw_context_new_on_host: fork");
    require(context, "tw_context_new_on_host: context");
    auto pool = std::make_unique<tw::runtime::ThreadPool>(threads, tw::runtime::Host{fork, host});
    tw::runtime::Context made(*pool);
    *context = new tw_context{std::move(pool), std::move(made)};
  });
}
void tw_context_free(tw_context* context) {
  delete context;
}

void tw_context_set_cuda_stream(tw_context* context, void* stream) {
  guarded([&] {
    require(context, "tw_context_set_cuda_stream: context");
    context->context.set_cuda_stream(stream);
  });
}
tw_status tw_context_set_cuda_allocator(tw_context* context, tw_device_allocate allocate,
                                        tw_device_free free, void* user) {
  return guarded([&] {
    require(context, "tw_context_set_cuda_allocator: context");
    if ((allocate == nullptr) != (free == nullptr))
      throw Error(
          ErrorKind::kInvalidArgument,
          "tw_context_set_cuda_allocator: allocate and free are given together or not at all");
    context->context.set_cuda_allocator({allocate, free, user});
  });
}

tw_status tw_set_float32_matmul_precision(const char* precision) {
  return guarded([&] {
    require(precision, "tw_set_float32_matmul_precision: precision");
    tw::runtime::set_float32_matmul_precision(tw::runtime::matmul_precision_of(precision));
  });
}
tw_status tw_float32_matmul_precision(const char** precision) {
  return guarded([&] {
    require(precision, "tw_float32_matmul_precision: precision");
    *precision = tw::runtime::name(tw::runtime::float32_matmul_precision()).data();
  });
}

void tw_observe(tw_observer observer) {
  current_observer.store(observer, std::memory_order_release);
}

tw_status tw_infer(const tw_operator* op, const tw_value* arguments, int32_t count,
                   tw_shape* outputs) {
  return guarded([&] {
    require(op, "tw_infer: op");
    require(outputs, "tw_infer: outputs");
    Call call = make_call(*op, arguments, count, false);
    const std::vector<std::vector<int64_t>> shapes = op->info->infer(call);
    size_t next = 0;
    for (int i = 0; i < call.schema().size(); ++i) {
      if (!call.schema()[i].output) continue;
      outputs[next] = shape_of(call, i, shapes[next]);
      ++next;
    }
  });
}

tw_status tw_call(tw_context* context, const tw_operator* op, const tw_value* arguments,
                  int32_t count, tw_allocate allocate, void* user) {
  const char* build = "";
  const tw_status status = guarded([&] {
    require(context, "tw_call: context");
    require(op, "tw_call: op");
    Call call = make_call(*op, arguments, count, true);
    allocate_outputs(*op, arguments, count, call, allocate, user, context->context.cuda_stream());
    op->info->run(call, context->context);
    build = context->context.answered_by().data();
  });
  return tell_observer(status, {op, arguments, count, build});
}

tw_status tw_call_reference(const tw_operator* op, const tw_value* arguments, int32_t count,
                            tw_allocate allocate, void* user) {
  const tw_status status = guarded([&] {
    require(op, "tw_call_reference: op");
    Call call = make_call(*op, arguments, count, true);
    allocate_outputs(*op, arguments, count, call, allocate, user);
    op->info->reference(call);
  });
  return tell_observer(status, {op, arguments, count, "reference"});
}
