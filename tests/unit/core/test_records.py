"""The register of the journal's numbers: no number twice, and nothing is written that is not in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from entrepot.core import records

SOURCE = Path(__file__).resolve().parents[3] / "src" / "entrepot"
CALLS = {"put", "delete", "ride"}


def trees(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules in whose text one of ``words`` stands: to parse all of them takes ten seconds."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if any(word in text for word in words):
            yield path.relative_to(SOURCE).as_posix(), ast.parse(text)


def named(node: ast.expr) -> str:
    """Return the name, or the last part of ``register.NAME``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def journal_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield calls of a journal that name the kind of a document."""
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in CALLS and "journal" in ast.unparse(called.value):
            yield node


def test_no_number_is_given_twice():
    kinds = [kind.number for kind in records.KINDS]
    assert len(kinds) == len(set(kinds))
    assert all(0 <= kind < 256 for kind in kinds)
    for entries in (records.RESERVED_QUEUES, records.LANGUAGES):
        numbers = [entry.number for entry in entries]
        assert len(numbers) == len(set(numbers))
    layouts = [(entry.name, entry.number) for entry in records.LAYOUTS]
    assert len(layouts) == len(set(layouts))


def test_every_constant_of_the_register_has_its_entry():
    constants = vars(records)
    kinds = {value for name, value in constants.items() if name.startswith("KIND_")}
    assert kinds | {records.INTERNAL_KIND} == {kind.number for kind in records.KINDS}
    queues = {value for name, value in constants.items() if name.endswith("_QUEUE") and "KIND_" not in name}
    queues.remove(records.FIRST_QUEUE)
    assert queues == {entry.number for entry in records.RESERVED_QUEUES}
    assert all(number < records.FIRST_QUEUE for number in queues)
    languages = {value for name, value in constants.items() if name.startswith("LANGUAGE_")}
    assert languages == {entry.number for entry in records.LANGUAGES}


def test_kinds_are_made_in_the_register_alone():
    made: list[str] = []
    for module, tree in trees("KIND_"):
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant):
                name = named(node.target)
                if re.fullmatch(r"KIND_[A-Z_]+", name) and isinstance(node.value.value, int):
                    made.append(f"{module}:{name}")
    assert sorted(made) == sorted(f"core/records.py:{name}" for name in vars(records) if name.startswith("KIND_"))


def test_every_reserved_queue_that_is_used_is_one_of_the_register():
    found: dict[str, None] = {}
    for module, tree in trees("_QUEUE"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "store" and len(node.args) == 2 and isinstance(node.args[1], ast.List):
                    queues = node.args[1].elts
                elif node.func.attr == "settle" and len(node.args) == 2:
                    queues = node.args[1:]
                else:
                    continue
                for name in [named(queue) for queue in queues]:
                    if name.isupper():
                        assert name in vars(records), f"{module}:{node.lineno} {ast.unparse(node)}"
                        found[name] = None
    assert sorted(found) == ["PREPARED_QUEUE", "SCHEDULED_QUEUE", "STAGED_QUEUE"]


def test_every_document_that_is_written_names_a_kind_of_the_register():
    found = 0
    for module, tree in trees(*(f".{call}(" for call in CALLS)):
        for call in journal_calls(tree):
            name = named(call.args[0]) if call.args else "?"
            assert name in vars(records) or name == "kind", f"{module}:{call.lineno} {ast.unparse(call)}"
            found += 1
    assert found > 20


def test_every_language_has_a_code_of_the_register():
    found: list[str] = []
    for _, tree in trees("Language)", "Language,"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and "Language" in [named(base) for base in node.bases]:
                (call,) = [
                    each
                    for each in ast.walk(node)
                    if isinstance(each, ast.Call) and ast.unparse(each.func) == "super().__init__"
                ]
                found.append(named(call.args[0]))
    assert sorted(found) == sorted(name for name in vars(records) if name.startswith("LANGUAGE_"))


def test_the_module_that_writes_a_document_is_where_the_register_says():
    for kind in records.KINDS:
        text = (SOURCE / kind.module).read_text()
        (name,) = [
            name
            for name, value in vars(records).items()
            if (name.startswith("KIND_") or name == "INTERNAL_KIND") and value == kind.number
        ]
        assert re.search(rf"(put|ride|delete)\(\s*(register\.)?{name}\b", text), f"{kind.module} does not write {name}"
