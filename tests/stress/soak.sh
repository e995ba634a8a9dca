#!/bin/sh
# The long runs: soak.sh [seconds], 3600 unless told otherwise, of random programs on the real library and under
# each sanitizer, the loading test at the length of its promise, and fuzzers. Then, once each and for as long as they
# take, mutations, another processor, and the long list of real programs (scripts/install_deps.sh soak brings
# them). Every part runs, whatever fails.
set -u
seconds=${1:-3600}
cd "$(dirname "$0")/../.."
part=$((seconds / 12))
failed=

run() {
  echo "== $*"
  "$@" || failed="$failed
  $*"
}

make -s all programs build/unit_tests || exit 1
run tests/stress/stress.sh none $((part * 3)) 4
for sanitizer in asan ubsan tsan; do
  run tests/stress/stress.sh "$sanitizer" "$part" 4
done
run env SOAK_SECONDS=$((part > 60 ? part : 60)) EXPECT_SERVING=1 LD_PRELOAD="$PWD/build/libmemomalloc.so" build/programs/loading
run tests/fuzz/run.sh "$part"
run python3 tests/refusal/run.py --build build --whole --verbose --seconds $((part * 3))
run tests/stress/valgrind.sh
run python3 tests/mutations/run.py
run python3 tests/preload/run.py --build build
run python3 tests/preload/real_programs.py --build build --long
run scripts/packages/cross.sh aarch64
if [ -n "$failed" ]; then
  echo "soak: failed:$failed"
  exit 1
fi
echo "soak: all passed"
