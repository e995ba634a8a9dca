#!/bin/sh
# Fuzzes the CSV reader and the planner for so many seconds (default 30). Needs clang with libFuzzer;
# says so, and succeeds, where there is none. What fails is left in build/fuzz.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-30}
clang=$(command -v clang++-19 || command -v clang++ || true)
mkdir -p build/fuzz/corpus
if [ -z "$clang" ] || ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$clang" -x c++ -fsanitize=fuzzer,address - -o build/fuzz/probe 2>build/fuzz/probe.log; then
  echo "skipped: fuzzing needs clang++ with libFuzzer (packages clang-19 and libclang-rt-19-dev)"
  exit 0
fi
"$clang" -std=c++20 -O1 -g -I. -Iinclude -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
  tests/fuzz/planner_csv_fuzz.cc planner/*.cc -o build/fuzz/planner_csv
cp tests/golden/instances/pisarchyk_lee/posenet.csv build/fuzz/corpus/
printf 'id,lower,upper,size,alignment,gaps,offset\na,-3,9,64,16,-2-0 4-5,32\nb,1,2,1,,,\n' \
  >build/fuzz/corpus/all_columns.csv
exec build/fuzz/planner_csv -max_total_time="$seconds" -max_len=2000 -timeout=10 \
  -artifact_prefix=build/fuzz/ -dict=tests/fuzz/csv.dict build/fuzz/corpus
