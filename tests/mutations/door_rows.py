"""Rows of run.py on the doors to planner and scheduler: torch graphs, GPU snapshots."""

SCRIPT = "script"

DOOR_ROWS = (
    ("random numbers are drawn in any order", "python/memomalloc/graph.py",
     'if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) or target in', "if target in",
     SCRIPT, "test_torch_reorder.py test_random_programs"),
    ("a storage is written before it is read", "python/memomalloc/graph.py",
     "            after |= self.readers[key]\n", "",
     SCRIPT, "test_torch_reorder.py test_random_programs"),
    ("nothing is held before a node of which nothing is known", "python/memomalloc/graph.py",
     "            after |= self.since_fence\n", "",
     SCRIPT, "test_torch_reorder.py test_nothing_moves_across_what_is_not_known"),
    ("running statistics are written in any order", "python/memomalloc/graph.py",
     "or (statistics and argument.name", "or (False and argument.name",
     SCRIPT, "test_torch_reorder.py test_running_statistics_are_written_in_turn"),
    ("numbers are made after their use", "python/memomalloc/graph.py",
     "        after |= {a.name for a in computed if not self.names[a]}", "",
     SCRIPT, "test_torch_reorder.py test_numbers_come_before_their_use"),
    ("what a backward pass frees is left out", "python/memomalloc/graph.py",
     '    late = [n for n in nodes if n.op == "placeholder" and n.name in given_up]', "    late = []",
     SCRIPT, "test_compile.py test_a_backward_pass_counts_what_it_frees"),
    ("inputs are kept while a graph runs", "python/memomalloc/torch.py",
     "        module.graph.set_codegen(_BoxedCodeGen())\n        module.recompile()\n"
     "        run = functools.partial(module.forward)",
     "        run = functools.partial(lambda arguments: module.forward(*arguments))",
     SCRIPT, "test_compile.py test_what_was_saved_is_freed_by_the_way"),
    ("the name is registered beside the entry point", "python/memomalloc/torch.py",
     "if all(entry.name != _NAME for entry in entries)", "if True",
     SCRIPT, "test_compile.py test_the_name_is_known_once"),
)
