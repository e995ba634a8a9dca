"""What scripts/hardware/cores.py writes: the machine and versions, each row's turns as CSV, and their medians as JSON."""

import csv
import hashlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARRIED = ROOT / "build/hardware"
BASE = "glibc"
COLUMNS = ("kind network batch size threads processes allocator turn step_ms first_ms steps faults user_ms system_ms "
           "rss_mib anon_mib peak_mib planned_share at_hand_share pairs_per_second").split()


def spread(values):
    """Median, quartiles, least and most."""
    values = sorted(values)
    quarters = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": round(quarters[1], 4), "lower": round(quarters[0], 4), "upper": round(quarters[2], 4),
            "least": values[0], "most": values[-1], "turns": len(values)}


def summary(turns, key="step_ms"):
    """{allocator: figures} of a row's turns, {allocator: [figures or None of each round]}."""
    result = {}
    for name, each in turns.items():
        there = [one for one in each if one is not None]
        if not there:
            continue
        figures = {key: spread([one[key] for one in there])}
        for column in ("faults", "user_ms", "system_ms", "planned_share", "at_hand_share"):
            values = [one[column] for one in there if one.get(column, "") != ""]
            if values:
                figures[column] = round(statistics.median(values), 4)
        figures["rss_mib"], figures["anon_mib"] = there[-1]["rss_mib"], there[-1].get("anon_mib")
        figures["peak_mib"] = max(one["peak_mib"] for one in there)
        ratios = [one[key] / base[key] for one, base in zip(each, turns.get(BASE, ())) if one and base and base[key]]
        if ratios:
            figures["ratio"] = spread([round(ratio, 4) for ratio in ratios])
        result[name] = figures
    return result


class Results:
    """What is written: after each row, so that a run that is cut short leaves what it has."""

    def __init__(self, folder, head, began):
        folder.mkdir(parents=True, exist_ok=True)
        self.head = {"title": "Threads and processes on many cores",
                     "about": "Each turn of a row: milliseconds a step, page faults, processor time, RSS; of contended rows pairs of malloc "
                              "and free a second."} | head | {"rows": [], "failures": [], "left_out": []}
        self.began = began
        self.json, self.csv = (folder / f"{head['date']}.{ending}" for ending in ("json", "csv"))
        with self.csv.open("w", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS).writeheader()
        self.write()

    def write(self):
        new = self.json.with_suffix(".new")
        new.write_text(json.dumps(self.head, indent=1) + "\n", encoding="utf-8")
        new.replace(self.json)

    def fail(self, row, allocator, error):
        self.head["failures"].append({"row": row, "allocator": allocator, "error": str(error)})
        print(f"failed: {row}, {allocator}: {error}", flush=True)
        self.write()

    def leave_out(self, row):
        self.head["left_out"].append(row)
        print(f"left out, no time: {row}", flush=True)
        self.write()

    def row(self, about, turns, key="step_ms"):
        with self.csv.open("a", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            for name, each in turns.items():
                table.writerows(about | {"allocator": name, "turn": number} | one for number, one in enumerate(each) if one)
        figures = summary(turns, key)
        self.head["rows"].append(about | {"after_seconds": round(time.monotonic() - self.began, 1), "figures": figures})
        self.write()
        told = "  ".join(f"{name} {one[key]['median']:.5g}{self.ratio(one)}" for name, one in figures.items())
        print(f"{' '.join(str(about[word]) for word in ('kind', 'network', 'threads', 'processes'))}: {told}", flush=True)

    @staticmethod
    def ratio(one):
        return f" ({one['ratio']['median']:.3f})" if "ratio" in one else ""


def text_of(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def machine():
    cpus = [line.split(":", 1)[1].strip() for line in text_of("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    memory = next((line.split()[1] for line in text_of("/proc/meminfo").splitlines() if line.startswith("MemTotal")), "0")
    try:
        topology = subprocess.run(["lscpu"], capture_output=True, text=True, timeout=10).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        topology = []
    kept = ("Thread(s) per core", "Core(s) per socket", "Socket(s)", "NUMA node(s)", "L2", "L3", "Hypervisor")
    return {"processor": cpus[0] if cpus else platform.processor(), "processors": len(os.sched_getaffinity(0)),
            "memory_gib": round(int(memory) / 2**20, 1), "kernel": platform.release(), "libc": " ".join(platform.libc_ver()),
            "system": next((line.split("=", 1)[1].strip('"') for line in text_of("/etc/os-release").splitlines()
                            if line.startswith("PRETTY_NAME=")), ""),
            "huge_pages": text_of("/sys/kernel/mm/transparent_hugepage/enabled"),
            "load": os.getloadavg()[0],
            "topology": [" ".join(line.split()) for line in topology if line.startswith(kept)]}


def versions(found):
    """Of Python's packages and of the shared objects; torch is imported once, and is in the file cache from then on."""
    code = ("import importlib.metadata as m, json, torch\n"
            "there = {d.metadata['Name']: d.version for d in m.distributions()}\n"
            "print(json.dumps({n: there.get(n) for n in ('torch', 'torchvision', 'transformers', 'numpy')} |"
            " {'parallel': torch.__config__.parallel_info()}))")
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90,
                              env=dict(os.environ) | {"CUDA_VISIBLE_DEVICES": ""})
        packages = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()[-300:]}
    except (ValueError, subprocess.TimeoutExpired) as error:
        packages = {"error": str(error)}
    objects = {}
    for name, allocator in found.items():
        path = allocator.library()
        objects[name] = {"settings": dict(allocator.settings)}
        if path:
            objects[name] |= {"file": pathlib.Path(path).name,
                              "sha256": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()}
    return {"python": platform.python_version(), "packages": packages, "allocators": objects,
            "carried": text_of(CARRIED / "versions").splitlines()}
