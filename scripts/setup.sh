#!/usr/bin/env bash
# Prepares this checkout: system packages, a virtual environment in .venv, and a release build.
# Run again, it does only what is missing. Logs of the steps are in build/setup/.
#
#   PYTHON=path                     the interpreter to make .venv from
#   CMAKE_BUILD_PARALLEL_LEVEL=n    parallel compilations (default: one per core)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly root=$PWD
readonly venv_python=.venv/bin/python
readonly logs=build/setup
readonly packages=(g++ cmake ninja-build ccache git make python3-dev python3-venv doctest-dev
  nlohmann-json3-dev libxxhash-dev clang-19 clang-format-19 clang-tidy-19 libclang-19-dev
  llvm-19-dev lld-19 zlib1g-dev libzstd-dev)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 DEBIAN_FRONTEND=noninteractive
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: error: %s\n' "$@" >&2
  exit 1
}

# logged NAME COMMAND...: runs quietly; shows the end of the log where the command fails.
logged() {
  local log=$logs/$1.log
  shift
  "$@" >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    fail "this failed: $*" "the whole log is in $log"
  }
}

# The X.Y of requires-python in pyproject.toml, the one place that names it.
python_version() {
  sed -n 's/^requires-python = "==\([0-9.]*\)\.\*"$/\1/p' pyproject.toml
}

missing_packages() {
  local name
  for name in "${packages[@]}"; do
    dpkg-query --show --showformat='${db:Status-Status}' "$name" 2>/dev/null |
      grep -qx installed || printf '%s ' "$name"
  done
}

system_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "no apt here: going on with what is installed; it should be as good as ${packages[*]}"
    return
  fi
  local missing as_root=()
  read -ra missing <<<"$(missing_packages)"
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
      fail "these system packages are missing: ${missing[*]}" \
        "as root, run: apt-get update && apt-get install ${missing[*]}"
    as_root=(sudo -n)
  fi
  say "installing system packages: ${missing[*]}"
  logged apt-update "${as_root[@]}" apt-get update
  logged apt-install "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"
}

# fits PYTHON: it is the wanted version, can make environments, and has its headers.
fits() {
  "$1" - "$(python_version)" >/dev/null 2>&1 <<'PY'
import ensurepip, os, sys, sysconfig, venv
assert sys.argv[1] == "%d.%d" % sys.version_info[:2]
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
PY
}

find_python() {
  local version candidate
  version=$(python_version)
  for candidate in ${PYTHON:+"$PYTHON"} "python$version" python3 python "/usr/bin/python$version"; do
    if fits "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  fail "found no Python $version with its headers and the modules venv and ensurepip" \
    "install one, or name it: PYTHON=/path/to/python$version make setup"
}

environment() {
  [[ -x $venv_python ]] && fits "$venv_python" && return
  [[ ! -L .venv ]] || fail ".venv links to an environment that does not fit; remove the link"
  local python
  python=$(find_python)
  say "making .venv with $python"
  logged venv "$python" -m venv --clear .venv
}

# Prints what the environment lacks of the pinned requirements, one per line.
unmet_requirements() {
  "$venv_python" - "$@" <<'PY'
import importlib.metadata
import sys

for file in sys.argv[1:]:
    for line in open(file):
        name, _, version = line.partition("#")[0].strip().partition("==")
        try:
            found = importlib.metadata.version(name) if name else ""
        except importlib.metadata.PackageNotFoundError:
            found = "nothing"
        if name and found.partition("+")[0] != version:
            print(f"{name} {version} (found: {found})")
PY
}

describe_torch() {
  "$venv_python" -W ignore -c '
import torch
built_for = "CUDA " + torch.version.cuda if torch.version.cuda else "the CPU"
print("torch", torch.__version__, "is built for", built_for)'
}

python_packages() {
  local key stamp=.venv/fulgurite-requirements
  key=$(cat requirements-torch.txt requirements-dev.txt scripts/setup.sh | sha256sum)
  if [[ -f $stamp && $(<"$stamp") == "$key" &&
    -z $(unmet_requirements requirements-torch.txt requirements-dev.txt) ]]; then
    return
  fi
  rm -f "$stamp"
  if [[ -n $(unmet_requirements requirements-torch.txt) ]]; then
    say "installing $(grep -v '^#' requirements-torch.txt)"
    logged pip-torch "$venv_python" -m pip install --requirement requirements-torch.txt
  fi
  local torch
  torch=$(describe_torch) || fail "torch is installed, but cannot be imported; see above"
  say "$torch"
  say "installing requirements-dev.txt"
  "$venv_python" -c 'import importlib.metadata as m; print("torch==" + m.version("torch"))' \
    >"$logs/torch-constraint.txt"
  logged pip-dev "$venv_python" -m pip install \
    --constraint "$logs/torch-constraint.txt" --requirement requirements-dev.txt
  printf '%s\n' "$root/python" \
    >"$("$venv_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fulgurite.pth"
  printf '%s\n' "$key" >"$stamp"
}

# What a configured build folder depends on without noticing a change by itself.
configuration_key() {
  printf '%s\n' "$root"
  cat .venv/fulgurite-requirements .venv/pyvenv.cfg CMakePresets.json pyproject.toml
}

release_build() {
  local stamp=build/release/configuration key
  key=$(configuration_key)
  if [[ ! -f build/release/build.ninja || ! -f $stamp || $(<"$stamp") != "$key" ]]; then
    say "configuring build/release"
    rm -f build/release/CMakeCache.txt
    logged configure cmake --preset release
    printf '%s\n' "$key" >"$stamp"
  fi
  say "building build/release"
  cmake --build --preset release | tee "$logs/build.log" ||
    fail "the build failed; the errors are above and in $logs/build.log"
}

mkdir -p "$logs"
system_packages
environment
python_packages
release_build
say "ready after $SECONDS s"
