"""Codes: each once, each listed where users look, and none ever taken back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from entrepot.base import errors, reasons
from entrepot.base.reasons import ABOUT, OBJECTIONS, POISON, Reason, tries_used_up

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "entrepot"
KNOWN = Path(__file__).with_name("codes.txt")  # may only grow: a code that was in a release stays in it


def classes(kind: type[errors.EntrepotError]) -> Iterator[type[errors.EntrepotError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from classes(child)


@pytest.fixture(scope="module")
def codes() -> list[str]:
    for path in SOURCE.rglob("*.py"):
        if re.search(r'code = "ENT-', path.read_text()):
            import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
    errors_found = {cls for cls in classes(errors.EntrepotError) if cls.__module__.startswith("entrepot.")}
    own = [cls.code for cls in errors_found if "code" in vars(cls)]
    return [*own, *ABOUT, *OBJECTIONS]


def test_every_code_is_there_once(codes: list[str]) -> None:
    assert sorted(codes) == sorted(set(codes))


def test_every_code_is_listed_for_users(codes: list[str]) -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    listed = set(re.findall(r"^\| `?([\w-]+)`? \|", page, re.M))
    assert set(codes) - {"ENT-9000"} <= listed


def test_no_code_vanished_and_new_ones_are_committed(codes: list[str]) -> None:
    assert set(KNOWN.read_text().split()) == set(codes)


def test_every_reason_in_the_register_has_a_name_and_the_other_way_round() -> None:
    named = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    assert named == set(ABOUT)


def test_objections_use_codes_of_the_register_only() -> None:
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    used = {code for text in texts for code in re.findall(r'Objection\(\s*"([^"]+)"', text)}
    assert used
    assert used <= set(OBJECTIONS)


def test_nothing_decides_by_the_words_of_a_reason() -> None:
    pattern = re.compile(
        r"(reason|why|refusal|error\.message|str\(error\))\.startswith\("
        r'|"[a-zA-Z :]+" in (reason|why|error\.message|str\(error\))'
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text().splitlines()
        if pattern.search(line)
    ]
    # pyarrow has no codes; simulated programs, which are told words alone
    allowed = ["pipeline/jobs/storage.py", "simulation/consumers.py", "simulation/inquiries.py"]
    assert [line for line in found if not any(name in line for name in allowed)] == []


def test_a_reason_says_what_the_register_says_unless_it_knows_more() -> None:
    assert Reason(POISON).text == ABOUT[POISON]
    assert (tries_used_up(3).code, tries_used_up(3).text) == (
        "tries-used-up",
        "delivered 3 times without acknowledgement",
    )
