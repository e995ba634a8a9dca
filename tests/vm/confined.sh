#!/bin/busybox sh
# Runs a command in the cell's cgroup, if it has one: confined.sh COMMAND... The shell is a static
# program, so that the library is loaded into the command alone.
echo 0 >/proc/self/oom_score_adj
[ ! -d /group/limited ] || echo $$ >/group/limited/cgroup.procs
exec "$@"
