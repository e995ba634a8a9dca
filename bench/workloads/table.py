"""The one list of workloads: what bench/run.py and the documents name is a row here."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Workload:
    """A program with its arguments; paths are relative to the project's root."""

    name: str
    program: str
    arguments: str
    iterations: int  # of a full run; chosen for 5 to 15 s on two cores
    quick: int  # of a run with --quick
    environment: str = "torch"  # which Python environment: torch, or jax for JAX and TensorFlow

    @property
    def large_batch(self):
        """Inference of a torchvision network on at least four images at once."""
        batch = re.search(r"--batch (\d+)", self.arguments)
        return self.program == "scripts/infer.py" and int(batch[1]) >= 4

    @property
    def single(self):
        """One thread does all of the work."""
        return all(int(count) == 1 for count in re.findall(r"--(?:threads|servers|workers) (\d+)", self.arguments))


def _vision(name, model, batch, threads, iterations, quick):
    return Workload(name, "scripts/infer.py", f"--model {model} --batch {batch} --threads {threads}",
                    iterations, quick)


def _program(name, program, arguments, iterations, quick, environment="torch"):
    return Workload(name, f"bench/workloads/{program}.py", arguments, iterations, quick, environment)


WORKLOADS = (
    _vision("mobilenet_v2_b8_t1", "mobilenet_v2", 8, 1, 60, 24),
    _vision("mobilenet_v2_b8_t2", "mobilenet_v2", 8, 2, 60, 24),
    _vision("resnet50_b8_t2", "resnet50", 8, 2, 30, 14),
    _vision("densenet121_b4_t2", "densenet121", 4, 2, 40, 16),
    _vision("resnet18_b1_t1", "resnet18", 1, 1, 150, 40),
    _vision("squeezenet1_0_b4_t2", "squeezenet1_0", 4, 2, 100, 30),
    _vision("googlenet_b8_t2", "googlenet", 8, 2, 50, 20),
    _vision("deeplabv3_resnet50_b1_t2", "deeplabv3_resnet50", 1, 2, 30, 14),
    _vision("vit_b_16_b1_t2", "vit_b_16", 1, 2, 50, 20),
    _program("bert_base_b8_t2", "transformer", "--task bert --batch 8 --threads 2", 20, 12),
    _program("bert_random_b1_t2", "transformer", "--task bert_random --threads 2", 200, 60),
    _program("gpt2_decode_t2", "transformer", "--task gpt2 --threads 2", 16, 10),
    _program("train_resnet18_b16_t2", "train", "--batch 16 --threads 2", 20, 12),
    _program("train_transformer_b8_t2", "train", "--task transformer --batch 8 --threads 2", 50, 20),
    _program("train_embedding_t2", "train", "--task embedding --batch 2048 --threads 2", 100, 60),
    _program("train_embedding_workers_t2", "train",
             "--task embedding --batch 2048 --threads 2 --workers 2", 100, 60),
    _program("serve_two_threads", "serve", "--servers 2", 40, 16),
    _program("serve_two_models", "serve", "--servers 2 --models resnet18,mobilenet_v2", 40, 16),
    _program("alternate_b1_b4", "serve", "--alternate --batches 1,4", 100, 40),
    _program("alternate_rounds_b1_b4", "serve", "--alternate --batches 1,4 --stay 15", 120, 60),
    _program("numpy_images", "arrays", "--task images", 60, 30),
    _program("pandas_groupby", "arrays", "--task groupby", 60, 30),
    _program("scipy_signal", "arrays", "--task signal", 60, 30),
    _program("sklearn_fit", "arrays", "--task learn", 60, 30),
    _program("eager_resnet18_b4_t2", "modes", "--threads 2", 60, 24),
    _program("torchscript_resnet18_b4_t2", "modes", "--mode script --threads 2", 60, 24),
    _program("compile_resnet18_b4_t2", "modes", "--mode compile --threads 2", 60, 24),
    _program("onnxruntime_no_arena", "onnx_infer", "", 60, 30),
    _program("onnxruntime_arena", "onnx_infer", "--arena", 60, 30),
    _vision("efficientnet_v2_s_b4_t2", "efficientnet_v2_s", 4, 2, 30, 16),
    _vision("convnext_tiny_b4_t2", "convnext_tiny", 4, 2, 30, 16),
    _vision("swin_t_b4_t2", "swin_t", 4, 2, 30, 16),
    _vision("regnet_y_1_6gf_b8_t2", "regnet_y_1_6gf", 8, 2, 30, 16),
    _vision("shufflenet_v2_b8_t1", "shufflenet_v2_x1_0", 8, 1, 60, 24),
    _vision("mnasnet1_0_b8_t2", "mnasnet1_0", 8, 2, 60, 24),
    _program("unet_b1_t2", "unseen", "--task unet --threads 2", 30, 16),
    _program("lstm_b8_t2", "unseen", "--task lstm --batch 8 --threads 2", 60, 30),
    _program("decoder_t2", "unseen", "--task decoder --threads 2", 30, 16),
    _program("speech_b2_t2", "unseen", "--task speech --batch 2 --threads 2", 40, 20),
    _program("denoise_b2_t2", "unseen", "--task denoise --batch 2 --threads 2", 30, 16),
    _program("numpy_kmeans", "unseen", "--task kmeans", 60, 30),
    _program("numpy_heat", "unseen", "--task heat", 60, 30),
    _program("numpy_factors", "unseen", "--task factors", 60, 30),
    _program("pillow_pictures", "unseen", "--task pictures", 40, 20),
    _program("jax_perceptron", "jax_forward", "--threads 2", 100, 40, "jax"),
    _program("jax_convolutional", "jax_forward", "--net convolutional --batch 16 --threads 2", 60, 30,
             "jax"),
    _program("tensorflow_mobilenet_v2", "keras_forward", "--threads 2", 60, 30, "jax"),
    _program("tensorflow_no_pool", "keras_forward", "--no-pool --threads 2", 60, 30, "jax"),
)

# What every allocator is judged by: inference of several sizes, sequences, training, threads, arrays.
SUITE = ("mobilenet_v2_b8_t1", "resnet50_b8_t2", "densenet121_b4_t2", "resnet18_b1_t1",
         "squeezenet1_0_b4_t2", "deeplabv3_resnet50_b1_t2", "vit_b_16_b1_t2", "bert_base_b8_t2",
         "gpt2_decode_t2", "train_resnet18_b16_t2", "train_embedding_t2", "serve_two_threads",
         "numpy_images")

# On these nothing was ever set: no threshold of the library, no weight of the planner, no criterion. They
# are reported apart, and whoever sets a constant with one of them moves its row out of this list.
UNTUNED = ("efficientnet_v2_s_b4_t2", "convnext_tiny_b4_t2", "swin_t_b4_t2", "regnet_y_1_6gf_b8_t2",
           "shufflenet_v2_b8_t1", "mnasnet1_0_b8_t2", "unet_b1_t2", "lstm_b8_t2", "decoder_t2",
           "speech_b2_t2", "denoise_b2_t2", "numpy_kmeans", "numpy_heat", "numpy_factors",
           "pillow_pictures")

# One row or two for each framework, to show what the library sees of it (bench/frameworks.py).
FRAMEWORKS = ("pandas_groupby", "scipy_signal", "sklearn_fit", "eager_resnet18_b4_t2",
              "torchscript_resnet18_b4_t2", "compile_resnet18_b4_t2", "onnxruntime_no_arena",
              "onnxruntime_arena", "jax_perceptron", "jax_convolutional", "tensorflow_mobilenet_v2",
              "tensorflow_no_pool")

# What stands for the whole where time is short: inference, sequences, training, threads, arrays.
QUICK = ("mobilenet_v2_b8_t1", "resnet50_b8_t2", "resnet18_b1_t1", "train_resnet18_b16_t2",
         "serve_two_threads", "numpy_images")

BY_NAME = {workload.name: workload for workload in WORKLOADS}
