"""Snapshots of torch's GPU allocator: what plan, report and replay tell of them, and which pickles they refuse.

The snapshots are of our own making (snapshots.py), and one is made by torch's own code from a training step on a CPU."""

import gzip
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

import snapshots
from snapshots import Device, loop, snapshot
from support import json_of, memomalloc

try:
    import torch
except ImportError:
    torch = None


def told(content, number):
    """(most alive, most reserved, blocks, alive before) of a device: a reader of its own, step by step."""
    trace = content["device_traces"][number]
    segments = [s for s in content["segments"] if s.get("device", 0) == number]
    born, before = set(), {}
    for entry in trace:
        if entry["action"] == "alloc":
            born.add(entry["addr"])
        elif entry["action"] == "free_completed":
            if entry["addr"] in born:
                born.remove(entry["addr"])
            else:
                before[len(before)] = entry["size"]
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            if block["state"].startswith("active") and block.get("address", at) not in born:
                before[len(before)] = block["requested_size"]
            at += block["size"]
    net = sum({"segment_alloc": 1, "segment_free": -1}.get(e["action"], 0) * e["size"] for e in trace)
    level = most = sum(before.values())
    reserved = held = sum(s["total_size"] for s in segments) - net
    for entry in trace:
        level += {"alloc": 1, "free_completed": -1}.get(entry["action"], 0) * entry["size"]
        held += {"segment_alloc": 1, "segment_free": -1}.get(entry["action"], 0) * entry["size"]
        most, reserved = max(most, level), max(reserved, held)
    blocks = len(before) + sum(e["action"] == "alloc" for e in trace)
    return most, reserved, blocks, len(before)


def churn(device, seed, steps=400):
    dice, alive = random.Random(seed), []
    for layer in range(5):
        device.alloc(80_000 + layer)  # stay
    for _ in range(steps):
        if alive and dice.random() < 0.45:
            device.free(alive.pop(dice.randrange(len(alive))))
        else:
            alive.append(device.alloc(dice.choice((1, 100, 5000, 70_000, 900_000)) * dice.randrange(1, 5)))
    return device


class SnapshotCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, content, protocol=4):
        return snapshots.write(self.folder / "snapshot.pickle", content, protocol)

    def compare(self, content, number, path):
        found = json_of(memomalloc("plan", path, "--device", number, "--seconds", "1", "--json"))
        self.assertEqual(told(content, number),
                         (found["alive"], found["reserved"], found["buffers"], found["alive_before"]))
        self.assertGreaterEqual(found["height"], found["lower_bound"])
        self.assertGreaterEqual(found["lower_bound"], found["alive"])


class Plans(SnapshotCase):
    def test_what_was_reserved_and_alive_as_another_reader_finds_it(self):
        seed = int(os.environ.get("MEMO_TEST_SEED", random.randrange(2**32)))
        for forget in (0, 150):
            for protocol in (2, 3, 4, 5):
                with self.subTest(seed=seed, forget=forget, protocol=protocol):
                    content = snapshot(churn(Device(), seed), churn(Device(1), seed + 1), forget=forget)
                    path = self.write(content, protocol)
                    self.compare(content, 0, path)
                    self.compare(content, 1, path)

    def test_a_loop_fits_into_what_is_alive(self):
        content = snapshot(loop(Device()))
        done = memomalloc("plan", self.write(content), "--output", self.folder / "plan.csv", "--svg",
                          self.folder / "plan.svg")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"device 0: 104 blocks, 0 of them alive before the trace; reserved 8\.00 MiB at "
                                      r"most, alive 6\.11 MiB at the peak\n")
        valid = memomalloc("plan", self.folder / "snapshot.pickle", "--check", self.folder / "plan.csv")
        self.assertEqual(0, valid.returncode, valid.stdout)
        self.assertIn("<svg", (self.folder / "plan.svg").read_text())

    def test_memory_serves_others_when_its_freeing_is_complete(self):
        """Another stream may use a block after free_requested."""
        entries = [("segment_alloc", 0, 4096), ("alloc", 0, 1024), ("free_requested", 0, 1024), ("alloc", 1024, 1024),
                   ("free_completed", 0, 1024), ("free_requested", 1024, 1024), ("free_completed", 1024, 1024)]
        content = {"segments": [], "device_traces": [[{"action": a, "addr": p, "size": s} for a, p, s in entries]]}
        found = json_of(memomalloc("plan", self.write(content), "--json"))
        self.assertEqual((2048, 2048), (found["alive"], found["height"]))

    def test_a_sentence_says_what_a_plan_would_save(self):
        content = snapshot(loop(Device(), iterations=12))
        path = self.write(content)
        found = json_of(memomalloc("plan", path, "--json"))
        self.assertEqual((1, found["height"], 16, 12), (found["streams"], found["height_by_stream"], found["calls_by_iteration"],
                                                        found["iterations"]))
        # The weights stay beside the loop's plan, whose blocks are whole pages.
        self.assertLess(found["height_by_iteration"], found["alive"] + 16 * 4096)
        self.assertGreaterEqual(found["height_by_iteration"], found["alive"])
        said = memomalloc("plan", path).stdout.splitlines()[-1]
        self.assertEqual(found["sentence"], said)
        self.assertRegex(said, r"^a plan saves 1\.89 MiB of the 8\.00 MiB reserved, and needs [\d.]+ (B|KiB) more than is "
                               r"alive; one plan for all 12 iterations of 16 calls needs 6\.\d\d MiB, 1\.\d\d MiB less$")

    def test_streams_that_are_never_alive_together_share_a_plan_s_memory_but_not_their_own(self):
        content = snapshot(loop(Device(), iterations=12))
        trace = content["device_traces"][0]
        for number, entry in enumerate(trace):
            entry["stream"] = 77 if number > len(trace) // 2 else 0
        found = json_of(memomalloc("plan", self.write(content), "--json"))
        self.assertEqual(2, found["streams"])
        self.assertGreater(found["height_by_stream"], found["height"] + (2 << 20))
        self.assertIn("; with each of 2 streams apart it needs ", found["sentence"])

    def test_what_does_not_repeat_is_said(self):
        sentence = json_of(memomalloc("plan", self.write(snapshot(churn(Device(), 3))), "--json"))["sentence"]
        self.assertTrue(sentence.endswith("; it does not repeat"), sentence)

    def test_the_device_with_most_alive_is_planned_for(self):
        content = snapshot(loop(Device(), layers=2), Device(1), loop(Device(2)))
        path = self.write(content)
        self.assertEqual(2, json_of(memomalloc("plan", path, "--json"))["device"])
        made = self.folder / "plan.csv"
        memomalloc("plan", path, "--device", "0", "-o", made)
        self.assertRegex(memomalloc("plan", path, "--device", "0", "--check", made).stdout, r"(?m)^valid: ")
        missing = memomalloc("plan", path, "--device", "1")
        self.assertEqual(2, missing.returncode)
        self.assertIn("device 1 holds nothing", missing.stderr)

    def test_a_freeing_that_is_missing_is_told(self):
        content = snapshot(loop(Device()))
        trace = content["device_traces"][0]
        trace.remove(next(e for e in trace if e["action"] == "free_completed"))
        self.assertIn("1 events contradict", memomalloc("plan", self.write(content)).stdout)

    def test_old_snapshots_without_addresses_and_sizes_asked_for(self):
        content = snapshot(loop(Device()))
        expected = json_of(memomalloc("plan", self.write(content), "--json"))
        for segment in content["segments"]:
            for block in segment["blocks"]:
                del block["address"], block["requested_size"]
        self.assertEqual(expected["alive"], json_of(memomalloc("plan", self.write(content), "--json"))["alive"])


class Others(SnapshotCase):
    def test_the_report_has_the_devices_and_the_call_stacks(self):
        path = self.write(snapshot(loop(Device())))
        done = memomalloc("report", path, "-o", self.folder / "page.html")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("reserved 8.00 MiB at most", done.stderr)
        page = (self.folder / "page.html").read_text()
        for text in ("reserved 8.00 MiB at most", "forward (net.py:20)"):
            self.assertIn(text, page)

    def test_replay_plays_all_devices(self):
        content = snapshot(loop(Device()), loop(Device(1)), forget=30)
        packed = self.folder / "snapshot.pickle.gz"
        packed.write_bytes(gzip.compress(self.write(content).read_bytes()))
        for path in (self.folder / "snapshot.pickle", packed):
            found = json_of(memomalloc("replay", path, "--no-touch"))
            self.assertEqual((2, sum(told(content, i)[2] for i in range(2))), (found["threads"], found["allocations"]))

    def test_a_training_step_by_torch_s_own_code(self):
        """The profiler's record of a step on the CPU, as _memory_viz turns it into a snapshot."""
        if torch is None:
            self.skipTest("torch is not installed")
        program = ("import pickle, sys, torch\n"
                   "from torch.cuda import _memory_viz as viewer\n"
                   "from torch.profiler import profile, ProfilerActivity\n"
                   "net = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(6)))\n"
                   "x = torch.randn(64, 256)\n"
                   "with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, "
                   "with_stack=True) as run:\n"
                   "    for _ in range(4):\n"
                   "        net(x).sum().backward()\n"
                   "        net.zero_grad()\n"
                   "with open(sys.argv[1], 'wb') as file:\n"
                   "    pickle.dump(viewer._profile_to_snapshot(run), file)\n")
        path = self.folder / "snapshot.pickle"
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=300)
        if done.returncode < 0:
            self.skipTest("torch's own profiler ends by a signal")
        self.assertEqual(0, done.returncode, done.stderr)
        content = pickle.loads(path.read_bytes())
        for number, trace in enumerate(content["device_traces"]):
            if trace:
                self.compare(content, number, path)
        self.assertEqual(0, memomalloc("report", path, "-o", self.folder / "page.html", "--threshold", "1K").returncode)


class Hostile(SnapshotCase):
    def refused(self, data, reason, command=("plan",)):
        path = self.folder / "bad.pickle"
        path.write_bytes(data)
        done = memomalloc(*command, path, timeout=60)
        self.assertEqual(2, done.returncode, done.stdout + done.stderr)
        self.assertRegex(done.stderr, rf"bad\.pickle: byte \d+: .*{reason}")
        self.assertEqual(1, done.stderr.count("\n"), "one line")
        return done.stderr

    def test_what_would_be_called_or_built_is_refused_with_its_byte(self):
        class Runs:
            def __reduce__(self):
                return os.system, ("touch " + str(self.target),)

        bomb = Runs()
        Runs.target = self.folder / "ran"
        content = snapshot(loop(Device()))
        content["device_traces"][0].append(bomb)
        for protocol in (2, 3, 4, 5):
            for command in (("plan",), ("report",), ("replay",)):
                data = pickle.dumps(content, protocol)
                stderr = self.refused(data, "opcode 0x(63|93) is refused", command)
                place = int(stderr.split("byte ")[1].split(":")[0])
                self.assertIn(data[place], b"c\x93")
        self.assertFalse(Runs.target.exists())
        for value in (b"bytes", bytearray(b"a"), {1}, frozenset((1,)), 1 + 2j, os.stat_result(range(10)), object()):
            self.refused(pickle.dumps({"segments": value, "device_traces": []}, 5), "refused")

    def test_every_opcode_that_builds_calls_or_looks_elsewhere(self):
        for code in b"cRbiobQP\x81\x92\x93\x82\x83\x84\x90\x8f\x91\x96\x97\x98BC\x8eTUSVILFgpld012":
            self.refused(b"\x80\x04}(" + bytes([code]) + b"a\nb\n.", f"opcode 0x{code:02x} is refused")

    def test_a_file_cut_anywhere(self):
        data = pickle.dumps(snapshot(loop(Device(), iterations=1, layers=2)), 4)
        for end in range(1, len(data)):
            if end % 97 < 3 or end < 40:
                with self.subTest(end=end):
                    self.refused(data[:end], "")

    def test_bytes_that_are_altered(self):
        seed = int(os.environ.get("MEMO_TEST_SEED", random.randrange(2**32)))
        dice = random.Random(seed)
        data = pickle.dumps(snapshot(loop(Device(), iterations=1, layers=2)), 4)
        for round_ in range(60):
            with self.subTest(seed=seed, round=round_):
                bad = bytearray(data)
                for _ in range(dice.randrange(1, 4)):
                    bad[dice.randrange(len(bad))] = dice.randrange(256)
                path = self.folder / "bad.pickle"
                path.write_bytes(bad)
                done = memomalloc("plan", path, "--seconds", "0.1", timeout=60)
                self.assertIn(done.returncode, (0, 2), done.stderr)

    def test_circles_depth_and_counts(self):
        self.refused(b"\x80\x04]\x94h\x00a.", "holds itself")
        circle = []
        circle.append({"a": circle})
        self.refused(pickle.dumps({"segments": circle, "device_traces": []}, 4), "holds itself")
        deep = b"\x80\x04" + b"]" * 1_000_000 + b"a" * 999_999 + b"."
        self.refused(deep, "no snapshot")
        self.refused(b"\x80\x04(" + b"(" * 1_000_000 + b".", "")
        self.refused(b"\x80\x04\x8d" + b"\xff" * 8 + b"text.", "longer than the file")
        self.refused(b"\x80\x04\x8b\xff\xff\xff\x7f\x01.", "bytes; a snapshot's have 64 bits")
        self.refused(b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.", "beyond its end")
        block = {"address": 0, "size": 512, "state": "inactive"}
        segment = {"device": 0, "address": 0, "total_size": 512, "blocks": [block] * 3000}
        self.refused(pickle.dumps({"segments": [segment] * 3000, "device_traces": []}, 4), "stands for too many blocks")

    def test_wrong_types_and_sizes(self):
        entry = {"action": "alloc", "addr": 0, "size": 512}
        for change, reason in (({"device_traces": 3}, "device_traces is no list"), ({"segments": {}}, "segments is no l"),
                               ({"device_traces": [7]}, "trace is no list"), ({"device_traces": [[7]]}, "no dictionary"),
                               ({"device_traces": [[{**entry, "size": -1}]]}, "size is no number"),
                               ({"device_traces": [[{**entry, "size": 1.5}]]}, "size is no number"),
                               ({"device_traces": [[{**entry, "size": 2**63}]]}, "size is no number"),
                               ({"device_traces": [[{**entry, "size": 2**80}]]}, "64 bits"),
                               ({"device_traces": [[{**entry, "size": 2**59, "addr": i} for i in range(4)]]}, "2.60 bytes"),
                               ({"device_traces": [[{**entry, "action": None}]]}, "action is no text"),
                               ({"device_traces": [[{"action": "alloc", "size": 1}]]}, "addr is no address"),
                               ({"segments": [{"device": 0}]}, "no blocks"),
                               ({"segments": [{"device": 10**9, "blocks": []}]}, "device")):
            with self.subTest(change=str(change)[:60]):
                self.refused(pickle.dumps({"segments": [], "device_traces": [], **change}, 4), reason)
        self.refused(pickle.dumps([1, 2], 4), "no snapshot")
        self.refused(pickle.dumps({}, 4) + b"more", "the file does not")


if __name__ == "__main__":
    unittest.main()
