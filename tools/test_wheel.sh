#!/usr/bin/env bash
# Installs the wheel of build/dist into fresh environments and tries it there: with nothing else,
# with NumPy, with the PyTorch of .venv, with the oldest one that it promises to work with; and audits
# what the binding needs of PyTorch.
#
#   tools/test_wheel.sh
#   tools/test_wheel.sh --floor PYTHON   only with the oldest PyTorch, which this interpreter has; asks
#                                        no package index, and needs neither pip nor .venv
set -euo pipefail
cd "$(dirname "$0")/.."

python=
case ${1-} in
  '') ;;
  --floor) python=${2:?PYTHON, which has the oldest PyTorch} ;;
  *)
    printf 'usage: tools/test_wheel.sh [--floor PYTHON]\n' >&2
    exit 2
    ;;
esac

wheels=(build/dist/tilewright-*.whl)
if [ ${#wheels[@]} -ne 1 ] || [ ! -f "${wheels[0]}" ]; then
  printf 'test_wheel: build/dist must hold one wheel: make wheel\n' >&2
  exit 1
fi
readonly WHEEL=$PWD/${wheels[0]} ROOT=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TILEWRIGHT_LIBRARY_DIR PYTHONPATH

# fresh NAME [PIP ARGUMENT...]: a new environment with the wheel.
fresh() {
  local name=$1
  shift
  python3 -m venv "$work/$name"
  "$work/$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    "$WHEEL" "$@"
}

# attempt PART [ENVIRONMENT]: away from the source tree, so that nothing but the wheel can be found.
attempt() { (cd "$work" && "$work/${2:-$1}/bin/python" "$ROOT/tests/python/try_wheel.py" "$1"); }

[[ $WHEEL == *-py3-none-* ]] || { printf 'test_wheel: not for every Python: %s\n' "$WHEEL" >&2; exit 1; }

floor=$(sed -nE 's/^FLOOR = \(([0-9]+), ([0-9]+)\).*/\1.\2/p' python/tilewright/env_check.py)
readonly PURELIB='import sysconfig; print(sysconfig.get_path("purelib"))'
readonly PACKAGES='import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")'
# beside NAME PYTHON: what is installed for another interpreter can be imported there, too.
beside() { "$2" -c "$PACKAGES" >"$("$work/$1/bin/python" -c "$PURELIB")/peer.pth"; }

if [ -n "$python" ]; then
  found=$("$python" -c 'import torch; print(torch.__version__)')
  if [[ $found != "$floor".* ]]; then
    printf 'test_wheel: %s has torch %s, not %s\n' "$python" "$found" "$floor" >&2
    exit 1
  fi
  "$python" -m venv --without-pip "$work/floor"
  "$python" -m zipfile -e "$WHEEL" "$("$work/floor/bin/python" -c "$PURELIB")"
  beside floor "$python"
  attempt torch floor
  exit
fi

fresh bare
attempt bare
# Every Python that is here, by its own name; not all can make environments with pip. pyenv hides
# those that nobody has chosen.
pyenv=$(pyenv versions --bare 2>/dev/null | paste -sd:) || pyenv=
for other in $(compgen -c | grep -E '^python3\.[0-9]+$' | sort -uV); do
  PYENV_VERSION=$pyenv "$other" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue
  PYENV_VERSION=$pyenv "$other" -m venv --without-pip "$work/$other"
  "$work/$other/bin/python" -m zipfile -e "$WHEEL" "$("$work/$other/bin/python" -c "$PURELIB")"
  attempt bare "$other"
done
fresh numpy "$(grep '^numpy==' tools/requirements-test.txt)"
attempt numpy
"$work/numpy/bin/python" -m tilewright.env_check

# .venv's PyTorch, through a path file: nobody waits for 200 MB.
fresh torch
beside torch .venv/bin/python
attempt torch

# The floor, where there is a build without CUDA's gigabytes.
readonly CPU_INDEX=https://download.pytorch.org/whl/cpu
fresh floor
is_floor_tried=
if "$work/floor/bin/python" -m pip install --quiet --disable-pip-version-check \
  --index-url $CPU_INDEX "torch==$floor.*" 2>"$work/pip.log"; then
  attempt torch floor
  is_floor_tried=1
fi

# One binary for every PyTorch from the floor: nothing beyond its stable interface.
binding=$(find "$work/bare" -name tilewright_torch.so)
.venv/bin/torch-abi-audit --check torch "$binding"
.venv/bin/torch-abi-audit --json "$binding" >"$work/audit.json"
"$work/bare/bin/python" - "$work/audit.json" <<'PYTHON'
import json
import sys

from tilewright.env_check import FLOOR

with open(sys.argv[1]) as file:
    needed = json.load(file)["bundled_libs"][0]["torch"]["min_torch_version"]
if tuple(map(int, needed.split(".")[:2])) > FLOOR:
    sys.exit(f"test_wheel: the binding needs PyTorch {needed}, later than {FLOOR}")
print(f"try_wheel: stable interface of PyTorch {needed}, floor {'.'.join(map(str, FLOOR))}: ok")
PYTHON

# Last, so that nobody overlooks it.
if [ -z "$is_floor_tried" ]; then
  printf 'test_wheel: NOT TRIED with torch %s, the oldest: no build for CPUs in %s.\n' "$floor" $CPU_INDEX
  printf '  Where there is one: tools/test_wheel.sh --floor PYTHON\n'
fi
