#!/usr/bin/env bash
# Everything that needs a GPU, in one go: conformance, the sanitizer over a part of it, benchmarks.
# `make cuda` copies this script into build/cuda; that folder runs as it is on any machine with a
# driver of version 580 or later. Results are JSON files in the folder given (default: results).
set -uo pipefail
cd "$(dirname "$0")" || exit
out=${1:-results}
mkdir -p "$out"
failed=0

# step NAME COMMAND...
step() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n==== %s\n' "$name"
  "$@" || failed=1
  printf '==== %s: %d s\n' "$name" $((SECONDS - begin))
}

# shellcheck disable=SC2317
conformance() {
  ./tilewright_tests --gtest_filter='*/cuda/*' --gtest_brief=1 \
    --gtest_output="json:$out/conformance.json"
}
# shellcheck disable=SC2317
sanitize() { # the edge cases of operators that reach every branch of the primitives
  command -v compute-sanitizer >/dev/null || return 0
  local filter='EdgeCases.softmax/cuda/bf16:EdgeCases.transpose/cuda/bf16:EdgeCases.rope/cuda/f32'
  filter+=':EdgeCases.fused_add_rms_norm/cuda/f16:EdgeCases.argmax/cuda/f32:EdgeCases.sum/cuda/f32'
  filter+=':EdgeCases.rms_norm_backward/cuda/bf16:EdgeCases.cross_entropy*/cuda/f32*'
  filter+=':EdgeCases.dropout/cuda/f16:EdgeCases.matmul/cuda/bf16'
  filter+=':EdgeCases.attention*/cuda/bf16_bf16'
  local tool status=0
  for tool in memcheck racecheck synccheck initcheck; do
    printf -- '---- %s\n' "$tool"
    compute-sanitizer --tool "$tool" --error-exitcode 9 ./tilewright_tests --gtest_brief=1 \
      --gtest_filter="$filter" 2>&1 | tail -n 12
    [[ ${PIPESTATUS[0]} == 0 ]] || status=1
  done
  return "$status"
}
# shellcheck disable=SC2317
benchmark() { ./tilewright bench --device cuda --dtype bf16 --seconds 0.05 --json >"$out/operators.json"; }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv
step "conformance" conformance
step "compute-sanitizer" sanitize
step "benchmarks" benchmark
exit $failed
