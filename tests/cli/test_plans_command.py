"""The command that looks into the plan cache: it tells, carries, prunes, and refuses what it cannot read."""

import json
import os
import pathlib
import subprocess

from stored_plans import loop, PYTHON, Store
from support import json_of, memomalloc


class Command(Store):
    def plans(self, *words, code=0, store=None):
        process = memomalloc("plans", *words, "--plans", store or self.store)
        self.assertEqual(code, process.returncode, process.stderr)
        return process

    def test_tells_of_each_plan(self):
        self.learn(0)
        self.learn(1)
        plans = json_of(self.plans("list", "--json"))
        self.assertEqual(self.names(), [plan["name"] for plan in plans])
        self.assertEqual({14}, {plan["calls"] for plan in plans})
        self.assertEqual({pathlib.Path(PYTHON[0]).name}, {plan["program"] for plan in plans})
        self.assertGreaterEqual(plans[0]["height"], plans[0]["lower_bound"])
        self.assertEqual(3, len(self.plans("list").stdout.splitlines()))
        shown = json_of(self.plans("show", plans[0]["name"][:12], "--json"))
        self.assertEqual(14, len(shown["placement"]))
        self.assertIn(f"{shown['height']} bytes", self.plans("show", plans[0]["name"]).stdout)
        self.plans("show", "nothing", code=1)

    def test_carries_plans_elsewhere(self):
        for kind in range(3):
            self.learn(kind)
        archive, other = self.folder / "plans.tar", self.folder / "other"
        self.plans("export", archive)
        listed = subprocess.run(["tar", "-tf", archive], capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.names(), sorted(listed.split()))
        self.plans("import", archive, store=other)
        self.assertEqual(self.names(), self.names(other))
        subprocess.run(["tar", "-cf", archive, "-C", self.store, "."], check=True)  # tar's own
        third = self.folder / "third"
        self.plans("import", archive, store=third)
        self.plans("export", archive, self.names()[0], store=third)
        self.plans("import", archive, store=self.folder / "one")
        self.assertEqual(self.names()[:1], self.names(self.folder / "one"))
        self.plans("merge", self.store, other, store=self.folder / "one")
        self.assertEqual(self.names(), self.names(self.folder / "one"))

    def test_keeps_what_was_used_last(self):
        for kind in range(3):
            self.learn(kind)
        for age, name in enumerate(self.names()):
            os.utime(self.store / name, (1e9 - 86400 * age, 1e9 - 86400 * age))
        kept = self.names()[:2]
        self.assertEqual(1, json_of(self.plans("prune", "--max-plans", "2", "--json"))["plans"])
        self.assertEqual(kept, self.names())
        self.plans("prune", "--max-size", str((self.store / kept[0]).stat().st_size))
        self.assertEqual(kept[:1], self.names())
        self.plans("prune", "--older-than", "1e300")
        self.assertEqual(kept[:1], self.names())
        self.assertIn("there is no plan cache", self.plans("prune", code=2, store=self.folder / "none").stderr)
        self.plans("prune", "--older-than", "1")
        self.assertEqual([], self.names())

    def test_refuses_what_it_cannot_read(self):
        self.learn()
        archive = self.folder / "plans.tar"
        self.plans("export", archive)
        whole = archive.read_bytes()
        for text in (whole[:700], whole[:20] + b"!" + whole[21:], b"", b"MEMOPLAN and more"):
            archive.write_bytes(text)
            self.assertIn("plans.tar:0: ", self.plans("import", archive, code=2, store=self.folder / "new").stderr)
            self.assertFalse((self.folder / "new").exists())
        archive.write_bytes(whole[:600] + b"!" + whole[601:])  # a plan is damaged, the archive is not
        self.assertIn("is left out", self.plans("import", archive, code=1, store=self.folder / "new").stderr)
        self.plans("list", code=2, store=self.folder / "nowhere")
        self.assertIn("no plan 'nothing' in it", self.plans("export", archive, self.names()[0], "nothing", code=1).stderr)
        (self.store / "\x1b[2J\udcff.plan").write_text("text")
        self.assertIn("?[2J?.plan:0: ", self.plans("verify", code=1).stdout)
        self.assertEqual("\x1b[2J\ufffd.plan", json_of(self.plans("verify", "--json", code=1))["broken"][0]["name"])
        for words in (("show",), ("list", "more"), ("list", "--max-plans", "3"), ("burn",)):
            self.plans(*words, code=2)


if __name__ == "__main__":
    unittest.main()
