"""The contracts and the marks of compiled modules say the same as the folders do."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import entrepot
from entrepot.base.compiled import is_compiled
from mirrored import RECORD, groups, without_a_test
from structure import (
    HEADS,
    LIMITS,
    circles,
    complexity,
    grown,
    is_generated,
    lowered,
    measured,
    modules,
    recorded,
    written,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "entrepot"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS: dict[str, dict[str, Any]] = {
    contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]
}
ROOMS = [name for name, contract in CONTRACTS.items() if contract.get("exhaustive") and name != "layers"]
OPENWIRE_IN_NETWORKS = 12  # modules of a bridge that know OpenWire: lower it when one does no longer
UPWARD_IN_CORE = 11  # imports that run upward among the folders of the core: lower it when one is gone
LISTED_MAX = 181  # modules without a test of their own, one by one: lower it when one has got its test
CORES = {"base", "model", "journal", "core", "protocols", "cluster", "ha", "artemis", "assembly", "simulation"}


def names_in_layers(contract: str) -> set[str]:
    """Return every module that a layers contract names."""
    return {name for layer in CONTRACTS[contract]["layers"] for name in re.findall(r"[a-z_]+", layer)}


def children(folder: Path) -> set[str]:
    """Return the names of the modules and packages of a folder that hold at least one file."""
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text())


def set_iterations(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that iterate something which is visibly a set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            source = node.iter
            made_by_call = isinstance(source, ast.Call) and isinstance(source.func, ast.Name)
            called = source.func.id if made_by_call else ""  # type: ignore[attr-defined]
            if isinstance(source, ast.Set | ast.SetComp) or called in {"set", "frozenset"}:
                yield source.lineno


def test_every_top_level_module_is_in_the_layers_contract() -> None:
    assert children(PACKAGE) <= names_in_layers("layers")


def test_every_protocol_folder_is_kept_apart_from_the_others() -> None:
    folders = {path.parent.name for path in (PACKAGE / "protocols").glob("*/__init__.py")}
    assert folders <= names_in_layers("protocols")
    languages = folders - {"serving", "conversing"}  # which all of them share
    assert {f"entrepot.protocols.{folder}" for folder in languages} == set(CONTRACTS["protocol-folders"]["containers"])


def test_every_core_package_is_in_the_forbidden_contract() -> None:
    present = {f"entrepot.{name}" for name in CORES & children(PACKAGE)}
    assert present == set(CONTRACTS["sans-io"]["source_modules"])


def test_shared_protocol_modules_that_clients_use_never_see_the_broker() -> None:
    names = {"failover", "lifeline", "sasl", "conversing"} & children(PACKAGE / "protocols")
    shared = {f"entrepot.protocols.{name}" for name in names}
    assert shared <= set(CONTRACTS["converters"]["source_modules"])


def test_only_the_known_exceptions_are_ignored() -> None:
    ignored = {name: contract["ignore_imports"] for name, contract in CONTRACTS.items() if "ignore_imports" in contract}
    assert ignored.pop("sans-io") == ["entrepot.simulation.world -> random"]
    known = {"core": UPWARD_IN_CORE, "bridges": OPENWIRE_IN_NETWORKS}
    assert {name: len(rules) for name, rules in ignored.items()} == known, "lists that only shrink"


def test_what_only_types_need_is_an_import_as_well() -> None:
    assert PROJECT["tool"]["importlinter"]["exclude_type_checking_imports"] is False


@pytest.mark.parametrize("contract", ROOMS)
def test_each_module_of_a_room_has_its_layer(contract: str) -> None:
    (room,) = CONTRACTS[contract]["containers"]
    assert CONTRACTS[contract]["exhaustive"]
    assert children(PACKAGE / Path(*room.split(".")[1:])) == names_in_layers(contract)


@pytest.mark.skipif(not is_compiled(), reason="the plain build")
def test_every_marked_module_is_compiled() -> None:
    root = Path(entrepot.__file__).parent
    could_be = [path for path in root.rglob("*.py") if "[C]" in path.read_text()]
    marked = [path for path in could_be if "[C]\n" in (ast.get_docstring(parsed(path)) or "") + "\n"]
    assert [path for path in marked if not list(path.parent.glob(f"{path.stem}.*.so"))] == []
    assert marked


def test_no_compiled_module_lies_beside_its_source() -> None:
    assert list((ROOT / "src").rglob("*.so")) == []


def test_every_package_has_an_init_file() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert {folder for folder in folders if not (folder / "__init__.py").is_file()} == set()


@pytest.mark.parametrize("package", sorted(CORES & children(PACKAGE)))
def test_cores_do_not_iterate_sets(package: str) -> None:
    # String hashes differ per process, so the order of a set is a difference between two runs of one seed.
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in (PACKAGE / package).rglob("*.py")
        for line in set_iterations(parsed(path))
    ]
    assert found == []


def test_the_set_rule_bites() -> None:
    source = "for a in {1, 2}: pass\n[b for b in set(x)]\nfor c in sorted({1, 2}): pass\n"
    assert list(set_iterations(ast.parse(source))) == [1, 2]


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[str, int]]:
    return measured()


@pytest.mark.parametrize("limit", list(LIMITS))
def test_nothing_is_larger_than_its_limit_or_its_entry(figures: dict[str, dict[str, int]], limit: str) -> None:
    assert grown(figures[limit], recorded()[limit], limit) == {}, (
        f"above {LIMITS[limit]}, or above what tests/structure.toml allows: split by role. {HEADS[limit]}"
    )


@pytest.mark.parametrize("limit", list(LIMITS))
def test_the_list_of_exceptions_only_shrinks(figures: dict[str, dict[str, int]], limit: str) -> None:
    before = recorded()
    assert before[limit] == lowered(figures, before)[limit], "well done: run `python tests/structure.py`"


def test_the_list_of_exceptions_is_as_the_command_writes_it() -> None:
    assert (ROOT / "tests" / "structure.toml").read_text() == written(recorded())


def test_each_module_has_a_test_or_stands_in_the_list_with_what_tests_it() -> None:
    listed = [module for group in groups() for module in group.modules]
    assert len(listed) == len(set(listed)), "a module stands in tests/mirrored.toml twice"
    assert without_a_test() - set(listed) == set(), "write a test that imports it, in tests/unit or tests/simulation"
    one_by_one = re.findall(r'^modules = "(.*)"', RECORD.read_text(), re.MULTILINE)
    assert sum(len(names.split()) for names in one_by_one) <= LISTED_MAX, "tests/mirrored.toml may only shrink"


def test_generated_files_are_not_measured() -> None:
    assert is_generated((PACKAGE / "protocols" / "openwire" / "commands.py").read_text())
    assert not {"client/blocking.py", "protocols/openwire/commands.py"} & set(modules())


def test_the_measure_of_complexity_bites() -> None:
    plain = ast.parse("def f():\n    return 1\n").body[0]
    ways = ast.parse("def f(a):\n    if a and a.b or a.c:\n        return [x for x in a if x]\n    return 1\n").body[0]
    assert (complexity(plain), complexity(ways)) == (1, 6)


def test_the_search_for_circles_bites() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_a_shrunk_figure_is_lowered_and_a_grown_one_is_not_raised() -> None:
    before = {"lines": {"a": 700, "b": 700, "c": 700}}
    assert lowered({"lines": {"a": 650, "b": 800}}, before) == {"lines": {"a": 650, "b": 700}}
    assert lowered({"lines": {"a": 690}}, before) == {"lines": {"a": 700}}
    assert grown({"a": 710, "b": 716, "d": 601}, before["lines"], "lines") == {"b": 716, "d": 601}
    assert grown({"a": 41}, {"a": 40}, "methods") == {"a": 41}


def test_an_entry_follows_its_file_when_that_moves() -> None:
    before = {"methods": {"a/x.py:Big": 40}, "lines": {"a/x.py": 700}, "circle": {"p.a.x": 2}}
    now = {"methods": {"b/x.py:Big": 39}, "lines": {"b/x.py": 700, "b/y.py": 900}, "circle": {"p.b.x": 2}}
    expected = {"methods": {"b/x.py:Big": 39}, "lines": {"b/x.py": 700}, "circle": {"p.b.x": 2}}
    assert lowered(now, before) == expected
