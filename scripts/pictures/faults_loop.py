"""Runs a network again and again and prints, as JSON, what each iteration cost: page faults, bytes from a plan."""

import json
import pathlib
import resource
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import infer  # noqa: E402
import measure  # noqa: E402


def main():
    torch, models = infer.import_torchvision()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network, images = infer.build(models, "mobilenet_v2"), torch.randn(8, 3, 224, 224)
    faults, planned = [], []
    with torch.inference_mode():
        for _ in range(int(sys.argv[1])):
            before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, measure.library_stats()
            network(images)
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
            end = measure.library_stats()
            planned.append(end["planned_bytes"] - start["planned_bytes"] if end else 0)
    print(json.dumps({"faults": faults, "planned_bytes": planned, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
