"""The pages of network topologies: prose, the configurations themselves, and what `entrepot check` makes of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from source_tree import ROOT, SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.analysis.members import member_of
from entrepot.analysis.model import Network
from entrepot.analysis.picture import picture
from entrepot.analysis.rules import judge
from entrepot.analysis.survey import network_of
from entrepot.analysis.text import draw
from entrepot.base.settings import Dialect  # the line above must come first
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.config.classic.policy_elements import KINDS
from entrepot.config.files import read
from entrepot.config.vocabulary import SEVERITY, Attribute, Does

FOLDER: Final = ROOT / "docs" / "networks"
CONF: Final = FOLDER / "conf"
WRITTEN: Final = "<!-- Written by `make generated` from tools/network_pages.py and docs/networks/conf/. -->\n"
SECRETS: Final = {"dmz.password": "${dmz.password}", "guest.password": "${guest.password}"}

PAGES: Final = {
    "pair": (
        "Two brokers",
        ("pair",),
        """\
Clients connect to either broker. One connector with `duplex="true"` is enough: messages go both ways over the one
connection that amsterdam opens, so berlin needs no way through amsterdam's firewall.
""",
        """\
- **A connector on each side, and one of them duplex**: two links in one direction, so every topic message arrives
  twice. Keep one duplex connector, or one plain connector on each side.
- **Consumers that leave**: queue messages that had crossed stay on the far side. Both policies here let them come back
  (`replayWhenNoConsumers`); `enableAudit="false"` is for brokers of ActiveMQ, which would drop what returns.
- **Selectors**: with `conduitSubscriptions` (the default) consumers with selectors share one subscription without any,
  and messages that nobody there wants cross and wait. It is off here.
- **Virtual topics**: if both the topic and the queues behind it cross, a message is consumed twice. The queues are
  excluded here.
""",
    ),
    "chain": (
        "A chain",
        ("chain",),
        """\
A message from lisbon for a consumer in paris crosses two links, and so does the demand for it the other way. Both are
limited by a TTL, which is 1 unless the file says otherwise: `networkTTL="2"` on *both* connectors.
""",
        """\
- **A TTL on one connector only**: the first link lets demand through, the second does not, and the message waits in
  lisbon or, worse, in madrid. `entrepot check` names the connector that is too short.
- **A middle that is down** cuts the network in two. There is no other way around; see the [ring](ring-and-mesh.md).
- **Credentials** are those of the next broker, hop by hop; nobody asks who the producer was.
""",
    ),
    "hub-and-spoke": (
        "Hub and spoke",
        ("hub",),
        """\
Branches dial the hub, and the hub's configuration does not change when a branch is added. From branch to branch it is
two hops, whatever their number.
""",
        """\
- **`networkTTL="1"`** lets branches talk to the hub and not to each other.
- **The hub** carries everything between branches: give it a pair, and the branches `masterslave:(...)`.
- **Lists** (`dynamicallyIncludedDestinations`) keep what is local to a branch there, and the hub's memory small:
  without them every subscription of every branch is known to all the others.
""",
    ),
    "ring-and-mesh": (
        "Ring and mesh",
        ("mesh", "ring"),
        """\
In a mesh every broker has a connector to every other: each message crosses one link, and any broker may fail.
Connectors grow with the square of the brokers, so beyond five or six a ring, a hub, or discovery by `multicast:` is
easier to look after.

In a ring each broker knows the next. Half of the ring is the longest way, so five brokers need `networkTTL="2"`, and
a ring that lost a link needs the way around: 4. Queues and topics have connectors of their own here, because their
messages want different TTLs (see below).
""",
        """\
- **A circle with a TTL above 1** shows a consumer over several ways. `suppressDuplicateQueueSubscriptions` keeps the
  shortest, and needs `decreaseNetworkConsumerPriority="true"` to know which that is. It is false unless it is said, but
  true in ActiveMQ since 5.18: write it down.
- **Consumers that move in a circle**: replay lets a message go back where it came from. To go on to a third broker it
  needs a TTL for each broker that it has seen, so `messageTTL` is the number of brokers less one here, also in a mesh,
  where `consumerTTL="1"` is enough. With `messageTTL="1"` it waits, and `entrepot explain` says why.
- **Topics in a circle**: every broker passes a topic message on to those that have subscribers, so with a `messageTTL`
  for two ways it comes over both, as in ActiveMQ: twice in a mesh of three, five times in one of four with
  `messageTTL="3"`. Here topics have connectors of their own, with a TTL that only the shortest ways are within.
- **A mesh with `consumerTTL` above 1** gains nothing, and announces every subscription over every detour.
- **Duplex in a mesh**: a duplex connector from each side doubles every link. Either all plain, as here, or duplex from
  one of each two.
- **A path never repeats a broker**, so nothing circulates for ever; but a TTL of -1 lets a message see all of them.
""",
    ),
    "dmz": (
        "A broker in a DMZ",
        ("dmz",),
        """\
The firewall lets connections out, never in. So the inside dials, with TLS and a user of its own, and the duplex
connector brings back what was sent outside. Only what the list names crosses, either way.
""",
        """\
- **Without `duplex`** messages go from inside to outside only: the outside has no connection to use.
- **`excludedDestinations` instead of a list of what may cross** lets every new destination out by itself.
- **Lists hold for both directions** of a duplex connector. Different lists need a connector in the DMZ, and a way in.
- **Temporary queues** of requests are not bridged here (`bridgeTempDestinations="false"`): replies to outside clients
  need a queue that the list names.
- **The user** needs rights on advisories (`ActiveMQ.Advisory.>`) as well, where rights are given.
- `static:(ssl://...)` is retried for ever; a proxy that closes idle connections makes it look flaky: let it wait longer
  than 30 s.
""",
    ),
    "data-centres": (
        "Two data centres",
        ("data-centres",),
        """\
Each data centre has two brokers with one store, of which one serves ([high availability](../high-availability.md)).
One connector joins them, declared in both files of the east; `masterslave:(...)` is one bridge, to whoever serves in
the west. Clients use `failover:(...)` with the two of their own data centre. Where each has several brokers that serve,
give them [zones](../zones.md).
""",
        """\
- **`static:` to a pair** makes two bridges, of which one is dialled for ever in vain.
- **`masterslave:` to two brokers that share no store** links only the first that answers; messages sent to the other
  never cross.
- **`failover:` within `static:`** hides from a broker of ActiveMQ that the other end has changed.
- **A stretched store**, one pair over both data centres, ties every confirmed message to the slowest disk between
  them. Two pairs and a bridge wait for their own disk alone, and deliver what was under way when the line is back.
- **Demand draws messages over the line**: a consumer with a large prefetch in the east takes what the west could
  consume. `decreaseNetworkConsumerPriority="true"`, as here, serves local consumers first.
""",
    ),
}

INDEX: Final = (
    WRITTEN
    + """\
# Networks of brokers

Many brokers act as one: a client connects to any of them, and producers and consumers meet wherever they are. The parts
are [network connectors](attributes.md) in `activemq.xml`, or `entrepot run --connect`.

Draw the network before you start it:

```sh
entrepot check amsterdam.xml berlin.xml --svg network.svg
```

reads all files as one network, says what cannot work (an error), what will surprise (a warning) and what to decide on
purpose (a note), each with file, line and remedy, and draws it. It opens nothing, so it can run before a change is
rolled out; `-o json` and the exit code are for pipelines, `--strict` makes warnings errors. Brokers that listen at
`0.0.0.0` are known by their name, by the only one that listens at a port, or by `--host BROKER=HOST`.

The drawing and the table of hops beside it are made from the same model: `-` where there is no way, `!` where there is
one and a TTL is too short for it. `--path amsterdam:berlin` says what each hop of that way does to messages, and which
is the weakest ([what is guaranteed, hop by hop](guarantees.md)).

Files of Artemis are read as one network too: cluster connections (static connectors, discovery and broadcast groups),
max-hops, cluster users, load balancing, redistribution, the pairs of `<ha-policy>`, and core bridges: what they take,
where it goes, and whether it comes back for ever. This build joins such clusters and runs such
bridges; the check is of the files.

Then run it without starting a broker:

```sh
entrepot simulate --send queue://orders@amsterdam --read queue://orders@berlin --kill berlin amsterdam.xml berlin.xml
```

These are the brokers and bridges of `entrepot run`, over simulated time, disks and connections. It prints what arrived
where and over how many hops, and what is stuck, with the reasons that `entrepot explain` would give; `--seeds 100`
repeats it with other timings. The same files, options and seed give the same trace, on every machine. The exit code is
1 when something that was confirmed did not arrive.

```{toctree}
:maxdepth: 1
"""
)

ATTRIBUTES_HEAD: Final = (
    WRITTEN.replace("tools/network_pages.py and docs/networks/conf/", "src/entrepot/cluster/networks/options.py")
    + """\
# Network connectors

Every attribute of `<networkConnector>` with its default and its state here; `obeyed` is what it does in ActiveMQ. Where
releases of ActiveMQ differ, the default is that of the newest; but `decreaseNetworkConsumerPriority` is false, as the
documentation of ActiveMQ says and its releases up to 5.17 do. Since 5.18 it takes what is not said for true.

| Attribute | Default | State here | What it says, or why it is not obeyed |
|---|---|---|---|
"""
)


def network(directory: Path) -> Network:
    """Return the network of the files in a directory, in the order of their names."""
    members = []
    for file in sorted(directory.glob("*.xml")):
        reading = read(file, spoken=("openwire", "stomp"), bridges=True, defines=SECRETS, environment={})
        if reading.draft is None:
            raise SystemExit(f"{file}: " + "; ".join(finding.what for finding in reading.findings.errors))
        members.append(member_of(reading.draft, file.name))
    return network_of(members)


def network_pages() -> dict[Path, str]:
    """Return every page and picture."""
    found = {FOLDER / "attributes.md": attributes()}
    index = INDEX
    for name, (title, directories, prose, traps) in PAGES.items():
        text = f"{WRITTEN}# {title}\n\n{prose}\n"
        for directory in directories:
            made = network(CONF / directory)
            found[FOLDER / "pictures" / f"{directory}.svg"] = picture(made, title)
            text += "".join(_example(directory, made))
        found[FOLDER / f"{name}.md"] = text + f"## Traps\n\n{traps}"
        index += f"{name}\n"
    found[FOLDER / "index.md"] = index + "http\nattributes\nguarantees\n```\n"
    return found


def _example(directory: str, made: Network) -> Iterator[str]:
    yield f"![{directory}](pictures/{directory}.svg)\n\n"
    yield f"```text\n{draw(made)}```\n\n"
    notes = judge(made)
    if notes:
        yield "`entrepot check` adds:\n\n"
        for issue in notes:
            yield f"- {issue.severity.name.lower()}, {issue.spot.file}:{issue.spot.line}: {_cell(issue.what)}\n"
        yield "\n"
    for file in sorted((CONF / directory).glob("*.xml")):
        yield f"`{file.name}`:\n\n```xml\n{file.read_text()}```\n\n"


def attributes() -> str:
    """Return the page of connector attributes."""
    rows = []
    for one in sorted(KINDS["networkConnector"].attributes.values(), key=lambda one: (_rank(one.does), one.name)):
        rows.append(f"| `{one.name}` | {_default(one)} | {one.does.value} | {_about(one)} |\n")
    for slot in KINDS["networkConnector"].slots.values():
        why = _cell(slot.why)
        if not why:
            listed = "a list of `<queue physicalName=...>` and `<topic physicalName=...>`"
            why = listed if "queue" in slot.kinds else "certificates of this connector, as `<sslContext>` of the broker"
        rows.append(f"| `<{slot.name}>` | none | {slot.does.value} | {why} |\n")
    return ATTRIBUTES_HEAD + "".join(rows)


def _default(one: Attribute) -> str:
    declared = NetworkConnectorOptions.names(Dialect.CLASSIC).get(one.name)
    if declared is None:
        return ""
    shown = declared.show(declared.default)
    return f"`{shown}`" if shown else "empty"


def _about(one: Attribute) -> str:
    if one.does is not Does.OBEYED:
        return _cell(one.why)
    return "" if one.setting is None else _cell(one.setting.about)


def _rank(does: Does) -> int:
    return -1 if does is Does.OBEYED else int(SEVERITY[does])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
