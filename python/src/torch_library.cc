// torch.ops.tilewright: every operator of the catalog as a boxed kernel, for the CPU and for
// CUDA.
//
// A client of two C interfaces and nothing else: ours, and the stable one of PyTorch. One binary
// therefore serves PyTorch 2.11 and all later versions, on any Python.
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <pthread.h>

#include "python/src/torch_dtypes.h"
#include "python/src/torch_memory.h"
#include "python/src/torch_schema.h"
#include "python/src/torch_shim.h"

namespace tw::torch {
namespace {

// PyTorch 2.11: what the values on the stack look like to this file.
constexpr uint64_t kTorchVersion = uint64_t{2} << 56 | uint64_t{11} << 48;
constexpr int32_t kCpu = 1, kCuda = 2;  // DLPack's devices
constexpr size_t kMaxArguments = 32;
constexpr size_t kMaxKernels = 768;  // operators times forms

/// One overload of one operator.
struct Overload {
  const tw_operator* op;
  Form form;
  std::vector<Kind> kinds;  // of all arguments
  std::vector<int32_t> optional_outputs;
  size_t inputs;  // arguments that are inputs
};

std::vector<Overload>& overloads() {
  static auto& table = *new std::vector<Overload>;  // threads may outlive what is destroyed at exit
  return table;
}

struct DeleteString {
  void operator()(StringOpaque* text) const { torch_delete_string(text); }
};
struct DeleteList {
  void operator()(StableListOpaque* list) const { torch_delete_list(list); }
};
struct FreeContext {
  void operator()(tw_context* context) const { tw_context_free(context); }
};

/// PyTorch's threads do not outlive a fork, and its runtime would wait for them.
std::atomic<bool> is_forked_child{false};
const int kForkHandler = pthread_atfork(
    nullptr, nullptr, [] { is_forked_child.store(true, std::memory_order_relaxed); });

/// Works on PyTorch's own threads. Threads of ours beside them would share their cores: OpenMP's
/// spin for milliseconds after every parallel loop (measured: our operators took twice as long).
void fork_on_torch(void*, int32_t threads, tw_body body, void* work) {
  struct Fork {
    tw_body body;
    void* work;
  } fork{body, work};
  if (is_forked_child.load(std::memory_order_relaxed)) return;  // the caller does it all
  torch_parallel_for(  // a failure has run nothing, and the caller does it all
      0, threads, 1,
      [](int64_t begin, int64_t end, void* context) {
        const Fork& each = *static_cast<const Fork*>(context);
        for (int64_t worker = begin; worker < end; ++worker)
          each.body(each.work, static_cast<int32_t>(worker));
      },
      &fork);
}

/// This thread's context for as many threads as PyTorch uses now.
tw_context* context() {
  thread_local std::vector<std::pair<uint32_t, std::unique_ptr<tw_context, FreeContext>>> cache;
  uint32_t threads = 1;
  check(torch_get_num_threads(&threads), "tell its number of threads");
  for (const auto& [count, cached] : cache)
    if (count == threads) return cached.get();
  tw_context* made = nullptr;
  if (tw_context_new_on_host(static_cast<int32_t>(threads), fork_on_torch, nullptr, &made) != TW_OK)
    throw std::runtime_error(tw_last_error());
  cache.emplace_back(threads, made);
  return made;
}

/// What one argument of a running call owns and points to.
struct Held {
  TensorHandle tensor;
  tw_tensor view{};
  std::vector<int64_t> list;
  int64_t list_size = 0;
  std::unique_ptr<StringOpaque, DeleteString> text;
};

tw_tensor view_of(AtenTensorHandle tensor, bool is_output) {
  tw_tensor view{};
  view.device = {kCpu, 0};
  int64_t rank = 0;
  int32_t dtype = 0, device = 0;
  check(aoti_torch_get_device_type(tensor, &device), "tell where a tensor is");
  if (device == aoti_torch_device_type_cuda()) {
    view.device.type = kCuda;
    check(aoti_torch_get_device_index(tensor, &view.device.index), "tell where a tensor is");
  }
  check(aoti_torch_get_dim(tensor, &rank), "tell a tensor's rank");
  check(aoti_torch_get_dtype(tensor, &dtype), "tell a tensor's dtype");
  check(aoti_torch_get_sizes(tensor, &view.shape), "tell a tensor's sizes");
  check(aoti_torch_get_strides(tensor, &view.strides), "tell a tensor's strides");
  if (is_output) {
    check(torch_get_mutable_data_ptr(tensor, &view.data), "tell where an output is");
  } else {
    const void* data = nullptr;
    check(torch_get_const_data_ptr(tensor, &data), "tell where an input is");
    view.data = const_cast<void*>(data);
  }
  view.rank = static_cast<int32_t>(rank);
  view.dtype = our_dtype(dtype);
  return view;
}

/// What is said of an argument.
std::string told(const Overload& overload, size_t index, const std::string& rule) {
  const tw_argument* arg = tw_operator_argument(overload.op, static_cast<int32_t>(index));
  return std::string(tw_operator_name(overload.op)) + ": " + arg->name + " " + rule + "\n  in " +
         tw_operator_schema(overload.op);
}

/// Refuses a tensor whose storage was made smaller than what it describes.
void check_storage(const Overload& overload, size_t index, const Held& held) {
  int64_t last = 0, offset = 0, bytes = 0;
  for (int32_t d = 0; d < held.view.rank; ++d) {
    if (held.view.shape[d] == 0) return;
    last += (held.view.shape[d] - 1) * held.view.strides[d];
  }
  check(aoti_torch_get_storage_offset(held.tensor.get(), &offset), "tell where a tensor begins");
  check(aoti_torch_get_storage_size(held.tensor.get(), &bytes), "tell the size of a storage");
  const int64_t needed = (offset + last + 1) * (held.view.dtype.bits / 8);
  if (needed <= bytes) return;
  throw std::invalid_argument(told(
      overload, index,
      "needs " + std::to_string(needed) + " bytes, but its storage has " + std::to_string(bytes)));
}

template <class T>
T bits_to(StableIValue value) {
  T out;
  std::memcpy(&out, &value, sizeof(T));  // the low bytes, on little-endian machines
  return out;
}

tw_value hold_list(StableIValue value, Held& held) {
  const std::unique_ptr<StableListOpaque, DeleteList> list(bits_to<StableListHandle>(value));
  size_t size = 0;
  check(torch_list_size(list.get(), &size), "tell the length of a list");
  for (size_t i = 0; i < size; ++i) {
    StableIValue item = 0;
    check(torch_list_get_item(list.get(), i, &item), "give an element of a list");
    held.list.push_back(bits_to<int64_t>(item));
  }
  held.list.reserve(1);  // the data pointer of no numbers is not null
  held.list_size = static_cast<int64_t>(size);
  held.view.data = held.list.data();
  held.view.device = {kCpu, 0};
  held.view.rank = 1;
  held.view.dtype = {0, 64, 1};
  held.view.shape = &held.list_size;
  return tw_tensor_value(&held.view);
}

/// Takes an argument off PyTorch's stack: from here on `held` owns it.
tw_value take(const Overload& overload, size_t index, StableIValue value, Held& held) {
  switch (overload.kinds[index]) {
    case Kind::kTensor:
      held.tensor.reset(bits_to<AtenTensorHandle>(value));
      break;
    case Kind::kOptionalTensor: {
      const std::unique_ptr<StableIValue> inner(bits_to<StableIValue*>(value));
      if (!inner) return tw_absent();
      held.tensor.reset(bits_to<AtenTensorHandle>(*inner));
      break;
    }
    case Kind::kIntList:
      return hold_list(value, held);
    case Kind::kFloat:
      return tw_float_value(bits_to<double>(value));
    case Kind::kInt:
      return tw_int_value(bits_to<int64_t>(value));
    case Kind::kBool:
      return tw_int_value(bits_to<bool>(value) ? 1 : 0);
    case Kind::kString: {
      held.text.reset(bits_to<StringHandle>(value));
      const char* text = nullptr;
      check(torch_string_c_str(held.text.get(), &text), "give a string");
      return tw_text_value(text);
    }
  }
  bool is_there = false;  // None passes for any tensor
  check(aoti_torch_is_defined(held.tensor.get(), &is_there), "tell whether there is a tensor");
  // No ValueError: tilewright.ops raises a TypeError once it has seen the failure.
  if (!is_there) throw std::runtime_error(told(overload, index, "is missing"));
  held.view = view_of(held.tensor.get(), index >= overload.inputs);
  return tw_tensor_value(&held.view);
}

/// Outputs of a running call that come from PyTorch's allocator, in schema order.
struct Outputs {
  tw_device device;
  std::vector<TensorHandle> made;
};

int32_t allocate(void* user, int32_t, const tw_shape* shape, tw_tensor* tensor) {
  auto& outputs = *static_cast<Outputs*>(user);
  const int32_t device =
      outputs.device.type == kCuda ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu();
  int64_t strides[TW_MAX_RANK] = {}, stride = 1;
  for (int32_t d = shape->rank; d-- > 0;) {
    strides[d] = stride;
    stride *= shape->sizes[d] > 0 ? shape->sizes[d] : 1;
  }
  AtenTensorHandle made = nullptr;
  if (aoti_torch_empty_strided(shape->rank, shape->sizes, strides, torch_dtype(shape->dtype),
                               device, outputs.device.index, &made) != 0)
    return 1;
  outputs.made.emplace_back(made);
  *tensor = view_of(made, true);
  if (outputs.device.type == kCpu) ask_for_large_pages(*tensor);
  return 0;
}

/// Where the call's tensors are; that they agree is checked by the library.
tw_device device_of(const std::array<tw_value, kMaxArguments>& values, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (values[i].kind == TW_TENSOR && values[i].as.tensor->device.type == kCuda)
      return values[i].as.tensor->device;
  return {kCpu, 0};
}

/// PyTorch's current stream. Only its CUDA library has the function, and that is loaded when there
/// is a tensor on a GPU.
void* current_stream(int32_t device) {
  using Get = AOTITorchError (*)(int32_t, void**);
  static const Get kGet = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return library == nullptr
               ? nullptr
               : reinterpret_cast<Get>(dlsym(library, "aoti_torch_get_current_cuda_stream"));
  }();
  void* stream = nullptr;
  if (kGet == nullptr) throw std::runtime_error("tilewright: torch has no CUDA streams");
  check(kGet(device, &stream), "tell its current CUDA stream");
  return stream;
}

[[noreturn]] void raise(tw_status status) {
  const std::string message = tw_last_error();
  // pybind11 makes a ValueError of this one; PyTorch makes a RuntimeError of all others.
  if (status == TW_INVALID_ARGUMENT) throw std::invalid_argument(message);
  throw std::runtime_error(message);
}

void run(const Overload& overload, StableIValue* stack, uint64_t taken, uint64_t returned) {
  std::array<tw_value, kMaxArguments> values{};
  std::array<Held, kMaxArguments> held;
  for (size_t i = 0; i < taken; ++i) values[i] = take(overload, i, stack[i], held[i]);
  for (size_t i = 0; i < taken; ++i)
    if (held[i].tensor) check_storage(overload, i, held[i]);
  if (overload.form == Form::kFull)
    for (const int32_t i : overload.optional_outputs)
      values[static_cast<size_t>(i)].kind = TW_ALLOCATE;
  Outputs outputs{device_of(values, taken), {}};
  tw_context* const here = context();
  Workspaces workspaces{outputs.device.index, {}};
  if (outputs.device.type == kCuda) {
    tw_context_set_cuda_stream(here, current_stream(outputs.device.index));
    tw_context_set_cuda_allocator(here, Workspaces::allocate, Workspaces::free, &workspaces);
  }
  const tw_status status =
      tw_call(here, overload.op, values.data(), static_cast<int32_t>(overload.kinds.size()),
              overload.form == Form::kOut ? nullptr : allocate, &outputs);
  if (status != TW_OK) raise(status);
  for (size_t i = 0; i < returned; ++i) {
    AtenTensorHandle handle = outputs.made[i].release();
    stack[i] = 0;
    std::memcpy(&stack[i], &handle, sizeof(handle));
  }
}

// PyTorch calls a plain function without context, so each overload has one.
template <size_t kIndex>
void boxed(StableIValue* stack, uint64_t taken, uint64_t returned) {
  run(overloads()[kIndex], stack, taken, returned);
}
template <size_t... kIndex>
constexpr auto make_kernels(std::index_sequence<kIndex...>) {
  return std::array<void (*)(StableIValue*, uint64_t, uint64_t), sizeof...(kIndex)>{
      &boxed<kIndex>...};
}
constexpr auto kKernels = make_kernels(std::make_index_sequence<kMaxKernels>{});

Overload describe(const tw_operator* op, Form form) {
  Overload out{op, form, {}, {}, 0};
  int32_t index = 0;
  for (const tw_argument* arg : arguments_of(op)) {
    out.kinds.push_back(kind_of(*arg));
    if (!arg->is_output) ++out.inputs;
    if (arg->is_output && arg->is_optional) out.optional_outputs.push_back(index);
    ++index;
  }
  return out;
}

/// Registers everything when the library is loaded.
struct Registration {
  Registration() {
    TorchLibraryHandle definitions = nullptr, kernels = nullptr, cuda_kernels = nullptr;
    check(aoti_torch_library_init_def("tilewright", __FILE__, __LINE__, &definitions),
          "make the library tilewright");
    check(aoti_torch_library_init_impl("tilewright", "CPU", __FILE__, __LINE__, &kernels),
          "add CPU kernels to the library tilewright");
    check(aoti_torch_library_init_impl("tilewright", "CUDA", __FILE__, __LINE__, &cuda_kernels),
          "add CUDA kernels to the library tilewright");
    for (int32_t i = 0; i < tw_operator_count(); ++i) {
      const tw_operator* op = tw_operator_at(i);
      for (const Form form : {Form::kFunctional, Form::kFull, Form::kOut}) {
        if (form == Form::kFull && !has_optional_output(op)) continue;
        const size_t index = overloads().size();
        if (index >= kMaxKernels ||
            static_cast<size_t>(tw_operator_argument_count(op)) > kMaxArguments)
          throw std::runtime_error("tilewright: the catalog outgrew the torch binding");
        overloads().push_back(describe(op, form));
        const std::string schema = torch_schema(op, form);
        check(aoti_torch_library_def(definitions, schema.c_str()), ("define " + schema).c_str());
        for (const TorchLibraryHandle library : {kernels, cuda_kernels})
          check(torch_library_impl(library, overload(op, form).c_str(), kKernels[index],
                                   kTorchVersion),
                "register a kernel");
      }
    }
  }
};
// The handles live as long as the process: PyTorch unregisters operators whose library is deleted.
const Registration kRegistration;

}  // namespace
}  // namespace tw::torch
