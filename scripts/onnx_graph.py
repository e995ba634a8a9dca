"""The computation graph of an ONNX file: sizes by ONNX's own shape inference, nothing is computed."""
import os

import refusal
from graph_writer import GraphWriter

# Operators whose result is their first input in another shape: runtimes keep the storage.
VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}
POINTWISE = {"Relu", "Sigmoid", "Tanh", "Add", "Sub", "Mul", "Div", "Clip", "LeakyRelu", "Elu", "Erf", "Exp", "Sqrt",
             "HardSigmoid", "HardSwish", "Gelu", "Softplus", "Neg", "Abs", "Pow"}
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def is_random(node):
    """Dropout draws numbers only where its third input switches it on."""
    return node.op_type in RANDOM or (node.op_type == "Dropout" and len(node.input) > 2 and node.input[2])


def set_batch(graph, batch):
    """Gives the inputs' first extents, where the file leaves them open, the value `batch`."""
    for value in graph.input:
        extents = value.type.tensor_type.shape.dim
        if extents and not extents[0].HasField("dim_value"):
            extents[0].dim_value = batch


def sizes_of(onnx, graph):
    """Tensor's name -> bytes, for those whose type and shape are known."""
    def size(kind, extents):
        total = onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize
        for extent in extents:
            total *= extent
        return total

    sizes = {weight.name: size(weight.data_type, weight.dims) for weight in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        tensor = value.type.tensor_type
        extents = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        if tensor.HasField("shape") and None not in extents:
            sizes[value.name] = size(tensor.elem_type, extents)
    return sizes


def read_by(onnx, node):
    """Names that a node reads; of branches and loop bodies, those that they take from outside."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        bodies = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs
        for body in bodies:
            own = {v.name for v in [*body.input, *body.initializer]} | {o for n in body.node for o in n.output}
            inner = [name for child in body.node for name in read_by(onnx, child)]
            names += [name for name in [*inner, *(v.name for v in body.output)] if name not in own]
    return list(dict.fromkeys(names))


def unique_names(nodes):
    """A name for each node: ONNX lets them be empty, or twice the same."""
    taken, names = set(), []
    for i, node in enumerate(nodes):
        name = node.name or f"{node.op_type}_{i}"
        while name in taken:
            name += f"_{i}"
        taken.add(name)
        names.append(name)
    return names


def describe_onnx(path, batch=1):
    """The GraphWriter of an ONNX file. What its shape inference cannot tell is left without a size, so that
    `memomalloc schedule` names it. Constants count as weights; the insides of loops and branches are not seen."""
    import google.protobuf.message
    import onnx

    try:
        model = onnx.load(path, load_external_data=False)
    except google.protobuf.message.DecodeError:
        refusal.refuse(f"{path}: this is no ONNX file", "torch.onnx.export writes one from a network")
    set_batch(model.graph, batch)
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    sizes = sizes_of(onnx, graph)
    writer = GraphWriter(os.path.basename(path))
    weights = {weight.name for weight in graph.initializer}
    weights |= {output for node in graph.node if node.op_type == "Constant" for output in node.output}
    for name in sorted(weights):
        writer.add_tensor(name, name, sizes.get(name), "weight")
    for value in graph.input:
        if value.name not in weights:
            writer.add_tensor(value.name, value.name, sizes.get(value.name), "input")
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    last_random = None
    for name, node in zip(unique_names(nodes), nodes):
        inputs, outputs = read_by(onnx, node), [t for t in node.output if t]
        view = node.op_type in VIEWS and node.input[0] in writer.owner_of
        for output in outputs:
            if view:
                writer.owner_of[output] = writer.owner_of[node.input[0]]
            writer.add_tensor(output, output, sizes.get(output))
        entry = {"name": name, "op": node.op_type, "inputs": inputs, "outputs": outputs}
        if node.op_type in POINTWISE:
            entry["overwrites"] = [[outputs[0], t] for t in inputs if t not in weights
                                   and sizes.get(t) == sizes.get(outputs[0])]
        if is_random(node):
            entry["after"] = [last_random] if last_random else []
            last_random = name
        writer.nodes.append(entry)
    writer.outputs = [value.name for value in graph.output]
    for tensor in writer.tensors:
        if tensor.get("bytes", 0) is None:
            del tensor["bytes"]
    return writer
