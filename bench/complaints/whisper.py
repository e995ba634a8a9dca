"""Whisper in CTranslate2, as faster-whisper runs it. Words: the threads that transcribe at once, and the pieces of thirty
seconds of each. There: small to large models; here two layers with random weights, so that what is written is noise."""

import sys
import tempfile
import threading

import ctranslate2
import measure
import numpy
from ctranslate2.specs import whisper_spec

WIDTH, HEADS, MELS, WORDS, LAYERS = 384, 6, 80, 51865, 2
random = numpy.random.default_rng(1)


def fill(spec):
    """Random weights of the shapes that Whisper has."""
    def linear(one, rows, columns):
        one.weight = (random.standard_normal((rows, columns)) * 0.02).astype(numpy.float32)
        one.bias = numpy.zeros(rows, numpy.float32)

    def norm(one):
        one.gamma, one.beta = numpy.ones(WIDTH, numpy.float32), numpy.zeros(WIDTH, numpy.float32)

    def attention(one, own):
        norm(one.layer_norm)
        for number, part in enumerate(one.linear):
            last = number == len(one.linear) - 1
            linear(part, WIDTH if last or (not own and number == 0) else WIDTH * (3 if own else 2), WIDTH)

    for stack in (spec.encoder, spec.decoder):
        norm(stack.layer_norm)
        for layer in stack.layer:
            attention(layer.self_attention, own=True)
            if hasattr(layer, "attention"):
                attention(layer.attention, own=False)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, 4 * WIDTH, WIDTH)
            linear(layer.ffn.linear_1, WIDTH, 4 * WIDTH)
    for conv, before in ((spec.encoder.conv1, MELS), (spec.encoder.conv2, WIDTH)):
        conv.weight = (random.standard_normal((WIDTH, before, 3)) * 0.02).astype(numpy.float32)
        conv.bias = numpy.zeros(WIDTH, numpy.float32)
    spec.encoder.position_encodings.encodings = numpy.zeros((1500, WIDTH), numpy.float32)
    spec.decoder.position_encodings.encodings = numpy.zeros((448, WIDTH), numpy.float32)
    spec.decoder.embeddings.weight = (random.standard_normal((WORDS, WIDTH)) * 0.02).astype(numpy.float32)
    spec.decoder.projection.weight = spec.decoder.embeddings.weight


spec = whisper_spec.WhisperSpec(LAYERS, HEADS, LAYERS, HEADS)
fill(spec)
names = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>", "<|nospeech|>"]
spec.register_vocabulary([names[i] if i < len(names) else f"w{i}" for i in range(WORDS)])
spec.config.suppress_ids, spec.config.suppress_ids_begin, spec.config.lang_ids = [], [], [2]
spec.config.alignment_heads = [[0, 0]]
with tempfile.TemporaryDirectory() as folder:
    spec.validate()
    spec.save(folder)
    model = ctranslate2.models.Whisper(folder, device="cpu", compute_type="float32", inter_threads=int(sys.argv[1]), intra_threads=1)
del spec


def transcribe(pieces):
    for piece in range(pieces):
        sound = ctranslate2.StorageView.from_array(numpy.full((1, MELS, 3000), piece / 100, numpy.float32))
        model.generate(sound, [[1, 2, 3, 4]], beam_size=5, max_length=24 + 8 * (piece % 4))
        measure.between()


def loop():
    threads = [threading.Thread(target=transcribe, args=(int(sys.argv[2]),)) for _ in range(int(sys.argv[1]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


measure.run(loop)
