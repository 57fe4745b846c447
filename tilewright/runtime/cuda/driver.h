// The CUDA driver's functions that we use, found in libcuda.so.1 at run time: one library serves
// machines with and without a GPU, and building needs no CUDA headers. Declarations follow the
// driver's reference manual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tilewright/core/error.h"
#include "tilewright/runtime/cuda/call_stream.h"

namespace tw::runtime::cuda {

using Result = int;  // CUresult; 0 is success
using DeviceId = int;
using DevicePointer = uint64_t;
struct ContextOpaque;
struct LibraryOpaque;
struct KernelOpaque;
struct MemoryPoolOpaque;
struct EventOpaque;
struct GraphOpaque;
struct GraphExecOpaque;
using DriverContext = ContextOpaque*;
using Library = LibraryOpaque*;
using Kernel = KernelOpaque*;
using MemoryPool = MemoryPoolOpaque*;
using Event = EventOpaque*;
using Graph = GraphOpaque*;
using GraphExec = GraphExecOpaque*;

/// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  alignas(8) int value;
  char rest[60];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

// X(member, symbol, parameters)
#define TW_FOR_EACH_DRIVER_FUNCTION(X)                                                             \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(get_error_name, "cuGetErrorName", (Result error, const char** text))                           \
  X(get_error_string, "cuGetErrorString", (Result error, const char** text))                       \
  X(device_count, "cuDeviceGetCount", (int* count))                                                \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, DeviceId device))        \
  X(device_name, "cuDeviceGetName", (char* name, int length, DeviceId device))                     \
  X(pci_bus_id, "cuDeviceGetPCIBusId", (char* id, int length, DeviceId device))                    \
  X(retain_context, "cuDevicePrimaryCtxRetain", (DriverContext * context, DeviceId device))        \
  X(current_context, "cuCtxGetCurrent", (DriverContext * context))                                 \
  X(push_context, "cuCtxPushCurrent_v2", (DriverContext context))                                  \
  X(pop_context, "cuCtxPopCurrent_v2", (DriverContext * context))                                  \
  X(load_library, "cuLibraryLoadData",                                                             \
    (Library * library, const void* code, int* jit_options, void** jit_values, unsigned jit_count, \
     int* options, void** values, unsigned count))                                                 \
  X(kernel_count, "cuLibraryGetKernelCount", (unsigned* count, Library library))                   \
  X(list_kernels, "cuLibraryEnumerateKernels",                                                     \
    (Kernel * kernels, unsigned count, Library library))                                           \
  X(kernel_name, "cuKernelGetName", (const char** name, Kernel kernel))                            \
  X(set_kernel_attribute, "cuKernelSetAttribute",                                                  \
    (int attribute, int value, Kernel kernel, DeviceId device))                                    \
  X(kernel_attribute, "cuKernelGetAttribute",                                                      \
    (int* value, int attribute, Kernel kernel, DeviceId device))                                   \
  X(resident_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                \
    (int* blocks, Kernel kernel, int threads, size_t shared_bytes))                                \
  X(launch_kernel, "cuLaunchKernel",                                                               \
    (Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,           \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream,               \
     void** arguments, void** extra))                                                              \
  X(launch_kernel_with, "cuLaunchKernelEx",                                                        \
    (const LaunchConfig* config, Kernel kernel, void** arguments, void** extra))                   \
  X(encode_tensor_map, "cuTensorMapEncodeTiled",                                                   \
    (void* map, int type, unsigned rank, void* address, const uint64_t* sizes,                     \
     const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,          \
     int swizzle, int promotion, int fill))                                                        \
  X(synchronize_stream, "cuStreamSynchronize", (StreamHandle stream))                              \
  X(is_capturing, "cuStreamIsCapturing", (StreamHandle stream, int* status))                       \
  X(allocate, "cuMemAlloc_v2", (DevicePointer * pointer, size_t bytes))                            \
  X(free, "cuMemFree_v2", (DevicePointer pointer))                                                 \
  X(allocate_async, "cuMemAllocAsync",                                                             \
    (DevicePointer * pointer, size_t bytes, StreamHandle stream))                                  \
  X(free_async, "cuMemFreeAsync", (DevicePointer pointer, StreamHandle stream))                    \
  X(default_pool, "cuDeviceGetDefaultMemPool", (MemoryPool * pool, DeviceId device))               \
  X(pool_attribute, "cuMemPoolGetAttribute", (MemoryPool pool, int attribute, void* value))        \
  X(set_pool_attribute, "cuMemPoolSetAttribute", (MemoryPool pool, int attribute, void* value))    \
  X(memset_words_async, "cuMemsetD32Async",                                                        \
    (DevicePointer to, unsigned word, size_t count, StreamHandle stream))                          \
  X(copy_to_device, "cuMemcpyHtoD_v2", (DevicePointer to, const void* from, size_t bytes))         \
  X(copy_to_host, "cuMemcpyDtoH_v2", (void* to, DevicePointer from, size_t bytes))                 \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                        \
    (DevicePointer to, DevicePointer from, size_t bytes, StreamHandle stream))                     \
  X(fill_async, "cuMemsetD8Async",                                                                 \
    (DevicePointer to, unsigned char value, size_t bytes, StreamHandle stream))                    \
  X(create_stream, "cuStreamCreate", (StreamHandle * stream, unsigned flags))                      \
  X(destroy_stream, "cuStreamDestroy_v2", (StreamHandle stream))                                   \
  X(create_event, "cuEventCreate", (Event * event, unsigned flags))                                \
  X(destroy_event, "cuEventDestroy_v2", (Event event))                                             \
  X(record_event, "cuEventRecord", (Event event, StreamHandle stream))                             \
  X(synchronize_event, "cuEventSynchronize", (Event event))                                        \
  X(elapsed_ms, "cuEventElapsedTime_v2", (float* milliseconds, Event start, Event end))            \
  X(begin_capture, "cuStreamBeginCapture_v2", (StreamHandle stream, int mode))                     \
  X(end_capture, "cuStreamEndCapture", (StreamHandle stream, Graph * graph))                       \
  X(instantiate_graph, "cuGraphInstantiateWithFlags",                                              \
    (GraphExec * executable, Graph graph, unsigned long long flags))                               \
  X(launch_graph, "cuGraphLaunch", (GraphExec executable, StreamHandle stream))                    \
  X(destroy_graph, "cuGraphDestroy", (Graph graph))                                                \
  X(destroy_executable, "cuGraphExecDestroy", (GraphExec executable))

struct Driver {
#define TW_MEMBER(member, symbol, parameters) Result(*member) parameters;
  TW_FOR_EACH_DRIVER_FUNCTION(TW_MEMBER)
#undef TW_MEMBER
};

/// Whether this machine has a usable driver and at least one GPU, or the reason why not.
TW_API const Support& availability();

/// The driver, initialised. Throws kUnsupported where availability() says no.
TW_API const Driver& driver();

/// Throws what the driver's error means, the texts in front: kOutOfMemory, or else kInternal.
[[noreturn]] TW_API void fail(Result result, std::initializer_list<std::string_view> what);
/// The same where `result` is an error. The texts are put together only then: launching is quick.
template <class... Text>
void check(Result result, const Text&... what) {
  if (result != 0) [[unlikely]]
    fail(result, {std::string_view(what)...});
}

}  // namespace tw::runtime::cuda
