"""How messages leave over CORE: octets of credit, large bodies in pieces, browsers, forced deliveries. [C]

A consumer may be sent something while its credit is above zero, so it goes below by one message; a large one pauses
between two pieces (artemis.md 5.2.8). No two large messages interleave at one consumer: while one is on its way, its
window is closed.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import UNLIMITED
from entrepot.base.errors import EntrepotError, StorageError
from entrepot.core.effort import OCTETS_SHIFT, Rest
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.consumer import INCOMING_BRIDGE, Consumer, Measurement, Pause
from entrepot.core.queue.queue import Queue
from entrepot.model.address import Destination
from entrepot.model.message import LANGUAGE_CORE, Message
from entrepot.protocols.artemis.large import LargeDelivery, measure
from entrepot.protocols.artemis.packets import ReceiveContinuation, ReceiveLarge
from entrepot.protocols.artemis.places import octet_of
from entrepot.protocols.artemis.presenting import forced_delivery, headers_of, octets_of
from entrepot.protocols.artemis.session import CoreSession, Opened

NO_LIMIT: Final = -1  # credit of a FLOWTOKEN: deliver as fast as the socket takes it


class CoreConsumer(Consumer):
    """The queue that one subscription reads."""

    def __init__(self, subscription: CoreSubscription, key: i64) -> None:
        super().__init__(key, subscription.window, subscription.tracked)
        self.speaks = LANGUAGE_CORE
        self.subscription: CoreSubscription = subscription

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Write a RECEIVE."""
        self.subscription.deliver(self, message, deliveries)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is delivered."""
        return self.subscription.measure(message)

    def peer(self) -> str:
        """Return where the broker is that reads here for its own consumers; "" for a client."""
        return self.subscription.peer if self.kind == INCOMING_BRIDGE else ""

    def ended(self, why: str) -> None:
        """Tell the client that this consumer gets nothing any more."""
        self.subscription.ended(why)


class _Forcing(Rest):
    """Says that a queue has nothing more, when that has been found out."""

    def __init__(self, subscription: CoreSubscription) -> None:
        super().__init__()
        self.subscription: CoreSubscription = subscription

    def resume(self) -> None:
        self.subscription.say_forced()


class _Pumping(Rest):
    """The rest of a browse, when its turn is over."""

    def __init__(self, subscription: CoreSubscription) -> None:
        super().__init__()
        self.subscription: CoreSubscription = subscription

    def resume(self) -> None:
        self.subscription.pump()


class CoreSubscription(Opened):
    """One consumer as its client made it. ``queue``: what it reads; ``browses``: it only looks."""

    def __init__(self, session: CoreSession, number: i64, queue: Queue, where: Destination, browses: bool) -> None:
        super().__init__(session.outlet, session.broker, number, where, browses)
        self.session: CoreSession = session
        self.queue: Queue = queue
        self.tracked = not session.settles_early
        self.prefetch = UNLIMITED
        self.credit: i64 = 0
        self.limited: bool = True
        self.large: LargeDelivery | None = None
        self.forced: list[int] | None = None
        self.forcing: _Forcing | None = None
        self.later: _Pumping | None = None
        if not session.commits_acks and self.tracked and not browses:
            self.unsettled = {}

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer that writes to this subscription's connection."""
        return CoreConsumer(self, self.session.broker.ids.consumer_key())

    # -- credit --------------------------------------------------------------------------------------------------------

    def grant(self, octets: i64) -> None:
        """The client takes so many octets more; 0: none at all, -1: any number."""
        if octets == NO_LIMIT:
            self.limited = False
        elif octets == 0:
            self.limited = True
            self.credit = 0
        else:
            self.credit += octets
        self.settle_window()

    def has_credit(self) -> bool:
        """Return whether something may be written now."""
        return self.credit > 0 or not self.limited

    def settle_window(self) -> None:
        """Bring the window up to date and let messages flow if it is open."""
        if self.is_pouring() and self.has_credit():
            self.pour()
        window = self.window
        if not self.is_pouring() and self.has_credit():
            window.lift(Pause.PULL)
            window.reopen()
            if self.browser is not None:
                self.pump()
        else:
            window.pause(Pause.PULL)

    def spend(self, octets: i64) -> None:
        """A frame of so many octets was written."""
        if self.limited:
            self.credit -= octets
            if self.credit <= 0:
                self.window.pause(Pause.PULL)
        outlet = self.outlet
        if len(outlet.out) > outlet.high:
            outlet.choke()

    def relieved(self) -> None:
        """The peer reads again."""
        self.settle_window()
        self.say_forced()

    # -- messages ------------------------------------------------------------------------------------------------------

    def deliver(self, consumer: CoreConsumer, message: Message, deliveries: i64) -> None:
        """Write a RECEIVE, or begin a large one."""
        session = self.session
        unsettled = self.unsettled
        if unsettled is not None:
            unsettled[int(message.number)] = None
            self.order.add(message.number, len(unsettled))
        elif self.tracked:
            self.order.add(message.number, len(consumer.in_flight))
        count = deliveries + 1
        if count == 1 and message.redelivered:
            count = 2
        try:
            self.say(message, count, None if self.tracked else self.queue)
        except EntrepotError as error:
            session.cannot_say(consumer, int(message.number), f"it cannot be said in CORE: {error}")

    def say(self, message: Message, count: i64, owner: Queue | None) -> None:
        """Write ``message`` as the ``count``-th delivery. Raises EntrepotError for one that CORE has no form for.

        ``owner``: the queue that has settled it already.
        """
        session = self.session
        rare = message.rare
        if rare is not None and rare.large_id != 0:
            self._begin(message, count, owner)
            return
        octets = octets_of(message, octet_of(self.queue.routing), session.broker.ids)
        size = session.channel.deliver(octets, message.number, self.number, count)
        session.sent += 1
        self.spend(size)

    def _begin(self, message: Message, count: i64, owner: Queue | None) -> None:
        """Begin a large message: its headers now, its body as credit and socket allow."""
        session = self.session
        large = LargeDelivery(session.broker, message, owner)
        try:
            headers = headers_of(message, octet_of(self.queue.routing), session.broker.ids)
        except EntrepotError:
            large.finish()
            raise
        packet = ReceiveLarge(consumer=self.number, delivery_count=count, body_size=large.length, headers=headers)
        self.large = large
        self.window.pause(Pause.PULL)
        session.sent += 1
        self.spend(session.channel.write(packet))
        self.pour()
        if not self.is_pouring() and self.has_credit():
            self.window.lift(Pause.PULL)

    def is_pouring(self) -> bool:
        """Return whether a large message is on its way out.

        A method, because who sets ``large`` before `pour` is taken by the compiler to know what it is after it.
        """
        return self.large is not None

    def pour(self) -> None:
        """Write the next pieces of a large message, as far as credit and socket allow."""
        session = self.session
        outlet = self.outlet
        while not outlet.choked and self.has_credit():
            large = self.large
            if large is None:
                return
            try:
                piece = large.piece(session.chunk_octets)
            except StorageError as error:  # in the middle of a message: nothing can be said any more
                large.lost()
                session.give_up(f"a body cannot be read: {error}")
                return
            last = large.is_done()
            packet = ReceiveContinuation(body=piece, continues=not last, consumer=self.number)
            if last:
                self.large = None
                large.finish()
            self.effort.spent += len(piece) >> OCTETS_SHIFT
            self.spend(session.channel.write(packet))

    # -- forced deliveries ---------------------------------------------------------------------------------------------

    def force(self, sequence: int) -> None:
        """Deliver what there is, and then say so with ``sequence``."""
        if self.forced is None:
            self.forced = []
        self.forced.append(sequence)
        if self.browser is None:
            self.window.reopen()
        self.say_forced()

    def is_searching(self) -> bool:
        """Return whether the queue has not seen yet all that it may have for this consumer, or measures some of it."""
        queue = self.queue
        return self.window.pauses & Pause.MEASURING != 0 or int(queue.identity) in queue.host.working

    def say_forced(self) -> None:
        """Say that there is nothing more, unless that is not known yet, or something is on its way."""
        forced = self.forced
        if forced is None or self.closed:
            return
        outlet = self.outlet
        if outlet.choked or self.large is not None:
            return  # `relieved` comes back to it
        if self.browser is not None and self.has_credit():
            return  # its end comes back to it
        if self.is_searching():
            forcing = self.forcing
            if forcing is None:
                forcing = self.forcing = _Forcing(self)
            self.effort.later(forcing)
            return
        self.forced = None
        for sequence in forced:
            self.session.channel.deliver(forced_delivery(self.queue.name, sequence), 0, self.number, 0)

    # -- browsing ------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Write what the browser shows next, as far as credit and socket allow."""
        outlet = self.outlet
        while not outlet.choked and self.has_credit() and self.large is None and not self.is_looking():
            browser = self.browser
            if browser is None:
                return
            if self.effort.is_over():
                later = self.later
                if later is None:
                    later = self.later = _Pumping(self)
                self.effort.later(later)
                return
            self.show_next(browser, 1)
            if browser.done and not self.is_looking():
                self.browser = None
                self.show_end()

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is written."""
        return measure(self.broker, message)

    def show(self, browser: Browser, message: Message) -> None:
        """Write what ``browser`` came to. One that cannot be said cannot be shown."""
        deliveries: i64 = max(browser.deliveries[0], int(message.redelivered))
        try:
            self.say(message, deliveries, None)
        except EntrepotError:
            return

    def show_end(self) -> None:
        """All is shown: whoever asked whether there is more is told."""
        self.say_forced()

    # -- the end -------------------------------------------------------------------------------------------------------

    def break_off(self) -> None:
        """All that it has unsettled is given back: a large message among it is written no further."""
        large = self.large
        if large is None or not self.tracked:
            return
        self.large = None
        large.finish()
        if self.has_credit():
            self.window.lift(Pause.PULL)

    def ended(self, why: str) -> None:
        """The broker took the consumer away."""
        self.session.took_away(self)

    def end(self) -> None:
        """It gets nothing any more."""
        self.closed = True
        self.browser = None
        self.forced = None
        large = self.large
        if large is not None:
            self.large = None
            large.finish()
