// The few macros every layer may use. Freestanding: also read by NVRTC.
#pragma once

#if defined(__CUDACC__)
#define TW_DEVICE __host__ __device__
#else
#define TW_DEVICE
#endif

// Forced inlining is part of the design of the kernels: a body compiled for one instruction set
// must never be emitted as a mergeable symbol that a lesser machine could be handed.
#if defined(__CUDACC__)
#define TW_INLINE TW_DEVICE __forceinline__
#else
#define TW_INLINE inline __attribute__((always_inline))
#endif

// A function of a GPU's that is called: the loops of its caller have the registers to themselves.
#if defined(__CUDACC__)
#define TW_CALLED TW_DEVICE __noinline__
#else
#define TW_CALLED
#endif

// Of a function: everything it calls is inlined into it, lambdas included, so far as it is not
// recursive. The loop of a skeleton would otherwise call the kernel's functor for every vector.
#if defined(__CUDACC__)
#define TW_FLATTEN
#else
#define TW_FLATTEN __attribute__((flatten))
#endif

// The same of a single lambda, between its parameters and its body.
#if defined(__CUDACC__)
#define TW_INLINED
#else
#define TW_INLINED __attribute__((always_inline))
#endif

// Of a function that a CPU rarely runs and that is long: a call, so that each kernel which may need
// it does not hold its code. Internal to the object file: see TW_INLINE.
#define TW_APART static __attribute__((noinline))

// Of a member of a template on the program: on a CPU compiled once for all the kernels that call
// it, with what it calls inlined.
#if defined(__CUDACC__)
#define TW_SHARED TW_INLINE
#else
#define TW_SHARED __attribute__((noinline, flatten))
#endif

#define TW_RESTRICT __restrict__

#if defined(__clang__) || defined(__CUDACC__)
#define TW_UNROLL _Pragma("unroll")
#define TW_NO_UNROLL _Pragma("unroll 1")
#else
#define TW_UNROLL _Pragma("GCC unroll 32")
#define TW_NO_UNROLL
#endif
// The same of a loop that g++ would unroll: it refuses loops over members, which device code has.
#if defined(__clang__) || defined(__CUDACC__)
#define TW_ROLLED TW_NO_UNROLL
#else
#define TW_ROLLED _Pragma("GCC unroll 1")
#endif
// Of a loop over memory whose loads are to be on their way together: a CPU foresees them.
#if defined(__CUDACC__)
#define TW_UNROLL_LOADS _Pragma("unroll 8")
#else
#define TW_UNROLL_LOADS
#endif

#if defined(_WIN32) || defined(__CUDACC__)
#define TW_API
#else
#define TW_API __attribute__((visibility("default")))
#endif
