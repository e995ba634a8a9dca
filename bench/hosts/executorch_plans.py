#!/usr/bin/env python3
"""ExecuTorch's memory plans by its own algorithms and by ours, on real networks.

Each network is exported, lowered and planned three times by ExecuTorch's pass: by its algorithms `naive` and `greedy`,
and by memomalloc.executorch. The pass's own verifier judges each plan. With --run the three programs run in ExecuTorch's
runtime (portable kernels, seconds to minutes for each network), and their results must be equal to the bit.

The bound is the greatest sum of sizes that live at once; seconds are those of the algorithm alone. Prints a Markdown
table; --output also writes CSV, and --problems each network's problem as a planner's CSV. Needs the packages
executorch and torch, and for bert and gpt2 transformers.
"""

import argparse
import csv
import pathlib
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "python")]

NETWORKS = ("squeezenet1_0", "mobilenet_v2", "mobilenet_v3_large", "shufflenet_v2_x1_0", "resnet18", "resnet50",
            "densenet121", "googlenet", "efficientnet_b0", "regnet_y_400mf", "mnasnet1_0", "unet", "nas", "bert", "gpt2")
KIB = 1 << 10
OURS = "memomalloc"


class Timed:
    """An algorithm of the pass; notes its seconds and the problem that it was given."""

    def __init__(self, name, algorithm):
        self.__name__, self.algorithm, self.seconds, self.tensors = name, algorithm, 0.0, []

    def __call__(self, alignment, specs, *rest):
        specs = list(specs)
        began = time.perf_counter()
        result = self.algorithm(alignment, specs, *rest)
        self.seconds += time.perf_counter() - began
        self.tensors += [(spec.lifetime[0], spec.lifetime[1] + 1, spec.allocated_memory) for spec in specs
                         if spec.storage_base is None]
        return result


def planned(exported, algorithm):
    """(bytes of the plan, the program) of ExecuTorch's pass with this algorithm."""
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, Verifier
    from executorch.exir.passes import MemoryPlanningPass

    planning = MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([algorithm]))
    program = to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    module = program.exported_program().graph_module
    verifier = Verifier(module, True, True, True, program.exported_program().graph_signature)
    verifier.verify_storage_reuse()
    verifier.verify_graph_input_output()
    return sum(module.meta["non_const_buffer_sizes"]), program


def results_of(program, x):
    """What the program computes in ExecuTorch's runtime."""
    from executorch.runtime import Runtime

    with tempfile.NamedTemporaryFile(suffix=".pte") as file:
        file.write(program.buffer)
        file.flush()
        return [result.clone() for result in Runtime.get().load_program(file.name).load_method("forward").execute([x])]


def row_of(network, arguments):
    """One network under the three algorithms."""
    import torch
    from executorch.exir.memory_planning import greedy, naive

    import memomalloc.executorch
    import networks
    from memomalloc import dsa

    module, x, _ = networks.build(network, arguments.batch, None)
    torch.manual_seed(0)
    x = torch.randn_like(x) if x.is_floating_point() else torch.randint_like(x, 1000)
    module = module.eval().requires_grad_(False)
    row, results = {"network": network}, []
    with torch.no_grad():
        for name, algorithm in (("naive", naive), ("greedy", greedy), (OURS, memomalloc.executorch.algorithm)):
            timed = Timed(name, algorithm)
            row[name], program = planned(torch.export.export(module, (x,), strict=False), timed)
            row[f"{name}_seconds"] = timed.seconds
            if arguments.run:
                results.append(results_of(program, x))
    lower, upper, size = zip(*timed.tensors)
    row |= {"tensors": len(size), "bound": dsa.lower_bound(lower, upper, size)}
    row["equal"] = not results or all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other))
    if arguments.problems:
        arguments.problems.mkdir(parents=True, exist_ok=True)
        with (arguments.problems / f"{network}.csv").open("w", encoding="utf-8") as file:
            file.write("id,lower,upper,size\n")
            file.writelines(f"{i},{a},{b},{s}\n" for i, (a, b, s) in enumerate(timed.tensors))
    return row


def print_row(row):
    heights = " | ".join(f"{row[name] / KIB:.0f}" for name in ("bound", "naive", "greedy", OURS))
    print(f"| {row['network']} | {row['tensors']} | {heights} | {row['greedy'] / row['bound']:.4f} | "
          f"{row[OURS] / row['bound']:.4f} | {1000 * row['greedy_seconds']:.0f} | {1000 * row[f'{OURS}_seconds']:.0f} |",
          flush=True)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, help="names of scripts/networks.py (fifteen)")
    parser.add_argument("--batch", type=int, default=1, help="samples (%(default)s)")
    parser.add_argument("--run", action="store_true", help="run the programs, and compare what they compute")
    parser.add_argument("--problems", type=pathlib.Path, metavar="FOLDER", help="write the problems here, as CSV")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="write the rows as CSV")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    print("| network | tensors | bound, KiB | naive | greedy | ours | greedy over bound | ours over bound | "
          "greedy, ms | ours, ms |\n| --- " + "| --- " * 9 + "|", flush=True)
    rows, failed = [], False
    for network in arguments.networks:
        try:
            rows.append(row_of(network, arguments))
        except Exception as error:  # the host's own, whatever it is: the network is named, the others go on
            print(f"executorch_plans.py: {network}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
            failed = True
            continue
        print_row(rows[-1])
        if not rows[-1]["equal"]:
            print(f"executorch_plans.py: {network}: the results differ", file=sys.stderr)
            failed = True
    if arguments.output and rows:
        with arguments.output.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
