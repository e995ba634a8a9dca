#!/usr/bin/env bash
# Puts what a measurement on another machine needs besides the tree into build, and names it for that machine to be given:
#   scripts/hardware/prepare.sh [MAKE'S ARGUMENTS]        for cores.sh: the library, the micro-benchmark, other allocators
#   scripts/hardware/prepare.sh gpu [MAKE'S ARGUMENTS]    for gpu.sh: the libraries, and the command
# build/hardware/commit tells the machine what it measures.
set -euo pipefail
cd "$(dirname "$0")/../.."
MIMALLOC=cmeel-mimalloc==3.4.3
OUT=build/hardware
mkdir -p $OUT
git describe --always --abbrev=40 --dirty --exclude='*' >$OUT/commit

if [ "${1:-}" = gpu ]; then
  make lib cuda cli "${@:2}"
  echo "carry: build/libmemomalloc.so build/libmemomalloc-cuda.so build/memomalloc $OUT"
  exit
fi
make all build/bench/contended "$@"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in libtcmalloc_minimal.so.4 libjemalloc.so.2; do
  path=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk -v name=$name '$1 == name && !found++ { print $NF }')
  [ -n "$path" ] || { echo "prepare.sh: $name is not installed (apt-get install libtcmalloc-minimal4 libjemalloc2)" >&2; exit 2; }
  cp -L "$path" $OUT/
done
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform manylinux_2_28_x86_64 -d "$work" $MIMALLOC
python3 - "$work" $OUT <<'END'
import pathlib, sys, zipfile
work, out = map(pathlib.Path, sys.argv[1:])
wheel = zipfile.ZipFile(next(work.glob("*.whl")))
name = next(name for name in wheel.namelist() if name.endswith("/libmimalloc.so.3"))
(out / "libmimalloc.so.3").write_bytes(wheel.read(name))
END
{
  echo "tcmalloc gperftools $(dpkg-query -W -f='${Version}' 'libtcmalloc-minimal4*')"
  echo "jemalloc $(dpkg-query -W -f='${Version}' libjemalloc2)"
  echo "mimalloc ${MIMALLOC#*==}"
} >$OUT/versions
cat $OUT/commit $OUT/versions
du -ch build/libmemomalloc.so build/bench/contended $OUT | tail -1
echo "carry: build/libmemomalloc.so build/bench/contended $OUT"
