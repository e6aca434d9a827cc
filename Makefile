# softmrc: everything a person or CI calls. `make` alone prints the list.
# Decides which tools run with which settings; leaves how things compile to CMakeLists.txt and pyproject.toml.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# The first Python on PATH that is new enough; `make PYTHON=...` overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; \
  done; echo python3)
CXX := $(if $(filter default,$(origin CXX)),g++,$(CXX))
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

VENV := .venv
BIN := $(VENV)/bin
DEV := build/dev
ASAN := build/asan
TSAN := build/tsan
FUZZ := build/fuzz
# cmake and ninja come from PyPI wheels, so that g++ and make are enough on the host.
CMAKE := $(BIN)/cmake
NINJA := $(BIN)/ninja
CTEST := $(BIN)/ctest
CONFIGURE = $(CMAKE) -S . -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(NINJA)" -DCMAKE_CXX_COMPILER="$(CXX)" -DCMAKE_BUILD_TYPE=Release
CMAKE_FILES := CMakeLists.txt $(wildcard core/*/CMakeLists.txt bindings/CMakeLists.txt fuzz/CMakeLists.txt bench/CMakeLists.txt)
PY_DIRS := $(wildcard python tests tools bench examples fuzz)
CC_FILES = $(shell find core bindings fuzz bench examples -name '*.cc' -o -name '*.h' 2>/dev/null | LC_ALL=C sort)

# Slow machines: `make test PYTEST_ARGS='-m "not slow"'`.
PYTEST_ARGS ?=
ARGS ?=
export HYPOTHESIS_PROFILE ?= fast
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export ASAN_OPTIONS ?= detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS ?= print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS ?= halt_on_error=1:second_deadlock_stack=1

.PHONY: help env env-torch build demo test test-cpp test-py test-asan test-tsan test-netns test-torch lint lint-py lint-cpp layers format \
        stub-update bench bench-smoke fuzz fuzz-corpus wheel clean distclean FORCE

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | while IFS=$$'\t' read -r n t; do printf '  make %-13s %s\n' "$$n" "$$t"; done

# --- environment --------------------------------------------------------------------------------------------

$(VENV)/.stamp-deps: pyproject.toml tools/make_env.sh tools/check_host.sh tools/requirements.py
	@bash tools/check_host.sh "$(PYTHON)" "$(CXX)"
	@bash tools/make_env.sh $(VENV) "$(PYTHON)"
	@mkdir -p build
	@$(BIN)/python tools/requirements.py > build/requirements.txt
	@echo "[env] installing $$(wc -l < build/requirements.txt) requirements into $(VENV) (a minute or two the first time)"
	@$(BIN)/python -m pip install -qq -r build/requirements.txt
	@touch $@

# The Python files are used where they lie; CMake puts _core beside them (target build).
$(VENV)/.stamp-package: $(VENV)/.stamp-deps
	@echo "[env] installing the softmrc command"
	@$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --config-settings=wheel.cmake=false --config-settings=editable.mode=inplace -e .
	@touch $@

$(DEV)/.stamp-configured: $(VENV)/.stamp-deps $(CMAKE_FILES)
	@echo "[build] configuring $(DEV)"
	@$(CONFIGURE) -B $(DEV) -DSOFTMRC_TESTS=ON -DSOFTMRC_PYTHON=ON -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" \
	  -Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)" > $(DEV).log 2>&1 || { cat $(DEV).log >&2; exit 1; }
	@touch $@

build: $(VENV)/.stamp-package $(DEV)/.stamp-configured ## compile the Python module _core (incremental)
	@echo "[build] compiling _core with $(JOBS) jobs"
	@$(NINJA) -C $(DEV) -j $(JOBS) --quiet _core _core_stub
	@$(CMAKE) --install $(DEV) --prefix python > $(DEV)/install.log || { cat $(DEV)/install.log >&2; exit 1; }

env: build ## create .venv with everything installed; the command is .venv/bin/softmrc
	@echo "[env] ready: $(BIN)/softmrc"

# A CUDA build from PyPI takes several GB; a build for the CPU is enough for the tests, for instance
# make env-torch TORCH='--index-url https://download.pytorch.org/whl/cpu torch'
TORCH ?= torch==2.13.0
env-torch: build ## add torch and scikit-learn to .venv, for the backend "mrc", its tests and train-demo
	@echo "[env] installing $(TORCH)"
	@$(BIN)/python -m pip install -qq $(TORCH)
	@$(BIN)/python -m pip install -qq scikit-learn

demo: build ## move a file over 8 x 16 paths while planes and paths fail (ARGS=... passes options)
	@$(BIN)/softmrc demo $(ARGS)

# --- tests --------------------------------------------------------------------------------------------------

test: test-cpp test-py ## all C++ and Python tests

test-cpp: build ## C++ tests
	@echo "[test] compiling the C++ tests"
	@$(NINJA) -C $(DEV) -j $(JOBS) --quiet
	@$(CTEST) --test-dir $(DEV) --output-on-failure --no-tests=error -j $(JOBS)

test-py: build ## Python tests
	@echo "[test] compiling the tools that Python tests call"
	@$(NINJA) -C $(DEV) -j $(JOBS) --quiet
	@echo "[test] pytest (hypothesis profile $(HYPOTHESIS_PROFILE))"
	@$(BIN)/python -m pytest -m "not netns" $(PYTEST_ARGS)

$(ASAN)/.stamp-configured: $(VENV)/.stamp-deps $(CMAKE_FILES)
	@$(CONFIGURE) -B $(ASAN) -DSOFTMRC_TESTS=ON -DSOFTMRC_SANITIZE=address,undefined > $(ASAN).log 2>&1 || { cat $(ASAN).log >&2; exit 1; }
	@touch $@

test-asan: $(ASAN)/.stamp-configured ## C++ tests, 1,000,000 fuzzed packets and the corpora under ASan and UBSan
	@echo "[asan] compiling"
	@$(NINJA) -C $(ASAN) -j $(JOBS) --quiet
	@echo "[asan] 1,000,000 random and mutated packets"
	@$(ASAN)/core/wire/wire_fuzz --packets 1000000 --seed 1
	@$(CTEST) --test-dir $(ASAN) --output-on-failure --no-tests=error --timeout 900 -j $(JOBS)

$(TSAN)/.stamp-configured: $(VENV)/.stamp-deps $(CMAKE_FILES)
	@$(CONFIGURE) -B $(TSAN) -DSOFTMRC_TESTS=ON -DSOFTMRC_SANITIZE=thread > $(TSAN).log 2>&1 || { cat $(TSAN).log >&2; exit 1; }
	@touch $@

test-tsan: $(TSAN)/.stamp-configured ## the driver's C++ tests under ThreadSanitizer
	@echo "[tsan] compiling net_tests"
	@$(NINJA) -C $(TSAN) -j $(JOBS) --quiet net_tests
	@$(TSAN)/core/net/net_tests

test-netns: build ## tests in network namespaces (root)
	@$(BIN)/python -m pytest -m netns $(PYTEST_ARGS)

test-torch: env-torch ## tests of the torch backend alone (`make test` runs them too once torch is there)
	@$(BIN)/python -m pytest tests/torch $(PYTEST_ARGS)

# --- checks -------------------------------------------------------------------------------------------------

lint: lint-py lint-cpp layers ## formats, types, static analysis, layers, sizes
	@echo "[lint] ok"

lint-py: build
	@echo "[lint] ruff"
	@$(BIN)/ruff check -q $(PY_DIRS)
	@$(BIN)/ruff format -q --check $(PY_DIRS)
	@echo "[lint] mypy"
	@$(BIN)/mypy --no-error-summary

lint-cpp: build
	@echo "[lint] clang-format"
	@printf '%s\n' $(CC_FILES) | xargs $(BIN)/clang-format --dry-run -Werror
	@echo "[lint] clang-tidy"
	@$(BIN)/python tools/tidy.py --build $(DEV) --jobs $(JOBS) --tidy $(BIN)/clang-tidy

layers: build
	@echo "[lint] layers and sizes"
	@$(NINJA) -C $(DEV) -j $(JOBS) --quiet
	@$(BIN)/python -m pytest -q tests/layers

format: $(VENV)/.stamp-deps ## rewrite all files in the house format
	@$(BIN)/ruff check -q --fix $(PY_DIRS) || true
	@$(BIN)/ruff format -q $(PY_DIRS)
	@printf '%s\n' $(CC_FILES) | xargs $(BIN)/clang-format -i

stub-update: build ## accept the present interface of _core as the reviewed one
	@cp python/softmrc/_core.pyi tests/data/_core.pyi.ref
	@echo "tests/data/_core.pyi.ref updated; review its diff"

# --- figures, fuzzing, packages -----------------------------------------------------------------------------

bench: build ## micro benchmarks of the core (ARGS=--json for machines)
	@$(NINJA) -C $(DEV) -j $(JOBS) --quiet micro_bench
	@$(DEV)/bench/micro_bench $(ARGS)

bench-smoke: build ## the same and the simulator in seconds: that they run, memory bounds, completion times
	@$(NINJA) -C $(DEV) -j $(JOBS) --quiet micro_bench
	@$(DEV)/bench/micro_bench --quick $(ARGS)
	@echo "[bench] the simulator: two permutations, one target of the paper"
	@$(BIN)/softmrc bench sim --quick
	@$(BIN)/softmrc paper --only R1 --json > $(DEV)/paper-r1.json

FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.stamp-deps ## libFuzzer on wire and engine, FUZZ_SECONDS each (needs clang)
	@bash fuzz/run.sh $(FUZZ) $(FUZZ_SECONDS) $(JOBS) $(CMAKE) $(NINJA)

fuzz-corpus: build ## make the seed corpora again from the vectors
	@$(BIN)/python fuzz/make_corpus.py

wheel: $(VENV)/.stamp-deps ## build dist/softmrc-*.whl
	@$(BIN)/python -m pip wheel -qq --no-deps --no-build-isolation -w dist .
	@ls dist/*.whl

clean: ## remove build outputs, keep .venv
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis python/softmrc/_core*.so python/softmrc/_core.pyi
	@rm -f $(VENV)/.stamp-package

distclean: clean ## remove .venv too
	@rm -rf $(VENV)
