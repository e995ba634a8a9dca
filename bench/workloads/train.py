#!/usr/bin/env python3
"""Training steps on random data: a convolutional network, a transformer, an embedding model.

A step is forward, backward and the optimizer's update; it returns the loss. embedding is a
DeepFM-like model fed by a DataLoader with --workers processes. Gradients are freed in the next step.
"""

import workload


def classifier(torch, network, images, labels, arguments):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def convolutional(torch, arguments):
    import infer

    _, models = infer.import_torchvision()
    network = infer.build(models, arguments.model).train()
    images = torch.randn(arguments.batch, 3, 224, 224)
    labels = torch.arange(arguments.batch) % 1000
    return classifier(torch, network, images, labels, arguments)


def transformer(torch, arguments):
    width, length, words = 256, 64, 4000
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    network = torch.nn.Sequential(torch.nn.Embedding(words, width),
                                  torch.nn.TransformerEncoder(layer, 4),
                                  torch.nn.Linear(width, words))
    tokens = torch.randint(words, (arguments.batch, length))
    targets = torch.randint(words, (arguments.batch * length,))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(network(tokens).flatten(0, 1), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def embedding(torch, arguments):
    fields, words, width, dense = 16, 20000, 16, 13

    class DeepFm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Embedding(fields * words, 1)
            self.second = torch.nn.Embedding(fields * words, width)
            self.deep = torch.nn.Sequential(
                torch.nn.Linear(fields * width + dense, 256), torch.nn.ReLU(),
                torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))

        def forward(self, indices, values):
            vectors = self.second(indices)
            crossed = 0.5 * (vectors.sum(1) ** 2 - (vectors ** 2).sum(1)).sum(1, keepdim=True)
            deep = self.deep(torch.cat([vectors.flatten(1), values], 1))
            return (self.first(indices).sum(1) + crossed + deep).squeeze(1)

    rows = arguments.batch * 8
    offsets = torch.arange(fields) * words
    data = torch.utils.data.TensorDataset(
        torch.randint(words, (rows, fields)) + offsets, torch.randn(rows, dense),
        torch.randint(2, (rows,)).float())
    loader = torch.utils.data.DataLoader(data, batch_size=arguments.batch, shuffle=False,
                                         num_workers=arguments.workers,
                                         persistent_workers=arguments.workers > 0)
    network = DeepFm()
    optimizer = torch.optim.Adagrad(network.parameters(), lr=0.01)
    batches = iter(())

    def step(index):
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        indices, values, clicked = batch
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            network(indices, values), clicked)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


TASKS = {"convolutional": convolutional, "transformer": transformer, "embedding": embedding}


def main():
    options = workload.parser(__doc__, iterations=30)
    options.add_argument("--task", choices=TASKS, default="convolutional", help="(%(default)s)")
    options.add_argument("--model", default="resnet18", help="of convolutional (%(default)s)")
    options.add_argument("--batch", type=int, default=16, help="samples at once (%(default)s)")
    options.add_argument("--workers", type=int, default=0, help="of the DataLoader (%(default)s)")
    arguments = options.parse_args()
    torch = workload.torch_for(arguments)
    workload.run(TASKS[arguments.task](torch, arguments), arguments, arguments.task)


if __name__ == "__main__":
    main()
