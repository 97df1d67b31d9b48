"""Each statement of the MQTT standards is there once, and the test that it names exists."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
COUNTS = {"mqtt_5.toml": 251, "mqtt_3.toml": 141}
FIRST = {("mqtt_5.toml", "2.2.1"): 2}  # the standard has no MQTT-2.2.1-1
FILES = pytest.mark.parametrize("file", COUNTS)


def table(file: str) -> dict[str, Any]:
    return tomllib.loads((HERE / file).read_text())


@FILES
def test_every_number_is_there_in_its_place(file: str) -> None:
    numbers = list(table(file)["statements"])
    assert len(numbers) == COUNTS[file]
    sections: dict[str, list[int]] = {}
    for number in numbers:
        section, _, last = number.rpartition("-")
        sections.setdefault(section, []).append(int(last))
    for section, found in sections.items():
        first = FIRST.get((file, section), 1)
        assert found == list(range(first, first + len(found))), section
    assert list(sections) == sorted(sections, key=lambda section: [int(part) for part in section.split(".")])


@FILES
def test_each_statement_has_a_test_or_a_reason(file: str) -> None:
    for number, statement in table(file)["statements"].items():
        (kind,) = set(statement) - {"says"}
        assert kind in ("test", "clients", "not_obeyed"), number
        assert statement["says"], number
        assert statement[kind], number


@FILES
def test_the_tests_exist(file: str) -> None:
    found = table(file)
    tests = {
        f"{short}::{node.name}"
        for short, path in found["files"].items()
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    named = {statement["test"] for statement in found["statements"].values() if "test" in statement}
    assert named <= tests, sorted(named - tests)
    assert {one.partition("::")[0] for one in named} == set(found["files"])
