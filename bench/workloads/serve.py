#!/usr/bin/env python3
"""A server: requests answered by threads side by side, or by one for changing networks and sizes.

An iteration hands each thread --burst requests and waits for all; within it the threads drift as they
like. With --alternate a single thread takes the networks and batch sizes in turn, --stay requests of
one before it goes on to the next; the served share is then judged from the second turn of all on.
With --random-sizes each request has 1 to 4 images of another size, 64 to --size pixels a side.
"""

import queue
import random
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
        network, images = turns[index // arguments.stay % len(turns)]
        return network(images)

    return step, arguments.stay * len(turns)


def random_sizes(torch, arguments):
    network, _ = requests(arguments)[0]
    dice = random.Random(arguments.seed)

    def step(index):
        side = dice.randint(64, arguments.size)
        return network(torch.full((dice.randint(1, 4), 3, side, side), index / 1000))

    return step, None


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

    return step, None


def main():
    options = workload.parser(__doc__, iterations=40)
    options.add_argument("--models", default="resnet18", help="comma between them (%(default)s)")
    options.add_argument("--batches", default="1", help="comma between them (%(default)s)")
    options.add_argument("--size", type=int, default=224, help="pixels per side (%(default)s)")
    options.add_argument("--servers", type=int, default=2, help="threads (%(default)s)")
    options.add_argument("--burst", type=int, default=4, help="requests a turn (%(default)s)")
    options.add_argument("--alternate", action="store_true", help="one thread, requests in turn")
    options.add_argument("--random-sizes", action="store_true", help="one thread, a new size each")
    options.add_argument("--stay", type=int, default=1, help="with one of them (%(default)s)")
    arguments = options.parse_args()
    torch = workload.torch_for(arguments)
    with torch.inference_mode():
        make = (random_sizes if arguments.random_sizes else
                alternating if arguments.alternate else threaded)
        step, settled = make(torch, arguments)
        workload.run(step, arguments, "serve", settled)


if __name__ == "__main__":
    main()
