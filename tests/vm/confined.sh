#!/bin/busybox sh
# Runs a command in the cell's cgroup, if it has one: confined.sh COMMAND... The shell is a static
# program, so that the library is loaded into the command alone.
echo 0 >/proc/self/oom_score_adj
# A program that the group's limit does not reach would pass without having been tested; guest.py knows the exit code.
[ ! -d /group/limited ] || { echo $$ >/group/limited/cgroup.procs && busybox grep -q '/limited$' /proc/self/cgroup; } || exit 99
exec "$@"
