"""The interfaces of Python and C as Markdown: from docstrings, and from the comments of the headers."""

import ast
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Module -> its public names, where not all of __all__ are for users.
MODULES = {"memomalloc": None, "memomalloc.torch": None, "memomalloc.dsa": ("plan", "validate", "lower_bound", "planners", "Plan", "NoPlan"),
           "memomalloc.numpy": ("use_malloc",), "memomalloc.executorch": ("planning_pass",), "memomalloc.vela": ("install",)}
HEADERS = ("include/memomalloc/memomalloc.h",)
PARAMETER = re.compile(r"([a-z_]+(?:, [a-z_]+)*): (.*)")


def module_file(name):
    part = name.partition(".")[2] or "__init__"
    return ROOT / "python/memomalloc" / f"{part}.py"


def prose(text):
    """A docstring as Markdown: lines `name: what` become a list, indented lines a block of code."""
    lines = []
    for line in textwrap.dedent(text).strip().splitlines():
        match = PARAMETER.fullmatch(line)
        in_list = bool(lines) and re.match(r"- |  \S", lines[-1])
        if line.startswith("    ") and in_list:
            lines.append("  " + line.strip())
        elif line.startswith("    "):
            if lines and lines[-1] and not lines[-1].startswith("    "):
                lines.append("")
            lines.append(line)
        elif match:
            if lines and lines[-1] and not in_list:
                lines.append("")
            lines.append(f"- `{match[1]}`: {match[2]}")
        else:
            if in_list and line:
                lines.append("")
            lines.append(line)
    return lines


def signature(node, constants):
    """How a function or class of a module is called; defaults that are constants have their values."""
    if isinstance(node, ast.ClassDef):
        return node.name
    node = ast.parse(ast.unparse(node)).body[0]
    for argument in (*node.args.args, *node.args.kwonlyargs, *filter(None, (node.args.vararg, node.args.kwarg))):
        argument.annotation = None
    for defaults in (node.args.defaults, node.args.kw_defaults):
        defaults[:] = [constants.get(getattr(each, "id", None), each) for each in defaults]
    return f"{node.name}({ast.unparse(node.args)})"


def fields(node):
    """The list of a data class' fields, whose comments `#:` say what they are."""
    path = module_file("memomalloc.dsa") if node.name == "Plan" else None
    if path is None:
        return []
    source = path.read_text(encoding="utf-8").splitlines()
    found = []
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            comment = source[each.lineno - 1].partition("#:")[2].strip()
            found.append(f"- `{each.target.id}`" + (f": {comment}" if comment else ""))
    return ["", *found] if found else []


def python_api():
    lines = []
    for name, public in MODULES.items():
        tree = ast.parse(module_file(name).read_text(encoding="utf-8"))
        chosen = public or next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)
                                and any(getattr(target, "id", "") == "__all__" for target in node.targets))
        constants = {target.id: node.value for node in tree.body if isinstance(node, ast.Assign)
                     for target in node.targets if isinstance(target, ast.Name)}
        nodes = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        lines += [f"## {name}", "", ast.get_docstring(tree).partition("\n")[0], ""]
        for each in chosen:
            node = nodes[each]
            lines += [f"### {name}.{each}", ""]
            if isinstance(node, ast.FunctionDef):
                lines += [f"`{signature(node, constants)}`", ""]
            lines += [*prose(ast.get_docstring(node) or ""), *fields(node), ""]
    return lines[:-1]


# What of a header is not its interface.
LEFT_OUT = re.compile(r'#.*|extern "C" \{|\}|/\* .*NOLINT.*\*/|.*NOLINTBEGIN.*|.*NOLINTEND.*')


def c_api():
    """Each header's declarations with their comments."""
    lines = []
    for header in HEADERS:
        text = (ROOT / header).read_text(encoding="utf-8").replace(" __attribute__((weak))", "")
        body = "\n".join(line for line in text[text.index("#define"):].splitlines() if not LEFT_OUT.fullmatch(line))
        lines += ["```c", re.sub(r"\n{3,}", "\n\n", body).strip(), "```", ""]
    return lines[:-1]
