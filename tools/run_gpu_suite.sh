#!/usr/bin/env bash
# usage: run_gpu_suite.sh [--no-sanitizer] [--no-python] [OUT]
#
# Everything that needs a GPU, in one go: conformance, the sanitizer (gpu_sanitizer.sh), benchmarks,
# and from Python the operators of PyTorch (opcheck, gradients, graphs) and measurements beside it.
# `make cuda` copies this script and what it needs into build/cuda; that folder runs as it is on any
# machine with a driver of version 580 or later. Where there is no compute-sanitizer, or where PYTHON
# (default: python3) has no PyTorch for GPUs or no pytest, it fails, unless it is told to do without.
# Results are JSON files in the folder OUT (default: results).
set -uo pipefail
cd "$(dirname "$0")" || exit
help() { sed -n '2,/^set/s/^# \{0,1\}//p' run_gpu_suite.sh; }

out=results sanitizer=1 python=${PYTHON:-python3} failed=0
for argument in "$@"; do
  case $argument in
    --no-sanitizer) sanitizer=0 ;;
    --no-python) python= ;;
    -h | --help) help && exit ;;
    -*) printf 'run_gpu_suite: no such option: %s\n' "$argument" >&2 && exit 2 ;;
    *) out=$argument ;;
  esac
done
mkdir -p "$out"
if [ -n "$python" ]; then
  export TILEWRIGHT_LIBRARY_DIR=$PWD PYTHONPATH=$PWD/suite/python:$PWD/suite/testing/python
  "$python" -c 'import pytest, torch; torch.empty(0, device="cuda")' || {
    echo "run_gpu_suite: FAILED: $python has no pytest or no PyTorch for this GPU (see PYTHON, --no-python)" >&2
    exit 1
  }
fi

# step NAME COMMAND...
step() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n==== %s\n' "$name"
  "$@" || failed=1
  printf '==== %s: %d s\n' "$name" $((SECONDS - begin))
}

# shard INDEX
# shellcheck disable=SC2317
shard() {
  GTEST_SHARD_INDEX=$1 ./tilewright_tests --gtest_filter='*/cuda/*:OnGpu.*' --gtest_brief=1 \
    --gtest_output="json:$out/conformance.$1.json" >"$out/conformance.$1.log" 2>&1
}
# Each core takes a part of the tests. So many shapes are drawn of each operator and its types that
# a family of operators (benchmarks/suites.yaml) has a thousand.
# shellcheck disable=SC2317
conformance() {
  local shards status
  shards=$(env -u OMP_NUM_THREADS nproc)  # nproc would count that variable's threads, not the cores
  seq 0 $((shards - 1)) | GTEST_TOTAL_SHARDS=$shards TILEWRIGHT_NUM_THREADS=1 \
    TILEWRIGHT_DRAWS=${TILEWRIGHT_DRAWS:-112} xargs -P "$shards" -I{} bash -c 'shard {}'
  status=$?
  cat "$out"/conformance.*.log
  return "$status"
}
# Operators that are a family of their own.
# shellcheck disable=SC2317
families_of_one() {
  TILEWRIGHT_DRAWS=1000 ./tilewright_tests --gtest_brief=1 \
    --gtest_filter='RandomShapes.fft/cuda/*:RandomShapes.rope/cuda/*:RandomShapes.sample/cuda/*'
}
# Products by the kernels for any GPU, which Hopper's own leave little to: each build of
# kGemmMmaShapes, whose numbers follow those of kGemmShapes.
# shellcheck disable=SC2317
portable() {
  local build failed=0
  for build in 14 15 16; do
    TILEWRIGHT_DRAWS=24 TILEWRIGHT_GEMM_BUILD=$build ./tilewright_tests --gtest_brief=1 \
      --gtest_filter='*.matmul/cuda/*:*.linear/cuda/*:*.k_grouped_matmul/cuda/*' || failed=1
  done
  return "$failed"
}
# test_part INDEX COUNT MODULE...
# shellcheck disable=SC2317
test_part() {
  TILEWRIGHT_TEST_SHARD=$1/$2 "$python" -m pytest -p no:cacheprovider -p no:logging --tb=short --no-header -v \
    -k cuda --junit-xml="$out/pytorch.$1.xml" "${@:3}" >"$out/pytorch.$1.log" 2>&1
}
# What the tests of operators do on a GPU. Modules that need what this Python lacks are left out, and
# said to be.
# shellcheck disable=SC2317
pytorch() {
  local count status lacks modules all=(suite/tests/python/ops/test_*.py)
  lacks=$("$python" -c '
from importlib.util import find_spec
print(*(name for name in ("gguf", "hypothesis", "jax", "transformers") if not find_spec(name)), sep="\\|")')
  mapfile -t modules < <(grep -L "^\(from\|import\) \(${lacks:-none}\)\b" "${all[@]}")
  grep -l "^\(from\|import\) \(${lacks:-none}\)\b" "${all[@]}" | sed 's/^/left out, for want of a package: /'
  count=$(env -u OMP_NUM_THREADS nproc)
  touch suite/pytest.ini # makes it the tests' root: folders above, such as "cuda", are keywords otherwise
  seq 0 $((count - 1)) | TILEWRIGHT_NUM_THREADS=1 OMP_NUM_THREADS=1 \
    xargs -P "$count" -I{} bash -c "test_part {} $count ${modules[*]}"
  status=$?
  grep -h '^FAILED\|^ERROR\|passed\|failed' "$out"/pytorch.*.log
  return "$status"
}
# beside_peers NAME SCRIPT [ARGUMENT...]
# shellcheck disable=SC2317
beside_peers() { "$python" "suite/benchmarks/gpu/$2.py" "${@:3}" --out "$out/$1.json"; }
# shellcheck disable=SC2317
benchmark() { ./tilewright bench --device cuda --dtype bf16 --seconds 0.05 --json >"$out/operators.json"; }

export -f shard test_part
export out python
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv
step "conformance" conformance
step "families of one operator" families_of_one
step "products for any GPU" portable
if [ "$sanitizer" = 1 ]; then step "compute-sanitizer" ./gpu_sanitizer.sh "$out"; fi
if [ -n "$python" ]; then step "PyTorch's operators" pytorch; fi
step "benchmarks" benchmark
if [ -n "$python" ]; then
  for name in attention attention_backward attention_fp8 flex_attention fused_experts \
    linear_cross_entropy mla layouts middle_dimensions sequences; do
    step "$name beside its peers" beside_peers "gpu_$name" "$name"
  done
  step "products beside their peers" beside_peers gpu_gemm gemm_peers
  step "other operators beside their peers" beside_peers gpu_memory_bound torch_peers
  step "few rows beside their peers" beside_peers gpu_few_rows torch_peers --few
fi
exit $failed
