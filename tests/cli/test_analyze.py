"""`memomalloc analyze`: what it finds in recorded traces, and what it says about bad ones."""

import gzip
import pathlib
import resource
import subprocess
import tempfile
import unittest

from support import COMMAND, GOLDEN, json_of, memomalloc

TRACES = GOLDEN / "traces"
HEADER = "op,thread,block,size,alignment,site\n"


class Analyze(unittest.TestCase):
    def folder(self):
        return pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def threads(self, name, *options):
        process = memomalloc("analyze", TRACES / f"{name}.csv.gz", "--json", *options)
        self.assertEqual((0, ""), (process.returncode, process.stderr))
        return json_of(process)["threads"]

    def test_periodic_traces(self):
        for name, lengths in {"mobilenet_v2_b8": [149], "resnet18_two_threads": [101, 101],
                              "train_resnet18_b16": [325], "vit_b1": [162]}.items():
            for threshold in ("64K", "4096"):
                threads = self.threads(name, "--threshold", threshold, "--plan-time", "5000")  # a busy machine's
                self.assertEqual(lengths, [each["period"]["length"] for each in threads], name)
                for number, each in enumerate(threads):
                    self.assertEqual(number, each["thread"])
                    self.assertTrue(each["repeats"])
                    self.assertEqual(each["bytes_since_lock"], each["served_bytes"])
                    self.assertLess(each["served_bytes"], each["bytes"])
                    self.assertGreaterEqual(each["height"], each["lower_bound"])
                    self.assertLessEqual(each["height"], 1.01 * each["lower_bound"])

    def test_what_each_told_iteration_got(self):
        each, = self.threads("mobilenet_v2_b8")
        self.assertEqual(9, len(each["iterations"]))
        asked, planned, at_hand, fresh = zip(*each["iterations"])
        self.assertEqual(each["served_bytes"], sum(planned))
        self.assertEqual(1, len(set(asked[1:8])))
        self.assertEqual(asked[3:8], planned[3:8], "served from the fourth iteration on")
        self.assertLessEqual(sum(planned) + sum(at_hand), sum(asked))
        self.assertGreater(fresh[0], 0)
        self.assertEqual((0, 0, 0), fresh[5:8])
        self.assertLessEqual(each["trials"]["lost"], each["trials"]["begun"])
        self.assertEqual(each["trials"]["lost"] == 0, each["trials"]["lost_bytes"] == 0)

    def test_traces_without_a_period(self):
        each, = self.threads("bert_random_length")
        self.assertTrue(each["changing_shapes"])
        self.assertIn("with sizes that follow from the first",
                      memomalloc("analyze", TRACES / "bert_random_length.csv.gz").stdout)
        self.assertIsNone(each["period"])
        self.assertFalse(each["repeats"])
        # Its layers are tried as loops, and dropped.
        self.assertLess(each["served_bytes"], each["bytes"] / 10)

    def test_loops_of_some_threads(self):
        threads = self.threads("jax_mlp_pool")
        self.assertEqual(9, len(threads))
        lengths = [each["period"] and each["period"]["length"] for each in threads]
        self.assertIn(None, lengths)
        self.assertIn(3, lengths)
        for each in threads:
            self.assertFalse(each["changing_shapes"])
            self.assertTrue(each["period"] or not each["repeats"])

    def test_phases_plans_and_counters(self):
        for name in ("mobilenet_v2_b8", "resnet18_two_threads", "bert_random_length", "jax_mlp_pool"):
            for each in self.threads(name):
                counters, phases = each["counters"], each["phases"]
                self.assertEqual((0, "learning"), (phases[0]["first"], phases[0]["phase"]))
                self.assertEqual(sorted(span["first"] for span in phases), [span["first"] for span in phases])
                if each["period"] is not None:
                    self.assertIn("serving", [span["phase"] for span in phases])
                self.assertEqual(each["allocations"], counters["large_allocations"])
                self.assertEqual(each["bytes"], counters["planned_bytes"] + counters["at_hand_bytes"] + counters["other_bytes"])
                self.assertEqual(each["served_bytes"], counters["planned_bytes"])
                self.assertEqual(0, each["shapes"])
                if each["repeats"] and each["period"]["length"] > 3:
                    self.assertLessEqual(each["plan_changes"], 1)  # a part of the iteration may be tried first

    def test_the_problem_can_be_planned(self):
        problem = self.folder() / "problem.csv"
        process = memomalloc("analyze", TRACES / "mobilenet_v2_b8.csv.gz", "--json",
                             "--problem", problem)
        height = json_of(process)["threads"][0]["height"]
        planned = json_of(memomalloc("plan", problem, "--json"))
        alone = memomalloc("analyze", TRACES / "mobilenet_v2_b8.csv.gz", "--problem", "-").stdout
        self.assertEqual(problem.read_text(), alone)
        self.assertEqual(149, planned["buffers"])
        self.assertLessEqual(planned["height"], height)

    def test_no_problem_without_a_period(self):
        problem = self.folder() / "problem.csv"
        process = memomalloc("analyze", TRACES / "bert_random_length.csv.gz", "--problem", problem)
        self.assertEqual((1, ""), (process.returncode, process.stdout))
        self.assertIn("no thread has a period", process.stderr)
        self.assertFalse(problem.exists())

    def test_the_table_names_each_thread(self):
        lines = memomalloc("analyze", TRACES / "resnet18_two_threads.csv.gz").stdout.splitlines()
        self.assertEqual(3, len(lines))
        self.assertIn("101", lines[1])

    def test_what_unpacks_to_much_more_is_not_read_to_its_end(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "bomb.csv.gz"
            for begin, reason in ((HEADER.encode() + b"7", "bomb.csv.gz:2: "), (b"\x80\x04", "200 times its size")):
                with gzip.open(trace, "wb", compresslevel=1) as file:
                    file.write(begin)
                    for _ in range(320):
                        file.write(bytes(1 << 20) if begin[0] == 0x80 else b"7" * (1 << 20))
                # A child's peak may be its parent's, from before it became the command.
                most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
                process = memomalloc("analyze", trace)
                self.assertEqual(2, process.returncode)
                self.assertIn(reason, process.stderr)
                if begin[0] != 0x80:
                    self.assertLessEqual(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, max(most, 100 << 10))

    def test_bad_input(self):
        trace = self.folder() / "bad.csv"
        for text, line in ((HEADER + "malloc,0,0,12,1,0\nmalloc,0,1,twelve,1,0\n", 3),
                           (HEADER + "free,0,0,,,\n", 2), ("", 1), ("id,lower,upper\n", 1),
                           (HEADER + "malloc,0,0,12,1,0\0\0\nmalloc,0,1,12,1,0\n", 2),
                           (HEADER + "malloc,0,0,12,1,0\n" + 700 * "\0", 3), ("\0" * 700, 1)):
            trace.write_text(text)
            process = memomalloc("analyze", trace, "--json")
            self.assertEqual((2, ""), (process.returncode, process.stdout))
            self.assertTrue(process.stderr.startswith(f"{trace}:{line}: "), process.stderr)
        for words in ((), ("no/such.csv",), (TRACES / "vit_b1.csv.gz", "--planner", "nobody"),
                      (TRACES / "vit_b1.csv.gz", "--threshold", "many"), ("/",)):
            process = memomalloc("analyze", *words)
            self.assertEqual((2, ""), (process.returncode, process.stdout), words)
            self.assertNotEqual("", process.stderr)

    def test_an_empty_trace(self):
        trace = self.folder() / "empty.csv"
        trace.write_text(HEADER)
        self.assertEqual([], json_of(memomalloc("analyze", trace, "--json"))["threads"])

    def test_a_threshold_of_0_counts_all_that_has_a_size(self):
        trace = self.folder() / "small.csv"
        trace.write_text(HEADER + "malloc,0,0,0,1,0\nmalloc,0,1,8,1,0\nfree,0,0,,,\n")
        self.assertEqual(1, json_of(memomalloc("analyze", trace, "--threshold", "0", "--json"))["threads"][0]["allocations"])

    def test_what_is_said_where_there_is_no_plan(self):
        trace = TRACES / "mobilenet_v2_b8.csv.gz"
        for options, words in ((("--threshold", "999G"), "no block as large as --threshold"),
                               (("--planner", "mip", "--plan-time", "0"), "repeats every 149 calls, but there was no plan in time; try")):
            self.assertIn(words, memomalloc("analyze", trace, *options).stdout)
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "empty.csv").write_text("op,thread,block,size,alignment,site\n")
        self.assertIn("has no allocations", memomalloc("analyze", folder / "empty.csv").stdout)

    def test_standard_input(self):
        trace = TRACES / "mobilenet_v2_b8.csv.gz"
        for command in ("cat", "zcat"):
            # However busy the machine, both have the time to make the same plan.
            shell = subprocess.run(["sh", "-c", f"{command} {trace} | {COMMAND} analyze - --plan-time 5000"], capture_output=True, text=True)
            self.assertEqual(memomalloc("analyze", trace, "--plan-time", "5000").stdout, shell.stdout, shell.stderr)

    def test_help(self):
        process = memomalloc("analyze", "--help")
        self.assertEqual(0, process.returncode)
        self.assertIn("--threshold", process.stdout)


if __name__ == "__main__":
    unittest.main()
