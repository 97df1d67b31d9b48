"""How a bridge learns what the far side wants, and which local subscriptions serve that (classic.md 1.5 to 1.10).

Consumers of the far side come as advisories; each is dropped, merged into a demand that exists, or makes a new one. A
`Demand` is one local subscription to be; what must change comes back as effects, which `bridge.py` performs. Nothing
here touches a broker.

Invariants (`check`): each consumer of the far side counts in the demands that its destination matched and in no other;
a demand that is neither static nor durable has at least one consumer; all demands of a broker are in its `Interests`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.networks.admission import ADVISORY, is_out_of_reach
from entrepot.cluster.networks.lists import Included, Lists, Place
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.cluster.networks.wanted import (
    SESSION,
    Demand,
    Drain,
    DropTemporary,
    DurableGone,
    Effect,
    ForgetDurable,
    HandOver,
    LookAgain,
    MakeTemporary,
    Names,
    Reader,
    ReaderGone,
    ReaderId,
    Subscribe,
    TemporaryTold,
    Told,
    Unsubscribe,
)

PRIORITY_LOWEST: Final = -127  # a byte on the wire
DEMANDS_MAX: Final = 100_000  # a peer that invents consumers must not fill memory


class Interests:
    """All demands of one broker, of all its bridges: the same consumer may be seen along several ways (1.9)."""

    def __init__(self) -> None:
        self.demands: dict[Demand, AdvisoryDemand] = {}
        self.suppressed: dict[Demand, AdvisoryDemand] = {}  # served another way, and wanted when that way is gone

    def gone(self, demand: Demand) -> None:
        """``demand`` serves nobody any more: who was suppressed on its account has another chance.

        Classic forgets them, and a mesh that loses its short way then has no way at all (a decision of ours).
        """
        self.demands.pop(demand, None)
        served = demand.consumers()
        for candidate, owner in list(self.suppressed.items()):
            if candidate.serves(served) or any(one in demand.durables for one in candidate.durables):
                del self.suppressed[candidate]
                owner.pending += owner.admit(candidate)

    def sharing(self, candidate: Demand) -> tuple[Demand, AdvisoryDemand] | None:
        """Return the demand that serves one of the consumers of ``candidate`` already, on the same destination.

        One consumer may want several: the parts of a composite, or what fills the queue that it reads. Classic looks at
        the first consumer of a conduit alone, and whoever joined it is served over both ways.
        """
        wanted = candidate.consumers()
        for demand, owner in self.demands.items():
            if demand.where == candidate.where and (demand.serves(wanted) or demand.holds_for(candidate)):
                return demand, owner
        return None


class AdvisoryDemand:
    """What one bridge direction knows of its far side. Call `begin` when both brokers know each other, `end` after."""

    def __init__(self, options: NetworkConnectorOptions, lists: Lists, interests: Interests) -> None:
        self.options: Final = options
        self.lists: Final = lists
        self.interests: Final = interests
        self.names = Names("", "", "", "", "", "")
        self.demands: dict[Demand, None] = {}
        self.pending: list[Effect] = []  # what other bridges' demands made necessary here
        self.ignored = 0
        self._numbers = 0

    # -- life ----------------------------------------------------------------------------------------------------------

    def begin(self, names: Names) -> list[Effect]:
        """Both brokers know each other: return the static demands."""
        self.names = names
        self._numbers = 0
        effects: list[Effect] = []
        for one in self.lists.static:
            effects += self._static(one)
        return effects

    def restore(self, durables: Iterable[tuple[str, str]], fresh: Container[str] = ()) -> list[Effect]:
        """Take up durable subscriptions (topic, name) of this bridge from before, now that its readers were heard of.

        One whose readers are all served by other bridges goes to those; others are served as they were, because their
        readers are away, unless ``dynamicOnly`` and none of them was heard of. ``fresh``: names of those made on this
        connection, so that all whom they ever served have been heard of.
        """
        effects: list[Effect] = []
        for topic, name in durables:
            where = Place(topic, topic=True)
            mine = [demand for demand in self.demands if demand.durable_name == name]
            if any(not demand.restored for demand in mine):
                continue
            waiting = [one for one in self._suppressed() if one.durable_name == name and one.where == where]
            conduit = self.options.conduit_subscriptions
            serving = self._beside(waiting, known=conduit and name in fresh and not mine)
            if serving and mine:
                for demand in mine:
                    del self.demands[demand]
                    self.interests.demands.pop(demand, None)
                    effects.append(Unsubscribe(demand, instead=serving[0]))
            elif serving:
                effects.append(HandOver(waiting[0], tuple(serving)))
            elif not conduit:
                effects += self._drained(waiting)
            elif not mine and (waiting or not self.options.dynamic_only):
                effects += self._restored(where, name)
        return effects

    def _drained(self, waiting: Sequence[Demand]) -> list[Effect]:
        """Have what waits here for readers who are served another way now brought to them; Classic leaves it."""
        shared = [found for one in waiting if (found := self.interests.sharing(one)) is not None]
        serving = tuple(dict.fromkeys(demand for demand, _ in shared if demand.durable_name))
        return [Drain(waiting[0], serving)] if serving else []

    def _restored(self, where: Place, name: str) -> list[Effect]:
        """Serve the durable subscription ``name`` as it was; whom it serves is not known."""
        if name != self.names.durable(where.name) or not self._permits(where):
            return []
        demand = self._made(Reader(where, (where,), path=(self.names.there_id,)), where)
        demand.restored = True
        self._make_durable(demand, name)
        return self._keep(demand)

    def _beside(self, waiting: Sequence[Demand], *, known: bool) -> list[Demand]:
        """Return the demands of other bridges that serve all who are ``waiting`` here; none if somebody else may be.

        Unless all readers are ``known``, only bridges to the same broker will do: one who has been away since before
        may be reached this way only.
        """
        found: dict[Demand, None] = {}
        for one in waiting:
            shared = self.interests.sharing(one)
            if shared is None or not shared[0].durable_name:
                return []
            if not known and shared[1].names.there_id != self.names.there_id:
                return []
            found[shared[0]] = None
        return list(found)

    def end(self) -> list[Effect]:
        """The bridge is gone: its subscriptions go, durable ones stay in the broker and fill."""
        ended = list(self.demands)
        self.demands.clear()
        self.pending.clear()
        for candidate in self._suppressed():
            del self.interests.suppressed[candidate]
        for demand in ended:  # all of them, before any of those that they suppressed is asked whom it shares with
            self.interests.demands.pop(demand, None)
        for demand in ended:
            self.interests.gone(demand)
        return [Unsubscribe(demand) for demand in ended]

    # -- what the far side says ----------------------------------------------------------------------------------------

    def heard(self, said: Told | None) -> list[Effect]:
        """Obey what an advisory tells; None: nothing of what concerns bridges."""
        if isinstance(said, Reader):
            return self.consumer_added(said)
        if isinstance(said, ReaderGone):
            return self.consumer_removed(said.id)
        if isinstance(said, DurableGone):
            return self.durable_removed(said.client_id, said.name)
        if isinstance(said, TemporaryTold):
            return self._temporary(said)
        return []

    def consumer_added(self, reader: Reader) -> list[Effect]:
        """A consumer of the far side: the five tests of classic.md 1.5, part by part for a composite."""
        far = is_out_of_reach(reader.path, self.options.consumer_ttl, self.names.here_id)
        if not reader.parts or reader.browser or far:
            self.ignored += 1
            return []
        effects: list[Effect] = []
        for part in reader.parts:
            # No broker announces who reads advisories; one that does would have them cross twice.
            if part.name.startswith(ADVISORY) or not self._permits(part):
                self.ignored += 1
                continue
            effects += self._wanted(reader, part, several=len(reader.parts) > 1)
        return effects

    def subscribed(self, reader: Reader) -> list[Effect]:
        """The peer of a duplex bridge subscribes directly: to advisories, all parts in one subscription."""
        if not reader.parts or not reader.where.name.startswith(ADVISORY):
            return self.consumer_added(reader)
        demand = self._made(reader, reader.where, reader.parts)
        if reader.id is not None:
            demand.remote[reader.id] = None
        return self._keep(demand)

    def consumer_removed(self, consumer_id: ReaderId) -> list[Effect]:
        """A consumer of the far side left; a durable one of a conduit is only offline."""
        served = [demand for demand in self.demands if consumer_id in demand.remote]
        for demand in served:  # before any of them goes: what goes lets others in, which must not count this one
            del demand.remote[consumer_id]
        for candidate in self._suppressed():
            known = candidate.remote.pop(consumer_id, self) is None
            offline = bool(candidate.durables) and self.options.conduit_subscriptions
            if known and not candidate.remote and not offline:
                del self.interests.suppressed[candidate]
        effects: list[Effect] = []
        for demand in served:
            offline = demand.durable_name != "" and not self.options.conduit_subscriptions
            if demand.empty or (offline and not demand.remote):
                effects += self._drop(demand, forget=False)
        return effects

    def durable_removed(self, client_id: str, name: str) -> list[Effect]:
        """A durable subscription of the far side was unsubscribed: ours goes with the last one."""
        effects: list[Effect] = []
        served = [demand for demand in self.demands if (client_id, name) in demand.durables]
        for demand in served:
            del demand.durables[(client_id, name)]
        left: dict[str, None] = {} if self.options.conduit_subscriptions else {name: None}
        for candidate in self._suppressed():
            known = candidate.durables.pop((client_id, name), self) is None
            if known and not candidate.remote and not candidate.durables:
                del self.interests.suppressed[candidate]
                left[candidate.durable_name] = None  # it may have been served here before
        for demand in served:
            if not demand.durables:
                used = self._is_used(demand.durable_name, demand)
                effects += self._drop(demand, forget=not used)
                if used and not any(one.durable_name == demand.durable_name for one in self.demands):
                    effects.append(LookAgain())  # only those use it who are served another way
        if not served:
            effects += [ForgetDurable(one) for one in left if not self._is_used(one)]
        return effects

    def reconciled(self, told: Sequence[Reader]) -> list[Effect]:
        """Take the list of the far side's durable subscriptions: new ones are served, ours for gone ones go (1.10)."""
        effects: list[Effect] = []
        for reader in told:
            if reader.subscription_name:
                if reader.id is None:
                    reader.id = ReaderId(f"{reader.client_id}:{reader.subscription_name}", SESSION, 0)
                effects += self.consumer_added(reader)
        for demand in list(self.demands):
            wanted = demand.durables or demand.remote or demand.static or self.lists.forces_durable(demand.where)
            if demand.durable_name and not wanted:
                effects += self._drop(demand, forget=True)
        return effects

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _permits(self, where: Place) -> bool:
        return self.lists.permits(where, temporary=self.options.bridge_temporary)

    def _static(self, one: Included) -> list[Effect]:
        where = Place(one.pattern, one.topic)
        if not self._permits(where):
            return []
        demand = self._made(Reader(where, (where,), path=(self.names.there_id,)), where)
        demand.static = True
        if one.force_durable and one.topic:
            self._make_durable(demand, self.names.durable(one.pattern))
        return self._keep(demand)

    def _wanted(self, reader: Reader, where: Place, *, several: bool) -> list[Effect]:
        if reader.id is None:
            return []
        durable = _durable_name(reader, where)
        forced = not durable and self.lists.forces_durable(where)
        waiting = self._suppressed()
        if any(reader.id in demand.remote and demand.where == where for demand in [*self.demands, *waiting]):
            return []  # said twice: a replay after a live advisory
        if self._merge(reader, reader.id, where, durable=forced or bool(durable)):
            return []
        demand = self._made(reader, where)
        demand.remote[reader.id] = None
        if durable:
            self._note_durable(demand, reader)
            for one in waiting:  # he was away, and is back as another consumer
                if one.where == where and one.durables and not one.remote and demand.covers(one):
                    del self.interests.suppressed[one]
            name = durable + (demand.name if several else "")
            if self.options.conduit_subscriptions:
                name = self.names.durable(demand.name)
            self._make_durable(demand, name)
        elif forced:
            self._make_durable(demand, self.names.durable(demand.name))
        if self.options.conduit_subscriptions:
            demand.reader.selector = None  # all of the far side shares it (classic.md 1.7)
        return self.admit(demand)

    def admit(self, demand: Demand) -> list[Effect]:
        """Keep ``demand``, have it joined to a conduit, or remember it while its consumer is served another way."""
        if self._is_suppressed(demand):
            self.ignored += 1
            self.interests.suppressed[demand] = self
            return [LookAgain()] if demand.durable_name else []
        conduits = self._conduits(demand.where, durable=demand.durable_name != "", for_network=demand.for_network)
        if demand.static or not conduits:
            return [*self._replaced(demand), *self._keep(demand)]
        for conduit in conduits:  # several that waited for the same way: one subscription is for all of them
            conduit.remote.update(demand.remote)
            conduit.durables.update(demand.durables)
        return []

    def _replaced(self, demand: Demand) -> list[Effect]:
        """Let ``demand`` have what was restored for it: now it is known whom it serves, and over which way."""
        restored = [one for one in self.demands if one.restored and one.durable_name == demand.durable_name]
        for one in restored:
            del self.demands[one]
            self.interests.demands.pop(one, None)
        return [Unsubscribe(one) for one in restored]

    def _is_used(self, durable: str, besides: Demand | None = None) -> bool:
        """Return whether somebody else needs the durable subscription of that name, now or when another way is gone."""
        return any(one is not besides and one.durable_name == durable for one in [*self.demands, *self._suppressed()])

    def _suppressed(self) -> list[Demand]:
        """Return what is wanted here, and served another way."""
        return [one for one, owner in self.interests.suppressed.items() if owner is self]

    def _make_durable(self, demand: Demand, name: str) -> None:
        demand.durable_name = name
        demand.reader.subscription_name = name
        demand.reader.client_id = self.names.local_client

    def _note_durable(self, demand: Demand, reader: Reader) -> None:
        demand.durables[(reader.client_id or "", reader.subscription_name or "")] = None

    def _merge(self, reader: Reader, reader_id: ReaderId, where: Place, *, durable: bool) -> bool:
        """Count the consumer in every demand that covers ``where``; False when there is none (conduit, 1.7)."""
        conduits = self._conduits(where, durable=durable, for_network=reader.network)
        for demand in conduits:
            demand.remote[reader_id] = None
            if _durable_name(reader, where):
                self._note_durable(demand, reader)
        return bool(conduits)

    def _conduits(self, where: Place, *, durable: bool, for_network: bool) -> list[Demand]:
        """Return the demands that a consumer of ``where`` may share; ``for_network``: it is itself a bridge's."""
        shared = self.options.conduit_network_queue_subscriptions
        if not self.options.conduit_subscriptions or (for_network and not where.topic and not shared):
            return []
        found: list[Demand] = []
        for demand in self.demands:
            alone = demand.for_network and not demand.where.topic and not shared and not demand.static
            if demand.restored and demand.where == where and durable:
                continue  # it is made anew, with the way of this consumer
            if alone or not _covers(demand.where, where) or (durable and not demand.durable_name):
                continue
            if durable is False and demand.durable_name and not demand.static and not self.lists.forces_durable(where):
                continue  # what a durable one holds was meant for the durable ones
            found.append(demand)
        return found

    def _made(self, reader: Reader, where: Place, parts: tuple[Place, ...] = ()) -> Demand:
        """Return the demand of a consumer of the far side, with what will be announced here."""
        self._numbers += 1
        path = reader.path
        if self.names.there_id not in path:
            path = (*path, self.names.there_id)
        served = reader.served
        if reader.id is not None and reader.id not in served:
            served = (*served, reader.id)
        local = Reader(
            where,
            parts or (where,),
            ReaderId(self.names.connection, SESSION, self._numbers),
            path,
            served,
            network=True,
            client_id=self.names.local_client,
            selector=reader.selector,
            prefetch=_prefetch(self.options, where),
            pending_limit=reader.pending_limit,
            dispatch_async=self.options.dispatch_async,
            exclusive=reader.exclusive,
            retroactive=reader.retroactive,
            priority=_priority(self.options, reader.priority, len(path)),
        )
        return Demand(local, for_network=reader.network)

    def _is_suppressed(self, candidate: Demand) -> bool:
        """Look whether one of its consumers is served another way already; the shorter way stays (1.9)."""
        queue = not candidate.where.topic
        if not (self.options.suppress_duplicate_queues if queue else self.options.suppress_duplicate_topics):
            return False
        found = self.interests.sharing(candidate)
        if found is None:
            return False
        demand, owner = found
        # The priority counts hops only where it is decreased; so the length of the way decides between equals.
        if _rank(demand) >= _rank(candidate):
            return True
        if demand.durable_name and not candidate.covers(demand):
            return False  # it stays for the others: Classic takes it away, and what is sent to them is lost
        del owner.demands[demand]
        self.interests.demands.pop(demand, None)
        self.interests.suppressed[demand] = owner
        owner.pending.append(Unsubscribe(demand, instead=candidate if candidate.durable_name else None))
        return False

    def _keep(self, demand: Demand) -> list[Effect]:
        if len(self.interests.demands) >= DEMANDS_MAX:
            self.ignored += 1
            return []
        self.demands[demand] = None
        self.interests.demands[demand] = self
        return [Subscribe(demand)]

    def _drop(self, demand: Demand, *, forget: bool) -> list[Effect]:
        """Take ``demand`` away; nothing is left to do where one that came for another served it already (1.9)."""
        if demand not in self.demands:
            self.interests.suppressed.pop(demand, None)
            return []
        del self.demands[demand]
        self.interests.gone(demand)
        return [Unsubscribe(demand, forget)]

    def _temporary(self, told: TemporaryTold) -> list[Effect]:
        """A temporary destination came or went on the far side (1.12)."""
        far = is_out_of_reach(told.path, self.options.consumer_ttl, self.names.here_id)
        if far or not self.options.bridge_temporary:
            return []
        # Its readers are told of by themselves: who goes is told to go, and one of a destination that only changes its
        # way may have been told of before that change, because it is another topic.
        path = (*told.path, self.names.there_id)
        return [MakeTemporary(told.where, path) if told.there else DropTemporary(told.where)]

    def check(self) -> None:
        """Assert the invariants at the head of this module."""
        for demand in self.demands:
            assert self.interests.demands.get(demand) is self, f"{demand.name} is not among the broker's interests"
            assert not demand.empty, f"nobody needs the demand for {demand.name}"


class StaticDemand(AdvisoryDemand):
    """Only what is statically included; nothing is asked and nothing that is heard counts (``staticBridge``)."""

    def heard(self, said: Told | None) -> list[Effect]:
        """Nothing counts."""
        return []


def _durable_name(reader: Reader, where: Place) -> str:
    """Return the name of the durable subscription that ``reader`` is on ``where``, "" when it is none.

    A durable subscription to a topic that a queue fills is announced as a reader of that queue, with its name.
    """
    return (reader.subscription_name or "") if where.topic else ""


def _prefetch(options: NetworkConnectorOptions, where: Place) -> int:
    return options.advisory_window if where.name.startswith(ADVISORY) else options.prefetch


def _priority(options: NetworkConnectorOptions, own: int, hops: int) -> int:
    """Return the rank of our subscription; ``hops`` counts the far side (1.8)."""
    if not options.decrease_priority:
        return own
    priority = options.priority_base
    if hops > 1:
        priority -= hops + 1
    return max(priority, PRIORITY_LOWEST)


def _rank(demand: Demand) -> tuple[int, int]:
    return demand.reader.priority, -len(demand.reader.path)


def _covers(wide: Place, narrow: Place) -> bool:
    """Return whether a subscription to ``wide`` gets what is sent to ``narrow``."""
    same_kind = wide.topic == narrow.topic and wide.temporary == narrow.temporary
    return same_kind and matches(wide.name, narrow.name, MIXED)


def durables_of(queues: Iterable[tuple[tuple[str, str] | None, str]], client: str) -> Sequence[tuple[str, str]]:
    """Return (topic, name) of the durable subscriptions of ``client`` among (subscription, address) of all queues."""
    return [(address, key[1]) for key, address in queues if key is not None and key[0] == client]
