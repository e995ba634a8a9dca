#!/usr/bin/env python3
"""Shows that the tests can fail: breaks a copy of the tree, one place at a time, and runs the test that must
notice. Each row of MUTATIONS is a file, the text in it, what to put there, and the test: a unit test's name
(Catch2), the name of a check of tests/preload/run.py, or `FILE.py NAME` below tests/scripts or tests/cli. A row passes when its
test does on the whole copy and fails on the broken one. --random takes so many rows by chance, and prints the seed.
Rows that --seconds leaves no time for are named and not counted; those whose test skips here are told with its reason.
Ends with `N passed, N failed, N skipped`; exit code 1 if any failed."""

import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from c10_rows import C10_ROWS
from door_rows import DOOR_ROWS
from engine_rows import ENGINE_ROWS
from first_rows import FIRST_ROWS
from follow_rows import FOLLOW_ROWS
from hider_rows import HIDER_ROWS
from limit_rows import LIMIT_ROWS
from kinds import PRELOAD, SCRIPT, UNIT
from server_rows import SERVER_ROWS
from status_rows import STATUS_ROWS
from store_rows import STORE_ROWS
from turn_rows import TURN_ROWS

ROOT = pathlib.Path(__file__).resolve().parents[2]


MUTATIONS = (
    *FIRST_ROWS,
    *SERVER_ROWS,
    *STATUS_ROWS,
    *FOLLOW_ROWS,
    *DOOR_ROWS,
    *ENGINE_ROWS,
    *LIMIT_ROWS,
    *C10_ROWS,
    *HIDER_ROWS,
    *STORE_ROWS,
    *TURN_ROWS,
    ("a withdrawn plan counts as visible", "src/engine/plan_store.cc",
     "  if (state == State::kVisible) {\n    visible_count_.fetch_sub(1, std::memory_order_relaxed);\n  }\n  state = State::kWithdrawn;",
     "  state = State::kWithdrawn;",
     UNIT, "engine: no wrong guess costs a byte"),
    ("a broken invariant is passed over", "src/base/check.h",
     "((condition) ? static_cast<void>(0)", "((condition) || true ? static_cast<void>(0)",
     UNIT, "check: a broken invariant aborts with its place and text"),
    ("a place is granted although its pages are in use", "src/serve/page_map.cc",
     "const bool granted = (any & (PageStates::kEveryByte * kUsed)) == 0;", "const bool granted = any != 1;",
     UNIT, "placer: no schedule makes two live blocks share a page"),
    ("a block has as many granules as it fills", "src/base/granule.h",
     "Granules{(bytes + kGranule - 1) / kGranule}", "Granules{bytes / kGranule}",
     UNIT, "units: bytes become granules and granules bytes"),
    ("a second free of a block is accepted", "src/serve/page_map.cc",
     "    return Granules{0};\n  }\n  const Granules count = noted(first);",
     "  }\n  const Granules count = noted(first);",
     PRELOAD, "bad_frees [default]"),
    ("the place's alignment is not compared", "src/serve/slab.h",
     "alignment > kGranule && (offset & (alignment - 1)) != 0", "alignment == 3",
     PRELOAD, "hostile_plans [default]"),
    ("realloc copies a byte less", "preload/shim.cc",
     "g_process.engine.carry(pointer, moved, now < size ? now : size);", "g_process.engine.carry(pointer, moved, (now < size ? now : size) - 1);",
     PRELOAD, "resize [default]"),
    ("errno is not kept", "preload/shim.cc",
     "  errno = saved;\n  // Whoever", "  errno = saved + 1;\n  // Whoever",
     PRELOAD, "errno_kept [default]"),
    ("a product that overflows is not noticed", "preload/sized.cc",
     "    errno = ENOMEM;\n    return nullptr;\n  }\n  return g_process.front_realloc",
     "  }\n  return g_process.front_realloc",
     PRELOAD, "sizes [default]"),
    ("a process' addresses are taken to end at 47 bits", "src/trace/live_table.h",
     "return word_ & kAddressBits;", "return word_ & (kAddressBits >> 1);",
     UNIT, "live table: a block is found at an address of all 48 bits"),
    ("the stack that is left is not looked at", "src/trace/signature.cc",
     "stack.room() < tuning::kUnwindStack", "stack.high == 1",
     UNIT, "signature: asks for a few pages of stack"),
    ("no stack is unwound", "src/trace/signature.cc",
     "  return signature;", "  return signature & 0;",
     UNIT, "engine: sizes that follow from the iteration's first are served"),
    ("a walk reads below the stack in use", "src/trace/call_stack.cc",
     "address % kWord != 0 || address < sp ||", "address % kWord != 0 ||",
     UNIT, "call stack: garbage is not followed out of the stack"),
    ("unwind tables are read beyond their end", "src/trace/table_reader.h",
     "bytes <= end_ - at_;", "bytes <= 4096;",
     UNIT, "frame rule: tables cut anywhere, with bytes changed, are not left"),
    ("the row behind the call is taken", "src/trace/frame_rule.cc",
     "const std::uint64_t call = return_address - 1;", "const std::uint64_t call = return_address;",
     UNIT, "frame rule: the row of the call that has not come back"),
    ("pages are taken to have 4 KiB", "src/serve/space.cc",
     "round_down(from.count() * each, os::page_size())", "round_down(from.count() * each, 4096)",
     PRELOAD, "page_calls [pages of 64 KiB]"),
    ("a setuid program reads the environment", "preload/lifecycle.cc",
     "if (getauxval(AT_SECURE) == 0)", "if (getauxval(AT_SECURE) < 2)",
     PRELOAD, "outside world: setuid"),
    ("a damaged plan file is believed", "src/io/plan_records.cc",
     "header.checksum != XXH3_64bits(rest.data(), rest.size())", "header.checksum == 1",
     UNIT, "plan file: with any bit flipped, nothing false is taken"),
    ("whoever wrote a plan file is not looked at", "src/io/plan_bytes.cc",
     "if (const std::string_view doubts = doubt(status, trust); !doubts.empty()) {",
     "if (const std::string_view doubts = doubt(status, trust); doubts.size() == 1) {",
     UNIT, "plan file: what others may have written is refused"),
    ("the readable bytes behind the last block are forgotten", "src/serve/space.cc",
     "  if (bytes >= bytes_) {", "  if (bytes > bytes_) {",
     UNIT, "space: committed step by step, readable past the end"),
    ("giving back ends at a block that the program has locked", "src/serve/arena.cc",
     "    refused = refused || given == Granules{0};\n", "    if (given == Granules{0}) {\n      break;\n    }\n",
     UNIT, "arena: a locked page holds back no other memory"),
    ("memory that is locked in part stays as a whole", "src/serve/space.cc",
     "count > tuning::kPiece && first < end", "count == Granules{0} && first < end",
     UNIT, "arena: a locked page holds back no other memory"),
    ("free runs side by side are not merged", "src/serve/free_index.cc",
     "left != 0 && (nodes_[left].dirty != 0) == dirty", "left == UINT32_MAX && (nodes_[left].dirty != 0) == dirty",
     UNIT, "free index: knows each free run under random calls"),
    ("memory is looked for at the low end of a free run alone", "src/serve/free_index.cc",
     "if (left != 0 && end >= count && end != top) {", "if (left == UINT32_MAX) {",
     UNIT, "free index: a place goes on where there is no memory, before or behind"),
    ("a growing block never moves on into what is free below the top", "src/serve/arena.cc",
     "place = free_.below(top_);", "place = FreeIndex::Place{top_};",
     UNIT, "arena: what fits no hole begins in what is free below the top"),
    ("the pool keeps no more than is alive", "src/serve/holding.h",
     "const Granules peak = peak_.get();\n    const std::uint64_t divisor",
     "const Granules peak = in_memory();\n    const std::uint64_t divisor",
     UNIT, "engine: what a decoder's cache asks for is planned or at hand"),
    ("a trim on a caller's path gives all back at once", "src/serve/arena.cc",
     "if (bytes == kAll) {", "if (bytes != 0) {",
     UNIT, "arena: a trim for a caller gives back what it is told, and the rest later"),
    ("a program that locks its memory gets more than it uses", "src/serve/space.cc",
     "locking.future != os::Lock::kNo || locking.reserved;", "locking.reserved;",
     UNIT, "space: a program that locks its memory locks what it uses, not what is reserved"),
    ("records lie side by side", "src/serve/space.cc",
     "round_up(end + size, os::page_size()) + os::page_size();", "round_up(end + size, os::page_size());",
     UNIT, "space: each of its records lies between pages that cannot be touched"),
    ("a new filter of system calls is not noticed", "src/base/os.cc",
     "return now != before;", "return now == 0;",
     UNIT, "os: a filter of system calls that was added is noticed, one from before is not"),
    ("the second thread may have the same lane", "src/engine/lanes.cc",
     "      *link = lane.next_free;\n", "",
     UNIT, "lanes: who comes has a lane when who left is done with it"),
    ("blocks that stay use the slabs up", "src/serve/slabs.h",
     "return take_free(wish, false);", "return nullptr;",
     UNIT, "threads: blocks that stay do not use the slabs up"),
    ("handlers of fork are served while the locks are held", "src/engine/forks.cc",
     "  ++thread.inside;\n", "",
     PRELOAD, "fork_handlers [default]"),
    ("a thread may be cancelled where a message is written", "src/base/descriptors.cc",
     "const NoCancellation whole;\n  // A filter", "// A filter",
     PRELOAD, "cancellation [default]"),
    ("a thread waits for a lock of its own", "src/base/lock.h",
     "{ return owner() == myself(); }", "{ return owner() == kFlags; }",
     UNIT, "lock: who has it already is told at once, however patient"),
    ("a child without handlers is not noticed", "src/base/fork_mark.cc",
     "!os::wipe_on_fork(page, os::page_size())", "os::page_size() == 0",
     UNIT, "fork mark: gone in a child that no handler knows of, until it is renewed"),
    ("a refused background thread is not tried again", "preload/background_thread.cc",
     "starts.refused(tuning::kMaxOccasions);\n  running = false;", "starts.refused(tuning::kMaxOccasions);",
     PRELOAD, "refused_background_thread [default]"),
    ("the main thread's stack is known by /proc alone", "src/trace/signature.cc",
     "return guess_main_stack();", "return bounds;",
     PRELOAD, "no_descriptors [default]"),
    ("no block comes from a slab any more: whole sequences", "src/serve/slab.h",
     "const PageMap::Claim claim = pages.claim(granules_in(offset), granules_of(bytes));",
     "const PageMap::Claim claim;",
     PRELOAD, "resize [default]"),
    ("no block comes from a slab any more: plans from a file", "src/serve/slab.h",
     "const PageMap::Claim claim = pages.claim(granules_in(offset), granules_of(bytes));",
     "const PageMap::Claim claim;",
     PRELOAD, "hostile_plans [default]"),
    ("no block comes from a slab any more: blocks that outlive their thread", "src/serve/slab.h",
     "const PageMap::Claim claim = pages.claim(granules_in(offset), granules_of(bytes));",
     "const PageMap::Claim claim;",
     PRELOAD, "thread_exit [default]"),
    ("a sized free takes any size", "preload/sized.cc",
     "if (!engine.may_have_size(pointer, size)) [[unlikely]] {", "if (size == 1) {",
     PRELOAD, "bad_frees [default]"),
    ("other allocators' functions are seen where these are not", "preload/lifecycle.cc",
     "  hide_missing_peers(process.next);\n", "", PRELOAD, "peer_functions [default]"),
    ("old bytes behind the last block count as given back", "src/serve/page_map.cc",
     "kind == Tail::kFree ? kUsed : kUsed | kDirty;", "kUsed;",
     UNIT, "arena: what is free behind the last block counts no more"),
    ("what is refused is not asked for again", "preload/shim.cc",
     "errno == ENOMEM && g_process.engine.upkeep.relieve(bytes))", "false)",
     PRELOAD, "limited_data [default]"),
    ("another allocator's function gets a block of ours", "preload/peers.cc",
     "return g_process.engine.owns(pointer) ||", "return",
     PRELOAD, "peer_functions [on tcmalloc]"),
    ("the judge of plans accepts everything", "planner/validate.cc",
     "  if (plan.offsets.size() != problem.buffers.size()) {",
     "  if (plan.height < kMax) {\n    return {};\n  }\n  if (plan.offsets.size() != problem.buffers.size()) {",
     UNIT, "validate: names the pair that overlaps"),
    ("the judge of orders accepts any order", "scheduler/validate.cc",
     "verdict.reason = replay.step(id, verdict);", "replay.step(id, verdict);",
     UNIT, "graph file: views, workspaces and overwriting count as documented"),
    ("the independent judge of orders accepts everything", "scripts/check_order.py",
     "    replay = Replay(graph, order)\n", "    return\n    replay = Replay(graph, order)\n",
     SCRIPT, "test_check_order.py tampered"),
    ("a skip counts as passed", "scripts/gates/check.py",
     "passed -= min(max(len(reasons) - counted, 0), passed)", "passed += 0",
     SCRIPT, "test_check.py catch2"),
    ("unittest's skips count as passed", "scripts/gates/check.py",
     "return max(ran - failed - skipped, 0), failed, skipped", "return ran - failed, failed, 0",
     SCRIPT, "test_check.py test_unittest_skips"),
    ("any skip is allowed", "scripts/gates/check.py",
     "if why_allowed(name, one, allowed) is None]", "if False]",
     SCRIPT, "test_check.py test_what_is_not_on_the_list_fails"),
    ("the preload checks' harness skips what fails", "tests/preload/perform.py",
     'verdict, detail = "failed", str(failure)', 'verdict, detail = "skipped", str(failure)',
     SCRIPT, "test_preload_run.py"),
    ("memory that the system refused is used", "src/base/os.cc",
     "if (mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) {",
     "if (mprotect(start, bytes, PROT_READ | PROT_WRITE) > 0) {",
     PRELOAD, "limits [default]"),
    ("a call that the refusals do not know is passed over", "tests/refusal/places.py",
     "    if unknown:\n", "    if unknown is None:\n",
     SCRIPT, "test_refusal.py test_an_import_that_is_not_listed_is_an_error"),
    ("refusals end after one occasion", "tests/refusal/refuse.c",
     "now >= rule->first && now <= rule->last", "now == rule->first",
     SCRIPT, "test_refusal.py test_once_and_for_ever"),
)


def copy_tree(target):
    """The sources as they are here, and what was built from them, with their times: little is built again."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for name in ("release", "libmemomalloc.so", "memomalloc", "programs", "pages.so", "unit_tests"):
        source = ROOT / "build" / name
        if source.is_dir():
            shutil.copytree(source, target / "build" / name)
        elif source.exists():
            (target / "build").mkdir(exist_ok=True)
            shutil.copy2(source, target / "build" / name)


GOALS = {UNIT: ["build/unit_tests"], PRELOAD: ["lib", "programs"], SCRIPT: ["cli", "lib"]}
NOTHING_RAN = re.compile(r"No test cases matched|preload checks: 0|^Ran 0 tests", re.MULTILINE)


def command_of(kind, test):
    """The command that runs a row's test in the root of a tree."""
    if kind == UNIT:
        return ["build/unit_tests", test.replace(",", "\\,")]
    if kind == PRELOAD:
        return [sys.executable, "tests/preload/run.py", "--build", "build", "--only", test]
    file, _, name = test.partition(" ")
    folder = "tests/cli" if (ROOT / "tests/cli" / file).exists() else "tests/scripts"
    return [sys.executable, "tests/run_python.py", folder, "-p", file, *(["-k", name] if name else [])]


class Skips(Exception):
    """The test of a row does not run on this machine, and why."""


def passes(tree, kind, test):
    """True if the test passes in the tree; raises CalledProcessError if the tree cannot be built, and Skips where the
    test skips, which has not passed: it would be taken for one that notices nothing."""
    subprocess.run(["make", "-s", f"-j{os.cpu_count()}", *GOALS[kind]], cwd=tree, check=True, capture_output=True)
    done = subprocess.run(command_of(kind, test), cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, errors="replace")
    if NOTHING_RAN.search(done.stdout):
        raise LookupError(f"there is no test {test!r}")
    skipped = re.search(r"^skipped: (.*)", done.stdout, re.MULTILINE)
    if skipped:
        raise Skips(skipped[1])
    return done.returncode == 0


def judge(tree, row):
    """What is wrong with a row, or an empty string."""
    _, name, old, new, kind, test = row
    path = tree / name
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        return f"{name} has the text {text.count(old)} times"
    if not passes(tree, kind, test):
        return "the test fails without the mutation"
    path.write_text(text.replace(old, new), encoding="utf-8")
    try:
        return "the test does not notice" if passes(tree, kind, test) else ""
    finally:
        path.write_text(text, encoding="utf-8")


def chosen(arguments):
    """The rows to try, in order: those named, or some of them by chance."""
    rows = [row for row in MUTATIONS if arguments.only in row[0]]
    if arguments.random is None:
        return rows
    print(f"seed {arguments.seed}", flush=True)
    return random.Random(arguments.seed).sample(rows, min(arguments.random, len(rows)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--random", type=int, metavar="COUNT", help="so many of them, by chance")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31), help="of that chance")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no row later than this, but the first")
    arguments = parser.parse_args()
    began, passed, failed, skipped = time.monotonic(), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        copy_tree(tree)
        for row in chosen(arguments):
            if passed + failed + skipped and time.monotonic() - began > arguments.seconds:
                print(f"no time {row[0]}", flush=True)
                continue
            try:
                wrong = judge(tree, row)
            except Skips as reason:
                skipped += 1
                print(f"skipped: {row[0]}: {reason}", flush=True)
                continue
            except (subprocess.SubprocessError, LookupError) as error:
                wrong = str(error)
            failed, passed = failed + bool(wrong), passed + (not wrong)
            print(f"{'FAILED' if wrong else 'noticed':8}{row[0]} ({row[-1]}) {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed + skipped else 0


if __name__ == "__main__":
    sys.exit(main())
