"""The networks that the scheduling scripts know, as torch.fx graphs of one forward pass or training step.

Weights are random; nothing is downloaded. With `fake=True` nothing is allocated either.
"""
import contextlib
import dataclasses
from random import Random
from unittest import mock

import exported
import infer
import refusal
import workspaces
from graph_writer import describe

LEARNING_RATE = 0.01


@dataclasses.dataclass
class Step:
    """A graph and what it is called with: `module(*arguments)`."""
    name: str
    module: object               # torch.fx.GraphModule
    arguments: list
    kinds: dict = dataclasses.field(default_factory=dict)   # placeholder -> "weight"
    gradients: tuple = ()        # names of the nodes whose results are gradients

    def describe(self, scratch=None):
        return describe(self.module, self.arguments, self.name, self.kinds, self.gradients, scratch)


def vision(name):
    def make(torch, batch, size):
        models = infer.import_torchvision()[1]
        segmentation = name in models.list_models(module=models.segmentation)
        options = {"weights_backbone": None} if segmentation else {}
        if name in ("googlenet", "inception_v3"):
            options = {"init_weights": False, "aux_logits": False}
        network = models.get_model(name, weights=None, **options)
        side = size or (299 if name == "inception_v3" else 224)
        return network, torch.zeros(batch, 3, side, side), "pixels" if segmentation else "classes"
    return make


def unet(torch, batch, size):
    nn = torch.nn

    class UNet(nn.Module):
        """Ronneberger et al. 2015, with padding: four levels down and up, skips by concatenation."""

        def __init__(self, widths=(64, 128, 256, 512, 1024)):
            super().__init__()
            def block(a, b):
                return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(),
                                     nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
            self.down = nn.ModuleList(block(a, b) for a, b in zip((3, *widths), widths))
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
            self.merge = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
            self.last = nn.Conv2d(widths[0], 2, 1)

        def forward(self, x):
            skips = []
            for block in self.down[:-1]:
                skips.append(block(x))
                x = nn.functional.max_pool2d(skips[-1], 2)
            x = self.down[-1](x)
            for i in reversed(range(len(self.up))):
                x = self.merge[i](torch.cat([skips[i], self.up[i](x)], 1))
            return self.last(x)

    side = size or 256
    return UNet(), torch.zeros(batch, 3, side, side), "pixels"


def nas(torch, batch, size):
    nn = torch.nn

    class Cell(nn.Module):
        """Five blocks, each a sum of two operations on earlier states: NASNet-A's normal cell, wired at random
        from a fixed seed. Unused states are concatenated. Source: Zoph et al. 2018, figure 2."""

        def __init__(self, width_in, width_before, width, random):
            super().__init__()
            self.fit = nn.ModuleList([self.unit(width_before, width, 1), self.unit(width_in, width, 1)])
            self.wires, used = [], set()
            self.ops = nn.ModuleList()
            for block in range(5):
                pair = [random.randrange(block + 2) for _ in range(2)]
                used |= set(pair)
                self.wires.append(pair)
                for _ in pair:
                    kernel = random.choice((3, 5, 7))
                    self.ops.append(self.unit(width, width, kernel))
            self.free = [i for i in range(7) if i not in used]

        @staticmethod
        def unit(a, b, kernel):
            return nn.Sequential(nn.ReLU(), nn.Conv2d(a, b, kernel, padding=kernel // 2, bias=False,
                                                      groups=1 if kernel == 1 else a), nn.BatchNorm2d(b))

        def forward(self, before, x):
            states = [self.fit[0](before), self.fit[1](x)]
            for i, (a, b) in enumerate(self.wires):
                states.append(self.ops[2 * i](states[a]) + self.ops[2 * i + 1](states[b]))
            return torch.cat([states[i] for i in self.free], 1)

    class Nas(nn.Module):
        def __init__(self, stages=3, cells=3, width=32):
            super().__init__()
            random = Random(1)
            self.stem = nn.Conv2d(3, width, 3, padding=1)
            self.cells, self.stages = nn.ModuleList(), stages
            last = before = width
            for stage in range(stages):
                for _ in range(cells):
                    self.cells.append(Cell(last, before, width << stage, random))
                    before, last = last, len(self.cells[-1].free) * (width << stage)
            self.head = nn.Linear(last, 10)

        def forward(self, x):
            before = x = self.stem(x)
            for i, cell in enumerate(self.cells):
                before, x = x, cell(before, x)
                if (i + 1) % (len(self.cells) // self.stages) == 0:
                    before, x = nn.functional.max_pool2d(before, 2), nn.functional.max_pool2d(x, 2)
            return self.head(x.mean((2, 3)))

    side = size or 32
    return Nas(), torch.zeros(batch, 3, side, side), "classes"


def transformer(kind):
    def make(torch, batch, size):
        infer.import_torchvision()  # transformers imports it, which may fail without the care taken there
        import transformers

        # Twelve layers are twelve copies of one; `attn_implementation` keeps the plain operators.
        options = {"attn_implementation": "eager"}
        tokens = torch.zeros(batch, size or 128, dtype=torch.long)
        if kind == "bert":
            config = transformers.BertConfig(**options)
            network = transformers.BertForSequenceClassification(config)
        else:
            config = transformers.GPT2Config(use_cache=False, tie_word_embeddings=False,
                                             **options)
            network = transformers.GPT2LMHeadModel(config)
        return network, tokens, "classes" if kind == "bert" else "tokens"
    return make


OWN = {"unet": unet, "nas": nas, "bert": transformer("bert"), "gpt2": transformer("gpt2")}


def known():
    """Every name that `export` takes."""
    models = infer.import_torchvision()[1]
    return [*models.list_models(module=models), *models.list_models(module=models.segmentation), *OWN]


def build(name, batch, size):
    """(module that maps the input to one tensor, input, kind of the target)."""
    import torch

    if name not in OWN and name not in known():
        refusal.refuse(f"there is no network '{name}'", f"there are {', '.join(known())}")
    network, x, target = OWN.get(name, vision(name))(torch, batch, size)

    class Plain(torch.nn.Module):
        """Returns the main result alone."""

        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            result = self.network(x)
            if isinstance(result, torch.Tensor):
                return result
            return result["out"] if "out" in result else result.logits

    return Plain(), x, target


def with_loss(torch, network, target):
    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x, y):
            result = self.network(x)
            if target == "tokens":
                result = result.flatten(0, 1)
                y = y.flatten()
            return (torch.nn.functional.cross_entropy(result, y),)

    return Loss()


def target_for(torch, x, target):
    if target == "pixels":
        return torch.zeros(x.shape[0], *x.shape[2:], dtype=torch.long)
    return torch.zeros(x.shape if target == "tokens" else x.shape[0], dtype=torch.long)


def joint_step(torch, loss, inputs, name):
    """Forward, backward and plain SGD in one graph: parameters and buffers are updated in place."""
    from torch._functorch.aot_autograd import aot_export_module

    # Exported first: some networks branch on values, and only leave that out while being exported.
    loss = exported.module(torch.export.export(loss, inputs, strict=False))
    module, signature = aot_export_module(loss, inputs, trace_joint=True, output_loss_index=0)
    graph = module.graph
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    state = {}
    for node in placeholders:
        named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}.get(node.target)
        if named is not None:
            state[named] = node
    output = next(n for n in graph.nodes if n.op == "output")
    results = {n.name: n for n in graph.nodes}
    gradients = signature.backward_signature.gradients_to_parameters
    with graph.inserting_before(output):
        for result, buffer in signature.buffers_to_mutate.items():
            graph.call_function(torch.ops.aten.copy_.default, (state[buffer], results[result]))
        for result, parameter in gradients.items():
            graph.call_function(torch.ops.aten.add_.Tensor, (state[parameter], results[result]),
                                {"alpha": -LEARNING_RATE})
    output.args = ((results[signature.backward_signature.loss_output],),)
    module.recompile()
    tensors = dict(loss.named_parameters()) | dict(loss.named_buffers())
    arguments = [tensors[named].detach() for named in state] + list(inputs)
    kinds = {node.name: "weight" for node in state.values()}
    return Step(name, module, arguments, kinds, tuple(gradients))


def fake_state(torch, mode):
    """Parameters and buffers become fake as soon as a module takes them, so that a network larger than the memory
    can be built. What constructors compute besides stays real: some read numbers out of tensors. So does one
    initialiser, which is left out."""
    module = torch.nn.Module
    register_parameter, register_buffer = module.register_parameter, module.register_buffer

    def take_parameter(self, name, parameter):
        register_parameter(self, name, parameter)
        if parameter is not None:
            self._parameters[name] = mode.from_tensor(parameter)

    def take_buffer(self, name, tensor, persistent=True):
        register_buffer(self, name, tensor, persistent)
        if tensor is not None:
            self._buffers[name] = mode.from_tensor(tensor)

    patches = contextlib.ExitStack()
    patches.enter_context(mock.patch.object(module, "register_parameter", take_parameter))
    patches.enter_context(mock.patch.object(module, "register_buffer", take_buffer))
    patches.enter_context(mock.patch.object(torch.nn.init, "_no_grad_trunc_normal_", lambda tensor, *_, **__: tensor,
                                            create=True))
    return patches


def export(name, train=False, batch=1, size=None, fake=False):
    """The Step of a network's forward pass, or of its training step."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.manual_seed(0)
    label = f"{name} {'training' if train else 'inference'} batch {batch}"
    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext()
    with fake_state(torch, mode) if fake else mode:
        network, x, target = build(name, batch, size)
    with mode:
        if fake:
            x = mode.from_tensor(x)
        if not train:
            program = torch.export.export(network.eval(), (x,), strict=False)
            return Step(label, exported.module(program), [x])
        loss = with_loss(torch, network.train(), target)
        return joint_step(torch, loss, (x, target_for(torch, x, target)), label)


def describe_step(name, train=False, batch=1, size=None, measured=False):
    """The GraphWriter of a network; with `measured`, run once for the operators' scratch memory."""
    scratch = None
    if measured:
        real = export(name, train, batch, size)
        scratch = workspaces.measure(real.module, real.arguments)
    return export(name, train, batch, size, fake=True).describe(scratch)
