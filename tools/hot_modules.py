"""Which modules are compiled, those whose docstring has the mark [C] at the end of a line; and which of them for speed.

Most of what is compiled runs once for a connection, a subscription or a commit. The C compiler makes that small
(``-Os``): less to compile, and less memory for a broker that rests. What runs for every message is `ON_THE_PATH`, and
made fast (``-O2``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MARK: Final = "[C]"
C_PREFIX: Final = "__native_entrepot___"  # of the C file that mypyc makes of a module; "___" stands for a dot

# Modules of which a function runs at least once for ten messages, on any way of one: in, onto disk, back from it at a
# start, out, by a selector, over a link, through a lease or a stage. STOMP's were chosen by the calls that cProfile
# counted in the plain build while `entrepot perf` sent to it, the others by their part in the same.
ON_THE_PATH: Final = frozenset(
    f"src/entrepot/{name}.py"
    for names in (
        "model/like model/message model/predicate model/value",
        "journal/batch journal/compaction journal/index journal/log journal/reading journal/record journal/recovery",
        "journal/space journal/tail journal/waiting journal/window",
        "core/addressing/binding core/addressing/choice core/addressing/routing core/effort core/events/facts",
        "core/events/trace core/identities core/leases/lease core/ports core/queue/backlog core/queue/consumer",
        "core/queue/dispatch core/queue/queue core/recovery core/scheduling/timed core/sending/copies",
        "core/sending/duplicates core/sending/flow core/sending/handing core/sending/sending core/stages/stage",
        "protocols/outflow protocols/session protocols/turns",
        "protocols/serving/confirmations protocols/serving/outlet protocols/serving/session",
        "protocols/stomp/answers protocols/stomp/codec protocols/stomp/columns protocols/stomp/delivery",
        "protocols/stomp/sending protocols/stomp/server protocols/stomp/settling protocols/stomp/writing",
        "protocols/openwire/codec protocols/openwire/commands protocols/openwire/delivery",
        "protocols/openwire/dispatching protocols/openwire/frames protocols/openwire/primitives",
        "protocols/openwire/sending protocols/openwire/server protocols/openwire/settling",
        "protocols/openwire/conversation/consuming protocols/openwire/conversation/core",
        "protocols/openwire/conversation/inbox protocols/openwire/conversation/messages",
        "protocols/openwire/conversation/producing protocols/openwire/conversation/sessions",
        "cluster/flow cluster/link cluster/networks/feed cluster/networks/forwarding cluster/networks/inbound",
        "cluster/networks/reception cluster/source",
        "io/connection",
    )
    for name in names.split()
)


def marked(path: Path) -> bool:
    """Return whether a line of a module's docstring ends with the mark."""
    before, _, rest = path.read_text(encoding="utf-8").partition('"""')
    docstring = "" if before.strip() else rest.partition('"""')[0]
    return any(line.rstrip().endswith(MARK) for line in docstring.splitlines())


def hot_modules(tree: Path) -> list[str]:
    """Return the paths of the modules to compile below ``tree``, in a fixed order."""
    paths = sorted((tree / "src" / "entrepot").rglob("*.py"))
    return [path.relative_to(tree).as_posix() for path in paths if marked(path)]


def made_small(c_file: str) -> bool:
    """Return whether a C file that mypyc made is to be compiled for size: a module's, and no message passes it."""
    name = Path(c_file).stem
    if not name.startswith(C_PREFIX):
        return False
    return f"src/entrepot/{name.removeprefix(C_PREFIX).replace('___', '/')}.py" not in ON_THE_PATH
