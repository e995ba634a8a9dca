"""ONNX files as graphs: sizes, views, random numbers, bodies, and an order that ONNX itself accepts."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

try:
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    onnx = None

TOOL = ROOT / "build" / "memomalloc"
FLOAT = 4  # bytes


def small_model():
    """Two branches over one input: a wide one that a sum shrinks, and a narrow one; the wide one is listed last."""
    def weight(name, *extents):
        total = 1
        for extent in extents:
            total *= extent
        return helper.make_tensor(name, TensorProto.FLOAT, extents, [0.5] * total)

    nodes = [
        helper.make_node("MatMul", ["x", "narrow_w"], ["narrow"], name="narrow"),
        helper.make_node("Relu", ["narrow"], ["narrow_relu"], name="same name"),
        helper.make_node("MatMul", ["x", "wide_w"], ["wide"], name=""),
        helper.make_node("Relu", ["wide"], ["wide_relu"], name="same name"),
        helper.make_node("Constant", [], ["shape"], value=helper.make_tensor("s", TensorProto.INT64, [1], [-1])),
        helper.make_node("Reshape", ["wide_relu", "shape"], ["flat"], name="flatten"),
        helper.make_node("ReduceSum", ["flat"], ["total"], name="sum", keepdims=1),
        helper.make_node("Add", ["narrow_relu", "total"], ["y"], name="add"),
    ]
    graph = helper.make_graph(
        nodes, "two branches", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 16])],
        [weight("narrow_w", 8, 16), weight("wide_w", 8, 64)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@unittest.skipUnless(onnx, "onnx is not installed")
class OnnxGraphTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def describe(self, model, batch=1):
        import onnx_graph

        onnx.save(model, self.path("model.onnx"))
        return json.loads(onnx_graph.describe_onnx(self.path("model.onnx"), batch).to_json())

    def schedule(self, graph, *options):
        with open(self.path("graph.json"), "w", encoding="utf-8") as file:
            json.dump(graph, file, indent=0)
        return subprocess.run([str(TOOL), "schedule", self.path("graph.json"), "--json", *options],
                              capture_output=True, text=True, check=False)

    def test_sizes_views_and_names(self):
        graph = self.describe(small_model(), batch=4)
        tensors = {t["name"]: t for t in graph["tensors"]}
        self.assertEqual(tensors["x"], {"name": "x", "bytes": 4 * 8 * FLOAT, "kind": "input"})
        self.assertEqual(tensors["wide_w"], {"name": "wide_w", "bytes": 8 * 64 * FLOAT, "kind": "weight"})
        self.assertEqual(tensors["shape"], {"name": "shape", "bytes": 8, "kind": "weight"})
        self.assertEqual(tensors["wide"]["bytes"], 4 * 64 * FLOAT)
        self.assertEqual(tensors["flat"], {"name": "flat", "alias_of": "wide_relu"})
        nodes = {n["name"]: n for n in graph["nodes"]}
        self.assertEqual(list(nodes), ["narrow", "same name", "MatMul_2", "same name_3", "flatten", "sum", "add"])
        self.assertEqual(nodes["same name"]["overwrites"], [["narrow_relu", "narrow"]])
        self.assertEqual(nodes["add"]["overwrites"], [["y", "narrow_relu"]])
        self.assertEqual(graph["outputs"], ["y"])

    def test_random_numbers_keep_their_order(self):
        random = [helper.make_node("RandomNormalLike", ["x"], [f"r{i}"]) for i in range(3)]
        graph = helper.make_graph(random, "noise", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                                  [helper.make_tensor_value_info(f"r{i}", TensorProto.FLOAT, [2]) for i in range(3)])
        nodes = self.describe(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))["nodes"]
        self.assertEqual([n.get("after", []) for n in nodes],
                         [[], ["RandomNormalLike_0"], ["RandomNormalLike_1"]])

    def test_a_branch_reads_what_it_takes_from_outside(self):
        def body(name, source):
            return helper.make_graph([helper.make_node("Neg", [source], [name])], name, [],
                                     [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])])

        nodes = [helper.make_node("Relu", ["x"], ["kept"]), helper.make_node("Abs", ["x"], ["other"]),
                 helper.make_node("If", ["flag"], ["y"], then_branch=body("a", "kept"), else_branch=body("b", "other"))]
        graph = helper.make_graph(nodes, "branch", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
                                                    helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
        found = self.describe(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))["nodes"]
        self.assertEqual(sorted(found[-1]["inputs"]), ["flag", "kept", "other"])

    def test_the_wide_branch_goes_first(self):
        model = small_model()
        graph = self.describe(model, batch=4)
        done = self.schedule(graph, "--output", self.path("order.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        wide, narrow = 4 * 64 * FLOAT, 4 * 16 * FLOAT
        self.assertEqual(report["framework_peak"], narrow + 2 * wide)
        self.assertEqual(report["peak"], 2 * wide)
        self.assertTrue(report["optimal"])
        with open(self.path("order.json"), encoding="utf-8") as file:
            order = json.load(file)["order"]
        by_name = dict(zip((n["name"] for n in graph["nodes"]),
                           (n for n in model.graph.node if n.op_type != "Constant")))
        constants = [n for n in model.graph.node if n.op_type == "Constant"]
        reordered = onnx.ModelProto()
        reordered.CopyFrom(model)
        del reordered.graph.node[:]
        reordered.graph.node.extend([*constants, *(by_name[name] for name in order)])
        onnx.checker.check_model(reordered)  # refuses nodes that stand before the makers of their inputs
        self.assertNotEqual(list(reordered.graph.node), list(model.graph.node))

    def test_an_unknown_size_is_named(self):
        model = small_model()
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "width"
        done = self.schedule(self.describe(model))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"graph\.json:\d+: tensor 'x' has no size")


if __name__ == "__main__":
    unittest.main()
