#!/bin/bash
# Format and tables over the whole tree, clang-tidy over the product (tests and benchmarks would
# double its time); warnings are errors. A folder whose files and included project headers are as they
# were at its last clean run is not checked again by clang-tidy (stamps in build/lint). A tool that is
# not installed is skipped. Ends with the line `N passed, N failed, N skipped`.
set -euo pipefail
. "$(dirname "$0")/../common.sh"

STAMPS=$PWD/build/lint
# What the wheels' compiler, which is a clang, warns of and g++ does not.
TIDY_FLAGS=(-Wconversion -Wsign-conversion)
TIDY_FLAGS+=(-std=c++20 -I. -Iinclude -isystem /usr/include/coin -DMEMO_VERSION='"lint"')
[ -e /usr/include/coin/Cbc_C_Interface.h ] && TIDY_FLAGS+=(-DMEMO_HAVE_CBC=1)

# The project's C and C++ files whose names end in one of the given ways, tracked or new.
sources() {
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u
}

# A folder's sources as one: its headers are read and looked through once, a sixth of the time. It asks of the names in
# a folder that no two files mean different things by one.
together() {
  sources "$1/*.cc" | grep -x "$1/[^/]*" | sed 's/.*/#include "&"/'
}

# Everything that the verdict on a folder depends on: settings, its files, the project headers below them.
digest() {
  { cat .clang-tidy; echo "${TIDY_FLAGS[@]}"; clang-tidy-19 --version
    g++ "${TIDY_FLAGS[@]}" -MM "$1" | tr -d '\\' | tr ' ' '\n' | sed -n '2,$p' | grep -v '^/' |
      grep . | xargs cat; } | sha256sum | cut -d' ' -f1
}

# Including sources is what this is for, and nothing else in the tree does it.
tidy_one() {
  local whole=$STAMPS/${1//\//_}.cc stamp=$STAMPS/${1//\//_} now
  together "$1" >"$whole"
  now=$(digest "$whole")
  [ "$(cat "$stamp" 2>/dev/null)" = "$now" ] && return 0
  clang-tidy-19 --quiet --config-file=.clang-tidy --checks=-bugprone-suspicious-include "$whole" -- "${TIDY_FLAGS[@]}" 2>/dev/null ||
    return 1
  echo "$now" >"$stamp"
}

if [ "${1:-}" = --tidy-one ]; then
  tidy_one "$2"
  exit
fi

passed=0 failed=0 skipped=0

# judge COMMAND...: runs it, and counts.
judge() {
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# skip TOOL: what it does is not done here.
skip() {
  echo "skipped: $1: not installed"
  skipped=$((skipped + 1))
}

# These versions agree on how the tree is to be formatted. clang-tidy's do not: each adds checks.
FORMAT=$(command -v clang-format-19 || command -v clang-format-20 || command -v clang-format-21 || true)

format_all() { sources '*.h' '*.cc' '*.c' | xargs -r "$FORMAT" --dry-run -Werror; }

# Those that take longest first.
tidy_all() {
  mkdir -p "$STAMPS"
  sources 'planner/*.cc' 'scheduler/*.cc' 'src/*.cc' 'preload/*.cc' | sed 's#/[^/]*$##' | sort | uniq -c | sort -rn |
    awk '{ print $2 }' | xargs -r -P "$(nproc)" -n 1 scripts/gates/lint.sh --tidy-one
}

if [ -n "$FORMAT" ]; then judge format_all; else skip clang-format-19; fi
judge python3 scripts/tables/gen_tables.py --check
if command -v clang-tidy-19 >/dev/null; then judge tidy_all; else skip clang-tidy-19; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
