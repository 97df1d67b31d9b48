"""Every line that is logged has a code, and every code a line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import entrepot
from entrepot.base.log_events import BY_TEMPLATE, EVENTS, UNNAMED, code_of

SOURCE = Path(entrepot.__file__).parent
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
GIVEN_OUT = Path(__file__).with_name("log_codes.txt")


def called(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name of the logger and the template of every call that logs."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in METHODS:
            continue
        owner = ast.unparse(node.func.value)
        if owner.rpartition(".")[2] in {"log", "audit_log"}:
            yield owner, node.args[1 if node.func.attr == "log" else 0]


def loggers(tree: ast.Module, module: str) -> dict[str, str]:
    """Return the loggers that a module makes, by the expression that holds them."""
    found = {}
    for node in ast.walk(tree):
        target: ast.expr | None = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if target is not None and isinstance(value, ast.Call) and ast.unparse(value.func) == "logging.getLogger":
            name = value.args[0]
            found[ast.unparse(target)] = module if ast.unparse(name) == "__name__" else str(ast.literal_eval(name))
    return found


def constants(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in tree.body:
        value = node.value if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.AnnAssign) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            found[ast.unparse(node.target)] = value.value
    return found


def logged() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if "log." not in text:
            continue
        tree = ast.parse(text)
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        made, texts = loggers(tree, module), constants(tree)
        for owner, template in called(tree):
            yield made[owner], texts.get(ast.unparse(template)) or ast.literal_eval(template)


def test_each_line_has_a_code_and_each_code_a_line() -> None:
    assert set(logged()) == set(BY_TEMPLATE)


def test_a_code_is_given_once_and_never_again() -> None:
    """Add a new one to the list; one that is no longer used stays there."""
    codes = [event.code for events in EVENTS.values() for event in events]
    assert len(set(codes)) == len(codes)
    assert UNNAMED not in codes
    given = GIVEN_OUT.read_text().split()
    assert given == sorted(set(given))
    assert set(codes) <= set(given)


def test_what_nobody_knows_has_a_code_too() -> None:
    assert code_of("entrepot.node", "hello") == UNNAMED
    assert code_of("entrepot.listener", "listening on %s") == "LOG-3001"
