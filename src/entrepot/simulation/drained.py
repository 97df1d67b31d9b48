"""One seed of a cluster in which nodes give all they have to others (`entrepot drain`), and what must hold.

Producers go on, and so do readers; nodes die in the middle of it, disks are slow, connections are cut, and an operator
resumes, aborts and begins anew. What is judged: a message that was confirmed comes once, at whatever node it is then;
what a node took in its order is read in it; what has a date does not come before; a prepared branch is at one node, its
own or a target, until it is ended there; and once all has healed a drain ends, with nothing left behind.

A drain that an operator breaks off while messages are on their way cannot know whether they arrived; nor can a node
that died, whose own readers are given them again. Those may come twice, and only those, in seeds where that may
happen: the others (``firm``) give to one target, and have no readers at the nodes that leave. There only what was here
again when an operator aborted a drain may come twice, where redistribution moves it to another node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from entrepot.base.environment import MILLISECOND
from entrepot.base.primitive import LONG, Primitive
from entrepot.cluster.clusters.drain_notes import RUNNING, State
from entrepot.cluster.clusters.gift import Step
from entrepot.config.model import UsageOptions
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.convert import DELIVER_AT, DUPLICATE
from entrepot.protocols.artemis.headers import TYPE_TEXT, Headers, assembled
from entrepot.protocols.artemis.primitives import Xid
from entrepot.protocols.artemis.sending import schedule
from entrepot.protocols.artemis.transacting import key_of
from entrepot.simulation.cluster_plans import DURABLE, Draft
from entrepot.simulation.cluster_runs import HEALING_S_MAX, ClusterRun
from entrepot.simulation.clusters import Clustered
from entrepot.simulation.leaving import ORDERED, PROMISED, Leaving, LeavingSite, Promise
from entrepot.simulation.postings import IDENTITY
from entrepot.simulation.sites import Blueprint, Confirmed
from entrepot.simulation.world import Lots

DRAINING_S_MAX: Final = 180
WATCH_NS: Final = MILLISECOND // 4  # an answer of the target takes about a millisecond
WATCHES: Final = 2_000
MEMORY: Final = (512 << 20, 512 << 20, 60_000)  # the last one: most of a backlog is on disk alone

LATE: Final = (100_000, 130_000)  # ms: a date that comes when all have given away what they had


class LeavingDraft(Draft):
    """The plan of a seed. ``leaving``: who gives all away; ``target``: to whom, where the seed is ``firm``."""

    def __init__(self, lots: Lots, *, beside: bool = False) -> None:
        super().__init__(lots, leaving=True, beside=beside)
        self.alone = (ORDERED, PROMISED)
        self.single: Final = beside or lots.chance(0.5)
        several = len(self.names) > 2 and not beside and lots.chance(0.3)
        self.leaving: Final = self.names[: 2 if several else 1]
        self.target: Final = self.names[-1]
        self.memory: Final = {name: lots.one_of(MEMORY) for name in self.names}
        self.promises: Final = lots.chance(0.4)
        self.dated: Final = lots.chance(0.5)
        self.aborts: Final = lots.chance(0.6)
        self.repeated: Final = lots.chance(0.4)

    @property
    def title(self) -> str:
        """Name it, for findings."""
        kind = "firm" if self.single else "wavering"
        return f"{' and '.join(self.leaving)} leave, {kind}, {super().title}"


class DrainRun(ClusterRun):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    draft: LeavingDraft
    network: Leaving

    def __init__(self, seed: int, *, beside: bool = False, lines: bool = False) -> None:
        """``beside``: a third node is there, and what waits moves at once."""
        lots = Lots(f"{seed}/{'beside' if beside else 'drains'}")
        self.branches = 0
        self.ranges: Final = Lots(f"{seed}/ranges")  # lots of what came later: seeds keep what they drew before
        self.leases: Final = self.ranges.chance(0.4)
        self.keen: Final = Lots(f"{seed}/keen").chance(0.5)  # who reads by lease asks for more until the end
        self.marked: dict[str, str] = {}  # message -> the node that took it, with an id of its sender
        self._begin(seed, lots, LeavingDraft(lots, beside=beside), lines=lines)

    def _ledger(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool) -> Clustered:
        return Leaving(seed, blueprints, lines=lines)

    def _blueprint(self, name: str) -> Blueprint:
        made = super()._blueprint(name)
        config = made.config
        own = tuple(
            QueueDefinition(name=queue, address=queue, routing=ANYCAST)
            for queue in (ORDERED, PROMISED)
            if name in self.draft.leaving
        )
        usage = UsageOptions(memory_limit=self.draft.memory[name])
        return replace(made, config=replace(config, queues=(*config.queues, *own), usage=usage))

    def _visited(self) -> list[str]:
        """Return the nodes where readers come and go."""
        draft = self.draft
        return [name for name in draft.names if name not in draft.leaving] if draft.single else draft.names

    def _machine(self, name: str) -> LeavingSite:
        site = self.network.sites[name]
        assert isinstance(site, LeavingSite)
        return site

    # -- what happens --------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        lots, draft = self.lots, self.draft
        if self.leases and self.ranges.chance(0.2):
            site = self._machine(self.ranges.one_of(draft.leaving))
            if site.broker is not None and not site.stopping:
                what = self.ranges.below(10)
                if what < 5:
                    self._deliver(site, self._message(PROMISED, {}), PROMISED)
                site.ranger.do(what, self.ranges, firm=draft.single)
        what = lots.below(40)
        if what < 10:
            self._send()
        elif what < 18:
            self._send_kept()
        elif what < 22:
            self._come_or_go()
        elif what < 32:
            self._operate(self._machine(lots.one_of(draft.leaving)))
        elif not draft.calm:
            draft.disturbed = True
            self._trouble()

    def _trouble(self) -> None:
        lots, draft = self.lots, self.draft
        if lots.chance(0.4):
            name = lots.one_of([*draft.leaving, draft.target])
            self._site(name).crash(torn=lots.chance(0.5))
            if lots.chance(0.8):
                self.network.world.later(lots.skewed(1, 3_000) * MILLISECOND, self._site(name).boot)
        else:
            self._disturb(lots.below(9))

    def _operate(self, site: LeavingSite) -> None:
        """The operator looks at a node that is to leave, and does what the state asks for, or something else."""
        lots = self.lots
        if site.broker is None or site.stopping:
            return
        state = site.drain.state
        if lots.chance(0.3):
            self._end_a_promise(site)
        if state in RUNNING:
            if lots.chance(0.2) and self.draft.aborts:
                site.order("abort")
            elif lots.chance(0.1) and not site.order("begin", self._target()):
                self._fault(f"{site.name} begins a drain while one is under way")
        elif state in (State.INTERRUPTED, State.FAILED):
            site.order("abort" if lots.chance(0.2) and self.draft.aborts else "resume")
        else:
            site.order("begin", self._target(site.name))
        if lots.chance(0.4) and not self.draft.calm:
            self.draft.disturbed = True
            if self.draft.promises and lots.chance(0.7):
                self._lie_in_wait(site, WATCHES)
                return
            self.network.world.later(lots.skewed(1, 300) * MILLISECOND, partial(self._interrupt, site))

    def _lie_in_wait(self, site: LeavingSite, tries: int) -> None:
        """Cut a drain off, or let an end of it die, in the very moment in which a branch is prepared at the target."""
        if site.broker is None or site.stopping or tries == 0:
            return
        gift = site.drain.handing.current
        if gift is None or gift.step is not Step.PREPARING:
            self.network.world.later(WATCH_NS, partial(self._lie_in_wait, site, tries - 1))
            return
        self.network.world.count("branches that are interrupted")
        self._interrupt(site)

    def _interrupt(self, site: LeavingSite) -> None:
        """In the middle of a drain something happens to it."""
        lots, network = self.lots, self.network
        what = lots.below(6)
        victim = site if what < 2 else self._machine(self.draft.target)
        if site.broker is None or site.stopping or site.drain.state not in RUNNING:
            return
        network.world.count("drains that are interrupted")
        if what < 4:
            victim.crash(torn=lots.chance(0.5))
            network.world.later(lots.skewed(1, 3_000) * MILLISECOND, victim.boot)
        elif what < 5:
            network.cut(site.name, self.draft.target, silent=lots.chance(0.3))
            network.world.later(
                lots.skewed(1, 3_000) * MILLISECOND, partial(network.mend, site.name, self.draft.target)
            )
        elif self.draft.aborts:
            site.order("abort")

    def _target(self, leaving: str = "") -> str:
        draft, lots = self.draft, self.lots
        if draft.single:
            return f"{draft.target}:61616"
        others = [name for name in draft.names if name != leaving]
        return lots.one_of(["", *(f"{name}:61616" for name in others)])

    def _end_a_promise(self, site: LeavingSite) -> None:
        """A coordinator ends a branch, where it finds it."""
        mine = [one for one in self.network.promises if one.site == site.name]
        if mine:
            self._decide(self.lots.one_of(mine), commits=self.lots.chance(0.6))

    def _decide(self, promise: Promise, *, commits: bool) -> bool:
        sites = self.network.machines()
        first = self.lots.below(len(sites))
        return any(site.decide(promise, commits=commits) for site in sites[first:] + sites[:first])

    def _send_kept(self) -> None:
        """Send to the queues that the cluster leaves alone, at a node that is to leave."""
        lots, draft = self.lots, self.draft
        site = self._machine(lots.one_of(draft.leaving))
        if site.broker is None:
            return
        if draft.promises and lots.chance(0.25):
            self.branches += 1
            key = key_of(Xid(7, b"of the drains", self.branches.to_bytes(4, "big")))
            site.promise(
                Promise(site.name, key), [self._message(PROMISED, {}) for _ in range(lots.below(4))], firm=draft.single
            )
            return
        for _ in range(lots.skewed(1, 60)):
            what = lots.below(10)
            if draft.promises and what < 2:
                self._deliver(site, self._message(PROMISED, {}), PROMISED)
            elif draft.dated and what < 4:
                self._send_dated(site)
            elif draft.repeated and what < 6:
                identity = f"m{self.sent}"
                self.marked[identity] = site.name
                self._deliver(site, self._kept(site, {DUPLICATE: identity}), ORDERED)
            else:
                self._deliver(site, self._kept(site, {}), ORDERED)

    def _kept(self, site: LeavingSite, properties: Mapping[str, object]) -> Message:
        self.network.origins[f"m{self.sent}"] = site.name
        return self._message(ORDERED, properties)

    def _message(self, where: str, properties: Mapping[str, object]) -> Message:
        identity = f"m{self.sent}"
        self.sent += 1
        self.network.wanted[identity] = (where,)
        headers = Headers()
        headers.address = where
        headers.durable = True
        headers.kind = TYPE_TEXT
        body = text_body(identity + "x" * self.lots.skewed(1, 2_000))
        return message_of(assembled(body, headers, {IDENTITY: identity, **properties}), "")

    def _send_dated(self, site: LeavingSite) -> None:
        """Send with a date: to the queue `PROMISED`, where dates disturb no order.

        Where a drain is aborted while it is on its way, and its date comes here, it may be there as well: `LATE`.
        """
        late = self.draft.single and self.draft.aborts
        due = self.network.world.wall() + (self.lots.between(*LATE) if late else self.lots.skewed(10, 60_000))
        self.network.due[f"m{self.sent}"] = due
        message = self._message(PROMISED, {DELIVER_AT: Primitive(LONG, due)})
        assert message.rare is not None
        schedule(message, message.rare, self.network.world.wall())
        self._deliver(site, message, PROMISED)

    def _deliver(self, site: LeavingSite, message: Message, where: str) -> None:
        identity = f"m{self.sent - 1}"

        def act() -> None:
            broker = site.broker
            assert broker is not None
            broker.send(message, broker.target([_queue(where)]))
            broker.journal.confirm(Confirmed(self.network, where), identity.encode())

        site.turn(act)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        network, draft = self.network, self.draft
        self._heal()
        self._find_promises()
        for site in network.machines():
            for key in [key for key in site.readers if site.name in draft.leaving]:
                site.leave(key)
        for promise in network.promises:
            if self.lots.chance(0.3):
                self._decide(promise, commits=self.lots.chance(0.6))
        network.run(1_000)
        for name in draft.leaving:  # before any of them is empty: to find out, one may give all to another of them
            self._find_out(self._machine(name))
        for name in draft.leaving:
            if not self._drain_out(self._machine(name)):
                return
        self._find_promises()
        for promise in network.promises:
            self._decide(promise, commits=self.lots.chance(0.6))
        network.run(1_000)
        for site in network.machines():
            assert site.broker is not None
            if site.broker.branches.prepared:
                self._fault(f"{site.name} keeps branches that were ended: {len(site.broker.branches.prepared)}")
        self._repeat()
        self._read_all()

    def _heal(self) -> None:
        """End every fault, and wait until nothing is on its way between nodes."""
        network = self.network
        network.heal()
        for site in network.sites.values():
            site.disk.sync_delay_max = 2 * MILLISECOND
        network.run(3_000)
        network.heal()
        network.run(100)

    def _find_promises(self) -> None:
        """See that what was prepared, and that nobody has ended, is somewhere."""
        sites = self.network.machines()
        for promise in self.network.promises:
            here = [site.name for site in sites if site.broker and promise.key in site.broker.branches.prepared]
            if promise.said and not promise.ended and not here:
                self._fault(f"a prepared branch of {promise.site} is gone")

    def _find_out(self, site: LeavingSite) -> None:
        """Have a node ask those to whom it may have given branches, as an operator does who reads how it stands."""
        broker = site.broker
        assert broker is not None
        nodes = {one.broker.ids.node.uuid_text: one.name for one in self.network.machines() if one.broker is not None}
        given = dict.fromkeys(branch.record.given for branch in broker.branches.prepared.values())
        for name in [nodes[node] for node in given if node and nodes[node] != self.draft.target]:
            self.network.world.count("drains to find out where a branch is")
            if site.drain.state in RUNNING:
                site.order("abort")
            site.order("begin", f"{name}:61616")
            for _ in range(DRAINING_S_MAX):
                self.network.run(1_000)
                if site.drain.state not in RUNNING:
                    break

    def _drain_out(self, site: LeavingSite) -> bool:
        """Have a node give all away, to the target that stays; return whether it did."""
        for _ in range(DRAINING_S_MAX):
            state = site.drain.state
            unsaid = site.unsaid()
            if unsaid:
                self._fault(unsaid)
            if state is State.DONE and not self._left(site) and not self._waiting():
                return True
            if state in (State.INTERRUPTED, State.FAILED) and not self.draft.single:
                site.order("abort")
            elif state in (State.INTERRUPTED, State.FAILED):
                site.order("resume")
            elif state in RUNNING and not (self.draft.single or _goes_to(site, self._machine(self.draft.target))):
                site.order("abort")
            elif state not in RUNNING and (self._left(site) or state is not State.DONE):
                site.order("begin", f"{self.draft.target}:61616")
            if self.keen:
                site.ranger.ask()
            self.network.run(1_000)
            self.network.inspect()
        self._fault(f"{site.name} keeps {self._left(site)}, {self._waiting()}: {site.drain.report()}")
        return False

    def _left(self, site: LeavingSite) -> dict[str, int]:
        assert site.broker is not None
        queues = site.broker.table.queues.values()
        found = {one.name: int(one.count) for one in queues if one.count}
        if site.broker.branches.prepared:
            found["(prepared)"] = len(site.broker.branches.prepared)
        dated = len(site.broker.scheduled.schedules)
        return {**found, "(scheduled)": dated} if dated else found

    def _repeat(self) -> None:
        """Whoever sent with an id of his own sends it again to the target: it is known there."""
        target = self._machine(self.draft.target)
        for identity in list(self.marked):
            if identity not in self.network.accepted:
                continue
            headers = Headers()
            headers.address = ORDERED
            headers.durable = True
            headers.kind = TYPE_TEXT
            said: dict[str, object] = {IDENTITY: identity, DUPLICATE: identity}
            message = message_of(assembled(text_body(identity), headers, said), "")
            target.turn(partial(self._send_again, target, message, identity))

    def _send_again(self, target: LeavingSite, message: Message, identity: str) -> None:
        broker = target.broker
        assert broker is not None
        known = int(broker.sending.repetitions.count)
        broker.send(message, broker.target([_queue(ORDERED)]))
        if int(broker.sending.repetitions.count) > known:
            self.network.world.count("ids known at the target")
        elif self.draft.single:
            self._fault(f"{identity} was sent again to {target.name}, and is not known there")
        else:
            self.network.doubted[identity] = None

    def _read_all(self) -> None:
        """Seat readers at the nodes that stay, and wait for what is still to come."""
        network, draft = self.network, self.draft
        for name in [name for name in draft.names if name not in draft.leaving]:
            site = self._machine(name)
            for key in [key for key in site.readers if key not in self._durables(site)]:
                site.leave(key)  # a group may be that of one whose selector wants less
            for queue in ("Q", ORDERED, PROMISED):
                site.read(f"queue://{queue}", prefetch=self.lots.one_of((1, 10, 1_000)), key=f"last {queue}")
            for number in range(draft.durables):
                self._subscribe(site, f"{DURABLE}{number}", 10)
        for _ in range(HEALING_S_MAX):
            network.run(1_000)
            network.inspect()
            if self._is_quiet() and not (network.missing() or network.misjudged() or self._unknown()):
                return

    def _judge(self) -> None:
        super()._judge()
        network, draft = self.network, self.draft
        if draft.leaving == draft.names[:1]:
            for what in network.disordered():
                self._fault(what)

    def _twice(self) -> list[str]:
        found = super()._twice()
        if self.draft.single:
            aborted = self.network.aborted if self.draft.moves else {}
            return [
                one for one in found if not (one.split()[0] in aborted and one.split()[1] not in (ORDERED, PROMISED))
            ]
        return [one for one in found if one.split()[0] not in self.network.doubted]

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        moved = sum(site.drain.handing.count for site in self.network.machines() if site.made and site.made.draining)
        said = {"branches prepared": self.branches, "branches moved (last drains)": moved}
        return {**super().counts(), **self.network.world.counts, **said}


def _goes_to(site: LeavingSite, target: LeavingSite) -> bool:
    """Return whether a drain that is under way leads to ``target``, and not to a node that has left."""
    assert target.broker is not None
    return site.drain.ways.node in ("", target.broker.ids.node.uuid_text)


def _queue(name: str) -> Destination:
    return Destination(name, ANYCAST)
