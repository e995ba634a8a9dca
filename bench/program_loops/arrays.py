"""Loops of arrays and lists: each function prepares one, and returns what makes an iteration of it."""


def three_calls():
    """numpy, three large arrays"""
    import numpy
    kept = numpy.ones(300_000)
    return lambda: float((numpy.sqrt(kept + 1.0) * kept).sum())


def keeps_result():
    """numpy, keeps its result"""
    # Layers of changing size whose last result lives until the next iteration has made its own.
    import numpy
    sizes = [400_000, 200_000, 100_000, 50_000, 100_000, 200_000, 400_000]
    state = {}

    def step():
        skips = []
        last = numpy.ones(sizes[0])
        for size in sizes:
            last = numpy.resize(last, size) * 1.5
            skips.append(last)
        state["mask"] = skips[0] + skips[-1]
    return step


def carries_state():
    """numpy, carries a state"""
    # Two layers of a recurrence, each of which hands its state to the next iteration.
    import numpy
    states = [numpy.zeros(64_000), numpy.zeros(48_000)]

    def step():
        for _ in range(3):
            for layer, state in enumerate(states):
                gates = numpy.tanh(numpy.tile(state, 4) + 0.5)
                size = state.size
                states[layer] = gates[:size] * state + gates[size:2 * size] * gates[2 * size:3 * size]
    return step


def replaces_lists():
    """lists that replace each other"""
    # The old list of arrays lives until the new one is there.
    state = {}

    def step():
        state["gradients"] = [b"x" * size for size in range(500_000, 6_500_000, 600_000)]
        other = [b"x" * size for size in range(200_000, 3_200_000, 300_000)]
        del other
    return step


def few_matrices():
    """numpy, products of matrices"""
    import numpy
    left = numpy.ones((1200, 1200))

    def step():
        product = left @ left
        return float((product + left)[0, 0])
    return step


def large_vectors():
    """numpy, vectors of 20 MB"""
    # glibc maps them one by one until it has seen one freed.
    import numpy
    base = numpy.ones(2_500_000)
    return lambda: float((base * 2.0 + 1.0)[0])


LOOPS = (three_calls, keeps_result, carries_state, replaces_lists, few_matrices, large_vectors)
