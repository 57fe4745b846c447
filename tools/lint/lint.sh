#!/usr/bin/env bash
# Runs every linter over the files in git and those about to be; `make lint` and CI call it.
# It goes on after a failure, so that one run shows all of them.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

failed=()

# check NAME COMMAND...: quiet when it passes.
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    printf 'lint: %-12s ok\n' "$name"
  else
    printf '%s\nlint: %-12s FAILED\n' "$output" "$name"
    failed+=("$name")
  fi
}

# The files with one of these endings, zero-terminated.
files() {
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' file; do [ -f "$file" ] && printf '%s\0' "$file"; done
}

over_files() {
  local pattern=("$@") command=()
  while [ "${pattern[0]}" != -- ]; do
    command+=("${pattern[0]}")
    pattern=("${pattern[@]:1}")
  done
  files "${pattern[@]:1}" | xargs -0 --no-run-if-empty "${command[@]}"
}

check layers python3 tools/lint/layers.py
check catalog python3 tools/lint/catalog.py
check budget python3 tools/lint/budget.py
check refs python3 tools/lint/refs.py
check links python3 tools/lint/links.py
check figures python3 benchmarks/report.py --check
check clang-format over_files clang-format-19 --dry-run -Werror -- '*.h' '*.cc' '*.cu'
check shellcheck over_files shellcheck -- '*.sh' .ci/run
check codespell over_files codespell --builtin clear,rare --ignore-words tools/lint/words.txt -- \
  '*.h' '*.cc' '*.cu' '*.py' '*.md' '*.sh' '*.cmake' '*.txt' Makefile .ci/run
check ruff .venv/bin/ruff check --quiet .
check ruff-format .venv/bin/ruff format --quiet --check .
check mypy .venv/bin/mypy --strict --cache-dir build/.mypy_cache python/tilewright

if [ ${#failed[@]} -gt 0 ]; then
  printf 'lint: failed: %s\n' "${failed[*]}"
  exit 1
fi
