#!/bin/bash
# Builds the Debian packages in chroots of Debian 12 and 13, installs them in bare ones, which have no compiler, and asks
# the doctor of a small program: try_deb.sh [RELEASE...]. As root, with a network; chroots as for try_wheel.sh.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. scripts/packages/chroots.sh

# Builds the packages of the files that git knows into build/deb-RELEASE.
build() {
  local result=0 ready=build/deb-$1
  make_root "$1" || return 2
  mkdir -p "$ROOT/root/source"
  echo "building the packages in $1; this takes some minutes"
  git ls-files --cached --others --exclude-standard | tar -cf - --ignore-failed-read -T - | tar -xf - -C "$ROOT/root/source"
  in_root '
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends build-essential debhelper dpkg-dev fakeroot coinor-libcbc-dev \
      libcli11-dev libxxhash-dev nlohmann-json3-dev zlib1g-dev >/dev/null
    make -s -C source deb >build.log 2>&1 || { tail -30 build.log; exit 1; }' || result=1
  rm -rf "$ready"
  mkdir -p "$ready"
  [ $result != 0 ] || cp "$ROOT"/root/source/build/deb/*.deb "$ready/"
  drop_root
  return $result
}

try_release() {
  local result=0
  build "$1" || return 1
  make_root "$1" || return 2
  cp "build/deb-$1"/{libmemomalloc1,memomalloc}_*.deb "$ROOT/root/"
  write_program
  in_root '
    if command -v cc || command -v g++ || command -v gcc || command -v clang; then echo "there is a compiler"; exit 1; fi
    ls -l *.deb
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ./libmemomalloc1_*.deb ./memomalloc_*.deb >/dev/null
    memomalloc doctor -- python3 infer.py
    LD_PRELOAD=libmemomalloc.so.1 MEMOMALLOC_STATS=1 python3 infer.py 2>&1 | grep -q "planned_bytes"
    memomalloc planners | grep -q "^mip "
    dpkg -L memomalloc | grep -q bash-completion
    apt-get remove -y -qq memomalloc libmemomalloc1 >/dev/null
    left=$(find /usr -name "*memomalloc*")
    [ -z "$left" ] || { echo "left by apt-get remove: $left"; exit 1; }' || result=1
  drop_root
  return $result
}

[ $# -gt 0 ] || set -- bookworm trixie
try_all try_release "$@"
