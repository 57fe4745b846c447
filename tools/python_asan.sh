#!/usr/bin/env bash
# Calls from Python under AddressSanitizer and UndefinedBehaviorSanitizer: bad and unusual input,
# outputs in place and given, gaps between elements, threads, fork; NumPy's arrays, drawn calls.
#
#   tools/python_asan.sh BUILD JOBS
set -euo pipefail
cd "$(dirname "$0")/.."
runtime=$(clang++-19 -print-file-name=libclang_rt.asan-x86_64.so)

# Python keeps what it has until its end, PyTorch frees by other rules than it allocates, and what it
# cannot allocate is an error to be reported, not the end of the process.
export ASAN_OPTIONS=detect_leaks=0:new_delete_type_mismatch=0:alloc_dealloc_mismatch=0
export ASAN_OPTIONS=$ASAN_OPTIONS:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1
export TILEWRIGHT_BIN=$1/tilewright
export TILEWRIGHT_RANDOM_CALLS=3 # for each operator

# Of the many edge cases each operator's richest; what measures memory or needs much of it elsewhere.
elsewhere='keeps_memory or (layouts and not f32) or up_to_date'
LD_PRELOAD=$runtime .venv/bin/python -m pytest -n "$2" -k "not ($elsewhere)" \
  tests/python/ops/test_unusual_input.py \
  tests/python/ops/test_torch_behaviour.py \
  tests/python/ops/test_fork.py \
  tests/python/ops/test_package.py \
  tests/python/ops/test_random_calls.py \
  tests/python/ops/test_torch_ops.py::test_layouts_and_overloads_agree
