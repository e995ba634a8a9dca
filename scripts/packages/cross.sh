#!/bin/bash
# Builds for another processor with Debian's cross compiler, and runs the unit and the conformance
# tests there under qemu: cross.sh [aarch64 [build]]; `build` builds the library and the programs alone.
# As root it installs the compiler; the emulator and the processor's libraries are unpacked below
# build/cross, without a change to the machine's packages.
set -euo pipefail
. "$(dirname "$0")/../common.sh"

PROCESSOR=${1:-aarch64}
case $PROCESSOR in
  aarch64) DEBIAN=arm64 ;;
  *) die "only aarch64 is known here" ;;
esac
TRIPLE=$PROCESSOR-linux-gnu
HERE=$PWD/build/cross/$PROCESSOR
ROOT=$HERE/root
# Of a stable release's emulators the first that keeps reserved address space in a tree, and not in a
# table with an entry for each page, which would take gigabytes for ours.
EMULATOR_SUITE=bookworm-backports
EMULATOR_LEAST=8

# Unpacks packages SUITE ARCHITECTURE PACKAGE... below $HERE/debs/PACKAGE.
unpack() {
  local suite=$1 architecture=$2
  shift 2
  python3 scripts/packages/debian_packages.py --below "$HERE" --suite "$suite" --architecture "$architecture" "$@" >/dev/null
}

# Prints an emulator that is new enough, the machine's own if it is.
emulator() {
  local own=$HERE/debs/qemu-user/usr/bin/qemu-$PROCESSOR version
  version=$("qemu-$PROCESSOR" --version 2>/dev/null | sed -nE '1s/.*version ([0-9]+).*/\1/p')
  if [ "${version:-0}" -ge "$EMULATOR_LEAST" ]; then
    command -v "qemu-$PROCESSOR"
  else
    [ -x "$own" ] || unpack "$EMULATOR_SUITE" "$(dpkg --print-architecture)" qemu-user >&2
    echo "$own"
  fi
}

# The compiler's own tree, and what it does not have: libraries, and headers that are the same everywhere.
assemble_root() {
  [ -e "$ROOT/done" ] && return 0
  local header found
  mkdir -p "$ROOT/include"
  unpack bookworm "$DEBIAN" libunwind8 liblzma5 zlib1g
  cp -a "/usr/$TRIPLE/lib" "$ROOT/"
  find "$HERE"/debs/{libunwind8,liblzma5,zlib1g} -name '*.so*' -exec cp -a {} "$ROOT/lib/" \;
  ln -sf libz.so.1 "$ROOT/lib/libz.so"
  for header in catch2 CLI nlohmann xxhash.h zlib.h zconf.h; do
    found=$(find /usr/include /usr/include/*-linux-gnu -maxdepth 1 -name "$header" | head -1)
    [ -n "$found" ] || die "the header $header is missing; run scripts/install_deps.sh check as root"
    ln -sfn "$found" "$ROOT/include/$header"
  done
  touch "$ROOT/done"
}

scripts/install_deps.sh cross
assemble_root
BUILD=build/$PROCESSOR
make_here() {
  make -j"$(nproc)" MODE="$PROCESSOR" CXX="$TRIPLE-g++" CC="$TRIPLE-gcc" HAVE_CBC= CROSS="$ROOT" WERROR=1 "$@"
}
failed=0
if [ "${2:-}" = wheel ]; then
  make_here programs
  RUN="$(emulator) -L $ROOT"
  TESTED=build/manylinux-$PROCESSOR/tested
  ln -sfn "../../$PROCESSOR/programs" "$TESTED/programs"
  export SLOWER=${SLOWER:-4}  # than a usual machine; programs that end themselves where they hang wait so much longer
  python3 tests/preload/run.py --build "$TESTED" --emulator "$RUN" --jobs "$(nproc)" || failed=1
  python3 scripts/packages/wheel_planner.py --emulator "$RUN" "$TESTED/memomalloc" || failed=1
  exit $failed
fi
make_here "$BUILD/libmemomalloc.so" programs
[ "${2:-}" = build ] && exit
QEMU=$(emulator)
RUN="$QEMU -L $ROOT"
make_here "$BUILD/unit_tests"
# The emulator adds a line of its own when a program aborts, knows no limit on address space and no VmFlags in smaps, makes
# vfork a fork, and is too slow for plans that may take a tenth of a second.
LEFT_OUT=('message: fail says why and aborts' 'os: the limit on address space is seen' 'os: a core file holds what*'
  'misuse: a report names the pointer*' "fork mark: stays in a child that shares its parent's memory"
  'gpu: what is reserved stays near*')
# shellcheck disable=SC2086
timeout 3000 $RUN "$BUILD/unit_tests" "$(printf '~"%s" ' "${LEFT_OUT[@]}")" --rng-seed time || failed=1
python3 tests/preload/run.py --build "$BUILD" --emulator "$RUN" --jobs "$(nproc)" || failed=1
exit $failed
