#!/bin/sh
# Runs every fuzzer for so many seconds each, one on each processor: run.sh [seconds, 30]; `run.sh build` only makes
# them. Needs clang with libFuzzer; where there is none it is skipped. What fails is left in build/fuzz/found; inputs
# that reach new code are kept in build/fuzz/corpus for the next run.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-30}
clang=$(command -v clang++-19 || command -v clang++ || true)
out=build/fuzz
mkdir -p $out/found
if [ -z "$clang" ] || ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$clang" -x c++ -fsanitize=fuzzer,address - -o $out/probe 2>$out/probe.log; then
  echo "skipped: fuzzers: no clang++ with libFuzzer (packages clang-19 and libclang-rt-19-dev)"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
# Warnings are the other compiler's business.
make -s -j"$(nproc)" MODE=fuzz CXX="$clang" WARN=-w HAVE_CBC= fuzzers
[ "$seconds" != build ] || exit 0

targets='engine planner_csv options plan_file snapshot'
for name in $targets; do
  mkdir -p $out/corpus/$name
done
cp tests/golden/instances/pisarchyk_lee/posenet.csv $out/corpus/planner_csv/
printf 'id,lower,upper,size,alignment,gaps,offset\na,-3,9,64,16,-2-0 4-5,32\nb,1,2,1,,,\n' \
  >$out/corpus/planner_csv/all_columns.csv
printf 'MEMOMALLOC_THRESHOLD=64K\0MEMOMALLOC_STATS_FILE=/tmp/%%p.%%h\0MEMOMALLOC_PLAN_TIME=20\0MEMOMALLOC_EXE=a:b' \
  >$out/corpus/options/some
# A symbolic plan of 16 blocks, whose header the target makes right, since its first byte is odd.
python3 - >$out/corpus/plan_file/symbolic <<'END'
import struct, sys
steps = [(65536 * (i % 3 + 1), 2**20 * (i % 4), i, 6) for i in range(16)]
rules = [(0.0, 1.0 + i % 3, 0.0, 0.0, 0.0, min(4, 16 - i), 0) for i in range(16)]
sys.stdout.buffer.write(
    b"\1".ljust(40, b"\0") + struct.pack("<QQIIQQ", 2**22, 2**19, 16, 16, 65536, 1)
    + b"".join(struct.pack("<4Q", *step) for step in steps) + b"".join(struct.pack("<5d2I", *rule) for rule in rules))
END
# Iterations of ten blocks, freed in order, repeated as often as a lane needs to serve them.
printf '\047\0\001\0\001\0\0\021\0\0\041\0\0\061\0\0\101\0\0\121\0\0\141\0\0\161\0\0\201\0\004\0\0\004\0\0\004\0\0' \
  >$out/corpus/engine/loop
# One device, one segment, one block that is allocated and freed.
python3 - >$out/corpus/snapshot/small <<'END'
import pickle, sys
block = {"address": 0, "size": 512, "requested_size": 9, "state": "active_allocated", "frames": []}
trace = [{"action": action, "addr": 512, "size": 8, "time_us": 1, "frames": [{"filename": "a.py", "line": 1, "name": "f"}]}
         for action in ("segment_alloc", "alloc", "free_requested", "free_completed")]
segment = {"device": 0, "address": 0, "total_size": 512, "blocks": [block]}
sys.stdout.buffer.write(pickle.dumps({"segments": [segment], "device_traces": [trace]}, 4))
END

seeds='planner_csv/posenet.csv planner_csv/all_columns.csv options/some plan_file/symbolic engine/loop snapshot/small'

# fuzz NAME: leaves its end in NAME.ended.
fuzz() {
  options=
  [ -e tests/fuzz/$1.dict ] && options=-dict=tests/fuzz/$1.dict
  # Plans live as long as their engine's process, which here has thousands of engines.
  leaks=1
  [ $1 = engine ] && leaks=0
  # What the target itself writes to stderr is not of interest; the fuzzer's own words are.
  ended=0
  export ASAN_OPTIONS=detect_leaks=$leaks:allow_addr2line=1
  # Whole: the fuzzer cuts what is longer than max_len.
  for seed in $seeds; do
    [ ${seed%/*} = $1 ] || continue
    MEMO_FUZZ_SEEDS=1 $out/${1}_fuzz $out/corpus/$seed >$out/$1.log 2>&1 || ended=$?
    if [ $ended != 0 ]; then
      echo "$out/corpus/$seed is refused" >>$out/$1.log
      echo $ended >$out/$1.ended
      return
    fi
  done
  $out/${1}_fuzz -max_total_time="$seconds" -max_len=2000 -timeout=20 -rss_limit_mb=4000 -close_fd_mask=2 \
    -artifact_prefix=$out/found/$1. $options $out/corpus/$1 >$out/$1.log 2>&1 || ended=$?
  echo $ended >$out/$1.ended
}

# What a shell has begun beside itself does not hear the terminal.
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
begun=0
for name in $targets; do
  fuzz $name &
  begun=$((begun + 1))
  [ $((begun % $(nproc))) != 0 ] || wait
done
wait

passed=0
failed=0
for name in $targets; do
  if [ "$(cat $out/$name.ended)" = 0 ]; then
    passed=$((passed + 1))
    echo "$name: $(sed -n 's/^Done \(.*\)/\1/p' $out/$name.log)"
  else
    failed=$((failed + 1))
    echo "$name: FAILED"
    tail -30 $out/$name.log
  fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
