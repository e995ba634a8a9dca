"""pandas-dev/pandas#2659: a frame's memory stays after it was deleted; malloc_trim() brought it back there. Texts, which
are small blocks: the library passes them on."""

import io

import measure
import pandas

text = "\n".join(["a,b,c", *(f"{i},text {i},{i * 0.5}" for i in range(200_000))])


def loop():
    for _ in range(4):
        frame = pandas.read_csv(io.StringIO(text))
        grouped = frame.groupby("b").sum()
        del frame, grouped


measure.run(loop)
