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

from mypy_extensions import i32

from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.networks.admission import ADVISORY, is_too_far
from entrepot.cluster.networks.lists import Included, Lists
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.cluster.networks.wanted import (
    SESSION,
    Demand,
    Drain,
    DropTemporary,
    Effect,
    ForgetDurable,
    HandOver,
    LookAgain,
    MakeTemporary,
    Names,
    Subscribe,
    Unsubscribe,
)
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTopic,
    BrokerId,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
)
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import DestinationOperation, components, is_queue, is_temporary, path_of

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
            where = ActiveMQTopic(topic)
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

    def _restored(self, where: Destination, name: str) -> list[Effect]:
        """Serve the durable subscription ``name`` as it was; whom it serves is not known."""
        if name != self.names.durable(where.physical_name or "") or not self._permits(where):
            return []
        demand = self._made(ConsumerInfo(broker_path=[BrokerId(self.names.there_id)]), where)
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

    def heard(self, said: Structure | None) -> list[Effect]:
        """Obey an advisory's data structure."""
        if isinstance(said, ConsumerInfo):
            return self.consumer_added(said)
        if isinstance(said, RemoveInfo):
            return self.consumer_removed(said.object_id) if isinstance(said.object_id, ConsumerId) else []
        if isinstance(said, RemoveSubscriptionInfo):
            return self.durable_removed(said.client_id or "", said.subscription_name or "")
        if isinstance(said, DestinationInfo):
            return self._temporary(said)
        return []

    def consumer_added(self, info: ConsumerInfo) -> list[Effect]:
        """A consumer of the far side: the five tests of classic.md 1.5, part by part for a composite."""
        where = info.destination
        path = path_of(info.broker_path)
        ttl = self.options.consumer_ttl
        far = is_too_far(len(path), ttl)
        if where is None or info.browser or far or self.names.here_id in path:
            self.ignored += 1
            return []
        effects: list[Effect] = []
        parts = components(where)
        for part in parts:
            # No broker announces who reads advisories; one that does would have them cross twice.
            if (part.physical_name or "").startswith(ADVISORY) or not self._permits(part):
                self.ignored += 1
                continue
            effects += self._wanted(info, part, several=len(parts) > 1)
        return effects

    def subscribed(self, info: ConsumerInfo) -> list[Effect]:
        """The peer of a duplex bridge subscribes directly: to advisories, all parts in one subscription."""
        where = info.destination
        if where is None:
            return []
        if not (where.physical_name or "").startswith(ADVISORY):
            return self.consumer_added(info)
        demand = self._made(info, where)
        if info.consumer_id is not None:
            demand.remote[info.consumer_id] = None
        return self._keep(demand)

    def consumer_removed(self, consumer_id: ConsumerId) -> list[Effect]:
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

    def reconciled(self, told: Sequence[ConsumerInfo]) -> list[Effect]:
        """Take the list of the far side's durable subscriptions: new ones are served, ours for gone ones go (1.10)."""
        effects: list[Effect] = []
        for info in told:
            if info.subscription_name:
                if info.consumer_id is None:
                    info.consumer_id = ConsumerId(f"{info.client_id}:{info.subscription_name}", SESSION, 0)
                effects += self.consumer_added(info)
        for demand in list(self.demands):
            wanted = demand.durables or demand.remote or demand.static or self.lists.forces_durable(demand.where)
            if demand.durable_name and not wanted:
                effects += self._drop(demand, forget=True)
        return effects

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _permits(self, where: Destination) -> bool:
        return self.lists.permits(where, temporary=self.options.bridge_temporary)

    def _static(self, one: Included) -> list[Effect]:
        where: Destination = ActiveMQTopic(one.pattern) if one.topic else ActiveMQQueue(one.pattern)
        if not self._permits(where):
            return []
        demand = self._made(ConsumerInfo(broker_path=[BrokerId(self.names.there_id)]), where)
        demand.static = True
        if one.force_durable and one.topic:
            self._make_durable(demand, self.names.durable(one.pattern))
        return self._keep(demand)

    def _wanted(self, info: ConsumerInfo, where: Destination, *, several: bool) -> list[Effect]:
        if info.consumer_id is None:
            return []
        durable = _durable_name(info, where)
        forced = not durable and self.lists.forces_durable(where)
        waiting = self._suppressed()
        if any(info.consumer_id in demand.remote and demand.where == where for demand in [*self.demands, *waiting]):
            return []  # said twice: a replay after a live advisory
        if self._merge(info, where, durable=forced or bool(durable)):
            return []
        demand = self._made(info, where)
        demand.remote[info.consumer_id] = None
        if durable:
            self._note_durable(demand, info)
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
            demand.info.selector = None  # all of the far side shares it (classic.md 1.7)
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
        demand.info.subscription_name = name
        demand.info.client_id = self.names.local_client

    def _note_durable(self, demand: Demand, info: ConsumerInfo) -> None:
        demand.durables[(info.client_id or "", info.subscription_name or "")] = None

    def _merge(self, info: ConsumerInfo, where: Destination, *, durable: bool) -> bool:
        """Count the consumer in every demand that covers ``where``; False when there is none (conduit, 1.7)."""
        conduits = self._conduits(where, durable=durable, for_network=info.network_subscription)
        for demand in conduits:
            assert info.consumer_id is not None
            demand.remote[info.consumer_id] = None
            if _durable_name(info, where):
                self._note_durable(demand, info)
        return bool(conduits)

    def _conduits(self, where: Destination, *, durable: bool, for_network: bool) -> list[Demand]:
        """Return the demands that a consumer of ``where`` may share; ``for_network``: it is itself a bridge's."""
        shared = self.options.conduit_network_queue_subscriptions
        if not self.options.conduit_subscriptions or (for_network and is_queue(where) and not shared):
            return []
        found: list[Demand] = []
        for demand in self.demands:
            alone = demand.for_network and is_queue(demand.where) and not shared and not demand.static
            if demand.restored and demand.where == where and durable:
                continue  # it is made anew, with the way of this consumer
            if alone or not _covers(demand.where, where) or (durable and not demand.durable_name):
                continue
            if durable is False and demand.durable_name and not demand.static and not self.lists.forces_durable(where):
                continue  # what a durable one holds was meant for the durable ones
            found.append(demand)
        return found

    def _made(self, info: ConsumerInfo, where: Destination) -> Demand:
        """Return the demand of a consumer of the far side, with what will be announced here."""
        self._numbers += 1
        path = [one for one in info.broker_path or () if isinstance(one, BrokerId)]
        if self.names.there_id not in path_of(path):
            path.append(BrokerId(self.names.there_id))
        consumers = [one for one in info.network_consumer_path or () if isinstance(one, ConsumerId)]
        if info.consumer_id is not None and info.consumer_id not in consumers:
            consumers.append(info.consumer_id)
        local = ConsumerInfo(
            consumer_id=ConsumerId(self.names.connection, SESSION, self._numbers),
            destination=where,
            prefetch_size=i32(_prefetch(self.options, where)),
            maximum_pending_message_limit=info.maximum_pending_message_limit,
            dispatch_async=self.options.dispatch_async,
            selector=info.selector,
            client_id=self.names.local_client,
            exclusive=info.exclusive,
            retroactive=info.retroactive,
            priority=i32(_priority(self.options, int(info.priority), len(path))),
            broker_path=path,
            network_subscription=True,
            network_consumer_path=consumers,
        )
        return Demand(local, where, for_network=info.network_subscription)

    def _is_suppressed(self, candidate: Demand) -> bool:
        """Look whether one of its consumers is served another way already; the shorter way stays (1.9)."""
        queue = is_queue(candidate.where)
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

    def _temporary(self, info: DestinationInfo) -> list[Effect]:
        """A temporary destination came or went on the far side (1.12)."""
        where = info.destination
        path = path_of(info.broker_path)
        ttl = self.options.consumer_ttl
        if where is None or not is_temporary(where) or not self.options.bridge_temporary:
            return []
        if is_too_far(len(path), ttl) or self.names.here_id in path:
            return []
        known = DestinationInfo(
            destination=where,
            operation_type=info.operation_type,
            broker_path=[*(info.broker_path or ()), BrokerId(self.names.there_id)],
        )
        # Its readers are told of by themselves: who goes is told to go, and one of a destination that only changes its
        # way may have been told of before that change, because it is another topic.
        return [MakeTemporary(known) if info.operation_type == DestinationOperation.ADD else DropTemporary(known)]

    def check(self) -> None:
        """Assert the invariants at the head of this module."""
        for demand in self.demands:
            assert self.interests.demands.get(demand) is self, f"{demand.name} is not among the broker's interests"
            assert not demand.empty, f"nobody needs the demand for {demand.name}"


class StaticDemand(AdvisoryDemand):
    """Only what is statically included; nothing is asked and nothing that is heard counts (``staticBridge``)."""

    def heard(self, said: Structure | None) -> list[Effect]:
        """Nothing counts."""
        return []


def _durable_name(info: ConsumerInfo, where: Destination) -> str:
    """Return the name of the durable subscription that ``info`` is on ``where``, "" when it is none.

    A durable subscription to a topic that a queue fills is announced as a reader of that queue, with its name.
    """
    return "" if is_queue(where) else info.subscription_name or ""


def _prefetch(options: NetworkConnectorOptions, where: Destination) -> int:
    return options.advisory_window if (where.physical_name or "").startswith(ADVISORY) else options.prefetch


def _priority(options: NetworkConnectorOptions, own: int, hops: int) -> int:
    """Return the rank of our subscription; ``hops`` counts the far side (1.8)."""
    if not options.decrease_priority:
        return own
    priority = options.priority_base
    if hops > 1:
        priority -= hops + 1
    return max(priority, PRIORITY_LOWEST)


def _rank(demand: Demand) -> tuple[int, int]:
    return int(demand.info.priority), -len(demand.info.broker_path or ())


def _covers(wide: Destination, narrow: Destination) -> bool:
    """Return whether a subscription to ``wide`` gets what is sent to ``narrow``."""
    if is_queue(wide) != is_queue(narrow) or is_temporary(wide) != is_temporary(narrow):
        return False
    return matches(wide.physical_name or "", narrow.physical_name or "", MIXED)


def durables_of(queues: Iterable[tuple[tuple[str, str] | None, str]], client: str) -> Sequence[tuple[str, str]]:
    """Return (topic, name) of the durable subscriptions of ``client`` among (subscription, address) of all queues."""
    return [(address, key[1]) for key, address in queues if key is not None and key[0] == client]
