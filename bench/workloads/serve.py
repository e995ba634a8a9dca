#!/usr/bin/env python3
"""A server: threads that answer requests side by side, on the same or on different networks.

An iteration hands each thread --burst requests and waits for all; within it the threads drift as they
like. With --alternate a single thread takes the networks and batch sizes in turn.
"""

import queue
import threading

import workload


def requests(arguments):
    """(network, images) pairs, one for each network and batch size that the options name."""
    import infer

    torch, models = infer.import_torchvision()
    names = arguments.models.split(",")
    batches = [int(batch) for batch in arguments.batches.split(",")]
    networks = {name: infer.build(models, name) for name in dict.fromkeys(names)}
    if len(names) == 1:
        names *= len(batches)
    if len(batches) == 1:
        batches *= len(names)
    return [(networks[name], torch.randn(batch, 3, arguments.size, arguments.size))
            for name, batch in zip(names, batches, strict=True)]


def alternating(torch, arguments):
    turns = requests(arguments)

    def step(index):
        network, images = turns[index % len(turns)]
        return network(images)

    return step


def threaded(torch, arguments):
    turns = requests(arguments)
    inbox = [queue.SimpleQueue() for _ in range(arguments.servers)]
    outbox = [queue.SimpleQueue() for _ in range(arguments.servers)]

    def serve(number):
        network, images = turns[number % len(turns)]
        with torch.inference_mode():
            while inbox[number].get():
                outbox[number].put([network(images) for _ in range(arguments.burst)][-1])

    for number in range(arguments.servers):
        threading.Thread(target=serve, args=(number,), daemon=True).start()

    def step(index):
        for box in inbox:
            box.put(True)
        return [box.get() for box in outbox]

    return step


def main():
    options = workload.parser(__doc__, iterations=40)
    options.add_argument("--models", default="resnet18", help="comma between them (%(default)s)")
    options.add_argument("--batches", default="1", help="comma between them (%(default)s)")
    options.add_argument("--size", type=int, default=224, help="pixels per side (%(default)s)")
    options.add_argument("--servers", type=int, default=2, help="threads (%(default)s)")
    options.add_argument("--burst", type=int, default=4, help="requests a turn (%(default)s)")
    options.add_argument("--alternate", action="store_true", help="one thread, requests in turn")
    arguments = options.parse_args()
    torch = workload.torch_for(arguments)
    with torch.inference_mode():
        step = (alternating if arguments.alternate else threaded)(torch, arguments)
        workload.run(step, arguments, "serve")


if __name__ == "__main__":
    main()
