#!/usr/bin/env python3
"""BERT-base and GPT-2 with random weights: fixed shapes, random sequence lengths, decoding.

bert: one batch of a fixed length an iteration. bert_random: a new length of 1 to --length in each.
gpt2: an iteration takes a prompt of 32 tokens and decodes --tokens more, greedily, with its cache.
"""

import random

import workload


def bert(torch, arguments):
    from transformers import BertConfig, BertModel

    network = BertModel(BertConfig()).eval()
    lengths = random.Random(arguments.seed)

    def step(index):
        length = arguments.length
        if arguments.task == "bert_random":
            length = lengths.randint(1, arguments.length)
        tokens = torch.arange(arguments.batch * length).reshape(arguments.batch, length) % 30000
        return network(input_ids=tokens).pooler_output

    return step


def gpt2(torch, arguments):
    from transformers import GPT2Config, GPT2LMHeadModel

    network = GPT2LMHeadModel(GPT2Config()).eval()
    prompt = torch.arange(arguments.batch * 32).reshape(arguments.batch, 32) * 7 % 50000

    def step(index):
        tokens, cache, chosen = prompt, None, []
        for _ in range(arguments.tokens):
            answer = network(input_ids=tokens, past_key_values=cache, use_cache=True)
            cache = answer.past_key_values
            tokens = answer.logits[:, -1].argmax(-1, keepdim=True)
            chosen.append(tokens)
        return torch.cat(chosen, 1)

    return step


TASKS = {"bert": bert, "bert_random": bert, "gpt2": gpt2}


def main():
    options = workload.parser(__doc__, iterations=30)
    options.add_argument("--task", choices=TASKS, default="bert", help="(%(default)s)")
    options.add_argument("--batch", type=int, default=1, help="sequences at once (%(default)s)")
    options.add_argument("--length", type=int, default=128, help="tokens, at most (%(default)s)")
    options.add_argument("--tokens", type=int, default=16, help="to decode (%(default)s)")
    arguments = options.parse_args()
    torch = workload.torch_for(arguments)
    import infer

    infer.import_torchvision()  # transformers imports it, and would fail without its operators
    step = TASKS[arguments.task](torch, arguments)
    with torch.inference_mode():
        workload.run(step, arguments, arguments.task)


if __name__ == "__main__":
    main()
