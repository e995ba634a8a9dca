"""What each operator of a graph allocates only for itself, measured in one real run.

Fake tensors tell the sizes of results, not of an operator's scratch memory: packed weights, im2col
buffers, partial sums. torch's profiler reports each allocation of torch's own CPU allocator, which oneDNN's
scratchpads go through; memory that a library takes elsewhere is not seen.
"""
PREFIX = "memomalloc-node "


def measure(module, arguments):
    """Node name -> most bytes alive during the node beyond those of its results. Runs the graph once.

    State that the graph updates in place is updated.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    made = {}

    class Marker(torch.fx.Interpreter):
        def run_node(self, node):
            if node.op in ("placeholder", "get_attr", "output"):
                return super().run_node(node)
            with record_function(PREFIX + node.name):
                return super().run_node(node)

    with torch.no_grad():
        Marker(module).run(*arguments)  # the first run packs weights and fills caches
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            Marker(module).run(*arguments)
    events = sorted(recorded.profiler.kineto_results.events(), key=lambda e: e.start_ns())
    open_node = end = None
    for event in events:
        if event.name().startswith(PREFIX):
            open_node, end = event.name()[len(PREFIX):], event.end_ns()
            made[open_node] = [0, 0]
        elif event.name() == "[memory]" and open_node and event.start_ns() <= end:
            level, peak = made[open_node]
            level += event.nbytes()
            made[open_node] = [level, max(peak, level)]
    # What is left at the node's end is its results; values that the interpreter drops come after it.
    return {name: peak - max(level, 0) for name, (level, peak) in made.items() if peak > max(level, 0)}
