"""Write the documentation pages that are read off the source, or check that they are up to date.

``python tools/generated_pages.py`` writes them; with ``--check`` it exits 1 and names the stale ones.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Final

from source_tree import ROOT, SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.base import errors  # the line above must come first

PAGES: Final = ROOT / "docs" / "reference"

ERRORS_HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/base/errors.py. -->
# Error codes

A code never changes its meaning and is never given out again. The class it descends from says whose fault it is:
`PeerError` closes the connection of the peer that caused it, `Refused` answers one request and the connection goes on,
`OperatorError` is for whoever runs the broker, `StorageError` is about the journal, `Fault` is a bug of entrepot.

| Code | Class | Kind | Meaning |
|---|---|---|---|
"""


def descendants(cls: type[errors.EntrepotError]) -> Iterator[type[errors.EntrepotError]]:
    """Yield every class below ``cls``, each once."""
    for child in cls.__subclasses__():
        yield child
        yield from descendants(child)


def error_codes() -> str:
    """Return the page of error codes. Raises SystemExit when two classes share a code."""
    rows: dict[str, str] = {}
    for cls in descendants(errors.EntrepotError):
        if cls.code in rows:
            raise SystemExit(f"the code {cls.code} of {cls.__name__} is taken")
        text = " ".join((inspect.getdoc(cls) or "").split()).replace("|", "\\|").replace("``", "`")
        kind = cls.__mro__[1].__name__
        rows[cls.code] = f"| {cls.code} | `{cls.__name__}` | {kind} | {text} |\n"
    return ERRORS_HEAD + "".join(rows[code] for code in sorted(rows))


def main() -> int:
    """Write or check every page."""
    pages = {PAGES / "errors.md": error_codes()}
    stale = [path for path, text in pages.items() if not path.is_file() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run `make generated` and commit the result")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
