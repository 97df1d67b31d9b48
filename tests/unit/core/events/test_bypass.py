"""Nobody goes past the hub: the trace is written by queues and by its listener, and the hub is never replaced."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4] / "src" / "entrepot"
COUNTS = "core/queue/"
"""Whose parts count the stages of messages (docs/decisions/0017)."""
MARKS = {"core/broker.py", "protocols/turns.py", "core/events/tracing.py", "core/events/trace.py"}
"""Who says that the broker begins and ends, that a turn is over, and what the hub tells."""
VERBS = {"note", "define", "forget", "identity", "identity_of", "number_of", "flush", "tick"}


def _traces(node: ast.expr) -> bool:
    """Return whether an expression ends in a name or attribute ``trace``."""
    return (isinstance(node, ast.Name) and node.id == "trace") or (
        isinstance(node, ast.Attribute) and node.attr in ("trace", "_trace")
    )


def past_the_hub(tree: ast.AST) -> list[int]:
    """Return the lines that write into a trace, or put something in the place of a hub that is there."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in VERBS and _traces(node.func.value):
                lines.append(node.lineno)
        elif isinstance(node, ast.Assign):
            others = [one for one in node.targets if isinstance(one, ast.Attribute) and one.attr in ("hub", "notices")]
            if any(not (isinstance(one.value, ast.Name) and one.value.id == "self") for one in others):
                lines.append(node.lineno)
    return sorted(lines)


def test_only_queues_and_the_listener_write_the_trace_and_nobody_replaces_a_hub() -> None:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(COUNTS) or name in MARKS:
            continue
        text = path.read_text()
        lines = past_the_hub(ast.parse(text)) if re.search(r"trace|hub|notices", text) else []
        if lines:
            found[name] = lines
    assert found == {}


def test_the_search_bites() -> None:
    source = "self.trace.note(1)\nbroker.hub = other\nbroker.hub.announce(x)\ntrace.define(2)\n"
    assert past_the_hub(ast.parse(source)) == [1, 2, 4]
