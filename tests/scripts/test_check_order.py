"""The Python judge of orders: it accepts what `memomalloc schedule` writes, and refuses what is tampered with."""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_order  # noqa: E402

TOOL = ROOT / "build" / "memomalloc"
GRAPHS = sorted((ROOT / "tests" / "golden" / "graphs").glob("*.json"))


class CheckOrderTest(unittest.TestCase):
    def order_of(self, path, *options):
        with tempfile.TemporaryDirectory() as folder:
            order = pathlib.Path(folder) / "order.json"
            subprocess.run([str(TOOL), "schedule", str(path), "--output", str(order), *options], check=True,
                           stdout=subprocess.DEVNULL)
            return json.loads(order.read_text(encoding="utf-8"))

    def test_networks(self):
        self.assertGreaterEqual(len(GRAPHS), 10)
        for path in GRAPHS:
            graph = json.loads(path.read_text(encoding="utf-8"))
            for options in ((), ("--coalesce",)):
                with self.subTest(path.stem, options=options):
                    check_order.check(graph, self.order_of(path, *options))

    def test_tampered_orders_are_refused(self):
        path = ROOT / "tests" / "golden" / "graphs" / "unet.json"
        graph, order = json.loads(path.read_text(encoding="utf-8")), self.order_of(path)

        def swapped(o):
            o["order"][0], o["order"][-1] = o["order"][-1], o["order"][0]

        def overlapping(o):
            for name in o["offsets"]:
                o["offsets"][name] = 0

        def twice(o):
            o["order"][0] = o["order"][1]

        changes = {"before it is made": swapped, "overlap": overlapping, "must occur once": twice,
                   "the peak is": lambda o: o.update(peak=o["peak"] - 1),
                   "outside": lambda o: o.update(height=o["height"] - 1),
                   "has no offset": lambda o: o["offsets"].popitem(),
                   "between the bound": lambda o: o.update(lower_bound=o["peak"] + 1)}
        for reason, change in changes.items():
            with self.subTest(reason):
                tampered = copy.deepcopy(order)
                change(tampered)
                with self.assertRaisesRegex(check_order.Refused, reason):
                    check_order.check(graph, tampered)


if __name__ == "__main__":
    unittest.main()
