"""Programs drawn at random, as traces: what a loop may look like, and what only looks like one.

Each kind is a function of a random.Random that yields iterations; an iteration is a list of (size, how many calls later
it is freed). Kinds whose iterations are equal are to be served soon; of the others, belief may be wrong.
"""

import gzip
import random

KIB, MIB = 1 << 10, 1 << 20
ROUNDS = 24


def size_of(dice):
    """From 64 KiB to 8 MiB, the logarithm evenly."""
    return int(64 * KIB * 2 ** dice.uniform(0, 7))


def plain(dice, count):
    """`count` blocks that are freed in their iteration."""
    return [[size_of(dice), dice.randint(1, max(1, min(6, count - at)))] for at in range(count)]


def same(dice):
    """Everything is freed in its iteration."""
    return [plain(dice, dice.randint(8, 200))] * ROUNDS


def few_calls(dice):
    """One to seven calls."""
    return [plain(dice, dice.randint(1, 7))] * ROUNDS


def with_result(dice, blocks):
    """The iteration with a last block that lives until the next one has made its own."""
    return [*blocks, [size_of(dice), len(blocks) + 2]]


def keeps_result(dice):
    """The last block lives until the next iteration has made its own."""
    return [with_result(dice, plain(dice, dice.randint(2, 120)))] * ROUNDS


def carries_state(dice):
    """Some blocks of changing places live for a whole iteration: each is replaced by the next one's."""
    blocks = plain(dice, dice.randint(4, 80))
    for at in dice.sample(range(len(blocks)), dice.randint(1, max(1, len(blocks) // 4))):
        blocks[at][1] = len(blocks) + dice.randint(1, 3)
    return [blocks] * ROUNDS


def replaces_all(dice):
    """A list of new arrays replaces the old one, block by block."""
    blocks = plain(dice, dice.randint(3, 30))
    for block in blocks[:dice.randint(2, len(blocks))]:
        block[1] = len(blocks)
    return [blocks] * ROUNDS


def layers_between(dice, residual):
    layer = plain(dice, dice.randint(3, 20))
    if residual:
        layer[-1][1] = len(layer) + 1
    count = dice.randint(3, 24)
    head, tail = (plain(dice, dice.randint(1, 6)) for _ in range(2))
    return [*head, *(layer * count), *tail]


def layers(dice):
    """Equal layers between other calls, each of which hands a block to the next."""
    return [layers_between(dice, True)] * ROUNDS


def layers_and_result(dice):
    """The same, and the last block is kept until the next iteration's."""
    blocks = layers_between(dice, True)
    return [[*blocks[:-1], [size_of(dice), len(blocks) + 1]]] * ROUNDS


def plain_layers(dice):
    """Equal layers that hand nothing on which is large."""
    return [layers_between(dice, False)] * ROUNDS


def with_a_call_more(dice, blocks):
    """The iteration with another call; what is alive then is freed after the same ones as before."""
    at = dice.randint(0, len(blocks))
    longer = [[size, life + (index < at < index + life)] for index, (size, life) in enumerate(blocks)]
    return [*longer[:at], [size_of(dice), 1], *longer[at:]]


def warms_up(dice):
    """Some of the first six iterations have a call more, as where something is made when it is first needed."""
    blocks = plain(dice, dice.randint(8, 200))
    if dice.random() < 0.5:
        blocks = with_result(dice, blocks)
    first = [with_a_call_more(dice, blocks) if dice.random() < 0.4 else blocks for _ in range(6)]
    return [*first, *([blocks] * (ROUNDS - len(first)))]


def random_sizes(dice):
    """No two iterations are alike."""
    return [plain(dice, dice.randint(2, 60)) for _ in range(ROUNDS)]


def random_length(dice):
    """Layers whose sizes all follow a length that changes."""
    layer = [[dice.randint(1, 8) * KIB, life] for _, life in plain(dice, dice.randint(6, 16))]
    lengths = [dice.randint(64, 200) for _ in range(ROUNDS)]
    return [[[size * length, life] for size, life in layer * 8] for length in lengths]


def short_loops(dice):
    """Loops that end as soon as they may be believed: each comes four to nine times."""
    return [loop for _ in range(8) for loop in [plain(dice, dice.randint(2, 40))] * dice.randint(4, 9)]


def short_loops_that_keep(dice):
    """The same, and each keeps its last block until the next."""
    found = []
    for _ in range(8):
        found += [with_result(dice, plain(dice, dice.randint(2, 40)))] * dice.randint(4, 9)
    return found


EQUAL = (same, few_calls, keeps_result, carries_state, replaces_all, layers, layers_and_result, plain_layers)
CHANGING = (random_sizes, random_length, short_loops, short_loops_that_keep)
KINDS = (*EQUAL, warms_up, *CHANGING)


def write(path, kind, seed):
    """A trace of the kind drawn with the seed: before the loop some weights that stay, marks between iterations."""
    dice = random.Random(f"{kind.__name__} {seed}")
    lines, ends, block = ["op,thread,block,size,alignment,site"], {}, 0

    def call(size, life):
        nonlocal block
        for dead in ends.pop(block, ()):
            lines.append(f"free,0,{dead},,,")
        lines.append(f"malloc,0,{block},{size},64,0")
        if life is not None:
            ends.setdefault(block + life, []).append(block)
        block += 1

    for _ in range(dice.randint(0, 40)):
        call(size_of(dice), None if dice.random() < 0.7 else dice.randint(1, 4))
    rounds = kind(dice)
    for number, iteration in enumerate(rounds):
        lines.append(f"mark,,{number},,,")
        for size, life in iteration:
            call(size, life)
    lines.append(f"mark,,{len(rounds)},,,")
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write("\n".join(lines) + "\n")
