"""Snapshots of torch's GPU allocator for tests, made without a GPU: a small model of the caching allocator writes what
torch.cuda.memory._dump_snapshot documents. They are ours; none was recorded on a GPU."""

import pickle


class Device:
    """Segments of 2 MiB (or the size asked for, if it is larger), one block each after the other, best fit."""

    SEGMENT, BORDER = 2 << 20, 512

    def __init__(self, number=0, first=0x7F0000000000):
        self.number, self.next = number, first + (number << 36)
        self.trace, self.segments, self.clock = [], {}, 1000 * number

    def note(self, action, address, size, where=None):
        self.clock += 7
        entry = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.clock}
        entry["frames"] = [{"filename": "/src/net.py", "line": where, "name": "forward"}] if where else []
        self.trace.append(entry)

    def alloc(self, size, where=None):
        rounded = -(-max(size, 1) // self.BORDER) * self.BORDER
        free = [(block["size"], at, segment) for segment, blocks in self.segments.items() for at, block in blocks.items()
                if block["state"] == "inactive" and block["size"] >= rounded]
        if not free:
            total = -(-rounded // self.SEGMENT) * self.SEGMENT
            segment, self.next = self.next, self.next + 2 * total
            self.note("segment_alloc", segment, total)
            self.segments[segment] = {segment: {"size": total, "state": "inactive"}}
            free = [(total, segment, segment)]
        found, at, segment = min(free)
        blocks = self.segments[segment]
        blocks[at] = {"size": rounded, "requested_size": size, "state": "active_allocated", "address": at, "frames": []}
        if found > rounded:
            blocks[at + rounded] = {"size": found - rounded, "state": "inactive"}
        self.note("alloc", at, size, where)
        return at

    def free(self, at):
        for blocks in self.segments.values():
            if at in blocks:
                block = blocks[at]
                for action in ("free_requested", "free_completed"):
                    self.note(action, at, block["requested_size"])
                blocks[at] = {"size": block["size"], "state": "inactive"}
                following = at + block["size"]
                if blocks.get(following, {}).get("state") == "inactive":
                    blocks[at]["size"] += blocks.pop(following)["size"]
                return
        raise KeyError(at)

    def as_segments(self):
        return [{"device": self.number, "address": segment, "total_size": sum(b["size"] for b in blocks.values()),
                 "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
                 "blocks": [{"address": at, "requested_size": block["size"], "frames": [], **block}
                            for at, block in sorted(blocks.items())]}
                for segment, blocks in self.segments.items()]


def snapshot(*devices, forget=0):
    """What torch would pickle; `forget`: so many of each trace's first entries are lost, as in a full ring."""
    return {"segments": [segment for device in devices for segment in device.as_segments()],
            "device_traces": [device.trace[forget:] for device in devices],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False,
                                   "garbage_collection_threshold": 0.0},
            "external_annotations": []}


def loop(device, iterations=6, layers=8):
    """Iterations of a chain of layers forwards and backwards, on top of weights that stay."""
    for layer in range(layers):
        device.alloc(300_000 + 4096 * layer, 10)
    for _ in range(iterations):
        saved = [device.alloc(200_000 + 70_000 * layer, 20 + layer) for layer in range(layers)]
        for layer in reversed(range(layers)):
            gradient = device.alloc(300_000 + 4096 * layer, 40 + layer)
            device.free(saved[layer])
            device.free(gradient)
    return device


def write(path, content, protocol=4):
    path.write_bytes(pickle.dumps(content, protocol))
    return path
