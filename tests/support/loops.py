"""Programs' loops, for scripts that tests run under the library: text, to be put in front of their own."""

# work(sizes, times): a network's iterations. Each block is alive until the next one is there.
WORK = """
def work(sizes, times):
    for _ in range(times):
        previous = None
        for size in sizes:
            block = bytearray(size)
            previous = block
        del previous, block
"""
