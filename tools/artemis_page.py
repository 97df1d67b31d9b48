"""The page of ``broker.xml``: every element with what becomes of it, read off the declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from source_tree import SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.config.artemis import bootstrap_elements
from entrepot.config.artemis.acceptors import NO_EFFECT, ONLY_CORE, OTHERWISE  # the line above must come first
from entrepot.config.artemis.elements import CONTENT, CORE, KINDS
from entrepot.config.vocabulary import SEVERITY, Attribute, Does, Kind, Slot

HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/config/artemis/. -->
# broker.xml

`entrepot run broker.xml` starts the broker that a configuration of Artemis describes, and `entrepot check broker.xml`
says what would become of it without starting one. Findings, placeholders, `--strict` and the precedence of the command
line are those of [activemq.xml](activemq-xml.md): nothing in the file is dropped silently.

- **Scalars** may be elements with text or attributes, as in Artemis. `<xi:include href="FILE"/>` puts another file
  there.
- **Broker properties** win over the file: `--properties FILE,...` (properties or JSON, or directories of them), then
  `-D brokerconfig.NAME=VALUE`, by the names of Artemis' beans: `maxDiskUsage=80`,
  `addressSettings."#".redeliveryDelay=5`, `addressConfigurations."a".queueConfigs."q".routingType=ANYCAST`,
  `acceptorConfigurations.all.params.port=61617`, `securityRoles."#".clerks.send=true`; `=-` removes an entry. What is
  not known is an error.
- **Acceptors** open the protocols that this build speaks, of those that `protocols=` names or of all; the others are
  named. Options are separated by `;` or `&`.
- **Users and rights** are read as Artemis has them: [Users and rights](security.md). Unless the file says
  `<security-enabled>false</security-enabled>`, a broker whose users cannot be read does not start.
- **Passwords** may be masked as `artemis mask` prints them: `ENC(...)` in any value, or bare where `mask-password` is
  true. The key is the `key=` of `password-codec`, else that of `ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY` or of
  `-D artemis.default.sensitive.string.codec.key=KEY`, else Artemis' own. It takes `pip install 'entrepot[pkcs12]'`.
  Passwords of users are hashed, one way. Another codec is refused.
- **Address settings** merge, the more specific pattern wins, and the defaults are those of Artemis.
- **The journal** stands in the directory `entrepot` within `journal-directory`; a journal of Artemis that is already
  there is neither read nor touched. A relative directory is taken from the one above `etc`.

- **Core bridges** run ([how they behave](bridges.md#core-bridges)); their connectors are those of `<connectors>`.
- **Clusters** are joined: over static connectors, over groups of UDP, or both. Who is in one is told to brokers and
  clients as Artemis tells it, so `(tcp://a,tcp://b)?ha=true` and `udp://group:port` find brokers of both kinds. One
  with another `cluster-password` stays out, and both sides say so; so does one whose data directory is a copy of
  another's. Messages go to other nodes as `message-load-balancing` says, in turn, by the consumers and filters that are
  there; over a lost connection they wait, and none is lost or doubled. Messages that wait on a node whose consumers
  have left follow these to another one after `redistribution-delay` ([clusters](clusters.md#redistribution)).
- **`check`** judges clusters: `entrepot check a.xml b.xml` finds connectors and groups that are named and not defined,
  names given twice, cluster users and passwords that differ, places that others cannot reach, chains longer than
  `max-hops`, messages that would be stranded, and pairs whose `group-name` differs, and it draws the cluster. So it
  does with `<bridges>`: those that are not deployed, share a queue, give up, do not follow a pair, send where no queue
  is bound, or turn messages round for ever ([networks](networks/index.md)).

## A file that is changed while the broker runs

Every `configuration-file-refresh-period` (5000 ms; 0 or -1 for never) the broker looks whether the file was changed, or
touched, or one that it includes, or a file of broker properties, or the users and roles that `login.config` names
(with `reload=true` there). Then all of it is read again, and from the next message on it holds, as in Artemis 2.42:

- **Address settings** hold for every address and queue. What a queue keeps of each key, and `non-destructive`, stay as
  they were when it was made.
- **Security settings, users and roles** hold for who comes, for his next producer or consumer, and for the next message
  of a producer that is there. Consumers stay.
- **Addresses and queues**: new ones are made, queues are changed as `updateQueue` can. A queue does not change its
  address or routing type; that is said. What is left out stays, or is deleted with what it holds where
  `config-delete-addresses` or `config-delete-queues` says FORCE, at a start, too. Queues that clients or operators made
  are left alone.
- **Diverts**: new and changed ones hold. What is left out stays unless `config-delete-diverts` says FORCE.
- **Memory for all messages** (`global-max-size`) is what the file says, unless `--memory-limit` was given; what is held
  and over it stays, and producers wait or are refused. What an operator set by `setMemoryLimit` holds until the file
  says another size.
- **Bridges**: new ones start, changed ones begin anew, and what is left out ends when what is on its way has arrived.
- **Everything else** takes a restart, and the log names it.

A file that is wrong changes nothing: the log says once what is wrong and in which line, and what held goes on to hold
until the file is changed again.

## A primary and its backup

```xml
<ha-policy><shared-store><primary/></shared-store></ha-policy>     <!-- on the one machine -->
<ha-policy><shared-store><backup/></shared-store></ha-policy>      <!-- on the other; the same journal-directory -->
```

| What happens | `failover-on-shutdown` false (default) | true |
|---|---|---|
| the primary is killed, or its machine is | the backup serves | the backup serves |
| the primary is stopped | the store is paused: the backup goes on waiting | the backup serves |
| the primary returns while the backup serves | the backup hands the store back, if it may | the same |
| the backup that serves is stopped | the store is paused until the primary comes | whoever waits serves |

A backup gives the store back with `allow-failback` (true by default); then it waits again, or ends with
`restart-backup` false. How the lock works, and what fences a broker that lost it, is told in
[High availability](high-availability.md).

With `<replication>` a stop hands over to whoever is in sync, a backup with an empty directory begins no store, and
`allow-failback` is false by default, as it is in Artemis. Where it is true, the primary that is back has its store once
it is in sync for a while, and not for ever where it dies again and again:
[Giving the store back](replication.md#giving-the-store-back).
"""

BOOTSTRAP: Final = """
## bootstrap.xml

`entrepot run etc/bootstrap.xml` runs the file that `<server>` names; beside a `broker.xml` it is found by itself. It
says whose users count, and where [the console](console.md#in-a-configuration) is.
"""


def broker_xml() -> str:
    """Return the page."""
    started = BOOTSTRAP + "".join(_sections(bootstrap_elements.KINDS.values(), "###"))
    return HEAD + "".join(_sections(_in_order())) + "".join(_acceptor_options()) + started


def _sections(kinds: Iterable[Kind], level: str = "##") -> Iterator[str]:
    for kind in kinds:
        yield f"\n{level} {kind.name}\n\n{kind.about[0].upper()}{kind.about[1:]}.\n\n"
        rows = [*_scalars(kind), *_slots(kind)]
        if rows:
            yield "| Element or attribute | Value | State here | Same | Why, or what it holds |\n"
            yield "|---|---|---|---|---|\n"
            yield from rows


def _in_order() -> list[Kind]:
    found: dict[str, Kind] = {}
    pending = [CORE.name]
    while pending:
        kind = KINDS[pending.pop(0)]
        if kind.name not in found:
            found[kind.name] = kind
            pending += [name for slot in kind.slots.values() for name in slot.kinds]
    return list(found.values())


def _scalars(kind: Kind) -> Iterator[str]:
    for one in sorted(kind.attributes.values(), key=lambda one: (_rank(one.does), one.name)):
        name = "its text" if one.name == CONTENT else f"`{one.name}`"
        same = f"`{one.same}`" if one.same else ""
        yield f"| {name} | {one.unit.value} | {one.does.value} | {same} | {_about(one)} |\n"


def _about(one: Attribute) -> str:
    if one.does is not Does.OBEYED:
        return _cell(one.why)
    return "" if one.setting is None else _cell(one.setting.about)


def _slots(kind: Kind) -> Iterator[str]:
    for slot in sorted(kind.slots.values(), key=lambda one: (_rank(one.does), one.name)):
        yield f"| `<{slot.name}>` | | {slot.does.value} | | {_cell(slot.why) or _held(slot)} |\n"


def _held(slot: Slot) -> str:
    return f"see `{slot.kinds[0]}`" if slot.kinds[0] != slot.name else ""


def _acceptor_options() -> Iterator[str]:
    yield "\n## Options of acceptors\n\nOptions of TLS, and those that listeners have in `entrepot run --listen`, "
    yield "are obeyed. Options that begin with the name\nof a protocol that is not spoken yet have no effect.\n\n"
    yield "| Option | State here | Why |\n|---|---|---|\n"
    for name in sorted(ONLY_CORE):
        yield f"| `{name}` | {Does.OBEYED.value} | for clients of CORE |\n"
    for table, state in ((NO_EFFECT, Does.NO_EFFECT), (OTHERWISE, Does.OTHERWISE)):
        for name, why in sorted(table.items()):
            yield f"| `{name}` | {state.value} | {_cell(why)} |\n"


def _rank(does: Does) -> int:
    return -1 if does is Does.OBEYED else int(SEVERITY[does])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
