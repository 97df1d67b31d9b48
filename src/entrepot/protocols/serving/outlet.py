"""What goes out over one connection: the writer, when it holds too much, and who is stopped then. [C]

Whoever delivers looks at ``high`` after writing and calls `Outlet.choke`. All that delivers unasked is known here: the
subscriptions of the connection, and *sources* (reading by lease, a bridge). A choked outlet stops every one of them and
lets every one go on; nothing else writes `Pause.SOCKET` for a client.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import KIB, MIB, SECOND, Instant
from entrepot.base.errors import StorageError
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Effort, Rest
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.consumer import Measurement, Pause
from entrepot.core.reading.subscription import Subscription
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.protocols.outflow import Outflow, Outflows
from entrepot.protocols.serving.looking import Looking
from entrepot.protocols.session import NEVER, Session, Shell

WRITER_KEPT_OCTETS: Final = 64 * KIB  # a writer never shrinks: one that a burst made larger is let go
WRITER_QUIET: Final = 5 * SECOND  # but not while there are bursts: growing anew each time cost a tenth of the rate
WRITER_HUGE_OCTETS: Final = 1 * MIB  # this is no burst but one long message: let go at once
BROWSE_STEP: Final = 200

NO_SHELL: Final = Shell()


@mypyc_attr(allow_interpreted_subclasses=True)
class Source:
    """Whoever writes unasked without being a subscription: it stops when the peer reads too slowly."""

    def choked(self) -> None:
        """The peer reads too slowly."""

    def relieved(self) -> None:
        """The peer reads again: go on until `Outlet.choked`."""


class Outlet:
    """``out`` is where frames are written now: ``writer``, or what waits behind a body that comes from disk."""

    def __init__(self, session: Session, high: i64) -> None:
        self.shell: Shell = session.shell
        self.writer: BytesWriter = session.writer
        self.out: BytesWriter = self.writer
        self.high: i64 = high  # octets that may wait before deliveries pause
        self.noted: bool = False  # the shell knows that there is something to write
        self.choked: bool = False  # too much waits: deliveries pause
        self.socket_full: bool = False
        self.wrote: i64 = 0  # when the peer was given something last
        self.wide_at: i64 = 0  # when more than WRITER_KEPT_OCTETS were written last; 0: the writer is small
        self.subscriptions: dict[ServedSubscription, None] = {}
        self.sources: list[Source] | None = None
        self.outflows: Outflows | None = None  # bodies that leave in pieces; none yet for most connections

    # -- writing ------------------------------------------------------------------------------------------------------

    def note(self) -> None:
        """Tell the shell that there is something to write. Call it after writing."""
        if not self.noted:
            self.noted = True
            self.shell.dirty()

    def take(self, now: Instant) -> bytes:
        """Return what is to be written now, and forget it."""
        writer = self.writer
        self.noted = False
        if len(writer) == 0:
            return b""
        data = writer.getvalue()
        writer.truncate(0)
        if len(data) > WRITER_HUGE_OCTETS:
            self.wide_at = max(now - WRITER_QUIET, 1)
        elif len(data) > WRITER_KEPT_OCTETS:
            self.wide_at = now
        self.wrote = now
        return data

    def due(self) -> Instant:
        """Return when `shrink` has something to do."""
        return int(self.wide_at) + WRITER_QUIET if self.wide_at > 0 else NEVER

    def shrink(self, now: Instant) -> bool:
        """Give back the memory of the last burst if there was none since; True: ``writer`` is another one now."""
        if self.wide_at == 0 or now < self.wide_at + WRITER_QUIET:
            return False
        writer = self.writer
        if len(writer) > 0:
            self.wide_at = now
            return False
        self.wide_at = 0
        self.writer = BytesWriter()
        if self.out is writer:
            self.out = self.writer
        return True

    def end(self) -> None:
        """The connection is gone: the shell is told nothing more, nobody goes on, and bodies are let go of."""
        self.shell = NO_SHELL
        self.choked = True
        self.break_off()

    def is_over(self) -> bool:
        """Return whether the connection is gone."""
        return self.shell is NO_SHELL

    # -- bodies that leave in pieces ----------------------------------------------------------------------------------

    def pour(self, body: Outflow) -> None:
        """The head of a frame was written to ``out``: let ``body`` follow at the pace of the socket.

        All that is written from now on waits behind it, and nothing more is delivered until all of it has gone.
        """
        outflows = self.outflows
        if outflows is None:
            outflows = Outflows(self.writer)
            self.outflows = outflows
        outflows.begin(body)
        self.out = outflows.out
        self.note()
        self.choke()

    def is_streaming(self) -> bool:
        """Return whether a body is on its way out."""
        outflows = self.outflows
        return outflows is not None and outflows.is_busy()

    def flow(self) -> str:
        """Write the next piece of a body, if the socket has room; return why that is not possible, usually ""."""
        outflows = self.outflows
        if outflows is None or self.socket_full:
            return ""
        try:
            gone = outflows.flow(self.writer)
        except StorageError as error:  # in the middle of a frame: nothing can be said any more
            return f"a body cannot be read: {error}"
        self.out = outflows.out
        if gone is not None:
            gone.finish(True)
        return ""

    def take_piece(self, now: Instant) -> bytes:
        """Return what `flow` left to be written; when that was the last of the bodies, deliveries go on."""
        data = self.take(now)
        if not self.socket_full:
            if self.is_streaming():
                self.note()
            else:
                self.relieve()
        return data

    def break_off(self) -> None:
        """Let go of the bodies: the one that has been begun is never written to its end."""
        outflows = self.outflows
        if outflows is not None:
            outflows.end()
            self.out = self.writer

    # -- who delivers -------------------------------------------------------------------------------------------------

    def feed(self, subscription: ServedSubscription) -> None:
        """Let ``subscription`` deliver as fast as the peer reads."""
        self.subscriptions[subscription] = None
        if self.choked:
            subscription.window.pause(Pause.SOCKET)

    def starve(self, subscription: ServedSubscription) -> None:
        """``subscription`` has ended."""
        self.subscriptions.pop(subscription, None)

    def add_source(self, source: Source) -> None:
        """Let ``source`` write as fast as the peer reads."""
        if self.sources is None:
            self.sources = []
        self.sources.append(source)

    def pause(self, reason: i64) -> None:
        """Let no subscription deliver, for ``reason``."""
        for subscription in self.subscriptions:
            subscription.window.pause(reason)

    def choke(self) -> None:
        """The peer reads too slowly: deliver no more until what is written has gone."""
        if not self.choked:
            self.choked = True
            self.pause(Pause.SOCKET)
            if self.sources is not None:
                for source in self.sources:
                    source.choked()

    def relieve(self) -> None:
        """What was written has gone: deliver again, until there is too much again."""
        if not self.choked or self.shell is NO_SHELL:
            return
        self.choked = False
        for subscription in self.subscriptions:
            subscription.window.lift(Pause.SOCKET)
        for subscription in list(self.subscriptions):
            if self.choked:
                return
            subscription.relieved()
        if self.sources is not None:
            for source in list(self.sources):
                if self.choked:
                    return
                source.relieved()


class _Browsing(Rest):
    """The rest of a browse, when its turn is over."""

    def __init__(self, subscription: ServedSubscription) -> None:
        super().__init__()
        self.subscription: ServedSubscription = subscription

    def resume(self) -> None:
        """Show more."""
        self.subscription.pump()


class ServedSubscription(Subscription):
    """A subscription of a connection: it delivers, or it shows what a browser sees, as fast as the peer reads."""

    def __init__(self, outlet: Outlet, broker: BrokerCore, destinations: list[Destination]) -> None:
        super().__init__(destinations)
        self.outlet: Outlet = outlet
        self.broker: BrokerCore = broker
        self.effort: Effort = broker.effort
        self.browser: Browser | None = None
        self.browsing: _Browsing | None = None
        self.looking: Looking | None = None

    def relieved(self) -> None:
        """The peer reads again."""
        self.window.reopen()
        self.pump()

    def opened(self) -> None:
        """Deliver: what the client must hear before the first message has been said."""
        self.window.lift(Pause.OPENING)
        self.window.reopen()

    def pump(self) -> None:
        """Write what the browser shows next, until the socket is full or the end is reached and marked."""
        outlet = self.outlet
        while not outlet.choked and not self.is_looking():
            browser = self.browser
            if browser is None:
                return
            if self.effort.is_over():
                browsing = self.browsing
                if browsing is None:
                    browsing = _Browsing(self)
                    self.browsing = browsing
                self.effort.later(browsing)
                return
            self.show_next(browser, BROWSE_STEP)
            if browser.done and not self.is_looking():
                self.browser = None
                self.show_end()

    def is_looking(self) -> bool:
        """Return whether a body is read before its message is shown. A method, for the compiler."""
        return self.looking is not None

    def show_next(self, browser: Browser, most: i64) -> None:
        """Write what ``browser`` comes to, at most so many; the last may have to be measured first."""
        for message in browser.next(most):
            rare = message.rare
            measurement = self.measure(message) if rare is not None and rare.large_id != 0 else None
            if measurement is None:
                self.show(browser, message)
            else:
                self._look_at(browser, message, measurement)

    def _look_at(self, browser: Browser, message: Message, measurement: Measurement) -> None:
        def is_wanted() -> bool:
            return self.browser is browser and not self.outlet.is_over()

        def show(flaw: str) -> None:
            self.looking = None
            self.show_measured(browser, message, flaw)
            self.relieved()

        self.looking = Looking(self.broker, message, measurement, is_wanted, show)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be found out about a large ``message`` before it is written; None: nothing."""
        return None

    def show_measured(self, browser: Browser, message: Message, flaw: str) -> None:
        """Write what had to be measured. What has a ``flaw`` has no form here, and cannot be shown."""
        if not flaw:
            self.show(browser, message)

    def show(self, browser: Browser, message: Message) -> None:
        """Write what ``browser`` came to. The protocol overrides this."""
        raise NotImplementedError

    def show_end(self) -> None:
        """Say that a browser has shown all. The protocol overrides this."""
        raise NotImplementedError
