"""The complaints: where, what people report, what they paste in today, and the program here that does the same.

A row: report, program with its words, packages that it needs, what is reported, what is pasted in, how that is done here:
variables, `trim` (malloc_trim between requests), an allocator's name, or "" where nothing of the kind is."""

import dataclasses

ARENAS = {"MALLOC_ARENA_MAX": "2"}
PINNED = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "6"}
TRIM = {"COMPLAINT_TRIM": "1"}


@dataclasses.dataclass(frozen=True)
class Complaint:
    report: str
    program: tuple
    packages: tuple
    says: str
    pasted: str = ""
    paste: object = None  # variables, or the name of an allocator


ONNX = ("onnxruntime", "onnx")
UNREAD = "its text was not available here: "
ROWS = tuple(Complaint(*row) for row in (
    ("vectorize-io/hindsight#1717", ("onnx_texts", "no-arena", "24"), ONNX,
     "each recall of a reranker adds 50 to 100 MB, though the arena is off; killed after some thirty",
     "malloc_trim after each batch", TRIM),
    ("qdrant/fastembed#222", ("onnx_texts", "arena", "24"), ONNX,
     "memory is not released after a batch, and grows until the process is killed"),
    ("qdrant/fastembed#570", ("onnx_texts", "arena", "12"), ONNX,
     "embeddings in a server grow; the library has no way to turn the arena off", "the library patched"),
    ("Hedgy-Labs/setoku#107", ("onnx_texts", "arena", "48"), ONNX,
     "an idle gateway holds one to two GB: the arena keeps what the largest batch took", "batches of 8 in place of 64"),
    ("CorVous/Familiar-Connect#225", ("onnx_texts", "arena", "32"), ONNX,
     "the arena grows with each new pair of batch and length"),
    ("imagegenius/docker-immich#714", ("onnx_pictures", "reload"), ONNX,
     UNREAD + "machine learning of a photo server, which loads and drops models"),
    ("microsoft/onnxruntime#22271", ("onnx_pictures", "keep"), ONNX,
     "memory grows while a model is run numerous times", "enable_cpu_mem_arena = False"),
    ("triton-inference-server/server#7020", ("onnx_pictures", "reload"), ONNX,
     "memory is not released after a model is unloaded"),
    ("PaddlePaddle/PaddleOCR#16920", ("rapid_ocr",), ("rapidocr", "onnxruntime"),
     "under load in FastAPI memory only grows, until it is out; here with RapidOCR, the same models in onnxruntime"),
    ("PaddlePaddle/PaddleOCR#15631", ("paddle_pages",), ("paddle",),
     UNREAD + "predictions on the processor, pages of all sizes", "MALLOC_ARENA_MAX=2", ARENAS),
    ("XiaoMi/xiaomi-miloco#459", ("frames",), ("numpy",),
     "a camera server grows to 2 GB; malloc_trim from a debugger brings a third back",
     "MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_, MALLOC_ARENA_MAX", PINNED),
    ("PrimeIntellect-ai/prime-rl#2527", ("data_frames",), ("numpy", "pandas"),
     "an orchestrator grows by 6 MB a step: freed data frames stay in glibc", "malloc_trim after each step", TRIM),
    ("aiptimizer/TurboOCR#33", ("pdf_pages",), ("pymupdf", *ONNX),
     "memory of an OCR server grows slowly under load", "LD_PRELOAD=libjemalloc.so.2", "jemalloc"),
    ("SYSTRAN/faster-whisper#1055", ("whisper", "3", "6"), ("ctranslate2",),
     "transcribing in parallel grows until memory is out; one after the other does not"),
    ("SYSTRAN/faster-whisper#249", ("whisper", "1", "14"), ("ctranslate2",),
     "a recording of hours fills 16 GB", "machines with more memory"),
    ("openvinotoolkit/openvino#34289", ("openvino_networks", "shapes"), ("openvino",),
     UNREAD + "a network on the processor with shapes that change"),
    ("openvinotoolkit/openvino#16845", ("openvino_networks", "compile"), ("openvino",),
     "memory grows with each read, compile, infer and free", "malloc_trim after each network", TRIM),
    ("triton-inference-server/server#8457", ("conversations",), (),
     "resident memory rises with the same prompt again and again, and is not reclaimed"),
    ("onyx-dot-app/onyx#9196", ("conversations",), (),
     "400 to 500 MB above the base line after long conversations; glibc does not return them",
     "LD_PRELOAD=libjemalloc.so.2", "jemalloc"),
    ("docling-project/docling#1343", ("torch_ocr",), ("torch",),
     "in a container of 18 GB memory grows until it is killed; on the laptop all is well"),
    ("JaidedAI/EasyOCR#815", ("torch_ocr",), ("torch",), "each call of readtext adds 33 MB", "a process for each call"),
    ("huggingface/tokenizers#2073", ("long_texts",), ("tokenizers",), UNREAD + "batches of long texts"),
    ("huggingface/datatrove#347", ("long_texts",), ("tokenizers",),
     "preparing a data set grows with each batch until it crashes, on Linux alone", "LD_PRELOAD=libjemalloc.so.2", "jemalloc"),
    ("vllm-project/vllm#37607", ("sent_pictures",), ("PIL", "numpy"), UNREAD + "requests that carry pictures"),
    ("apache/arrow#45504", ("arrow_45504",), ("pyarrow", "pandas"), "read_parquet again and again grows"),
    ("apache/arrow#47266", ("arrow_47266",), ("pyarrow",), "reading a data set again and again grows"),
    ("mindee/doctr#1889", ("doctr_1889",), ("torch", "torchvision"), "a server holds its memory after 100 requests"),
    ("joblib/joblib#1577", ("joblib_1577",), ("joblib", "numpy"), "the memory of results stays after they were deleted"),
    ("microsoft/onnxruntime#11118", ("onnxruntime_11118",), ONNX, "memory rises with each new shape of a detector's pictures"),
    ("microsoft/onnxruntime#9313", ("onnxruntime_9313",), ONNX, "a language model on sentences of any length grows"),
    ("pandas-dev/pandas#2659", ("pandas_2659",), ("pandas",), "a frame's memory stays after it was deleted", "malloc_trim", TRIM),
    ("pola-rs/polars#23109", ("polars_23109",), ("polars",), "read_parquet grows"),
    ("pola-rs/polars#8869", ("polars_8869",), ("polars",), "the memory of unique stays"),
    ("pytorch/pytorch#13246", ("pytorch_13246",), ("torch",), "workers of a DataLoader grow"),
    ("pytorch/pytorch#27971", ("pytorch_27971",), ("torch", "torchvision"), "pictures of a fixed width and any height"),
    ("pytorch/pytorch#29809", ("pytorch_29809",), ("torch",), "texts of another length each time"),
    ("pytorch/pytorch#32596", ("pytorch_32596",), ("torch", "torchvision"), "another batch size in each iteration"),
    ("huggingface/sentence-transformers#1795", ("sentence_transformers_1795",), ("torch",), "encode again and again grows"),
    ("huggingface/sentence-transformers#1854", ("sentence_transformers_1854",), ("torch",), "encode in a new thread each time grows"),
))
