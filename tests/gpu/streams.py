#!/usr/bin/env python3
"""Makes a stream of tests/gpu/streams from a snapshot of torch's: what was asked for and freed, in order, by stream.

Rows: op,block,size,stream; op is `b` for a block that was alive before, `a` for an allocation, `f` for a free that the
program asked for, `i` where an iteration was recorded to begin (none in snapshots). Streams are numbered, the first is 0.
Prints torch's own peaks for results.
"""

import argparse
import gzip
import json
import pickle
import sys


def rows_of(snapshot):
    trace = max(snapshot["device_traces"], key=len)
    device = snapshot["device_traces"].index(trace)
    rows, alive, streams = [], {}, {0: 0}
    for event in trace:
        action, address = event["action"], event["addr"]
        stream = streams.setdefault(event.get("stream", 0), len(streams))
        if action == "alloc":
            alive[address] = len(rows)
            rows.append(["a", None, event["size"], stream])
        elif action == "free_requested":
            rows.append(["f", alive.pop(address, ("before", address, event["size"], stream)), 0, stream])
    before = {}
    for row in rows:
        if row[0] == "f" and isinstance(row[1], tuple):
            before[row[1][1]] = row[1][2:]
    for segment in snapshot["segments"]:
        if segment["device"] != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            address = block.get("address", address)
            if block["state"] == "active_allocated" and address not in alive:
                before[address] = block.get("requested_size", block["size"]), streams.setdefault(segment["stream"], 0)
            address += block["size"]
    result, names = [], {}
    for address in sorted(before):
        names["before", address] = len(result)
        result.append(("b", len(result), *before[address]))
    for index, row in enumerate(rows):
        if row[0] == "a":
            names[index] = len(names)
            result.append(("a", names[index], row[2], row[3]))
        else:
            key = row[1] if isinstance(row[1], int) else row[1][:2]
            result.append(("f", names[key], 0, row[3]))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", help="pickle, plain or .gz")
    parser.add_argument("output", help="CSV.gz")
    parser.add_argument("--most", type=int, default=0, help="rows that are kept [default: all]")
    arguments = parser.parse_args()
    opener = gzip.open if arguments.snapshot.endswith(".gz") else open
    with opener(arguments.snapshot, "rb") as file:
        snapshot = pickle.load(file)  # a file of one's own: pickles run what they name
    rows = rows_of(snapshot)
    if arguments.most:
        rows = rows[:arguments.most]
    with gzip.GzipFile(arguments.output, "wb", mtime=0) as file:
        file.write(b"op,block,size,stream\n" + "".join("%s,%d,%d,%d\n" % row for row in rows).encode())
    json.dump({"rows": len(rows), "before": sum(row[0] == "b" for row in rows),
               "before_bytes": sum(row[2] for row in rows if row[0] == "b")}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
