"""The rules of the Trace Event format, as far as Chrome's and Perfetto's importers depend on them: which keys an
event of each phase has, and of what type; slices of equal id and category that begin before they end; counters that
are numbers; time that does not run back on a thread or a counter."""

import numbers

REQUIRED = {"b": ("cat", "id", "ts", "tid"), "e": ("cat", "id", "ts", "tid"), "X": ("ts", "dur", "tid"),
            "C": ("ts", "args"), "M": ("args",)}
METADATA = ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index")


def is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def faults(trace):
    """What is wrong with a parsed trace, one line for each fault; empty if it keeps the rules."""
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["there is no list traceEvents"]
    found, latest, opened = [], {}, {}
    if trace.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    for number, event in enumerate(trace["traceEvents"]):
        phase = event.get("ph")
        wrong = [f"no {key}" for key in ("name", "pid", *REQUIRED.get(phase, ())) if key not in event]
        if phase not in REQUIRED:
            wrong.append(f"phase {phase!r}")
        wrong += [f"{key} is no whole number" for key in ("pid", "tid") if not isinstance(event.get(key, 0), int)]
        wrong += [f"{key} is no number" for key in ("ts", "dur")
                  if not is_number(event.get(key, 0)) or event.get(key, 0) < 0]
        if phase == "M" and event.get("name") not in METADATA:
            wrong.append(f"metadata {event.get('name')!r}")
        if phase == "C" and not all(map(is_number, event.get("args", {None: None}).values())):
            wrong.append("a counter that is no number")
        if not wrong and phase in "beC":
            track = (event["pid"], event["name"]) if phase == "C" else (event["pid"], event["cat"], event["id"])
            if event["ts"] < latest.get(track, 0):
                wrong.append("time runs back")
            latest[track] = event["ts"]
            if phase != "C":
                opened[track] = opened.get(track, 0) + (1 if phase == "b" else -1)
                if opened[track] not in (0, 1):
                    wrong.append("a slice that does not begin before it ends, or not just once")
        found += [f"event {number}: {reason}" for reason in wrong]
    return found + [f"slice {track} does not end" for track, depth in opened.items() if depth > 0]
