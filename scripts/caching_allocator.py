"""What a network's tensors would take from the allocators that OLLA and Occamy compare themselves with.

Both are models, played on a graph file (docs/file-formats.md) in its own order.
"""
import bisect

MIB = 1 << 20


class CachingAllocator:
    """torch's caching allocator for devices, as far as fragmentation goes.

    Source: the rules told in torch's notes on CUDA memory management and c10's constants: 512-byte blocks; up to
    1 MiB from segments of 2 MiB, up to 10 MiB from segments of 20 MiB, above that a segment each, rounded to 2 MiB;
    best fit; a block is split where 512 bytes (small) or more than 1 MiB (large) would be left; neighbours merge.
    On CPUs torch asks malloc instead; this is what OLLA's fragmentation is measured against.
    """

    def __init__(self):
        self.free = {True: [], False: []}  # small? -> sorted (size, segment, offset)
        self.segments = []                 # per segment: {offset: (size, free)}
        self.reserved = 0

    def allocate(self, size):
        size = max(512, -(-size // 512) * 512)
        small = size <= MIB
        pool = self.free[small]
        at = bisect.bisect_left(pool, (size, -1, -1))
        if at == len(pool):
            length = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            self.segments.append({0: (length, True)})
            self.reserved += length
            bisect.insort(pool, (length, len(self.segments) - 1, 0))
            at = bisect.bisect_left(pool, (size, -1, -1))
        length, segment, offset = pool.pop(at)
        rest = length - size
        if rest >= 512 if small else rest > MIB:
            self.segments[segment][offset + size] = (rest, True)
            bisect.insort(pool, (rest, segment, offset + size))
            length = size
        self.segments[segment][offset] = (length, False)
        return small, segment, offset

    def release(self, block):
        small, segment, offset = block
        blocks, pool = self.segments[segment], self.free[small]
        length = blocks[offset][0]
        after = blocks.get(offset + length)
        if after and after[1]:
            pool.remove((after[0], segment, offset + length))
            del blocks[offset + length]
            length += after[0]
        before = next((o for o, (n, free) in blocks.items() if free and o + n == offset), None)
        if before is not None:
            pool.remove((blocks[before][0], segment, before))
            length += blocks[before][0]
            del blocks[offset]
            offset = before
        blocks[offset] = (length, True)
        bisect.insort(pool, (length, segment, offset))


def owner(tensors, name):
    """The tensor whose storage a view uses; `tensors` are the graph file's, by name."""
    while "alias_of" in tensors[name]:
        name = tensors[name]["alias_of"]
    return name


def made_by_nodes(graph):
    """Names of the tensors that own a storage which a node makes, in the order of their making."""
    tensors = {t["name"]: t for t in graph["tensors"]}
    return [name for node in graph["nodes"] for name in node["outputs"]
            if "alias_of" not in tensors[name] and tensors[name]["bytes"] > 0]


def everything_at_once(graph):
    """Bytes of all that the nodes make, nothing shared: each tensor allocated before the first node runs."""
    sizes = {t["name"]: t.get("bytes", 0) for t in graph["tensors"]}
    return sum(sizes[name] for name in made_by_nodes(graph))


def caching_reserved(graph):
    """Most bytes that the caching allocator reserves when the graph runs in its own order."""
    tensors = {t["name"]: t for t in graph["tensors"]}
    made = set(made_by_nodes(graph))
    last, kept = {}, {owner(tensors, name) for name in graph["outputs"]}
    for i, node in enumerate(graph["nodes"]):
        for name in node["inputs"] + node["outputs"]:
            last[owner(tensors, name)] = i
    allocator, live = CachingAllocator(), {}
    for i, node in enumerate(graph["nodes"]):
        for name in node["outputs"]:
            if name in made:
                live[name] = allocator.allocate(tensors[name]["bytes"])
        for name in {owner(tensors, t) for t in node["inputs"] + node["outputs"]}:
            if last[name] == i and name in live and name not in kept:
                allocator.release(live.pop(name))
    return allocator.reserved
