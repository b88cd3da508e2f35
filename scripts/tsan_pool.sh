#!/usr/bin/env bash
# The tests of the thread pool under ThreadSanitizer. Not a preset: libtorch is not instrumented, and
# the pool needs none of it. Tests that fork are left out: what they check is no race.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly folder=build/tsan
readonly torch_headers=$(.venv/bin/python cmake/find_torch.py \
  "$(sed -n 's/^dependencies = \["torch==\([0-9.]*\)\.\*"\]$/\1/p' pyproject.toml)")/include
mkdir -p "$folder"
g++ -std=c++20 -O1 -g -fsanitize=thread -Isrc -Itests/unit -isystem "$torch_headers" \
  tests/unit/main.cpp tests/unit/test_pool.cpp src/codegen/pool/pool.cpp src/base/fmt.cpp \
  -o "$folder/pool_tests"
TSAN_OPTIONS=halt_on_error=1 "$folder/pool_tests" --test-case-exclude='*fork*,*needs no pool*,*no more are made*'
