"""What the plotting scripts share: matplotlib, or a word on how to get it."""

import refusal


def pyplot():
    """matplotlib.pyplot, drawing to files."""
    with refusal.plainly():
        import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "memomalloc"  # equal figures give equal files
    import matplotlib.pyplot
    return matplotlib.pyplot


def save(figure, path):
    """Writes the figure; ends the program with a word on what to do if that fails."""
    try:
        figure.savefig(path, bbox_inches="tight")
    except (OSError, ValueError) as error:  # a folder that is not there, an ending that is no format
        refusal.refuse(f"{path}: cannot be written: {error}", "name another file, such as figure.svg")
