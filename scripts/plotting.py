"""What the plotting scripts share: matplotlib, or a word on how to get it."""

import sys


def pyplot():
    """matplotlib.pyplot, drawing to files."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is missing; install it: pip install matplotlib", file=sys.stderr)
        raise SystemExit(2) from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "memomalloc"  # equal figures give equal files
    import matplotlib.pyplot
    return matplotlib.pyplot
