#!/usr/bin/env python3
"""Vela's memory plans for Arm's Ethos-U by its own allocators and by ours, on real networks.

Makes networks of keras.applications and a U-Net with random weights, quantises them to eight bits (random images) and
compiles each three times: by Vela's allocators Greedy and HillClimb, its default, and by memomalloc.vela. Vela judges
each plan. Sizes are those of Vela's own summary; seconds are those of the allocator alone, all its problems of one
network together. The bound is the greatest sum of sizes that live at once. Models are kept in --models and made once.

Prints a Markdown table; --output also writes CSV. Needs the packages tensorflow and ethos-u-vela.
"""

import argparse
import contextlib
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

# Name and pixels a side; the largest that Vela compiles for this processor in about a minute.
NETWORKS = {"MobileNet": 224, "MobileNetV2": 224, "MobileNetV3Small": 224, "EfficientNetB0": 224, "EfficientNetV2B0": 224,
            "DenseNet121": 96, "NASNetMobile": 224, "ResNet50": 96, "InceptionV3": 149, "Xception": 149, "UNet": 128}
ALLOCATORS = ("Greedy", "HillClimb", "memomalloc")
PROCESSOR = "ethos-u55-256"
CALIBRATION_IMAGES = 2
KIB = 1 << 10


def unet(keras, size):
    layers, skips = keras.layers, []
    inputs = x = keras.Input((size, size, 3))
    for width in (16, 32, 64):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = layers.MaxPool2D()(x)
    x = layers.Conv2D(128, 3, padding="same", activation="relu")(x)
    for width, skip in zip((64, 32, 16), reversed(skips)):
        x = layers.Concatenate()([layers.UpSampling2D()(x), skip])
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Conv2D(2, 1)(x))


def make(name, path):
    """Writes the network as a TFLite model of eight bits."""
    import numpy
    import tensorflow as tf

    size = NETWORKS[name]
    tf.keras.utils.set_random_seed(1)
    if name == "UNet":
        model = unet(tf.keras, size)
    else:
        options = {"include_preprocessing": False} if "V3Small" in name or "NetV2B" in name else {}
        model = getattr(tf.keras.applications, name)(weights=None, input_shape=(size, size, 3), include_top=True, **options)
    dice = numpy.random.default_rng(1)
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    converter.representative_dataset = lambda: (
        [dice.random((1, size, size, 3), numpy.float32)] for _ in range(CALIBRATION_IMAGES))
    path.write_bytes(converter.convert())


def compile_one(model, allocator):
    """Compiles one model; prints what the allocator did as a line of JSON."""
    from ethosu.vela import hillclimb_allocation, tensor_allocation, vela

    from memomalloc import dsa
    import memomalloc.vela

    found = {"seconds": 0.0, "ranges": 0, "bound": 0}

    def timed(function, ranges_of):
        def call(ranges, *rest):
            began = time.perf_counter()
            result = function(ranges, *rest)
            found["seconds"] += time.perf_counter() - began
            all_ranges = ranges_of(ranges)
            if len(all_ranges) >= found["ranges"]:
                found["ranges"] = len(all_ranges)
                found["bound"] = dsa.lower_bound([r.start_time for r in all_ranges], [r.end_time + 1 for r in all_ranges],
                                                 [r.size for r in all_ranges])
            return result
        return call

    if allocator == "memomalloc":
        memomalloc.vela.install()
    hillclimb_allocation.allocate_live_ranges = timed(hillclimb_allocation.allocate_live_ranges, lambda ranges: ranges)
    tensor_allocation.greedy_allocate_live_ranges = timed(tensor_allocation.greedy_allocate_live_ranges,
                                                          lambda graph: graph.lrs)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        vela.main([str(model), "--accelerator-config", PROCESSOR, "--output-dir", folder, memomalloc.vela.CORE,
                   "--tensor-allocator", "Greedy" if allocator == "Greedy" else "HillClimb"])
        summary = next(pathlib.Path(folder).glob("*_summary_*.csv"))
        row = next(csv.DictReader(summary.open(encoding="utf-8")))
    found["sram"] = round(float(row["sram_memory_used"]) * KIB)
    print(json.dumps(found))


def child(arguments):
    """This script in a process of its own; what it printed last. RuntimeError if it failed."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, os.path.abspath(__file__), *arguments], capture_output=True, text=True,
                          env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or f"code {done.returncode}").splitlines()[-1])
    return done.stdout.splitlines()[-1] if done.stdout.strip() else ""


def print_row(row):
    heights = " | ".join(f"{row[name]['sram'] / KIB:.0f}" for name in ALLOCATORS)
    times = " | ".join(f"{1000 * row[name]['seconds']:.0f}" for name in ALLOCATORS)
    print(f"| {row['network']} | {row['memomalloc']['ranges']} | {row['memomalloc']['bound'] / KIB:.0f} | {heights} | "
          f"{times} |", flush=True)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS), metavar="NAME",
                        help=f"of {', '.join(NETWORKS)} (all)")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build/hosts", help="folder of models (%(default)s)")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="write the rows as CSV")
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile", choices=ALLOCATORS, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.make or arguments.compile:
        model = arguments.models / f"{arguments.networks[0]}.tflite"
        make(arguments.networks[0], model) if arguments.make else compile_one(model, arguments.compile)
        return 0
    arguments.models.mkdir(parents=True, exist_ok=True)
    print("| network | live ranges | bound, KiB | Greedy | HillClimb | ours | Greedy, ms | HillClimb, ms | ours, ms |\n"
          "| --- " + "| --- " * 8 + "|", flush=True)
    rows, failed = [], False
    for network in arguments.networks:
        chosen = ["--networks", network, "--models", str(arguments.models)]
        try:
            if not (arguments.models / f"{network}.tflite").exists():
                child([*chosen, "--make"])
            row = {"network": network} | {name: json.loads(child([*chosen, "--compile", name])) for name in ALLOCATORS}
        except RuntimeError as error:
            print(f"vela_plans.py: {network}: {error}", file=sys.stderr)
            failed = True
            continue
        rows.append(row)
        print_row(row)
    if arguments.output and rows:
        with arguments.output.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["network", "ranges", "bound", *(f"{name}_{what}" for name in ALLOCATORS
                                                             for what in ("sram", "seconds"))])
            for row in rows:
                writer.writerow([row["network"], row["memomalloc"]["ranges"], row["memomalloc"]["bound"],
                                 *(row[name][what] for name in ALLOCATORS for what in ("sram", "seconds"))])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
