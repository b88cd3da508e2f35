# `make` alone lists the targets.
PYTHON := .venv/bin/python
# What lint looks at: files that differ from here.
BASE ?= origin/main
# Options of the conformance suite, of the benchmarks and of the fuzzer; see their --help.
CONFORMANCE ?= --quick
BENCH ?=
FUZZ ?= --programs 10000 --jobs 2 --out build/fuzz

.PHONY: help setup build test gates demo sanitize conformance fuzz bench wheel format lint clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/\1|\2/p' Makefile | \
	  awk -F'|' '{printf "%-12s %s\n", $$1, $$2}'

setup:  ## system packages, .venv and a release build; cheap when there is nothing to do
	@scripts/setup.sh

build: setup  ## the same: setup ends with the build

test: setup gates  ## everything but the sanitizers and the conformance suites
	ctest --preset release
	$(PYTHON) -m pytest
	$(PYTHON) scripts/smoke_wheel.py

gates: setup  ## layers, lengths, op names, formatting and the like
	$(PYTHON) scripts/check.py

demo: setup  ## what fulgurite does, in a terminal
	$(PYTHON) examples/step_by_step.py
	$(PYTHON) examples/fusion.py
	$(PYTHON) examples/transformers_models.py
	$(PYTHON) examples/guards.py
	$(PYTHON) examples/attention_executor.py
	$(PYTHON) examples/logging_pass.py
	$(PYTHON) examples/int8_weights.py
	$(PYTHON) examples/lora.py

sanitize: setup  ## the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	scripts/sanitize.sh

conformance: setup  ## fulgurite against eager: operators, modules, optimizers, models; hours if --full
	$(PYTHON) -m tests.conformance $(CONFORMANCE)

fuzz: setup  ## random programs, fused against eager; an hour
	$(PYTHON) -m tests.fuzz $(FUZZ)

bench: setup  ## fulgurite against eager, measured
	$(PYTHON) -m bench $(BENCH)

wheel: setup  ## dist/fulgurite-*.whl and dist/fulgurite_clang-*.whl
	$(PYTHON) -m pip wheel . src/plugin --no-build-isolation --no-deps --wheel-dir dist

format: setup  ## formats C++ and Python
	git ls-files -z '*.cpp' '*.h' | xargs -0 clang-format-19 -i
	$(PYTHON) -m ruff check --fix-only --quiet .
	$(PYTHON) -m ruff format --quiet .

lint: setup  ## formatting, and clang-tidy on the C++ files that differ from BASE
	$(PYTHON) scripts/check.py format
	BASE=$(BASE) scripts/tidy.sh

clean:  ## removes what was built; .venv stays
	rm -rf build dist python/fulgurite/_C.*
