#!/bin/sh
# Random programs for a while: stress.sh [none|asan|ubsan|tsan] [seconds] [threads]
# none: the real library, preloaded. Otherwise: the same code under a prefix, linked into the program, with the
# sanitizer's malloc as the underlying allocator. Each run has a seed of its own, printed when it fails; thresholds
# take turns, with blocks from a quarter of them to 16 times as large: small blocks make more operations a
# second, large ones come to more pages and huge pages. Each seed
# runs twice, with no time to plan: first learning, then from the plans that the first run has left, which the
# background searches for lower ones. The last line tells what was driven; where no plan was made, or nothing came from
# one, the runs have shown nothing, and that is a failure.
set -eu
sanitizer=${1:-none}
seconds=${2:-30}
threads=${3:-4}
cd "$(dirname "$0")/../.."

operations=50000
case $sanitizer in
none)
  make -s lib build/programs/random_programs
  program=build/programs/random_programs
  preload=$PWD/build/libmemomalloc.so
  ;;
asan | ubsan | tsan)
  make -s MODE="$sanitizer" "build/$sanitizer/stress"
  program=build/$sanitizer/stress
  preload=
  operations=5000
  ;;
*)
  echo "stress.sh: unknown sanitizer '$sanitizer'; none, asan, ubsan or tsan" >&2
  exit 2
  ;;
esac

# malloc and free of one block on two threads would be reported by the sanitizer's own allocator; leaks are
# looked for where the library is the only one to keep memory.
ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allow_addr2line=1
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:allow_addr2line=1
TSAN_OPTIONS=halt_on_error=1:allow_addr2line=1
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
report=$folder/report
seed=$(date +%s)
echo "stress ($sanitizer): seeds from $((seed + 1)) on"
end=$(($(date +%s) + seconds))
runs=0
while [ "$(date +%s)" -lt "$end" ]; do
  for kilobytes in 64 4 16; do
    threshold=${kilobytes}K
    [ "$(date +%s)" -lt "$end" ] || break
    seed=$((seed + 1))
    rm -rf "$folder/plans"
    for from in "new plans" "the plans of the run before"; do
      if ! MEMOMALLOC_THRESHOLD=$threshold MEMOMALLOC_PLANS=$folder/plans MEMOMALLOC_PLAN_TIME=0 \
        TELL_COUNTERS=1 LD_PRELOAD=$preload timeout 600 "$program" "$seed" "$operations" "$threads" $((kilobytes * 256)) >"$report" 2>&1; then
        echo "stress.sh: failed with seed $seed, threshold $threshold, from $from:" >&2
        tail -60 "$report" >&2
        exit 1
      fi
      cat "$report" >>"$folder/driven"
      runs=$((runs + 1))
    done
  done
done
echo "stress ($sanitizer): $runs runs of $threads threads, $((runs * operations * threads)) allocations, no difference"
awk '$2 ~ /^[0-9]+$/ { sum[$1] += $2 }
  END {
    for (name in sum) printf "%s %d; ", name, sum[name]
    print ""
    if (!(sum["planned_allocations"] > 0 && sum["plans"] > 0)) { print "stress.sh: failed: nothing was served from a plan"; exit 1 }
  }' "$folder/driven"
