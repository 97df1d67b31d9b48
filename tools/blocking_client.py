"""Write `entrepot/client/blocking.py`, the blocking API, from the source of the asyncio one; or check it.

``python tools/blocking_client.py`` writes it; with ``--check`` it exits 1 when it is out of date. Each public class
becomes one of the same name whose methods have the same signatures and docstrings and call through a `Portal`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from source_tree import ROOT, SOURCE

CLIENT: Final = SOURCE / "entrepot" / "client"
TARGET: Final = CLIENT / "blocking.py"
SOURCES: Final = {
    "session": ("Session", "TransactionScope"),
    "producer": ("Producer",),
    "consumer": ("Consumer", "Browser"),
    "management": ("Management",),
    "connection": ("Connection",),
}
CLASSES: Final = [name for names in SOURCES.values() for name in names]
CLOSING: Final = "Closing"
LEFT_OUT: Final = {  # what the parts say to one another, and what the portal does itself
    "Connection": {"open"},
    "Producer": {"open"},
    "Consumer": {"open", "take_ahead", "finished", "received"},
}  # fmt: skip
REPLACED: Final = {
    ("Producer", "send"): """\
        if self._ahead(persistent, wait):
            self._outbox.put(lambda: self._inner.send({arguments}))
            return
        self._outbox.flush()
        self._portal.call(lambda: self._inner.send({arguments}))
""",
    ("Producer", "close"): """\
        self._outbox.flush()
        self._portal.call(self._inner.close)
""",
}
ADDED: Final = {
    "Producer": '''
    def __init__(self, portal: Portal, inner: _producer.Producer) -> None:
        super().__init__(portal)
        self._inner = inner
        self._outbox = Outbox(portal)

    def flush(self) -> None:
        """Wait until what was sent without waiting is on its way. Raises what one of these sends raised."""
        self._outbox.flush()

    def _ahead(self, persistent: bool | None, wait: bool | None) -> bool:
        return self._inner.waits(persistent, wait) == (False, False)
''',
    "Consumer": '''
    def __init__(self, portal: Portal, inner: _consumer.Consumer) -> None:
        super().__init__(portal)
        self._inner = inner
        self._taken: deque[DeliveryPort] = deque()
        self._current: DeliveryPort | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        """Return the next message; the one before counts as processed now (AUTO, DUPS_OK)."""
        current, self._current = self._current, None
        if current is not None:
            self._portal.post(lambda: self._inner.finished(current))
        if not self._taken:
            self._taken.extend(self._portal.call(lambda: self._inner.take_ahead(TAKEN_AHEAD)))
            if not self._taken:
                raise StopIteration
        self._current = self._taken.popleft()
        return bound(self._portal, self._inner.received(self._current))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._current = None  # it was not processed to the end
        self.close()
''',
    "TransactionScope": '''
    def __init__(self, portal: Portal, inner: _session.TransactionScope) -> None:
        super().__init__(portal)
        self._inner = inner

    def close(self) -> None:
        """Nothing is open."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(lambda: self._inner.__aexit__(kind, error, trace))
''',
}
FINISHING: Final = """\
        current, self._current = self._current, None
        if current is not None:
            self._portal.post(lambda: self._inner.finished(current))
"""
FIRST: Final = {
    ("Producer", "send_stream"): "        self._outbox.flush()\n",
    ("Consumer", "close"): FINISHING,
    ("Consumer", "receive"): FINISHING
    + """\
        if self._taken:  # an iteration took it ahead
            delivery = self._taken.popleft()
            self._portal.post(lambda: self._inner.finished(delivery))
            return bound(self._portal, self._inner.received(delivery))
""",
    ("Consumer", "receive_many"): FINISHING
    + """\
        if self._taken:
            return [message for _ in range(min(most, len(self._taken))) if (message := self.receive(0)) is not None]
""",
}

HEAD: Final = '''\
"""The client without asyncio: the same connections, sessions, producers and consumers, and their methods block.

Written by ``tools/blocking_client.py`` from `connection`, `session`, `producer` and `consumer`: change those, not this.
A connection lives in a thread of its own (`portal`), which keeps it alive and finds another broker while the program
computes; callbacks run in that thread and must not call back. A session belongs to one thread at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from entrepot.base.errors import EntrepotError
from entrepot.client import connection as _connection
from entrepot.client import consumer as _consumer
from entrepot.client import management as _management
from entrepot.client import producer as _producer
from entrepot.client import session as _session
from entrepot.client.balancing import Balancing
from entrepot.client.management import ADDRESS, PATIENCE_S
from entrepot.client.message import Message, Received
from entrepot.client.parts import FOR_EVER
from entrepot.client.portal import Outbox, Portal
from entrepot.client.streaming import Source
from entrepot.protocols.conversing.bodies import Body
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.port import DeliveryPort
from entrepot.protocols.conversing.xid import Xid

TAKEN_AHEAD: Final = 64  # messages that an iteration fetches with one call into the connection's thread


class Closing:
    """Something that is opened, used and closed."""

    def __init__(self, portal: Portal) -> None:
        self._portal: Final = portal

    def close(self) -> None:
        """Close it. Does nothing the second time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def bound(portal: Portal, message: Received) -> Received:
    """Return ``message``, to be settled in the portal's thread."""
    message.settled_through(portal)
    return message
'''


def main() -> int:
    """Write or check."""
    text = formatted(HEAD + "".join(classes()) + connect_function())
    if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{TARGET.relative_to(ROOT)} is out of date: run `make generated` and commit the result")
        return 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


def classes() -> Iterator[str]:
    """Yield the text of each class."""
    for module, names in SOURCES.items():
        tree = ast.parse((CLIENT / f"{module}.py").read_text(encoding="utf-8"))
        found = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        for name in names:
            yield class_text(module, found[name])


def class_text(module: str, node: ast.ClassDef) -> str:
    """Return one blocking class."""
    base = ast.unparse(node.bases[0])
    parent = base if base in CLASSES else CLOSING
    text = f"\n\nclass {node.name}({parent}):\n{doc(node, 4)}"
    added = ADDED.get(node.name, "")
    if added:
        text += added
    elif parent == CLOSING:
        text += (
            f"\n    def __init__(self, portal: Portal, inner: _{module}.{node.name}) -> None:\n"
            "        super().__init__(portal)\n        self._inner = inner\n"
        )
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and wanted(node.name, method, added):
            text += "\n" + method_text(node.name, method)
    if node.name in ("Producer",):
        text += plain_attributes(node.name)
    return text


def wanted(owner: str, method: ast.FunctionDef | ast.AsyncFunctionDef, added: str) -> bool:
    """Tell whether a method is part of the blocking API."""
    if method.name.startswith("_") or method.name in LEFT_OUT.get(owner, ()):
        return False
    return f"def {method.name}(" not in added and method.name not in ("waits",)


def method_text(owner: str, method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return one method that calls its asyncio original."""
    returned = ast.unparse(method.returns) if method.returns is not None else "None"
    awaited = isinstance(method, ast.AsyncFunctionDef) or returned.startswith("Opening[")
    shown = returned.removeprefix("Opening[").removesuffix("]") if returned.startswith("Opening[") else returned
    decorated = [ast.unparse(each) for each in method.decorator_list]
    text = "".join(f"    @{each}\n" for each in decorated)
    text += f"    def {method.name}({ast.unparse(method.args)}) -> {shown}:\n{doc(method, 8)}"
    if "property" in decorated:
        return text + f"        return self._inner.{method.name}\n"
    arguments = ", ".join(
        [each.arg for each in method.args.args[1:]]
        + ([f"*{method.args.vararg.arg}"] if method.args.vararg is not None else [])
        + [f"{each.arg}={each.arg}" for each in method.args.kwonlyargs]
    )
    text += FIRST.get((owner, method.name), "")
    replaced = REPLACED.get((owner, method.name))
    if replaced is not None:
        return text + replaced.format(arguments=arguments)
    how = "call" if awaited else "run"
    called = f"lambda: self._inner.{method.name}({arguments})" if arguments else f"self._inner.{method.name}"
    call = f"self._portal.{how}({called})"
    return text + f"        {result(shown, call)}\n"


def result(shown: str, call: str) -> str:
    """Return the statement that hands out what ``call`` returns, as the blocking API has it."""
    if shown in CLASSES:
        return f"return {shown}(self._portal, {call})"
    if shown == "Received":
        return f"return bound(self._portal, {call})"
    if shown == "Received | None":
        return f"message = {call}\n        return None if message is None else bound(self._portal, message)"
    if shown == "list[Received]":
        return f"return [bound(self._portal, message) for message in {call}]"
    return call if shown == "None" else f"return {call}"


def plain_attributes(owner: str) -> str:
    """Return properties for the attributes that a program may set."""
    text = ""
    for name, kind, about in (
        ("persistent", "bool", "Whether messages survive the broker."),
        ("priority", "int", "0 to 9."),
        ("time_to_live", "float", "Seconds until a message expires; 0: never."),
    ):
        text += (
            f'\n    @property\n    def {name}(self) -> {kind}:\n        """{about}"""\n'
            f"        return self._inner.{name}\n\n    @{name}.setter\n"
            f"    def {name}(self, value: {kind}) -> None:\n        self._inner.{name} = value\n"
        )
    return text


def connect_function() -> str:
    """Return `connect`, which opens at once."""
    tree = ast.parse((CLIENT / "connection.py").read_text(encoding="utf-8"))
    node = next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "connect")
    names = [each.arg for each in node.args.kwonlyargs]
    arguments = "url, " + ", ".join(f"{name}={name}" for name in names)
    return (
        f"\n\ndef connect({ast.unparse(node.args)}) -> Connection:\n"
        '    """Connect to ``url`` and return the connection; ``with`` closes it.\n\n'
        '    ``url``: as `entrepot.connect` has it. Raises as `Connection.open` of the asyncio client.\n    """\n'
        "    portal = Portal.shared()\n"
        f"    made = _connection.connect({arguments})\n"
        "    return Connection(portal, portal.call(made.open))\n"
    )


def doc(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, indent: int) -> str:
    """Return the docstring, with the words of asyncio replaced."""
    text = ast.get_docstring(node) or ""
    for word in ("``async with``", "``async for``", "``async with "):
        text = text.replace(word, word.replace("async ", ""))
    text = text.replace("called in the event loop", "called in the connection's thread")
    text = text.replace("``with`` opens and closes it; so do ``await`` and `close`.", "``with`` closes it.")
    pad = " " * indent
    lines = [f"{pad}{line}".rstrip() for line in text.splitlines()]
    closing = '"""' if len(lines) == 1 else f'\n{pad}"""'
    return f'{pad}"""' + "\n".join(lines).lstrip() + f"{closing}\n"


def formatted(text: str) -> str:
    """Return ``text`` as ruff formats it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "blocking.py")
        path.write_text(text, encoding="utf-8")
        ruff = [sys.executable, "-m", "ruff"]
        config = ["--config", str(ROOT / "pyproject.toml")]
        subprocess.run([*ruff, "format", "--quiet", *config, str(path)], check=True)
        return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
