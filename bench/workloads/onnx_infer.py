#!/usr/bin/env python3
"""ONNX Runtime on a residual network with random weights, with or without its memory arena.

With the arena (its default) the runtime takes a few large blocks once and hides its own reuse. The
network is built here: a stem, eight residual blocks of 64 to 256 channels, a classifier.
"""

import workload


def residual_network(numpy, seed):
    """The serialized model; input `images` of any batch, 3 x 224 x 224."""
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(seed)
    nodes, weights = [], []

    def convolve(source, inputs, outputs, kernel, stride, relu=True):
        name = f"c{len(nodes)}"
        scale = (2 / (inputs * kernel * kernel)) ** 0.5
        values = random.normal(0, scale, (outputs, inputs, kernel, kernel)).astype(numpy.float32)
        weights.append(numpy_helper.from_array(values, name + "w"))
        nodes.append(helper.make_node("Conv", [source, name + "w"], [name], strides=[stride] * 2,
                                      pads=[kernel // 2] * 4))
        if not relu:
            return name
        nodes.append(helper.make_node("Relu", [name], [name + "r"]))
        return name + "r"

    here, channels = convolve("images", 3, 64, 7, 2), 64
    for block in range(8):
        stride, wider = (2, channels * 2) if block in (2, 5) else (1, channels)
        main_path = convolve(convolve(here, channels, wider, 3, stride), wider, wider, 3, 1, False)
        side = here if stride == 1 else convolve(here, channels, wider, 1, stride, False)
        nodes.append(helper.make_node("Add", [main_path, side], [f"a{block}"]))
        nodes.append(helper.make_node("Relu", [f"a{block}"], [f"b{block}"]))
        here, channels = f"b{block}", wider
    nodes.append(helper.make_node("GlobalAveragePool", [here], ["scores"]))
    graph = helper.make_graph(
        nodes, "residual",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 224, 224])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", channels, 1, 1])],
        initializer=weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def main():
    options = workload.parser(__doc__, iterations=40)
    options.add_argument("--batch", type=int, default=4, help="images at once (%(default)s)")
    options.add_argument("--arena", action="store_true", help="keep the runtime's memory arena on")
    arguments = options.parse_args()
    import numpy
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.enable_cpu_mem_arena = arguments.arena
    settings.enable_mem_pattern = arguments.arena
    settings.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(residual_network(numpy, arguments.seed), settings,
                                           providers=["CPUExecutionProvider"])
    images = numpy.random.default_rng(arguments.seed).normal(
        size=(arguments.batch, 3, 224, 224)).astype(numpy.float32)
    workload.run(lambda index: session.run(None, {"images": images}), arguments, "onnxruntime")


if __name__ == "__main__":
    main()
