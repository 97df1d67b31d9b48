"""Management by messages beside a real Artemis: each name of its controls is asked of both.

The names are read from the interfaces of its own client. ``ENTREPOT_TABLES=docs`` writes the documentation's table.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import artemis
import pytest
from managing import Manager
from ours import Entrepot, like_artemis
from tables import cell

from entrepot import Acknowledge, Message

CONTROLS: Final = {
    "broker": ("ActiveMQServerControl", "broker"),
    "address": ("AddressControl", "address.orders"),
    "queue": ("QueueControl", "queue.orders"),
    "acceptor": ("AcceptorControl", "acceptor.all"),
    "divert": ("DivertControl", "divert.copy"),
    "bridge": ("BridgeControl", "bridge.away"),
    "cluster connection": ("ClusterConnectionControl", "clusterconnection.mesh"),
    "broadcast group": ("BroadcastGroupControl", "broadcastgroup.shout"),
}
PACKAGE: Final = "org.apache.activemq.artemis.api.core.management"
CORE: Final = """
<cluster-user>c</cluster-user><cluster-password>c</cluster-password>
<broadcast-groups><broadcast-group name="shout"><group-address>231.7.7.9</group-address><group-port>9879</group-port>
<broadcast-period>5000</broadcast-period><connector-ref>self</connector-ref></broadcast-group></broadcast-groups>
<diverts><divert name="copy"><address>orders</address><forwarding-address>copies</forwarding-address></divert></diverts>
<bridges><bridge name="away"><queue-name>outgoing</queue-name><forwarding-address>incoming</forwarding-address>
<retry-interval>60000</retry-interval>
<static-connectors><connector-ref>self</connector-ref></static-connectors></bridge></bridges>
<cluster-connections><cluster-connection name="mesh"><connector-ref>self</connector-ref>
<message-load-balancing>OFF</message-load-balancing></cluster-connection></cluster-connections>
"""
ADDRESSES: Final = (
    '<address name="orders"><anycast><queue name="orders"/></anycast></address>'
    '<address name="outgoing"><anycast><queue name="outgoing"/></anycast></address>'
)
SAME: Final = {
    "queue": {
        "DurableMessageCount", "DurableDeliveringCount", "DeliveringCount", "MessageCount", "ScheduledSize",
        "PreparedTransactionMessageCount", "DurableScheduledCount", "DurableScheduledSize", "MessagesAdded",
    },
    "divert": {"TransformerProperties", "RetroactiveResource", "ForwardingAddress", "RoutingType"},
    "address": {"MessageCount", "BindingNames", "RoutedMessageCount", "UnRoutedMessageCount"},
    "bridge": {"StaticConnectors", "Name", "QueueName", "ForwardingAddress"},
    "cluster connection": {"MaxHops", "DuplicateDetection", "MessageLoadBalancingType"},
}  # fmt: skip
"""What must be equal."""
UNKNOWN: Final = "AMQ229069"
DEEDS: Final = (
    ("queue.orders", "countMessages", ("", "color")),
    ("queue.orders", "countDeliveringMessages", ("",)),
    ("queue.orders", "countDeliveringMessages", ("color = 'red'",)),
    ("queue.orders", "peekFirstScheduledMessageAsJSON", ()),
    ("queue.orders", "deliverScheduledMessages", ("",)),
    ("queue.orders", "resetMessagesAdded", ()),
    ("queue.orders", "getMessagesAdded", ()),
    ("queue.orders", "resetMessagesKilled", ()),
    ("queue.orders", "pause", ()),
    ("queue.orders", "resume", ()),
    ("address.orders", "block", ()),
    ("address.orders", "unblock", ()),
    ("broker", "listSessions", ("nobody",)),
    ("broker", "listConsumersAsJSON", ("nobody",)),
    ("broker", "listRemoteAddresses", ("10.9.8.7",)),
    ("broker", "listPreparedTransactionDetailsAsJSON", ()),
    ("broker", "isMessageCounterEnabled", ()),
    ("broker", "getMessageCounterSamplePeriod", ()),
    ("broker", "getMessageCounterMaxDayCount", ()),
    ("broker", "setMessageCounterMaxDayCount", (5,)),
    ("broker", "setMessageCounterSamplePeriod", (2000,)),
    ("broker", "enableMessageCounters", ()),
    ("broker", "enableMessageCounters", ()),
    ("broker", "isMessageCounterEnabled", ()),
    ("broker", "getMessageCounterSamplePeriod", ()),
    ("broker", "getMessageCounterMaxDayCount", ()),
    ("broker", "resetAllMessageCounters", ()),
    ("broker", "resetAllMessageCounterHistories", ()),
    ("queue.orders", "resetMessageCounter", ()),
    ("broker", "disableMessageCounters", ()),
    ("broker", "isMessageCounterEnabled", ()),
    ("acceptor.nowhere", "start", ()),
    ("broker", "nonsense", (1, 2)),
    ("bridge.away", "stop", ()),
    ("bridge.away", "isStarted", ()),
    ("bridge.away", "start", ()),
    ("bridge.away", "isStarted", ()),
)
"""Operations whose answers must be equal, refusals included, in this order."""

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=artemis.unavailable())


def names(control: str) -> list[str]:
    """Return the readers of attributes that an interface of Artemis declares."""
    jar = next(Path(artemis.class_path().rpartition(":")[2][:-2]).glob("artemis-core-client-*.jar"))
    said = subprocess.run(
        ["javap", "-cp", str(jar), f"{PACKAGE}.{control}"], capture_output=True, text=True, check=True
    )
    found = re.findall(r"(\w+)\(([^)]*)\)", said.stdout)
    return sorted({name for name, given in found if re.match("(get|is)[A-Z]", name) and not given})


def told(manager: Manager, resource: str, name: str, *given: object) -> Any:
    try:
        return manager.ask(resource, name, *given)
    except RuntimeError as refusal:
        return f"refused: {refusal}"


def wait_for(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30
    while not holds() and time.monotonic() < until:
        time.sleep(0.05)
    return holds()


def prepare(manager: Manager) -> Any:
    """Send three messages; return a consumer that has them."""
    session = manager.connection.session()
    producer = session.producer("queue://orders")
    for color in ("red", "red", "blue"):
        producer.send(Message("x", properties={"color": color}))
    consumer = session.consumer("queue://orders")
    assert wait_for(lambda: told(manager, "queue.orders", "getDeliveringCount") == 3)
    return consumer


def counted(manager: Manager) -> dict[str, Any]:
    """Return what a message counter says of two messages that came while it was on, and its last day."""
    broker = manager.ask
    broker("broker", "createQueue", "counted", "counted", "ANYCAST")
    broker("broker", "setMessageCounterSamplePeriod", 1000)
    broker("broker", "enableMessageCounters")
    producer = manager.connection.session().producer("queue://counted")
    for _ in range(2):
        producer.send(Message("x"))
    found: dict[str, Any] = {}

    def came() -> bool:
        found.update(json.loads(broker("queue.counted", "listMessageCounter")))
        return bool(found["count"] == 2)

    assert wait_for(came)
    assert isinstance(json.loads(broker("queue.counted", "listMessageCounterHistory"))["dayCounters"], list)
    broker("broker", "disableMessageCounters")
    broker("broker", "setMessageCounterSamplePeriod", 10_000)
    broker("broker", "destroyQueue", "counted")
    return {name: value for name, value in found.items() if "Timestamp" not in name and "Delta" not in name} | {
        "names": list(found)
    }


def routed(manager: Manager) -> dict[str, tuple[int, int]]:
    """Return what addresses say was routed and what was not, after sends of every kind."""
    ask = manager.ask
    for address, kind, name, condition in (
        ("r.news", "MULTICAST", "r.one", ""),
        ("r.news", "MULTICAST", "r.two", ""),
        ("r.picked", "MULTICAST", "r.red", "color = 'red'"),
        ("r.from", "ANYCAST", "r.from", ""),
        ("r.to", "ANYCAST", "r.to", ""),
        ("r.work", "ANYCAST", "r.work", ""),
    ):
        ask("broker", "createQueue", address, kind, name, condition, True, -1, False, True)
    ask("broker", "createAddress", "r.silent", "MULTICAST")
    ask("broker", "createAddress", "r.only", "MULTICAST")
    ask("broker", "createDivert", "r.e", "r.e", "r.only", "r.to", True, "color = 'red'", None, "ANYCAST")
    ask("broker", "createDivert", "r.d", "r.d", "r.from", "r.to", False, None, None, "ANYCAST")
    session = manager.connection.session()
    for place, colors in (
        ("topic://r.news", ["red"] * 3),
        ("topic://r.picked", ["red", "blue", "blue"]),
        ("topic://r.silent", ["red"] * 2),
        ("topic://r.only", ["red", "blue"]),
        ("queue://r.from", ["red"] * 4),
        ("queue://r.work", ["red"] * 2),
    ):
        producer = session.producer(place)
        for color in colors:
            producer.send(Message("x", properties={"color": color}))
    transacted = manager.connection.session(Acknowledge.TRANSACTED)
    transacted.producer("queue://r.work").send(Message("x"))
    transacted.commit()  # Artemis counts what is rolled back, too
    transacted.close()
    names = ("r.news", "r.picked", "r.silent", "r.only", "r.from", "r.to", "r.work")
    return {
        name: (ask(f"address.{name}", "getRoutedMessageCount"), ask(f"address.{name}", "getUnRoutedMessageCount"))
        for name in names
    }


def collect(broker: artemis.Artemis | Entrepot, known: dict[str, list[str]]) -> dict[str, Any]:
    manager = Manager(broker)
    try:
        holder = prepare(manager)
        shown: dict[str, Any] = {}
        for kind, readers in known.items():
            values = {name: told(manager, CONTROLS[kind][1], name) for name in readers}
            shown[kind] = {name: one for name, one in values.items() if UNKNOWN not in str(one)}
        shown["counter"] = counted(manager)
        shown["routed"] = routed(manager)
        shown["deeds"] = [told(manager, resource, name, *given) for resource, name, given in DEEDS]
        holder.close()
        return shown
    finally:
        manager.close()


def test_what_management_answers_is_what_artemis_answers(tmp_path: Path) -> None:
    real = artemis.Artemis(tmp_path / "real", name="ref", core=CORE, addresses=ADDRESSES)
    ours = like_artemis(tmp_path / "ours", real)
    known = {kind: names(control) for kind, (control, _) in CONTROLS.items()}
    try:
        real.start().await_ready()
        theirs = collect(real, known)
        real.kill()
        ours.start().await_ready()
        mine = collect(ours, known)
    finally:
        real.kill()
        ours.kill()
    folder = os.environ.get("ENTREPOT_TABLES")
    if folder:
        (Path(folder) / "management-artemis.md").write_text(table(mine, theirs, tmp_path))
    for kind, wanted in SAME.items():
        for name, value in theirs[kind].items():
            if re.sub("^(get|is)", "", name) in wanted:
                assert (kind, name, mine[kind].get(name, "absent")) == (kind, name, value)
    assert mine["counter"] == theirs["counter"]
    assert mine["routed"] == theirs["routed"]
    answers = zip(DEEDS, mine["deeds"], theirs["deeds"], strict=True)
    assert not [told for told in answers if told[1] != told[2]]


def table(ours: dict[str, Any], real: dict[str, Any], home: Path) -> str:
    lines = [
        "<!-- Written by tests/interop/test_management_beside.py with ENTREPOT_TABLES. -->",
        f"# Management by messages beside Artemis {artemis.VERSION}\n",
        "Both ran the same `broker.xml` and held the same: three messages in a queue, with a consumer. The names are",
        "those of the controls of Artemis' own client. *Different* is what depends on the machine, the program or",
        "defaults; *absent* is not measured, or does not exist here.",
    ]
    for kind in CONTROLS:
        values, have = real[kind], ours[kind]
        same = [name for name in values if name in have and have[name] == values[name]]
        other = [name for name in values if name in have and name not in same]
        absent = [name for name in values if name not in have]
        lines.append(f"\n## {kind}: {len(same)} equal, {len(other)} different, {len(absent)} absent of {len(values)}\n")
        for word, found in (("Equal", same), ("Absent", absent)):
            lines.append(f"{word}: " + (", ".join(f"`{name}`" for name in found) or "none") + ".\n")
        if other:
            lines.append("| Different | There | Here |\n|---|---|---|")
            lines += [f"| `{name}` | {cell(values[name], home, 50)} | {cell(have[name], home, 50)} |" for name in other]
    return "\n".join(lines).rstrip() + "\n"
