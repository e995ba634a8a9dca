"""Long documents in batches through huggingface's tokenizers, as a data set is prepared."""

import os
import random

os.environ["TOKENIZERS_PARALLELISM"] = "true"
os.environ["RAYON_NUM_THREADS"] = "2"

import measure  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

random.seed(1)
WORDS = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(3000)]
tokenizer = Tokenizer(models.BPE(cache_capacity=0))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.train_from_iterator([" ".join(WORDS)], trainers.BpeTrainer(vocab_size=4000, show_progress=False))


def loop():
    for _ in range(12):
        batch = [" ".join(random.choices(WORDS, k=random.randint(500, 12000))) for _ in range(16)]
        sum(len(one.ids) for one in tokenizer.encode_batch(batch))
        measure.between()


measure.run(loop)
