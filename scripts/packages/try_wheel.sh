#!/bin/bash
# Installs the wheel in bare chroots of Debian 11, 12 and 13, which have no compiler, runs a program with it,
# and asks the doctor of two small programs: try_wheel.sh [RELEASE...]. As root, with a network; the chroots' bases stay
# in ~/.cache/memomalloc, or the folder that MEMO_CHROOTS names.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
WHEEL=$(find "$PWD/dist" -name "memomalloc-$(cat VERSION)-*-manylinux_*_$(uname -m).whl" | head -1)
[ -n "$WHEEL" ] || die "there is no wheel in dist/; \`make wheels\` builds it"
MOST_SECONDS=120 # for these lines; a newcomer's patience
. scripts/packages/chroots.sh

try_release() {
  local result=0
  make_root "$1" || return 2
  mkdir "$ROOT/root/dist"
  cp "$WHEEL" "$ROOT/root/dist/"
  cp tests/vm/numpy_loop.py "$ROOT/root/"
  write_program
  in_root '
    if command -v cc || command -v g++ || command -v gcc || command -v clang; then echo "there is a compiler"; exit 1; fi
    began=$SECONDS
    python3 -m venv env && . env/bin/activate
    pip install -q --disable-pip-version-check dist/*.whl
    memomalloc run -- python infer.py
    took=$((SECONDS - began))
    echo "installed and used: $took s"
    [ $took -lt '$MOST_SECONDS' ]
    memomalloc doctor -- python infer.py
    pip install -q --disable-pip-version-check numpy
    memomalloc doctor -- python numpy_loop.py
    python -c "import memomalloc; assert memomalloc.library_path()"
    test -e env/share/man/man1/memomalloc.1' || result=1
  drop_root
  return $result
}

[ $# -gt 0 ] || set -- bullseye bookworm trixie
try_all try_release "$@"
