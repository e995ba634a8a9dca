#!/bin/sh
# The planner and the commands under valgrind: no access outside of a block, no use of what was never written,
# nothing lost. Each command has to end with the exit code behind it. Without valgrind it is skipped.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v valgrind >/dev/null; then
  echo "skipped: commands under valgrind: valgrind is not installed"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
make -s cli
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
posenet=tests/golden/instances/pisarchyk_lee/posenet.csv
trace=tests/golden/traces/resnet18_two_threads.csv.gz
graph=tests/golden/graphs/alexnet.json
printf 'id,lower,upper,size\na,0,5,10\nb,3,2,1\n' >"$folder/bad.csv"
# Small enough for every planner, the slow ones too.
{ echo id,lower,upper,size,alignment
  for i in 0 1 2 3; do echo "$i,$i,$((i + 2 + i % 2)),$((1000 + i * 300)),16"; done
} >"$folder/small.csv"
head -c 3000 $trace >"$folder/cut.csv.gz"

started=0
# check CODE ARGUMENT...: the command with these arguments ends with CODE and is clean. As many at once as there are
# processors; what is wrong goes into a file of its own.
check() {
  started=$((started + 1))
  judge "$folder/$started" "$@" &
  [ $((started % $(nproc))) != 0 ] || wait
}
judge() {
  files=$1
  expected=$2
  shift 2
  code=0
  timeout 300 valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
    build/memomalloc "$@" >"$files.out" 2>"$files.err" || code=$?
  [ $code = "$expected" ] && touch "$files.passed" && return
  { echo "memomalloc $*: exit code $code instead of $expected"; tail -20 "$files.err"; } >"$files.failed"
}

check 0 --version
check 0 options
check 0 planners
planners=$(build/memomalloc planners | awk 'NR > 1 { print $1 }')
[ -n "$planners" ] || { echo "failed: the command names no planner"; exit 1; }
for planner in $planners; do
  check 0 plan "$folder/small.csv" --planner "$planner" --seconds 120 --output "$folder/plan.$planner.csv"
done
check 0 plan $posenet --seconds 1 --svg "$folder/map.svg" --json
check 1 plan $posenet --capacity 4096 --seconds 1
check 2 plan "$folder/bad.csv"
check 2 plan "$folder/none.csv"
check 0 analyze $trace --threshold 65536 --json
check 2 analyze "$folder/cut.csv.gz"
check 0 report $trace -o "$folder/report.html"
check 0 schedule $graph --output "$folder/order.json"
check 0 replay $trace --iterations 1
wait
cat "$folder"/*.failed 2>/dev/null || true
passed=$(find "$folder" -name '*.passed' | wc -l)
echo "$passed passed, $((started - passed)) failed"
[ "$passed" = $started ]
