"""The durable subscriptions of a bridge: kept while readers are away, handed over when another way serves them. [C]

Which of them are to be there, `demand.py` decides (classic.md 1.10); here that is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import EntrepotError, Refused
from entrepot.cluster.networks.demand import durables_of
from entrepot.cluster.networks.feed import BridgeFeed
from entrepot.cluster.networks.lists import Lists, Place, address_of
from entrepot.cluster.networks.neighbourhood import BridgeEnd
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.cluster.networks.pouring import holds, pour
from entrepot.cluster.networks.wanted import DURABLE_PREFIX, SESSION, Demand, Reader, ReaderId
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import durable_queue_name
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import MULTICAST, Destination

# Readers that are there are told of in moments, and one that another bridge serves must not be sent what waits here.
RESTORE_AFTER: Final = SECOND


class _Restore(Alarm):
    def __init__(self, due: int, durables: Durables, run: int) -> None:
        super().__init__(due)
        self.durables = durables
        self.run = run

    def ring(self, now: int) -> None:
        self.durables.restore(self.run)


class _Drained(Alarm):
    def __init__(self, due: int, durables: Durables, run: int) -> None:
        super().__init__(due)
        self.durables = durables
        self.run = run

    def ring(self, now: int) -> None:
        self.durables.drained(self.run)


class Durables:
    """Of one bridge."""

    def __init__(self, end: BridgeEnd) -> None:
        self.end: Final = end
        self._draining: dict[str, BridgeFeed] = {}  # durable subscription -> what reads it although it is suppressed
        self._fresh: dict[str, None] = {}  # those that were made on this connection

    def begin(self) -> None:
        """A new connection is introduced."""
        self._fresh.clear()

    def clear(self) -> None:
        """The connection is gone, and its feeds with it."""
        self._draining.clear()

    def queue_of(self, demand: Demand) -> Queue | None:
        """Return what holds the messages of a durable demand of any bridge here."""
        return self.end.broker.table.queues.get(subscription_of(demand))

    def note(self, demand: Demand) -> None:
        """A feed for ``demand`` is about to be attached: remember where its subscription begins, if it is a new one."""
        if demand.durable_name and self.queue_of(demand) is None:
            self.end.neighbourhood.began[subscription_of(demand)] = int(self.end.broker.ids.number)
            self._fresh[demand.durable_name] = None

    def look_again(self) -> None:
        """Call `restore` soon."""
        broker = self.end.broker
        broker.timetable.add(_Restore(int(broker.now) + RESTORE_AFTER, self, self.end.runs))

    def restore(self, run: int) -> None:
        """Serve durable subscriptions of before whose readers are away, if the connection is still the same."""
        end = self.end
        if end.is_current(run):
            queues = [(one.definition.subscription, one.address) for one in end.broker.table.queues.values()]
            end.obey(end.demand.restore(durables_of(queues, end.names.local_client), self._fresh))

    def vacate(self, durable: str) -> None:
        """Remove what still reads, or waits for answers on, a durable subscription that another demand takes over now.

        What is on its way goes back and crosses again, marked; waiting would leave the new demand without any.
        """
        self._stop_draining(durable)
        end = self.end
        for feed in list(end.feeds.values()):
            replaced = feed.retiring or feed.demand not in end.demand.demands
            if durable and replaced and feed.durable_name == durable:
                end.link.remove(feed)
                end.feeds.pop(feed.demand, None)

    def release(self, feed: BridgeFeed) -> None:
        """``feed`` reads no more: do with its durable subscription what was asked for when it was unsubscribed."""
        if feed.forget and feed.durable_name:
            self.forget(feed.durable_name)
        elif feed.instead is not None:
            self.hand_over(feed.demand, (feed.instead,))

    def hand_over(self, before: Demand, to: Sequence[Demand]) -> None:
        """Give those in ``to`` what the durable subscription of ``before`` still holds, and forget that subscription.

        Classic leaves it: it fills for ever, its messages do not arrive, and when its turn comes again all that went
        the other way meanwhile arrives twice (a decision of ours). What came after a new one was made is in both.
        """
        self._stop_draining(before.durable_name)
        end = self.end
        broker, neighbourhood = end.broker, end.neighbourhood
        source = self.queue_of(before)
        if source is None or source.roster.is_read():
            return
        beside = [bridge.names.there_id for bridge in neighbourhood.bridges for one in to if one in bridge.feeds]
        if before.durable_name not in self._fresh and any(there != end.names.there_id for there in beside):
            # It is older than this connection: somebody who is away since before may be reached this way only.
            self.look_again()
            return
        targets: list[tuple[Queue, int]] = []
        for demand in to:
            target = self.queue_of(demand)
            if target is None or target is source:
                return
            targets.append((target, neighbourhood.began.get(target.name, -1)))
        first = int(broker.ids.number) + 1
        moved = pour(broker, source, targets, end.link.doubts, neighbourhood.poured)
        if moved:
            neighbourhood.poured.append((first, int(broker.ids.number)))
        said = ", ".join(target.name for target, _ in targets)
        end.say(f"{moved} messages of the durable subscription {source.name} go over to {said}")
        neighbourhood.began.pop(source.name, None)
        broker.queues.delete(source, "another bridge serves its subscribers")
        broker.ids.secure()

    def drain(self, waiting: Demand, serving: Sequence[Demand]) -> None:
        """Let what `Drain` names cross until nothing of it is left. What came since stays."""
        end = self.end
        source = self.queue_of(waiting)
        until = max(-1 if target is None else int(target.began) for target in map(self.queue_of, serving))
        if source is None or waiting.durable_name in self._draining or not holds(source, until):
            return
        feed = end.feed_of(waiting, [Destination(source.address, MULTICAST, False, source.name)])
        feed.durable_name = feed.client_id = ""  # it reads what is there, and is not the subscription
        feed.no_local = True  # so that it is asked what it wants
        feed.selector = None
        feed.until = until
        try:
            end.ask_leave([address_of(waiting.where)], durable=True)
            end.link.add(feed)
        except EntrepotError as error:
            end.say(f"what waits in {source.name} stays: {error}")
            return
        if not self._draining:
            end.broker.timetable.add(_Drained(int(end.broker.now) + RESTORE_AFTER, self, end.runs))
        self._draining[waiting.durable_name] = feed

    def drained(self, run: int) -> None:
        """End what `drain` began where it is done, if the connection is still the same; look again at the rest."""
        end = self.end
        if run != end.runs:
            return
        for name, feed in list(self._draining.items()):
            source = self.queue_of(feed.demand)
            left = source is not None and feed in end.link.feeds and (feed.under_way or holds(source, feed.until))
            if not left:
                self._stop_draining(name)
        if self._draining:
            end.broker.timetable.add(_Drained(int(end.broker.now) + RESTORE_AFTER, self, run))

    def _stop_draining(self, durable: str) -> None:
        feed = self._draining.pop(durable, None)
        if feed is not None:
            self.end.link.remove(feed)

    def forget(self, name: str) -> None:
        """Delete the durable subscription ``name`` of the bridge here, once all that it sent is answered for."""
        self._stop_draining(name)
        end = self.end
        for feed in end.feeds.values():
            if feed.retiring and feed.durable_name == name:
                feed.forget = True
                return
        try:
            end.broker.reading.forget_durable(end.names.local_client, name)
            end.broker.ids.secure()  # one that came back after a crash would fill for nobody
        except Refused as refusal:
            end.say(f"the durable subscription {name} stays: {refusal}")


def subscription_of(demand: Demand) -> str:
    """Return the name of the queue that holds what waits for a durable demand."""
    return durable_queue_name(demand.reader.client_id or "", demand.durable_name)


def durable_list(broker: BrokerCore, options: NetworkConnectorOptions, lists: Lists) -> list[Reader]:
    """Return the durable subscriptions of our broker that its peer should serve (classic.md 1.10).

    Classic lists only what its dynamicallyIncludedDestinations name; without such a list all are (a decision of ours).
    Those that stand for other brokers' subscriptions are listed only where subscriptions travel on.
    """
    found: list[Reader] = []
    for queue in broker.table.queues.values():
        client, name = queue.definition.subscription or ("", "")
        where = Place(queue.address, topic=True)
        if not name or not lists.permits(where, temporary=False) or options.consumer_ttl == 0:
            continue
        if name.startswith(DURABLE_PREFIX) and (options.consumer_ttl == 1 or client.startswith(options.name)):
            continue
        found.append(
            Reader(
                where,
                (where,),
                ReaderId(f"{client}:{name}", SESSION, 0),
                client_id=client,
                subscription_name=name,
                selector=None if queue.filter is None else queue.filter.text,
            )
        )
    return found
