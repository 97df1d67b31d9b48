"""The pages that name places of the source: docs/decided.md, docs/glossary.md, ARCHITECTURE.md.

`tests/unit/test_decided.py` checks that every place is there. After a move ``python tests/decided.py`` writes the new
path of each function, class and module that is found in one other place; what it does not find, it says.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "src" / "entrepot"
PAGES: Final = ("docs/decided.md", "docs/glossary.md", "ARCHITECTURE.md")
PLACE: Final = re.compile(r"`(?!tests/|tools/)((?:\w+/)*\w+\.py)(?::([\w.]+))?`")
MARKS: Final = "①"


class Row(NamedTuple):
    """One row of a table: its first cell without its mark, the texts between, and the places of the last two cells."""

    name: str
    mark: str
    places: list[tuple[str, str]]
    also: list[tuple[str, str]]


def text_of(page: str) -> str:
    """Return what a page says."""
    return (ROOT / page).read_text(encoding="utf-8")


def rows(text: str) -> list[Row]:
    """Return the rows of the tables of ``text`` that have three columns, without their heads."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or cells[0] in ("Question", "Word", "---"):
            continue
        mark = cells[0][0] if cells[0][0] in MARKS else ""
        found.append(Row(cells[0].lstrip(MARKS + " "), mark, PLACE.findall(cells[1]), PLACE.findall(cells[2])))
    return found


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the functions, classes and methods of a module, methods with their class."""

    def look(node: ast.AST, prefix: str) -> list[str]:
        found = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.append(prefix + child.name)
                if isinstance(child, ast.ClassDef):
                    found += look(child, f"{prefix}{child.name}.")
        return found

    return frozenset(look(ast.parse((PACKAGE / path).read_text(encoding="utf-8")), ""))


def is_there(path: str, name: str) -> bool:
    """Return whether the module is there, and has a function, class or method of that name ("": any)."""
    return (PACKAGE / path).is_file() and (not name or name in names_in(path))


def place_now(path: str, name: str) -> str:
    """Return where a place is that has moved, as pages write it; "" when that is nowhere, or in several modules."""
    modules = [each.relative_to(PACKAGE).as_posix() for each in sorted(PACKAGE.rglob("*.py"))]
    same = [each for each in modules if each.rpartition("/")[2] == path.rpartition("/")[2] and is_there(each, name)]
    found = same or ([each for each in modules if name in names_in(each)] if name else [])
    return f"`{found[0]}{':' if name else ''}{name}`" if len(found) == 1 else ""


def mended(text: str) -> str:
    """Return ``text`` with the places of today where they are known."""
    for path, name in dict.fromkeys(PLACE.findall(text)):
        if not is_there(path, name):
            written = f"`{path}{':' if name else ''}{name}`"
            now = place_now(path, name)
            if not now:
                sys.stderr.write(f"{written} is not there any more\n")
            text = text.replace(written, now or written)
    return text


if __name__ == "__main__":
    for one in PAGES:
        (ROOT / one).write_text(mended(text_of(one)), encoding="utf-8")
