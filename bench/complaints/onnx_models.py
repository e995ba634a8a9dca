"""Small models for onnxruntime, with random weights and any width and height, or length."""

import numpy
from onnx import TensorProto, helper, numpy_helper

random = numpy.random.default_rng(1)


def save(nodes, weights, shape, path):
    graph = helper.make_graph(nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value.astype(numpy.float32), name)
                               for name, value in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with open(path, "wb") as file:
        file.write(model.SerializeToString())


def convolutions(path, channels=(3, 32, 64, 64, 128)):
    nodes, weights, name = [], {}, "x"
    for number, (before, after) in enumerate(zip(channels, channels[1:])):
        weights[f"w{number}"] = random.standard_normal((after, before, 3, 3)) * 0.1
        nodes += [helper.make_node("Conv", [name, f"w{number}"], [f"c{number}"], pads=[1] * 4,
                                   strides=[2, 2] if number % 2 else [1, 1]),
                  helper.make_node("Relu", [f"c{number}"], [f"r{number}"])]
        name = f"r{number}"
    nodes.append(helper.make_node("GlobalAveragePool", [name], ["y"]))
    save(nodes, weights, ["batch", channels[0], "height", "width"], path)


def attention(path, layers=6, width=256):
    nodes, weights, name = [], {}, "x"
    for number in range(layers):
        for part in "qkvo":
            weights[f"{part}{number}"] = random.standard_normal((width, width)) * 0.05
        for part in "qkv":
            nodes.append(helper.make_node("MatMul", [name, f"{part}{number}"], [f"{part}p{number}"]))
        nodes += [helper.make_node("Transpose", [f"kp{number}"], [f"kt{number}"], perm=[0, 2, 1]),
                  helper.make_node("MatMul", [f"qp{number}", f"kt{number}"], [f"s{number}"]),
                  helper.make_node("Softmax", [f"s{number}"], [f"a{number}"]),
                  helper.make_node("MatMul", [f"a{number}", f"vp{number}"], [f"m{number}"]),
                  helper.make_node("MatMul", [f"m{number}", f"o{number}"], [f"h{number}"])]
        name = f"h{number}"
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    save(nodes, weights, ["batch", "length", width], path)
