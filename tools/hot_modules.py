"""Which modules are compiled, those whose docstring has the mark [C] at the end of a line; and which of them for speed.

Much of what is compiled runs once for a connection, a subscription or a commit. The C compiler makes that small
(``-Os``): less memory for a broker that rests. It is `OFF_THE_PATH`; everything else is made fast (``-O2``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MARK: Final = "[C]"
C_PREFIX: Final = "__native_entrepot___"  # of the C file that mypyc makes of a module; "___" stands for a dot

# Modules of which no function runs for a message, at most for a connection, a subscription, a branch or a large body. A
# module that is not named is made fast: forgetting a name here costs memory, and not speed.
OFF_THE_PATH: Final = frozenset(
    f"src/entrepot/{name}.py"
    for names in (
        "base/compiled base/patterns base/reasons cluster/backoff cluster/channel cluster/dialled",
        "cluster/networks/admission cluster/networks/advising cluster/networks/bridge cluster/networks/canary",
        "cluster/networks/comparison cluster/networks/durables cluster/networks/handshake",
        "cluster/networks/hearing cluster/networks/neighbourhood cluster/networks/opening",
        "cluster/networks/pouring cluster/networks/report cluster/networks/subscriptions",
        "cluster/networks/temporaries cluster/networks/wires cluster/supervision core/addressing/addresses",
        "core/addressing/diversion core/addressing/policy core/addressing/queues core/broker core/client_ids",
        "core/events/announcing core/maintenance core/observing core/options core/queue/fates",
        "core/queue/bereaved core/queue/browser core/queue/dead_letters core/reading/reading",
        "core/sending/recollection core/reading/retroactive core/records core/scheduling/schedule",
        "core/stages/counting core/stages/publishing core/stages/stage_ledger core/transactions/transaction",
        "ha/fence journal/collected journal/epoch journal/limits journal/names protocols/artemis/acceptor",
        "protocols/artemis/client protocols/artemis/conversation/identity",
        "protocols/artemis/conversation/owner protocols/artemis/conversation/places",
        "protocols/artemis/conversation/requests protocols/artemis/large protocols/artemis/naming",
        "protocols/artemis/membership protocols/artemis/options protocols/artemis/places",
        "protocols/artemis/reattaching",
        "protocols/artemis/resources",
        "protocols/conversing/destinations protocols/conversing/modes",
        "protocols/conversing/port protocols/inflow protocols/openwire/acceptor",
        "protocols/openwire/client protocols/openwire/consuming protocols/openwire/conversation/branches",
        "protocols/openwire/conversation/dialling protocols/openwire/conversation/fan",
        "protocols/openwire/conversation/records protocols/openwire/conversation/requests",
        "protocols/openwire/conversation/temporaries protocols/openwire/conversation/transactions",
        "protocols/openwire/destinations protocols/openwire/fanout protocols/openwire/identity",
        "protocols/openwire/large protocols/openwire/replies",
        "protocols/openwire/separators protocols/openwire/settlement protocols/openwire/steering",
        "protocols/openwire/streaming protocols/serving/life",
        "protocols/serving/patience protocols/serving/targets protocols/serving/transactions",
        "protocols/stomp/consuming protocols/stomp/headers protocols/stomp/large protocols/stomp/leasing",
        "protocols/stomp/options protocols/stomp/places protocols/stomp/staging",
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
    return f"src/entrepot/{name.removeprefix(C_PREFIX).replace('___', '/')}.py" in OFF_THE_PATH
