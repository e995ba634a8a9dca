#!/bin/sh
# The long runs: soak.sh [minutes], 60 unless told otherwise. Random programs on the real library and under each
# sanitizer, the loading test at the length of its promise, and the long list of real programs.
set -eu
minutes=${1:-60}
cd "$(dirname "$0")/../.."
part=$((minutes * 60 / 6))

for sanitizer in none asan ubsan tsan; do
  tests/stress/stress.sh "$sanitizer" "$part" 4
done
make -s lib programs
SOAK_SECONDS=$part LD_PRELOAD=$PWD/build/libmemomalloc.so build/programs/loading
python3 tests/preload/real_programs.py --build build --long
