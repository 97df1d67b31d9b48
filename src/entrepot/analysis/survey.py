"""From members to a `Network`: who is meant by which address.

A listener at ``0.0.0.0`` says nothing about its machine, so an address that a channel dials is looked for in this
order: a listener at that very host; the machine that the operator named (``--host``); a loopback address means a broker
of the same machine; a broker whose name is the first part of the host's name; the only broker that listens at that
port. What is left is somebody outside of these files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.analysis.graph import components
from entrepot.analysis.model import (
    ANY_HOST,
    AUTO,
    LOOPBACK,
    WEB,
    Address,
    Channel,
    Issue,
    Link,
    Listener,
    Member,
    Network,
    Node,
)
from entrepot.base.errors import InvalidOption
from entrepot.config.findings import Severity


def network_of(members: Sequence[Member]) -> Network:
    """Join members: pairs become one node, every channel its links. The order of ``members`` is kept."""
    return _Joining(members).network()


def machines(texts: Sequence[str]) -> dict[str, str]:
    """Return broker -> host of ``BROKER=HOST``. Raises InvalidOption."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, host = text.partition("=")
        if not (name and equals and host):
            raise InvalidOption(f"--host {text!r} is not BROKER=HOST", remedy="write it like --host alpha=mq1.example")
        found[name] = host
    return found


class _Joining:
    def __init__(self, members: Sequence[Member]) -> None:
        self.members: Final = tuple(members)
        self.issues: list[Issue] = [issue for member in members for issue in member.issues]
        self.nodes: list[Node] = []
        self.links: list[Link] = []
        self.outside: dict[str, int] = {}
        self.home: dict[int, int] = {}
        self.meant: dict[tuple[int, str], tuple[tuple[int, ...], ...]] = {}
        self.tied: Final = self._tied()  # brokers whose machine is known

    def network(self) -> Network:
        self._make_nodes()
        for number, member in enumerate(self.members):
            first = number == self.nodes[self.home[number]].members[0]
            if not first and self._twin(number):
                continue  # the same channels as the other of the pair has: one of them serves
            for channel in member.channels:
                if channel.core and not first:
                    continue  # who takes over has the identity of the other, and its place in the cluster
                targets = self._targets(number, channel)
                for target in targets:
                    self._join(number, channel, target, alone=len(targets) == 1)
        self._learn()
        return Network(
            members=self.members,
            nodes=tuple(self.nodes),
            links=tuple(self.links),
            issues=tuple(self.issues),
            meant=self.meant,
        )

    def _tied(self) -> dict[int, None]:
        found = {number: None for number, member in enumerate(self.members) if member.host}
        for owner, member in enumerate(self.members):
            for place in [place for channel in member.channels for places in channel.targets for place in places]:
                for number, other in enumerate(self.members):
                    for listener in other.listeners:
                        if self._exactly(owner, place, number, listener) or self._by_name(
                            owner, place, number, listener
                        ):
                            found[number] = None
        return found

    def _learn(self) -> None:
        """Add the links of clusters to nodes that nobody named: who is known is told to all (artemis.md 1.6)."""
        clusters = [link for link in self.links if link.channel.cluster]
        for part in components(len(self.nodes), clusters):
            for source in part:
                own = [link for link in clusters if link.source == source and not link.channel.direct]
                known = {link.target for link in clusters if link.source == source}
                for target in part if own else ():
                    if target not in known and target != source and self.nodes[target].members:
                        self.links.append(Link(source, target, own[0].channel, own[0].owner))

    def _make_nodes(self) -> None:
        """Let brokers that share a store be one node. A common path proves nothing: it may be on two machines."""
        head = list(range(len(self.members)))
        for number, member in enumerate(self.members):
            for other in range(number):
                if self._pair(member, self.members[other]) or (
                    self._share(member, self.members[other])
                    and (
                        member.name == self.members[other].name
                        or self._listed_together(number, other)
                        or self._chosen_together(number, other)
                    )
                ):
                    head[number] = head[other]
                    break
        for first in dict.fromkeys(head):
            group = [number for number, one in enumerate(head) if one == first]
            for number in group:
                self.home[number] = len(self.nodes)
            names = dict.fromkeys(self.members[number].name for number in group)
            self.nodes.append(Node(" / ".join(names), tuple(group)))

    def _pair(self, one: Member, other: Member) -> bool:
        """Say whether two brokers of Artemis stand in for one another: a primary and a backup that are made for it.

        Brokers that replicate find each other by the name of their group; those that share a store, by its directory.
        """
        mine, theirs = one.part, other.part
        if mine is None or theirs is None or mine.backup == theirs.backup or mine.replicates != theirs.replicates:
            return False
        if not mine.replicates:
            return bool(one.store) and one.store == other.store
        alike = [part for part in (member.part for member in self.members) if part is not None and part.replicates]
        primaries = [part for part in alike if not part.backup and part.group == mine.group]
        return mine.group == theirs.group and (bool(mine.group) or len(primaries) == 1)

    def _share(self, one: Member, other: Member) -> bool:
        return bool(one.store) and one.store == other.store and one.shares_store and other.shares_store

    def _chosen_together(self, one: int, other: int) -> bool:
        """Say whether both files name the directory on purpose, and neither broker dials the other."""
        both = (one, other)
        return all(self.members[number].chose_store for number in both) and not any(
            at in both and at != number
            for number in both
            for channel in self.members[number].channels
            for places in channel.targets
            for place in places
            for at, _ in self._at(number, place)
        )

    def _listed_together(self, one: int, other: int) -> bool:
        """Say whether some channel takes the two for one broker that may be at either place."""
        for owner, member in enumerate(self.members):
            for channel in member.channels:
                for places in channel.targets:
                    at = [number for place in places for number, _ in self._at(owner, place)]
                    if len(places) > 1 and one in at and other in at:
                        return True
        return False

    def _twin(self, number: int) -> bool:
        first = self.members[self.nodes[self.home[number]].members[0]]
        return [one.uri for one in first.channels] == [one.uri for one in self.members[number].channels]

    def _join(self, owner: int, channel: Channel, target: int, *, alone: bool) -> None:
        """Make the links of a channel to ``target``; ``alone``: it leads nowhere else."""
        source = self.home[owner]
        if source == target:
            if not channel.cluster:
                severity = Severity.WARNING if alone else Severity.NOTE  # one list for all brokers is good practice
                what = "it leads back to this broker itself, and such a bridge is given up"
                self.issues.append(Issue(severity, channel.spot, what, "name another broker: check host and port"))
            return
        self.links.append(Link(source, target, channel, owner))
        if channel.duplex:
            self.links.append(Link(target, source, channel, owner, back=True))

    # -- who is meant --------------------------------------------------------------------------------------------------

    def _targets(self, owner: int, channel: Channel) -> list[int]:
        found: dict[int, None] = {}
        for group in channel.groups:
            for number, member in enumerate(self.members):
                if number != owner and any(group in listener.groups for listener in member.listeners):
                    found[self.home[number]] = None
        meant = tuple(tuple(self._node_at(owner, channel, place) for place in places) for places in channel.targets)
        self.meant[owner, channel.name] = meant
        for nodes in meant:
            found[nodes[0]] = None  # one target is one bridge, to whoever of its places answers
        return list(found)

    def _node_at(self, owner: int, channel: Channel, place: Address) -> int:
        candidates = self._at(owner, place)
        nodes: dict[int, None] = {self.home[number]: None for number, _ in candidates}
        if len(nodes) > 1:
            names = ", ".join(self.nodes[node].name for node in nodes)
            self.issues.append(
                Issue(
                    Severity.WARNING,
                    channel.spot,
                    f"{place.text} may be any of {names}: all of them listen at port {place.port}",
                    f"say on which machine each runs: --host {self.nodes[next(iter(nodes))].name}={place.host}",
                )
            )
        elif nodes:
            self._look_at(owner, channel, place, candidates[0][1])
            return next(iter(nodes))
        return self._outsider(owner, channel, place, known=bool(nodes))

    def _outsider(self, owner: int, channel: Channel, place: Address, *, known: bool) -> int:
        if not known and len(self.members) > 1:
            self.issues.append(
                Issue(
                    Severity.WARNING,
                    channel.spot,
                    f"nobody in these files listens at {place.text}",
                    "check host and port, name the file of that broker too, or say where a broker runs: "
                    f"--host BROKER={place.host}",
                )
            )
        key = f"{self.members[owner].name} {place.text}" if place.local else place.text
        if key not in self.outside:
            self.outside[key] = len(self.nodes)
            self.nodes.append(Node(place.text, (), place.text))
        return self.outside[key]

    def _at(self, owner: int, place: Address) -> list[tuple[int, Listener]]:
        listening = [
            (number, listener)
            for number, member in enumerate(self.members)
            for listener in member.listeners
            if listener.port == place.port
        ]
        for rule in (self._exactly, self._on_machine, self._here, self._by_name):
            found = [(number, listener) for number, listener in listening if rule(owner, place, number, listener)]
            if found:
                return found
        if place.local:
            return []
        return [(number, one) for number, one in listening if one.host in ANY_HOST and self._may_be(owner, number)]

    def _exactly(self, owner: int, place: Address, number: int, listener: Listener) -> bool:
        return not place.local and listener.host.lower() == place.host.lower()

    def _on_machine(self, owner: int, place: Address, number: int, listener: Listener) -> bool:
        machine = self.members[number].host.lower()
        if not machine or not _open_to(listener, place):
            return False
        mine = self.members[owner].host.lower()
        return machine == (mine if place.local else place.host.lower())

    def _here(self, owner: int, place: Address, number: int, listener: Listener) -> bool:
        if not place.local or not (listener.host in ANY_HOST or _is_loopback(listener.host)):
            return False
        one, other = self.members[owner].host, self.members[number].host
        return not (one and other and one.lower() != other.lower())

    def _by_name(self, owner: int, place: Address, number: int, listener: Listener) -> bool:
        name = self.members[number].name.lower()
        return not place.local and name in (place.host.lower(), place.host.lower().partition(".")[0])

    def _may_be(self, owner: int, number: int) -> bool:
        """Say whether a wildcard listener may be meant by the name of a host that nothing ties to anybody."""
        return number != owner and number not in self.tied

    # -- can it work ---------------------------------------------------------------------------------------------------

    def _look_at(self, owner: int, channel: Channel, place: Address, listener: Listener) -> None:
        name = f"{listener.text} of {self._name_of(listener)}"
        if channel.core and not listener.core:
            who = "the nodes of a cluster do" if channel.cluster else "a core bridge does"
            self._error(
                channel,
                f"{place.text} is dialled, and {name} does not speak CORE: {who}",
                "add CORE to the protocols of that acceptor, or name another one",
            )
        elif not channel.core and not listener.bridged:
            self._error(
                channel,
                f"{place.text} is dialled, and {name} speaks {listener.protocol}: a bridge speaks OpenWire",
                "dial an openwire (tcp:, nio:, ssl:), http: or auto: connector",
            )
        elif not channel.core and (listener.protocol in WEB) != place.web and listener.protocol != AUTO:
            scheme = _scheme(listener)
            self._error(
                channel,
                f"{place.text} is dialled by {'HTTP' if place.web else 'a socket'}, and {name} speaks {scheme}",
                f"write {scheme}://{place.text}",
            )
        elif listener.secure != place.secure and (channel.core or listener.protocol != AUTO):
            there = "TLS" if listener.secure else "no TLS"
            remedy = f"write {_scheme(listener)}://{place.text}"
            self._error(
                channel,
                f"{place.text} is dialled {'with' if place.secure else 'without'} TLS, and {name} has {there}",
                f"sslEnabled={str(listener.secure).lower()} on the connector" if channel.core else remedy,
            )
        if not place.local and _is_loopback(listener.host):
            self._error(
                channel,
                f"{place.text} is dialled, and {name} can only be reached from its own machine",
                "let it listen at 0.0.0.0, or at the address of that machine",
            )

    def _name_of(self, listener: Listener) -> str:
        for member in self.members:
            if listener in member.listeners:
                return member.name
        return ""

    def _error(self, channel: Channel, what: str, remedy: str) -> None:
        self.issues.append(Issue(Severity.ERROR, channel.spot, what, remedy))


def _scheme(listener: Listener) -> str:
    """Return the scheme that dials it."""
    if listener.protocol in WEB:
        return "https" if listener.secure else "http"
    return "ssl" if listener.secure else "tcp"


def _is_loopback(host: str) -> bool:
    return host.lower() in LOOPBACK or host.startswith("127.")


def _open_to(listener: Listener, place: Address) -> bool:
    return listener.host in ANY_HOST or listener.host.lower() == place.host.lower() or _is_loopback(listener.host)
