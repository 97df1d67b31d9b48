"""Which modules are compiled: those whose docstring says so, by the mark [C] at the end of a line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MARK: Final = "[C]"


def marked(path: Path) -> bool:
    """Return whether a line of a module's docstring ends with the mark."""
    before, _, rest = path.read_text(encoding="utf-8").partition('"""')
    docstring = "" if before.strip() else rest.partition('"""')[0]
    return any(line.rstrip().endswith(MARK) for line in docstring.splitlines())


def hot_modules(tree: Path) -> list[str]:
    """Return the paths of the modules to compile below ``tree``, in a fixed order."""
    paths = sorted((tree / "src" / "entrepot").rglob("*.py"))
    return [path.relative_to(tree).as_posix() for path in paths if marked(path)]
