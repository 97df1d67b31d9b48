"""Measure the source as decision records quote it: sizes of files, functions and classes, and what is said about them.

``python tests/figures.py [CHECKOUT]`` prints the figures, ``--column`` the column of a table for a record of
docs/decisions. Lines of a function are those from ``def`` to its end, without its docstring. Files that a tool wrote
are left out of the sizes of files and classes, not of the rest.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from structure import FUNCTIONS, ROOT, attributes_of, complexity, is_generated

Function = ast.FunctionDef | ast.AsyncFunctionDef
LARGEST: Final = 12


class Class(NamedTuple):
    """One class. ``lines`` with docstrings."""

    methods: int
    attributes: int
    lines: int
    name: str


class Figures:
    """All that is measured of the Python files below one folder."""

    def __init__(self, folder: Path) -> None:
        self.files: list[int] = []  # lines of each
        self.written: list[int] = []  # of those that people write
        self.functions: list[int] = []
        self.complexities: list[int] = []
        self.annotated = 0
        self.public = 0
        self.documented = 0
        self.comments = 0
        self.docstrings = 0
        self.tests = 0
        self.classes: list[Class] = []
        for path in sorted(folder.rglob("*.py")):
            self._file(path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8"))

    def _file(self, path: str, text: str) -> None:
        lines = len(text.splitlines())
        self.files.append(lines)
        people = not is_generated(text)
        if people:
            self.written.append(lines)
        self.comments += comment_lines(text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self.docstrings += docstring_lines(node)
            if isinstance(node, FUNCTIONS):
                self._function(node)
            elif isinstance(node, ast.ClassDef) and people:
                methods = sum(isinstance(each, FUNCTIONS) for each in node.body)
                length = (node.end_lineno or 0) - node.lineno + 1
                self.classes.append(Class(methods, len(attributes_of(node)), length, f"{path}:{node.name}"))

    def _function(self, node: Function) -> None:
        self.functions.append((node.end_lineno or 0) - node.lineno + 1 - docstring_lines(node))
        self.complexities.append(complexity(node))
        self.annotated += node.returns is not None
        self.tests += node.name.startswith("test_")
        if not node.name.startswith("_"):
            self.public += 1
            self.documented += ast.get_docstring(node) is not None


def docstring_lines(node: ast.Module | ast.ClassDef | Function) -> int:
    """Return the lines of a docstring, 0 where there is none."""
    if ast.get_docstring(node, clean=False) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1


def comment_lines(text: str) -> int:
    """Return the lines that have a comment."""
    return sum(each.type == tokenize.COMMENT for each in tokenize.generate_tokens(io.StringIO(text).readline))


def at(values: list[int], share: float) -> int:
    """Return the value below which ``share`` of ``values`` lie."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]


def spread(values: list[int]) -> str:
    """Return median, 90th percentile and greatest."""
    return f"{at(values, 0.5)} / {at(values, 0.9)} / {max(values)}"


def over(values: list[int], *limits: int) -> str:
    """Return how many are above each limit."""
    return ", ".join(f"{sum(each > limit for each in values)} above {limit}" for limit in limits)


def shown(source: Figures, tests: Figures) -> Iterator[str]:
    """Yield the figures, a line each."""
    code, functions = sum(source.files), len(source.functions)
    long = sum(each > 50 for each in source.functions)
    yield f"files / lines: {len(source.files)} / {code:,}"
    yield f"file median / p90 / max: {spread(source.written)}; {over(source.written, 500, 600)}"
    yield f"functions: {functions}; median / p90 / max: {spread(source.functions)}"
    yield f"functions > 50 lines: {long / functions:.2%} ({long}); {over(source.functions, 100)}"
    yield f"complexity: {over(source.complexities, 10, 15, 20)}; greatest {max(source.complexities)}"
    yield f"annotated returns: {source.annotated / functions:.0%}"
    yield f"public functions with docstring: {source.documented / source.public:.0%}"
    yield f"lines with a comment: {source.comments / code:.1%}; docstring lines: {source.docstrings / code:.1%}"
    yield f"tests / source lines: {sum(tests.files) / code:.2f} ({sum(tests.files):,}; {tests.tests:,} test functions)"
    yield f"classes: {len(source.classes)}; methods: {over([each.methods for each in source.classes], 25, 30)}"
    yield f"attributes: {over([each.attributes for each in source.classes], 25, 30)}"
    by_methods = sorted(source.classes, reverse=True)
    for each in by_methods[:LARGEST]:
        yield f"  {each.name}: {each.methods} methods, {each.attributes} attributes, {each.lines} lines"
    for each in sorted(source.classes, key=lambda one: -one.attributes)[:LARGEST]:
        yield f"  {each.name}: {each.attributes} attributes"


def column(source: Figures, tests: Figures) -> Iterator[str]:
    """Yield the rows of a table with one column of figures, as decision records have them."""
    code, functions = sum(source.files), len(source.functions)
    long = sum(each > 50 for each in source.functions)
    methods, attributes = [each.methods for each in source.classes], [each.attributes for each in source.classes]

    def above(values: list[int], *limits: int) -> str:
        return " / ".join(str(sum(each > limit for each in values)) for limit in limits)

    rows = {
        "files / lines": f"{len(source.files)} / {code:,}",
        "file median / p90 / max ¹": spread(source.written),
        "function median / p90 / max ²": spread(source.functions),
        "functions > 50 lines": f"{100 * long / functions:.2f} % ({long})",
        "functions > 100 lines": above(source.functions, 100),
        "annotated returns": f"{100 * source.annotated / functions:.0f} %",
        "public functions with docstring": f"{100 * source.documented / source.public:.0f} %",
        "lines with a comment; of docstrings": (
            f"{100 * source.comments / code:.1f} %; {100 * source.docstrings / code:.1f} %"
        ),
        "lines of tests ÷ of source": f"{sum(tests.files) / code:.2f}",
        "test functions": f"{tests.tests:,}",
        "files above 500 / 600 lines ¹": above(source.written, 500, 600),
        "classes": str(len(source.classes)),
        "classes above 25 / 30 methods": above(methods, 25, 30),
        "classes above 25 / 30 attributes": above(attributes, 25, 30),
        "functions above complexity 10 / 15 / 20; greatest": (
            f"{above(source.complexities, 10, 15, 20)}; {max(source.complexities)}"
        ),
    }
    yield from (f"| {name} | {figure} |" for name, figure in rows.items())


if __name__ == "__main__":
    given = [each for each in sys.argv[1:] if each != "--column"]
    checkout = Path(given[0]) if given else ROOT
    told = column if "--column" in sys.argv else shown
    for line in told(Figures(checkout / "src"), Figures(checkout / "tests")):
        print(line)
