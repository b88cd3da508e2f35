#!/usr/bin/env bash
# clang-tidy on the C++ sources that differ from $BASE (default origin/main), or on those named.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${BASE:-origin/main}

if (($#)); then
  files=("$@")
else
  git rev-parse --quiet --verify "$base^{commit}" >/dev/null || {
    echo "tidy: no commit $base to compare with; name one: make lint BASE=COMMIT" >&2
    exit 1
  }
  mapfile -t files < <({
    git diff --name-only --diff-filter=d "$(git merge-base "$base" HEAD)" -- 'src/*.cpp' 'tests/*.cpp'
    git ls-files --others --exclude-standard -- 'src/*.cpp' 'tests/*.cpp'
  } | sort -u)
fi
if ((${#files[@]} == 0)); then
  echo "tidy: no C++ source differs from $base"
  exit 0
fi
echo "tidy: ${#files[@]} files"
# g++'s precompiled headers mean nothing to clang: a database without them.
mkdir -p build/tidy
sed -E 's/-include [^ "]*cmake_pch\.hxx//; s/-Winvalid-pch|-fpch-preprocess//g' \
  build/release/compile_commands.json >build/tidy/compile_commands.json
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 --quiet -p build/tidy \
  2> >(grep -v 'warnings\? generated' >&2)
