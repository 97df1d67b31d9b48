"""Which module has a test of its own, and what tests those that have none: `tests/mirrored.toml`.

A module is tested by itself when `tests/unit` has a file of its name in the same folder, or when a test there or in
`tests/simulation` imports it. The others are parts of something that is tried as a whole; the list says what that is,
by group. It may only shrink: ``python tests/mirrored.py`` takes off what has a test by now, and adds nothing.
"""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from structure import imports, module_name, modules

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = ROOT / "tests"
RECORD: Final = TESTS / "mirrored.toml"
EVERY: Final = "*"
PROCESSES: Final = ("tests/shell", "tests/interop", "tests/spark")
"""Tests that start the command as a process: they reach all of it."""


IMPORTING: Final = ("tests/unit", "tests/simulation")
"""A module that a test here imports is tested by it."""


class Group(NamedTuple):
    """Modules of one folder that are tried together."""

    folder: str
    names: str
    """Of modules in it, or ``*``: all there that have no test."""
    by: list[str]
    why: str

    @property
    def modules(self) -> list[str]:
        """Return the modules as paths below `src/entrepot`; which have no test is found out when it is asked for."""
        if self.names == EVERY:
            return sorted(path for path in without_a_test() if str(Path(path).parent) == self.folder)
        return [path_of(self.folder, name) for name in self.names.split()]


def groups() -> list[Group]:
    """Return what the list says."""
    found = tomllib.loads(RECORD.read_text())["group"]
    return [Group(each["in"], each["modules"], each["by"], each["why"]) for each in found]


def path_of(folder: str, name: str) -> str:
    """Return the path below `src/entrepot` of a module in ``folder``; ``.`` is the package itself."""
    return f"{name}.py" if folder == "." else f"{folder}/{name}.py"


@cache
def wanted_by(file: Path) -> frozenset[str]:
    """Return the dotted names that a test imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{each.name}" for each in node.names)
    return frozenset(names)


@cache
def imported() -> dict[str, set[str]]:
    """Return which modules each module imports."""
    return imports()


def tests_below(place: str) -> list[Path]:
    """Return the files with tests in ``place``, a folder or a file."""
    path = ROOT / place
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


@cache
def without_a_test() -> frozenset[str]:
    """Return the modules, as paths, that no test names."""
    tested = {name for place in IMPORTING for file in tests_below(place) for name in wanted_by(file)}
    return frozenset(
        path
        for path in modules()
        if not path.endswith(("__init__.py", "__main__.py"))
        and module_name(path) not in tested
        and not (TESTS / "unit" / Path(path).with_name(f"test_{Path(path).name}")).is_file()
    )


def reached(places: list[str]) -> set[str]:
    """Return the modules, as dotted names, that the tests in ``places`` load: by imports, their helpers' included."""
    if any(place.startswith(PROCESSES) for place in places):
        return {module_name(path) for path in modules()}
    files = [file for place in places for file in tests_below(place)]
    names: set[str] = set()
    seen: set[Path] = set()
    while files:
        file = files.pop()
        if file not in seen:
            seen.add(file)
            names |= wanted_by(file)
            for name in wanted_by(file):
                beside = (
                    file.parent / f"{name}.py",
                    TESTS / f"{name}.py",
                    ROOT / Path(*name.split(".")).with_suffix(".py"),
                )
                files += [helper for helper in beside if helper.is_file()]
    graph = imported()
    found: set[str] = set()
    todo = [name for name in graph if name in names]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += graph[name]
    return found


def shrunk(text: str) -> str:
    """Return the list without what has a test, or is gone, by now."""
    missing = without_a_test()
    lines, folder = [], ""
    for line in text.splitlines():
        key, _, value = line.partition(" = ")
        if key == "in":
            folder = value.strip('"')
        if key == "modules" and value != f'"{EVERY}"':
            kept = [name for name in value.strip('"').split() if path_of(folder, name) in missing]
            line = f'modules = "{" ".join(kept)}"'
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    RECORD.write_text(shrunk(RECORD.read_text()))
    print(len(without_a_test()), "modules without a test of their own")
