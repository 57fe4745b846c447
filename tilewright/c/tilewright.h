/* The C interface of tilewright: every operator of the catalog, on plain memory.
 *
 *   tw_context* context;
 *   tw_context_new(0, &context);
 *   const tw_operator* op;
 *   tw_operator_find("softmax", &op);
 *   tw_value arguments[] = {tw_tensor_value(&x), tw_absent(), tw_tensor_value(&out)};
 *   if (tw_call(context, op, arguments, 3, NULL, NULL) != TW_OK) puts(tw_last_error());
 *
 * tilewright/c/operators.h has the same with one typed function per operator.
 *
 * Arguments stand in the order of the operator's schema, inputs first, then outputs. Functions that
 * can fail return a status; tw_last_error() then has the message, per thread, until the next
 * failure on that thread. No function throws. Nothing here is ever removed or changes its meaning
 * within one TW_ABI_VERSION; functions may be added. */
#ifndef TILEWRIGHT_C_TILEWRIGHT_H_
#define TILEWRIGHT_C_TILEWRIGHT_H_

#include <stddef.h>
#include <stdint.h>

#define TW_ABI_VERSION 0
#define TW_MAX_RANK 8

#if defined(_WIN32)
#define TW_C_API
#else
#define TW_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tw_status {
  TW_OK = 0,
  TW_INVALID_ARGUMENT = 1, /* outside the operator's contract */
  TW_UNSUPPORTED = 2,      /* valid, but no kernel takes it */
  TW_OUT_OF_MEMORY = 3,
  TW_BAD_FILE = 4,
  TW_IO = 5,
  TW_INTERNAL = 6 /* a bug in tilewright */
} tw_status;

/* DLPack's DLDevice, DLDataType and DLTensor, field by field: a DLTensor* is a tw_tensor*. */
typedef struct tw_device {
  int32_t type; /* 1: CPU, 2: CUDA */
  int32_t index;
} tw_device;
typedef struct tw_dtype {
  uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2 */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} tw_dtype;
typedef struct tw_tensor {
  void* data;
  tw_device device;
  int32_t rank;
  tw_dtype dtype;
  int64_t* shape;   /* [rank], elements */
  int64_t* strides; /* [rank], elements; NULL: contiguous */
  uint64_t byte_offset;
} tw_tensor;

/* Shape and dtype of an output. */
typedef struct tw_shape {
  int32_t rank;
  tw_dtype dtype;
  int64_t sizes[TW_MAX_RANK];
} tw_shape;

typedef enum tw_kind {
  TW_ABSENT = 0, /* a scalar's default; no optional tensor; a required output to be allocated */
  TW_TENSOR = 1,
  TW_FLOAT = 2,
  TW_INT = 3,     /* also booleans, and choices by their position */
  TW_TEXT = 4,    /* a text, or a choice by its name */
  TW_ALLOCATE = 5 /* an optional output that is wanted, to be allocated */
} tw_kind;
typedef struct tw_value {
  int32_t kind;
  union {
    tw_tensor* tensor;
    double f64;
    int64_t i64;
    const char* text;
  } as;
} tw_value;

typedef struct tw_operator tw_operator; /* lives as long as the process */
typedef struct tw_context tw_context;

/* One argument of an operator, as its schema declares it. */
typedef enum tw_argument_kind {
  TW_ARGUMENT_TENSOR = 0,
  TW_ARGUMENT_FLOAT = 1,
  TW_ARGUMENT_INT = 2,
  TW_ARGUMENT_BOOL = 3,
  TW_ARGUMENT_CHOICE = 4,
  TW_ARGUMENT_TEXT = 5
} tw_argument_kind;
typedef struct tw_argument {
  const char* name;
  const char* type;         /* a tensor's dtype or type variable; "a|b|c" of a choice */
  const char* dims;         /* a tensor's: "*, C" */
  const char* default_text; /* "" : none */
  int32_t kind;             /* tw_argument_kind */
  int32_t is_output;
  int32_t is_optional;
} tw_argument;

/* "0.1.0" */
TW_C_API const char* tw_version(void);
/* TW_ABI_VERSION of the library that is loaded. */
TW_C_API int32_t tw_abi_version(void);
/* The message of this thread's last failure: names the operator, the argument and the rule. */
TW_C_API const char* tw_last_error(void);
/* The status of this thread's last failure. */
TW_C_API tw_status tw_last_status(void);
/* The instruction set that kernels are chosen for: "avx2"; "" where there is none to choose, and
 * tw_last_error() says why. */
TW_C_API const char* tw_isa(void);
/* Why no call can run on a GPU: there is no driver or no GPU, or this build has no kernels for
 * them;
 * "" where calls can. */
TW_C_API const char* tw_cuda_unavailable(void);

/* What a GPU says of itself; 0 where it does not tell. */
typedef struct tw_gpu_state {
  double sm_mhz; /* now */
  double memory_mhz;
  double power_w;       /* of the board, at an instant */
  double power_limit_w; /* where clocks are lowered */
  double temperature_c;
} tw_gpu_state;
/* The state of the GPU that CUDA numbers `device`; TW_UNSUPPORTED without NVML, and tw_last_error()
 * says why. Takes up to some milliseconds, and does not wait for the GPU's work. */
TW_C_API tw_status tw_cuda_state(int32_t device, tw_gpu_state* state);

/* The whole catalog as JSON: an array of {name, schema, arguments, dtypes, edge_cases, ...}. */
TW_C_API const char* tw_catalog(void);

TW_C_API int32_t tw_operator_count(void);
/* NULL unless 0 <= index < tw_operator_count(). */
TW_C_API const tw_operator* tw_operator_at(int32_t index);
TW_C_API tw_status tw_operator_find(const char* name, const tw_operator** op);
TW_C_API const char* tw_operator_name(const tw_operator* op);
/* "softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C]" */
TW_C_API const char* tw_operator_schema(const tw_operator* op);
TW_C_API int32_t tw_operator_argument_count(const tw_operator* op);
/* NULL unless 0 <= index < tw_operator_argument_count(op). */
TW_C_API const tw_argument* tw_operator_argument(const tw_operator* op, int32_t index);

/* A context runs one call at a time; make one per thread. `threads` counts the caller; 0 takes
 * TILEWRIGHT_NUM_THREADS, or the processors this process may use. Contexts with the same count
 * share their threads. */
TW_C_API tw_status tw_context_new(int32_t threads, tw_context** context);

/* A program with threads of its own lends them: calls body(work, worker) for workers in [0,
 * threads), each at most once, at once or one after another and in any order, and returns when all
 * have returned. */
typedef void (*tw_body)(void* work, int32_t worker);
typedef void (*tw_fork)(void* host, int32_t threads, tw_body body, void* work);
/* A context that works on such threads, at most `threads` >= 1 at once, and starts none. */
TW_C_API tw_status tw_context_new_on_host(int32_t threads, tw_fork fork, void* host,
                                          tw_context** context);
/* NULL: nothing. */
TW_C_API void tw_context_free(tw_context* context);
/* The CUDA stream (a cudaStream_t or CUstream) that calls on tensors of a GPU go into, until
 * another one is set; NULL, as at first, is CUDA's legacy default stream. Such calls do not wait
 * for their results. A context that is NULL is a failure, of which tw_last_status() and
 * tw_last_error() tell. */
TW_C_API void tw_context_set_cuda_stream(tw_context* context, void* stream);

/* Memory of a GPU for what kernels need meanwhile: at least `bytes` > 0, aligned to 256, for use in
 * `stream`; NULL, and the call fails with TW_OUT_OF_MEMORY. All of it is given back, with the same
 * bytes and stream, before the call returns, and what the call put into the stream may use it
 * still: it is for what follows there. Both are called by the thread that makes the call, with the
 * GPU's context current, also while the stream is captured, and must not wait for the GPU. */
typedef void* (*tw_device_allocate)(void* user, size_t bytes, void* stream);
typedef void (*tw_device_free)(void* user, void* memory, size_t bytes, void* stream);
/* Both NULL: the driver's pool, as at first. */
TW_C_API tw_status tw_context_set_cuda_allocator(tw_context* context, tw_device_allocate allocate,
                                                 tw_device_free free, void* user);

/* How GPUs multiply float32 matrices, in the whole process: "highest", in float32, or "high", by
 * tensor cores that read 11 bits of their mantissas (tf32) and add up in float32. At first what
 * TILEWRIGHT_FLOAT32_MATMUL_PRECISION says, or "highest". */
TW_C_API tw_status tw_set_float32_matmul_precision(const char* precision);
TW_C_API tw_status tw_float32_matmul_precision(const char** precision);

/* Shapes and dtypes of the outputs, in schema order, optional ones included; `outputs` has room for
 * all of them. Outputs among the arguments are ignored. */
TW_C_API tw_status tw_infer(const tw_operator* op, const tw_value* arguments, int32_t count,
                            tw_shape* outputs);

/* Makes output number `index` (among the arguments), contiguous; fills `tensor`, whose shape and
 * strides point to storage that outlives the call. Anything but 0 fails the call. */
typedef int32_t (*tw_allocate)(void* user, int32_t index, const tw_shape* shape, tw_tensor* tensor);

/* Runs an operator where its tensors are. Outputs that are required or wanted, but not given, come
 * from `allocate`; it may be NULL when all are given. Trailing arguments that are absent may be
 * left out. */
TW_C_API tw_status tw_call(tw_context* context, const tw_operator* op, const tw_value* arguments,
                           int32_t count, tw_allocate allocate, void* user);
/* The same with the operator's definition in float64: slow, and the measure of the kernels. */
TW_C_API tw_status tw_call_reference(const tw_operator* op, const tw_value* arguments,
                                     int32_t count, tw_allocate allocate, void* user);

/* A call that has succeeded, its arguments as they were given. */
typedef struct tw_answer {
  const tw_operator* op;
  const tw_value* arguments;
  int32_t count;
  /* An instruction set ("avx2", ...), "sm_90a" for kernels that are Hopper's own ("sm_90a_tf32"
   * where they multiply float32 as tf32), "cuda" for the portable ones, "reference" for the
   * definition. */
  const char* build;
} tw_answer;
typedef void (*tw_observer)(const tw_answer* answer);
/* Calls `observer` after each call in the process, in the thread that made it; NULL: no more. */
TW_C_API void tw_observe(tw_observer observer);

static inline tw_value tw_absent(void) {
  tw_value value = {TW_ABSENT, {NULL}};
  return value;
}
static inline tw_value tw_tensor_value(const tw_tensor* tensor) {
  tw_value value = tw_absent();
  if (tensor != NULL) value.kind = TW_TENSOR;
  value.as.tensor = (tw_tensor*)tensor;
  return value;
}
static inline tw_value tw_float_value(double number) {
  tw_value value = tw_absent();
  value.kind = TW_FLOAT;
  value.as.f64 = number;
  return value;
}
static inline tw_value tw_int_value(int64_t number) {
  tw_value value = tw_absent();
  value.kind = TW_INT;
  value.as.i64 = number;
  return value;
}
static inline tw_value tw_text_value(const char* text) {
  tw_value value = tw_absent();
  if (text != NULL) value.kind = TW_TEXT;
  value.as.text = text;
  return value;
}

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_C_TILEWRIGHT_H_ */
