# Each target sets up what it needs, once, and builds what is not built. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Lets ccache share objects between build directories and checkouts.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

WHEEL_OPTIONS ?=
CMAKE_OPTIONS ?=
JOBS ?= $(shell nproc)
# Tests at once: one of Python's, with PyTorch and what it is compared with, takes up to 4 GiB.
WORKERS ?= $(shell awk -v most=$(JOBS) '/MemAvailable/ {n = int($$2 / 4194304); print n < 1 ? 1 : n < most ? n : most}' /proc/meminfo)
PREFIX ?= $(HOME)/.local
FUZZ_SECONDS ?= 60
ISAS ?= all
FILTER ?=
MODEL := .venv/models/smollm2-135m-instruct.gguf
KEY_WORKLOADS := "softmax/64 MiB" "rms_norm/64 MiB" "layer_norm/64 MiB" "gelu/64 MiB" \
  "silu_and_mul/64 MiB" "copy/64 MiB" "transpose/64 MiB" 4096x14336 matmul/cube matmul/llama \
  linear/cube linear/llama-3.1-8b/prefill linear_packed/cube linear_packed/llama-3.1-8b/prefill \
  "attention/H16 S" "attention/H8 S" "attention/llama-3.1-8b/decode"
PEERS ?= llama.cpp "OpenVINO GenAI"
PROMPT ?= Explain in two sentences why the sky is blue.

BUILD = cmake --build --preset $(1) --parallel $(JOBS)
CONFIGURE = cmake --preset $(1) $(2) $(CMAKE_OPTIONS) >build/.configure.log || { cat build/.configure.log; exit 1; }
# Kernels for this machine, a fraction of the time; a folder that `make build` has filled stays so.
HERE = $(if $(wildcard build/release/CMakeCache.txt),,-DTILEWRIGHT_ISAS=native)

.PHONY: help demo build native cuda test bench compare lint tidy format docs asan tsan fuzz install wheel testwheel clean

help:  ## what each target does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 18

demo:  ## a language model writes an answer (set-up, build, run)
	@tools/setup.sh demo
	@mkdir -p build && $(call CONFIGURE,demo)
	@$(call BUILD,demo) --target tilewright_tool
	build/demo/tilewright generate $(MODEL) --chat -p "$(PROMPT)"

build:  ## the command line tool at build/release/tilewright, and the library, for any x86 machine
	@tools/setup.sh build
	@mkdir -p build && $(call CONFIGURE,release,-DTILEWRIGHT_ISAS=$(ISAS))
	@$(call BUILD,release)

native:  ## the same for this machine only, in a fraction of the time
	@tools/setup.sh build
	@mkdir -p build && $(call CONFIGURE,release,$(HERE))
	@$(call BUILD,release)

cuda:  ## build/cuda: the same with kernels for NVIDIA GPUs, and for CPUs those of AVX2 or ISAS=all; needs nvcc
	@tools/setup.sh build
	@mkdir -p build && $(call CONFIGURE,cuda,$(if $(filter file,$(origin ISAS)),,-DTILEWRIGHT_ISAS=$(ISAS)))
	@$(call BUILD,cuda)
	@$(if $(filter file,$(origin ISAS)),find -L build/cuda/libtilewright.so -size -41943040c | grep -q . \
	    || { echo "make cuda: libtilewright.so has more than 40 MiB" >&2; exit 1; })

test:  ## all tests: C++ (GoogleTest) and comparisons with other implementations (pytest)
	@tools/setup.sh test
	@mkdir -p build && $(call CONFIGURE,release,$(HERE))
	@$(call BUILD,release)
	ctest --preset release --parallel $(WORKERS)
	TILEWRIGHT_BIN=build/release/tilewright .venv/bin/python -m pytest -n $(WORKERS) --dist worksteal

bench: native  ## measure; FILTER=rms_norm for some of it
	build/release/tilewright bench $(FILTER)

compare: native  ## measure the language model and the operators beside their peers; README's tables
	@tools/setup.sh peers
	build/release/tilewright env --calibrate >/dev/null
	build/release/tilewright-micro --json >benchmarks/results/limits.json
	python3 benchmarks/language_model/compare.py $(MODEL) --peers $(PEERS) \
	  --out benchmarks/results/smollm2.json
	.venv/bin/python benchmarks/language_model/requantize.py $(MODEL) build/smollm2-135m-q4_0.gguf
	python3 benchmarks/language_model/compare.py build/smollm2-135m-q4_0.gguf --peers llama.cpp \
	  --work decode "first token" --out benchmarks/results/smollm2_q4_0.json
	$(if $(filter llama.cpp,$(PEERS)),.venv/bin/python benchmarks/language_model/linear_peers.py \
	  --out benchmarks/results/linear_peers.json)
	$(if $(filter llama.cpp,$(PEERS)),.venv-peers/bin/python benchmarks/language_model/divergence.py \
	  $(MODEL) tests/python/english.txt --out benchmarks/results/divergence.json)
	build/release/tilewright bench $(KEY_WORKLOADS) --dtype f32,f32/f32,bf16,bf16/bf16 --seconds 0.4 --json \
	  --no-samples >benchmarks/results/operators.json
	.venv/bin/python benchmarks/run.py --suite smoke --threads 1,2 --no-samples \
	  --peers torch,inductor,onnxruntime --mode quick --out benchmarks/results/peers.json
	for suite in doors training; do \
	  .venv/bin/python benchmarks/run.py --suite $$suite --threads 1,2 --no-samples --mode quick \
	    --out benchmarks/results/peers_$${suite}_new_memory.json || exit; done
	for suite in doors float16 training attention attention_training loss loss_training; do \
	  .venv/bin/python benchmarks/run.py --suite $$suite --threads 1,2 --no-samples --mode quick --reuse \
	    --out benchmarks/results/peers_$$suite.json || exit; done
	.venv/bin/python benchmarks/overhead.py --out benchmarks/results/overhead.json
	python3 benchmarks/report.py

lint:  ## layers, budgets, formatting, spelling, scripts
	@tools/setup.sh dev
	tools/lint/lint.sh

tidy:  ## clang-tidy over the library and the tool
	@tools/setup.sh dev
	@mkdir -p build && $(call CONFIGURE,clang)
	run-clang-tidy-19 -quiet -p build/clang -j $(JOBS) '$(CURDIR)/(tilewright|tools)/.*\.cc$$'

format:  ## rewrite the sources in the project's format
	@tools/setup.sh dev
	git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' '*.cu' | \
	  xargs -0 --no-run-if-empty clang-format-19 -i
	.venv/bin/ruff check --quiet --fix . ; .venv/bin/ruff format .

docs: native  ## regenerate from the operator catalog: reference, C header, Python types
	@tools/setup.sh test
	python3 tools/docs.py build/release/tilewright
	python3 tools/c_header.py build/release/libtilewright.so
	python3 tools/c_abi.py build/release/libtilewright.so
	TILEWRIGHT_LIBRARY_DIR=build/release .venv/bin/python tools/python_stubs.py

asan:  ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/setup.sh dev
	@mkdir -p build && $(call CONFIGURE,asan)
	@$(call BUILD,asan) --target tilewright_tests tilewright_torch tilewright_cases
	seq 16 | GTEST_TOTAL_SHARDS=16 xargs -P $(JOBS) -I{} sh -c \
	  'GTEST_SHARD_INDEX=$$(({} - 1)) exec build/asan/tilewright_tests --gtest_brief=1'
	tools/python_asan.sh build/asan $(JOBS)

tsan:  ## the thread pool's tests under ThreadSanitizer
	@tools/setup.sh dev
	@mkdir -p build && $(call CONFIGURE,tsan)
	@$(call BUILD,tsan) --target tilewright_thread_tests
	setarch --addr-no-randomize build/tsan/tilewright_thread_tests --gtest_brief=1

fuzz:  ## each fuzz target for FUZZ_SECONDS=60
	@tools/setup.sh dev
	@mkdir -p build && $(call CONFIGURE,asan)
	@$(call BUILD,asan) --target tilewright_fuzzers
	tools/fuzz.sh build/asan $(FUZZ_SECONDS)

install: build  ## headers, library and tool to PREFIX=~/.local
	cmake --install build/release --prefix $(PREFIX)

wheel:  ## the Python package, for every Python from 3.10, in build/dist
	@tools/setup.sh wheel
	rm -f build/dist/*.whl
	tools/measured.py --most-gib 2 .venv/bin/python -m pip wheel . --no-deps --wheel-dir build/dist $(WHEEL_OPTIONS)

testwheel:  ## build the wheel, install it into fresh environments and try it there
	@tools/setup.sh dev
	@$(MAKE) --no-print-directory wheel
	tools/test_wheel.sh

clean:  ## remove everything built; the Python environment stays
	rm -rf build
