"""Two allocators' processes of one workload, which take turns: what drifts with the machine meets both of them.

Both are started together and do a few iterations each in turns, abab...: first some that do not count, while an allocator
learns. A turn's figure is the median of its iterations but the first; a pair's ratio, the median over their turns
(summary.py). Another pair has other addresses and pages, whose luck stays for a process' life: so it is pairs that are
counted, and not turns. They are two, and not more, since a program that works does not stop for long: a process that waited for
several others for more than four seconds would have left its loop, for this library, and have its memory taken again in each
turn. Where the workload has one thread, both processes are held on one processor. Before and after each turn that counts a
fixed loop tells how fast the machine is at that moment.
"""

import contextlib
import hashlib
import itertools
import mmap
import os
import random
import select
import statistics
import time

import runner

LEARNING = 10  # iterations at least before those that count
SETTLING_SHARE = 4  # and such a part of the workload's usual iterations: what an allocator does in the background goes on meanwhile
SHORT, SHORTEST = 3, 2  # iterations of a turn at least, of which the first does not count; and of a slow workload
SLOW = 20  # who does no more iterations usually takes up to a second for each: the other process is not to wait for four
TURN_SHARE = 40  # a turn is so small a part of the workload's usual iterations: some 0.2 s


class Speed:
    """A fixed amount of work, half arithmetic and half copying, away from every allocator."""

    BYTES = 4 << 20
    LOOKS = 3

    def __init__(self):
        self.source, self.target = (memoryview(mmap.mmap(-1, self.BYTES)) for _ in range(2))
        self.source[:] = bytes(range(256)) * (self.BYTES // 256)

    def look(self):
        began = time.perf_counter_ns()
        hashlib.sha256(self.source).digest()
        for _ in range(4):
            self.target[:] = self.source
        return (time.perf_counter_ns() - began) / 1e6

    def milliseconds(self):
        return statistics.median(self.look() for _ in range(self.LOOKS))


class Taker:
    """One of the processes, and the descriptors by which it asks for turns and gets them."""

    def __init__(self, workload, allocator, arguments, first, length, turns):
        self.speeds = []
        theirs, self.grant = os.pipe()
        self.asks, asking = os.pipe()
        self.run = runner.Run(workload, allocator, arguments, first + turns * length,
                              more={"MEASURE_TURNS": f"{first} {length} {theirs} {asking}"}, kept=(theirs, asking))
        os.close(theirs)
        os.close(asking)
        self.timeout = arguments.timeout

    def wait(self):
        """Until it asks for a turn, or has done its last; False if it ended or takes too long."""
        ready, _, _ = select.select([self.asks], [], [], self.timeout)
        return bool(ready) and os.read(self.asks, 1) == b"."

    def turn(self):
        """From the grant to when it asks again; False if it ended."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.grant, b".")
        return self.wait()

    def timed_turn(self, speed):
        before = speed.milliseconds()
        went = self.turn()
        self.speeds.append(round((before + speed.milliseconds()) / 2, 4))
        return went

    def stop(self):
        """Ends it before its last turn: it has no figures."""
        self.run.process.kill()
        self.run.process.wait()
        os.close(self.grant)
        os.close(self.asks)

    def finish(self):
        """Its figures; None if it failed. Without the descriptor that grants it waits for nobody."""
        os.close(self.grant)
        figures = self.run.finish()
        os.close(self.asks)
        return figures and figures | {"turns_speed_ms": self.speeds}


@contextlib.contextmanager
def held(workload):
    """This process, and what it starts, on one processor if the workload has one thread."""
    before = os.sched_getaffinity(0)
    try:
        if workload.single:
            os.sched_setaffinity(0, {max(before)})
        yield
    finally:
        os.sched_setaffinity(0, before)


def measure(workload, pair, arguments, speed):
    """The figures of each allocator of the pair, None for one that failed."""
    length = max(SHORT if workload.iterations > SLOW else SHORTEST, workload.iterations // TURN_SHARE)
    learning = -(-max(LEARNING, workload.quick // 2, workload.iterations // SETTLING_SHARE) // length)  # turns
    with held(workload):
        takers = [Taker(workload, allocator, arguments, learning * length, length, arguments.turns) for allocator in pair]
        going = all(taker.wait() for taker in takers)  # imported, and the network made
        for _ in range(learning):
            going = going and all(taker.turn() for taker in takers)
        for _ in range(arguments.turns):
            going = going and all(taker.timed_turn(speed) for taker in takers)
        return [taker.finish() for taker in takers]


def add_seed(parser):
    """The option that draws the orders of groups(): again each time, so that no place is always the same allocator's."""
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16),
                        help="of the orders in which allocators come (drawn, and told with the figures)")


def groups(repetitions, workloads, chosen, seed):
    """(repetition, workload, group): each time all allocators, drawn with `seed` in an order that the next groups turn
    on by a place each, so that every allocator has every place equally often."""
    dice = random.Random(seed)
    for number, (repetition, workload) in enumerate(itertools.product(range(repetitions), workloads)):
        place = number % len(chosen)
        if place == 0:
            order = dice.sample(chosen, len(chosen))
        yield repetition, workload, order[place:] + order[:place]


def pairs(repetitions, workloads, chosen, ours, seed):
    """(number, workload, pair): in each repetition `ours` with each of the others, one as often before as behind it. Each
    pair of a workload has a number of its own."""
    mine = next(one for one in chosen if one.name == ours)
    others = [one for one in chosen if one is not mine]
    drawn = [groups(repetitions, workloads, [mine, other], f"{seed} {other.name}") for other in others]
    for together in zip(*drawn):
        for index, (repetition, workload, pair) in enumerate(together):
            yield repetition * len(others) + index, workload, pair
