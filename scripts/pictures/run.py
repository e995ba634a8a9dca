#!/usr/bin/env python3
"""The documents' pictures: run.py [measure] [draw] [PICTURE...], by default it draws what was measured.

`measure` makes docs/pictures/NAME.json by real runs, `draw` makes docs/pictures/NAME.svg of it; allocators is drawn from
results/. --check draws nothing and fails where a drawing is not what its data give.
"""

import argparse
import importlib
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/pictures"
PICTURES = ("allocators", "memory", "faults", "status")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="measure|draw|PICTURE", help=f"pictures: {', '.join(PICTURES)}")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="library and command (%(default)s)")
    parser.add_argument("--check", action="store_true", help="fail where a drawing is not what its data give")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.words) - {"measure", "draw", *PICTURES}
    if unknown:
        parser.error(f"{sorted(unknown)[0]!r} is neither `measure` nor `draw` nor a picture")
    stale = 0
    for name in [word for word in arguments.words if word in PICTURES] or PICTURES:
        module, data, drawing = importlib.import_module(name), FOLDER / f"{name}.json", FOLDER / f"{name}.svg"
        stored = not hasattr(module, "read")  # else it reads results/
        if "measure" in arguments.words and stored:
            data.write_text(json.dumps(module.measure(arguments.build.resolve(), ROOT), separators=(",", ":")) + "\n")
        if arguments.check:
            with tempfile.NamedTemporaryFile(suffix=".svg") as file:
                module.draw(json.loads(data.read_text()) if stored else module.read(), pathlib.Path(file.name))
                if not drawing.exists() or drawing.read_bytes() != pathlib.Path(file.name).read_bytes():
                    print(f"{drawing.relative_to(ROOT)}: stale; run scripts/pictures/run.py")
                    stale += 1
        elif "draw" in arguments.words or "measure" not in arguments.words:
            module.draw(json.loads(data.read_text()) if stored else module.read(), drawing)
            print(drawing.relative_to(ROOT))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
