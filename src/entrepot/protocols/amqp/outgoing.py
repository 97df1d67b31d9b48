"""Links over which a client reads: credit, drain, messages in one frame or in several, browsing. [C]

A link may be sent as many messages as it has credit for, as long as its session takes frames and its socket octets. A
message that needs several frames is written as far as that goes; while one is on its way, its link gets no other.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import UNLIMITED
from entrepot.base.errors import EntrepotError, StorageError
from entrepot.core.effort import Rest
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.consumer import Consumer, Measurement, Pause
from entrepot.core.queue.queue import NONE_DELIVERED, Queue, queue_of
from entrepot.model.address import Destination
from entrepot.model.message import LANGUAGE_AMQP, Message
from entrepot.protocols.amqp.codec import TRANSFER_OCTETS
from entrepot.protocols.amqp.convert import AMQP_LANGUAGE, is_large
from entrepot.protocols.amqp.incoming import Detached
from entrepot.protocols.amqp.large import Piecemeal
from entrepot.protocols.amqp.performatives import Attach, Detach, Flow, Transfer
from entrepot.protocols.amqp.presenting import passes, presented
from entrepot.protocols.amqp.primitives import UINT_MAX
from entrepot.protocols.amqp.refusals import DELETED, NOT_ALLOWED, AmqpRefused, error_of
from entrepot.protocols.amqp.session import AmqpSession, Link, Sent
from entrepot.protocols.large_body import COMMON, INFLATED_MAX, length_of, to_count
from entrepot.protocols.serving.confirmations import Confirmation
from entrepot.protocols.serving.outlet import ServedSubscription

LATER_OCTETS: Final = 24  # before the payload of a transfer that is not the first one


class AmqpConsumer(Consumer):
    """The queue that one link reads."""

    def __init__(self, feed: Feed, key: i64) -> None:
        super().__init__(key, feed.window, feed.tracked)
        self.speaks = LANGUAGE_AMQP
        self.feed: Feed = feed

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Write a transfer."""
        self.feed.deliver(self, message, deliveries)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is delivered."""
        return self.feed.measure(message)

    def ended(self, why: str) -> None:
        """Tell the client that this link gives nothing any more."""
        self.feed.link.took_away(why)


class _Again(Rest):
    """Goes on when the turn of a feed was over: with a browse, or with the end of a drain."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self.feed: Feed = feed

    def resume(self) -> None:
        self.feed.pump()
        self.feed.say_drained()


class Feed(ServedSubscription):
    """What a link reads. ``credit``: messages that may still be sent; ``count``: sent so far, as both sides count."""

    def __init__(self, link: Outgoing, where: Destination, settles: bool) -> None:
        connection = link.session.connection
        super().__init__(connection.outlet, connection.broker, [where])
        self.link: Outgoing = link
        self.session: AmqpSession = link.session
        self.tracked = not settles
        self.prefetch = UNLIMITED
        self.credit: i64 = 0
        self.count: i64 = 0
        self.drains: bool = False
        self.closed: bool = False
        self.outflow: Piecemeal | None = None
        self.again: _Again | None = None
        self.window.pause(Pause.PULL)

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer that writes to this link."""
        return AmqpConsumer(self, self.session.connection.broker.ids.consumer_key())

    # -- credit --------------------------------------------------------------------------------------------------------

    def grant(self, credit: i64, drains: bool) -> None:
        """The client takes so many messages now."""
        self.credit = credit
        self.drains = drains
        self.settle_window()
        self.say_drained()

    def settle_window(self) -> None:
        """Bring the window up to date, and let messages flow if it is open."""
        self.pour()
        window = self.window
        if self.credit > 0 and not self.is_pouring():
            window.lift(Pause.PULL)
            window.reopen()
            if self.browser is not None:
                self.pump()
        else:
            window.pause(Pause.PULL)

    def relieved(self) -> None:
        """The peer reads again, or takes frames again."""
        self.settle_window()
        self.say_drained()

    def is_pouring(self) -> bool:
        """Return whether a message is on its way out. A method, for the compiler (see CORE's)."""
        return self.outflow is not None

    def say_drained(self) -> None:
        """The client wants all that there is, and then no more: say so, unless there is more, or that is not known."""
        if not self.drains or self.closed or self.outlet.choked or self.is_pouring() or self.session.window <= 0:
            return
        if self.browser is not None and self.credit > 0:
            return  # its end comes back to it
        if self.credit > 0 and self.is_searching():
            self._later()
            return
        self.drains = False
        self.count = (self.count + self.credit) & UINT_MAX
        self.credit = 0
        self.window.pause(Pause.PULL)
        self.session.link_flow(self.link.handle, self.count, 0, -1, True)

    def is_searching(self) -> bool:
        """Return whether a queue has not seen yet all that it may have for this reader, or measures some of it."""
        if self.window.pauses & Pause.MEASURING != 0:
            return True
        for consumer in self.consumers:
            queue = queue_of(consumer)
            if queue is not None and int(queue.identity) in queue.host.working:
                return True
        return False

    def _later(self) -> None:
        again = self.again
        if again is None:
            again = self.again = _Again(self)
        self.effort.later(again)

    # -- messages ------------------------------------------------------------------------------------------------------

    def deliver(self, consumer: AmqpConsumer, message: Message, deliveries: i64) -> None:
        """Write a message, or begin it."""
        try:
            self.say(message, deliveries, consumer, None if self.tracked else queue_of(consumer))
        except EntrepotError as error:
            if self.tracked:
                reason = f"it cannot be said in AMQP: {error}"
                self.session.connection.cannot_say(consumer, int(message.number), reason)

    def say(self, message: Message, deliveries: i64, consumer: Consumer | None, owner: Queue | None) -> None:
        """Write ``message``, which ``consumer`` has; None: it is only shown. Raises EntrepotError if it has no form."""
        session = self.session
        connection = session.connection
        if passes(message, deliveries):
            octets = message.raw
        else:
            broker = connection.broker
            where = self.destinations[0]
            length: i64 = length_of(broker, message) if is_large(message) else 0
            identity = broker.ids.identity_of(message)
            octets = presented(message, deliveries, where.routing, identity, broker.wall, length)
        large = is_large(message)
        outflow: Piecemeal | None = None
        if large or len(octets) + TRANSFER_OCTETS > connection.frame_max:
            outflow = Piecemeal(connection.broker, message, octets, owner)
        delivery = session.next_delivery
        session.next_delivery = (delivery + 1) & UINT_MAX
        if self.tracked:
            session.unsettled[int(delivery)] = Sent(self, consumer, message.number)
        self.count = (self.count + 1) & UINT_MAX
        self.credit -= 1
        connection.sent += 1
        if outflow is not None:
            outflow.delivery = delivery
            self.outflow = outflow
            self.window.pause(Pause.PULL)
            self.pour()
            if not self.is_pouring() and self.credit > 0:
                self.window.lift(Pause.PULL)
            return
        outlet = self.outlet
        connection.encoder.transfer(
            outlet.out, session.channel, self.link.handle, delivery, not self.tracked, False, octets
        )
        session.sent_frame()
        if self.credit <= 0:
            self.window.pause(Pause.PULL)
        if not outlet.noted:
            outlet.note()
        if len(outlet.out) > outlet.high:
            outlet.choke()

    def pour(self) -> None:
        """Write the next frames of a message, as far as the session and the socket take them."""
        session = self.session
        outlet = self.outlet
        while not outlet.choked and session.window > 0:
            outflow = self.outflow
            if outflow is None:
                return
            if not write_piece(session, self.link.handle, outflow, not self.tracked):
                return
            if outflow.is_done():
                self.outflow = None
                outflow.finish()
            session.sent_frame()
            outlet.note()
            if len(outlet.out) > outlet.high:
                outlet.choke()

    # -- browsing ------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Write what the browser shows next, as far as credit, session and socket allow."""
        while not self.outlet.choked and self.credit > 0 and self.session.window > 0 and not self.is_busy():
            browser = self.browser
            if browser is None:
                return
            if self.effort.is_over():
                self._later()
                return
            self.show_next(browser, 1)
            if browser.done and not self.is_looking():
                self.browser = None
                self.show_end()

    def is_busy(self) -> bool:
        """Return whether a message is on its way out, or read before that."""
        return self.is_pouring() or self.is_looking()

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is written."""
        if message.language is AMQP_LANGUAGE:
            return None
        return to_count(self.broker, message, COMMON, INFLATED_MAX)

    def show(self, browser: Browser, message: Message) -> None:
        """Write what ``browser`` came to. One that cannot be said cannot be shown."""
        try:
            self.say(
                message, max(browser.deliveries[0] - 1, i64(0)), None, None
            )  # what is shown is not delivered again
        except EntrepotError:
            return

    def show_end(self) -> None:
        """All is shown: who drains is told."""
        self.say_drained()

    def end(self) -> None:
        """It gets nothing any more."""
        self.closed = True
        self.browser = None
        outflow = self.outflow
        if outflow is not None:
            self.outflow = None
            outflow.finish()


class Outgoing(Link):
    """A link over which messages go. ``durable``: the subscription that its closing deletes."""

    def __init__(self, session: AmqpSession, name: str, handle: i64, where: Destination, settles: bool) -> None:
        super().__init__(session, name, handle)
        self.feed: Feed = Feed(self, where, settles)
        self.durable: str = ""
        self.client_id: str = ""
        self.ended: bool = False
        self.awaited: Attach | None = None  # the answer to its attach, which waits for the disk
        self.early: Flow | None = None  # what the peer said last, meanwhile

    def answer_when_stored(self, answer: Attach) -> None:
        """Answer its attach when the disk has what was made for it: from then on the peer relies on that.

        A peer need not wait for the answer before it gives credit; nothing is delivered before.
        """
        self.awaited = answer
        self.session.confirmations.ask(_Stored(self))

    def stored(self) -> None:
        """The disk has what was made for it."""
        answer = self.awaited
        if answer is None:
            return
        self.awaited = None
        self.session.say(answer)
        early = self.early
        if early is not None and not self.ended:
            self.early = None
            self.flow(early)

    def not_stored(self, error: EntrepotError) -> None:
        """The disk did not take it: the link leads nowhere."""
        if self.ended:
            self._answer_in_vain()  # its detach is answered behind this
        else:
            self.detach_for(error)

    def detach_for(self, error: EntrepotError) -> None:
        """Our side detaches it, because of ``error``; nobody detaches what was not attached."""
        self._answer_in_vain()
        super().detach_for(error)

    def _answer_in_vain(self) -> None:
        answer = self.awaited
        if answer is not None:
            self.awaited = None
            answer.source = None
            self.session.say(answer)

    def flow(self, flow: Flow) -> None:
        """The peer takes messages; it may ask where the link stands."""
        if self.awaited is not None:
            before = self.early
            flow.echo = flow.echo or (before is not None and before.echo)
            self.early = flow
            return
        feed = self.feed
        if flow.link_credit >= 0:
            base: i64 = 0 if flow.delivery_count < 0 else flow.delivery_count
            ahead = (feed.count - base) & UINT_MAX  # sent, and not seen by the peer when it said this
            if ahead > UINT_MAX // 2:
                ahead = 0
            feed.grant(max(flow.link_credit - ahead, i64(0)), flow.drain)
        if flow.echo and not flow.drain:
            self.session.link_flow(self.handle, feed.count, feed.credit, -1, False)

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Nothing may come here."""
        raise AmqpRefused("a transfer came over a link whose sender is this broker", NOT_ALLOWED)

    def relieved(self) -> None:
        """The session takes frames again."""
        if not self.feed.outlet.choked:
            self.feed.relieved()

    def detach(self, detach: Detach) -> None:
        """The peer detaches it, or closes it: then a durable subscription goes."""
        session = self.session
        connection = session.connection
        self.end(self.seen_when(detach))
        try:
            if detach.closed and self.durable:
                broker = connection.broker
                broker.access.forget(connection.subject, broker.reading.durable(self.client_id, self.durable))
                broker.reading.forget_durable(self.client_id, self.durable)
        except EntrepotError as error:
            session.say(Detach(handle=self.handle, closed=True, error=error_of(error)))
            return
        if self.dynamic and detach.closed:
            connection.drop_temporary(self.dynamic)
        session.confirmations.ask(Detached(self, detach.closed))

    def seen_when(self, detach: Detach) -> i64:
        """Return what the peer, which detaches the link, had been delivered of what it has not settled."""
        return NONE_DELIVERED

    def took_away(self, why: str) -> None:
        """The broker ended it (its queue was deleted): tell the client."""
        if not self.ended and not self.session.ended:
            self.detach_for(AmqpRefused(f"the link has ended: {why}", DELETED))

    def end(self, last_delivered: i64) -> None:
        """Give back what it holds."""
        if self.ended:
            return
        self.ended = True
        feed = self.feed
        session = self.session
        session.feeds.pop(feed, None)
        feed.end()
        for delivery, sent in list(session.unsettled.items()):
            if sent.feed is feed:
                del session.unsettled[delivery]
        feed.outlet.starve(feed)
        session.connection.broker.unsubscribe(feed, last_delivered)


class _Stored(Confirmation):
    """The answer to an attach for which something was made that stays."""

    def __init__(self, link: Outgoing) -> None:
        super().__init__(link.session.confirmations)
        self.link: Outgoing = link

    def give(self) -> None:
        """Write it."""
        self.link.stored()

    def refuse(self, error: EntrepotError) -> None:
        """Say that it is not stored."""
        self.link.not_stored(error)


def write_piece(session: AmqpSession, handle: i64, outflow: Piecemeal, settled: bool) -> bool:
    """Write the next frame of a message over the link ``handle``; ``settled``: nobody is to answer it.

    False: its body cannot be read, and the connection is given up: in the middle of a message nothing can be said.
    """
    connection = session.connection
    first = outflow.delivery >= 0
    try:
        piece = outflow.piece(connection.frame_max - (TRANSFER_OCTETS if first else LATER_OCTETS))
    except StorageError as error:
        outflow.lost()
        connection.give_up(f"a body cannot be read: {error}")
        return False
    more = not outflow.is_done()
    out = connection.outlet.out
    if first:
        delivery = outflow.delivery
        outflow.delivery = -1
        connection.encoder.transfer(out, session.channel, handle, delivery, settled, more, piece)
    else:
        connection.encoder.write_with(out, session.channel, Transfer(handle=handle, more=more), piece)
    return True
