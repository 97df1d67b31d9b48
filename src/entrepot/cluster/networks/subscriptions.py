"""The local subscriptions of a bridge: one feed of its link for each demand of the far side. [C]"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError
from entrepot.cluster.link import State
from entrepot.cluster.networks.admission import ADVISORY
from entrepot.cluster.networks.durables import Durables
from entrepot.cluster.networks.feed import BridgeFeed
from entrepot.cluster.networks.lists import Place, address_of
from entrepot.cluster.networks.neighbourhood import BridgeEnd
from entrepot.cluster.networks.temporaries import Temporaries
from entrepot.cluster.networks.wanted import (
    Demand,
    Drain,
    DropTemporary,
    Effect,
    ForgetDurable,
    HandOver,
    LookAgain,
    MakeTemporary,
    Subscribe,
    Unsubscribe,
)


class Subscriptions:
    """Of one bridge; its feeds are in `BridgeEnd.feeds`."""

    def __init__(self, end: BridgeEnd, durables: Durables, temporaries: Temporaries) -> None:
        self.end: Final = end
        self.durables: Final = durables
        self.temporaries: Final = temporaries

    def obey(self, effects: Iterable[Effect]) -> None:
        """Do what `demand.py` decided."""
        for effect in effects:
            if isinstance(effect, Subscribe):
                self.subscribe(effect.demand)
            elif isinstance(effect, Unsubscribe):
                self.unsubscribe(effect)
            elif isinstance(effect, LookAgain):
                self.durables.look_again()
            elif isinstance(effect, HandOver):
                self.durables.hand_over(effect.before, effect.to)
            elif isinstance(effect, Drain):
                self.durables.drain(effect.waiting, effect.serving)
            elif isinstance(effect, ForgetDurable):
                self.durables.forget(effect.name)
            elif isinstance(effect, MakeTemporary):
                self.temporaries.told(effect.where, effect.path)
            elif isinstance(effect, DropTemporary):
                self.temporaries.drop(effect.where)

    def subscribe(self, demand: Demand) -> None:
        """Attach a feed for ``demand``, and announce it here."""
        end = self.end
        if end.link.state is State.DRAINING:  # it ends; another way may serve them
            self._refuse(demand)
            return
        before = end.feeds.get(demand)
        if before is not None and end.link.revive(before):  # suppressed and wanted again before all was answered
            before.forget = False
            before.instead = None
            end.advising.reader_added(demand.reader)
            return
        self.durables.vacate(demand.durable_name)
        if demand.where.temporary:
            self.temporaries.imply(demand.where, demand.reader.path)
        addresses = [address_of(part) for part in demand.reader.parts]
        feed = end.feed_of(demand, addresses)
        end.feeds[demand] = feed
        self.durables.note(demand)
        try:
            end.ask_leave(addresses, durable=bool(demand.durable_name))
            end.link.add(feed)
        except EntrepotError as error:
            self._refuse(demand)
            end.say(f"no subscription to {demand.name}: {error}")
            return
        if demand.durable_name:  # no client waits for it, and a crash would take what is sent before it is made again
            end.broker.ids.secure()
        end.advising.reader_added(demand.reader)
        if addresses[0].name.startswith(ADVISORY):
            end.advising.replay(feed, demand.reader.id)

    def unsubscribe(self, effect: Unsubscribe) -> None:
        """Take it away, once all that it sent is answered for."""
        end = self.end
        demand = effect.demand
        feed = end.feeds.get(demand)
        if feed is None:
            if effect.forget and demand.durable_name:
                self.durables.forget(demand.durable_name)
            elif effect.instead is not None:
                self.durables.hand_over(demand, (effect.instead,))
            return
        feed.forget = effect.forget
        feed.instead = effect.instead
        end.advising.reader_removed(demand.reader.id)
        if end.link.retire(feed):
            self.retired(feed)
        self.temporaries.unread(demand.where)

    def retired(self, feed: BridgeFeed) -> None:
        """All that ``feed`` had on its way arrived, and it is gone."""
        feeds = self.end.feeds
        if feeds.get(feed.demand) is feed:
            del feeds[feed.demand]
        self.durables.release(feed)

    def serve_again(self, where: Place) -> None:
        """Read ``where``, which was deleted and is there again."""
        end = self.end
        for demand in [one for one in end.feeds if one.where == where]:
            if demand in end.demand.demands and end.link.state is State.OPEN:
                end.link.remove(end.feeds.pop(demand))
                self.subscribe(demand)

    def give_up(self, number: int, why: str, now: Instant) -> None:
        """The other broker lets our user not send there: stop trying, or one destination would break all others."""
        end = self.end
        feed = end.link.forbidden(number, now)
        if not isinstance(feed, BridgeFeed) or feed.demand not in end.demand.demands:
            return
        end.demand.demands.pop(feed.demand)
        end.neighbourhood.interests.gone(feed.demand)
        end.advising.reader_removed(feed.demand.reader.id)
        end.forbidden[feed.demand.name] = why
        end.say(f"nothing more is forwarded for {feed.demand.name}: the other broker says: {why}")

    def clear(self) -> None:
        """The connection is gone: the link detached all of them, and nothing is on its way any more."""
        end = self.end
        ended = list(end.feeds.values())
        end.forbidden.clear()
        self.durables.clear()
        for demand in list(end.feeds):
            end.feeds.pop(demand)
            end.advising.reader_removed(demand.reader.id)
        for feed in ended:
            self.durables.release(feed)

    def _refuse(self, demand: Demand) -> None:
        end = self.end
        end.feeds.pop(demand, None)
        end.demand.demands.pop(demand, None)
        end.neighbourhood.interests.gone(demand)
