"""Measure the source: sizes of files and classes, complexity of functions, circles of imports.

`tests/unit/test_structure.py` compares the figures with `tests/structure.toml`, the list of what is above a limit. The
list may only shrink: ``python tests/structure.py`` lowers entries, follows moved files and removes what is no longer
needed. It raises none.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src"
PACKAGE: Final = SOURCE / "entrepot"
RECORD: Final = ROOT / "tests" / "structure.toml"

LIMITS: Final = {"lines": 600, "methods": 30, "attributes": 30, "complexity": 20, "circle": 1}
SLACK: Final = {"lines": 15}  # an import that wraps is no growth; the limit itself has none
HEADS: Final = {
    "lines": "Files above 600 lines; generated files are not measured. 15 lines more or less do not matter.",
    "methods": "Classes above 30 methods.",
    "attributes": "Classes above 30 attributes: those that the class names, and those that its methods assign to.",
    "complexity": "Functions with a cyclomatic complexity above 20: branches, loops, handlers, operands of and/or.",
    "circle": "Modules in a circle of imports, those under TYPE_CHECKING included, and the modules in that circle.",
}
BRANCHES: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_generated(text: str) -> bool:
    """Return whether the head of a file says that a tool wrote it."""
    head = text[:600]
    return "ritten by ``tools/" in head and ", not this" in head


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all files of the package that people write, by their path in it."""
    found: dict[str, ast.Module] = {}
    gc.disable()  # two million objects that stay: to look for garbage among them takes longer than to make them
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if not is_generated(text):
            found[path.relative_to(PACKAGE).as_posix()] = ast.parse(text)
    gc.freeze()
    gc.enable()
    return found


def lines_of_files() -> dict[str, int]:
    """Return the lines of each file."""
    return {path: len((PACKAGE / path).read_text().splitlines()) for path in modules()}


def attributes_of(node: ast.ClassDef) -> set[str]:
    """Return the names that a class declares in its body or assigns to on ``self``."""
    names = {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    for each in ast.walk(node):
        targets: list[ast.expr] = []
        if isinstance(each, ast.Assign):
            targets = each.targets
        elif isinstance(each, ast.AnnAssign | ast.AugAssign):
            targets = [each.target]
        for target in targets:
            names.update(
                part.attr
                for part in ast.walk(target)
                if isinstance(part, ast.Attribute)
                and isinstance(part.ctx, ast.Store)
                and isinstance(part.value, ast.Name)
                and part.value.id == "self"
            )
    return names


def sizes_of_classes() -> tuple[dict[str, int], dict[str, int]]:
    """Return the methods and the attributes of each class."""
    methods: dict[str, int] = {}
    attributes: dict[str, int] = {}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                name = f"{path}:{node.name}"
                methods[name] = sum(isinstance(each, FUNCTIONS) for each in node.body)
                attributes[name] = len(attributes_of(node))
    return methods, attributes


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in ``function``, without the functions and classes in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            yield child
            yield from own_nodes(child)


def complexity(function: ast.AST) -> int:
    """Return the number of ways through ``function``: one, and one more for each branch."""
    ways = 1
    for node in own_nodes(function):
        if isinstance(node, BRANCHES):
            ways += 1
        elif isinstance(node, ast.BoolOp):
            ways += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            ways += 1 + len(node.ifs)
    return ways


def complexities() -> dict[str, int]:
    """Return the complexity of each function and method."""
    found: dict[str, int] = {}

    def look(path: str, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                inner = f"{prefix}{child.name}."
            if isinstance(child, FUNCTIONS):
                name = f"{path}:{prefix}{child.name}"
                found[name] = max(found.get(name, 0), complexity(child))
            look(path, child, inner)

    for path, tree in modules().items():
        look(path, tree, "")
    return found


def module_name(path: str) -> str:
    """Return the dotted name of the module in ``path``."""
    parts = ["entrepot", *path.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports() -> dict[str, set[str]]:
    """Return for each module those of the package that it imports, anywhere in it."""
    names = {module_name(path) for path in modules()}
    found: dict[str, set[str]] = {}
    for path, tree in modules().items():
        wanted: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                wanted.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                for each in node.names:
                    inner = f"{node.module}.{each.name}"
                    wanted.add(inner if inner in names else node.module)
        found[module_name(path)] = (wanted & names) - {module_name(path)}
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of ``graph`` that have more than one member."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for following in graph.get(todo.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        reach[start] = seen
    found: dict[tuple[str, ...], None] = {}
    for start in sorted(graph):
        ring = sorted(other for other in reach[start] if start in reach[other])
        if ring:
            found[tuple(ring)] = None
    return [list(ring) for ring in found]


def sizes_of_circles() -> dict[str, int]:
    """Return for each module that is in a circle of imports how many modules are."""
    return {name: len(ring) for ring in circles(imports()) for name in ring}


def measured() -> dict[str, dict[str, int]]:
    """Return all that is above a limit, by the name of the limit."""
    methods, attributes = sizes_of_classes()
    figures = {
        "lines": lines_of_files(),
        "methods": methods,
        "attributes": attributes,
        "complexity": complexities(),
        "circle": sizes_of_circles(),
    }
    return {
        limit: {name: figure for name, figure in found.items() if figure > LIMITS[limit]}
        for limit, found in figures.items()
    }


def recorded() -> dict[str, dict[str, int]]:
    """Return what `tests/structure.toml` allows."""
    return tomllib.loads(RECORD.read_text())


def written(figures: dict[str, dict[str, int]]) -> str:
    """Return ``figures`` as the text of `tests/structure.toml`, with the reasons that stand in it now."""
    reasons: dict[str, str] = {}
    if RECORD.is_file():
        for line in RECORD.read_text().splitlines():
            if line.startswith('"') and "#" in line:
                reasons[line.split(" = ")[0]] = line[line.index("#") :]
    lines = [
        "# What is larger than this project wants, with today's figures. A figure may only become smaller:",
        "# tests/unit/test_structure.py fails when one grows, and when one has shrunk and is not lowered here.",
        "# `python tests/structure.py` lowers, moves and removes entries. What stays for good says why beside it.",
    ]
    for limit, head in HEADS.items():
        lines += ["", f"[{limit}]", f"# {head}"]
        for name, figure in sorted(figures.get(limit, {}).items()):
            line = f'"{name}" = {figure}'
            reason = reasons.get(f'"{name}"', "")
            lines.append(f"{line}  {reason}" if reason else line)
    return "\n".join(lines) + "\n"


def tail_of(name: str) -> str:
    """Return what a name keeps when its file moves: the class or function, or the last part of the path."""
    return name.rpartition(":")[2] if ":" in name else re.split(r"[./](?!py$)", name)[-1]


def place_now(name: str, now: dict[str, int], before: dict[str, int]) -> str:
    """Return under which name of ``now`` the thing ``name`` is, be its file moved; "": nowhere."""
    if name in now:
        return name
    moved = [each for each in now if each not in before and tail_of(each) == tail_of(name)]
    return moved[0] if len(moved) == 1 else ""


def grown(figures: dict[str, int], allowed: dict[str, int], limit: str) -> dict[str, int]:
    """Return what is above ``limit`` and above its entry in ``allowed``."""
    slack = SLACK.get(limit, 0)
    most = {name: entry + slack for name, entry in allowed.items()}
    return {name: figure for name, figure in figures.items() if figure > most.get(name, LIMITS[limit])}


def lowered(now: dict[str, dict[str, int]], before: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return ``before`` with what became smaller, has moved or is gone taken over from ``now``."""
    found: dict[str, dict[str, int]] = {}
    for limit, entries in before.items():
        found[limit] = {}
        for name, figure in entries.items():
            place = place_now(name, now[limit], entries)
            if place:
                smaller = figure - now[limit][place] > SLACK.get(limit, 0)
                found[limit][place] = now[limit][place] if smaller else figure
    return found


if __name__ == "__main__":
    RECORD.write_text(written(measured() if sys.argv[1:] == ["--first"] else lowered(measured(), recorded())))
