"""The one shell that drives any session: a socket, its back-pressure and its timer. [C]

Each event of the loop is a turn (`io/turns.py`), at whose end a connection writes once.

Bounds: a peer that does not read makes its session unwritable at `WRITE_MARK_HIGH`; replies that credit does not hold
back (receipts, errors) stop its reading at `OUTPUT_OCTETS_MAX`; so a connection holds at most that much, plus what one
chunk of input causes. What a session raises is our bug: it is logged, and costs that connection and no other.

The only methods that change what a connection is: `connection_made`, `become`, `_finish`, `_break_off`,
`connection_lost`. After the first of the last three (``ended``) its session is never called again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB, MIB, MILLISECOND, SECOND
from entrepot.base.machines import is_one_machine
from entrepot.io.certificates import certified
from entrepot.io.tls import asked_name
from entrepot.io.turns import Turn, delay_seconds
from entrepot.protocols.session import NEVER, Session, Shell

WRITE_MARK_HIGH: Final = 256 * KIB  # a whole read of the loop: a burst that fits one read never pauses its consumer
WRITE_MARK_LOW: Final = 64 * KIB  # a quarter is left to send while the queues are asked for more
OUTPUT_OCTETS_MAX: Final = 4 * MIB  # about 100,000 unread receipts; a client that reads at all never gets there
CLOSE_GRACE: Final = 3 * SECOND  # for the peer to take our last words and close; then the socket is reset
READ_WHOLE: Final = 240 * KIB  # a read that filled the loop's buffer (uvloop 256,000, asyncio 262,144 octets)

log: Final = logging.getLogger("entrepot.connection")


class ConnectionOptions:
    """How connections of one listener behave. Octets, and ns; 0 is off."""

    def __init__(
        self,
        *,
        write_mark_high: i64 = WRITE_MARK_HIGH,
        write_mark_low: i64 = WRITE_MARK_LOW,
        output_octets_max: i64 = OUTPUT_OCTETS_MAX,
        write_timeout: i64 = 0,
        close_grace: i64 = CLOSE_GRACE,
    ) -> None:
        """``write_timeout``: close when a peer takes nothing for so long (classic.md 6.1, transport.soWriteTimeout)."""
        self.write_mark_high: i64 = write_mark_high
        self.write_mark_low: i64 = write_mark_low
        self.output_octets_max: i64 = output_octets_max
        self.write_timeout: i64 = write_timeout
        self.close_grace: i64 = close_grace


class Connection(Shell):
    """A socket and the session that it carries. The loop calls the methods of `asyncio.Protocol`.

    It is no subclass of that class: a compiled class has one base, and the loops only look at method names.
    """

    def __init__(
        self,
        turn: Turn,
        options: ConnectionOptions,
        make: Callable[[Connection], Session],
        lost: Callable[[Connection], None],
    ) -> None:
        """``make`` is called once the peer is known; ``lost`` when the socket is gone."""
        self.turn: Turn = turn
        self.options: ConnectionOptions = options
        self.make: Callable[[Connection], Session] = make
        self.lost: Callable[[Connection], None] = lost
        self.transport: asyncio.Transport | None = None
        self.session: Session = NOBODY
        self.peer: str = ""
        self.timer: asyncio.TimerHandle | None = None
        self.armed: i64 = NEVER
        self.stall_due: i64 = NEVER
        self.noted: bool = False
        self.ended: bool = False
        self.reading: bool = True
        self.choked: bool = False  # too many unread replies: reading stops although the session would go on
        self.full: bool = False
        self.unsent: i64 = 0  # octets that the socket did not take when it was looked at last, while it is full
        self.muted: bool = False  # the broker stops: what the peer says now would not be answered
        self.resting: bool = False  # reading stops until the others had their turn
        self.held: bytes = b""  # came and was not taken yet: the session wants portions, or is unfinished
        self.held_at: i64 = 0
        self.ends: bool = False  # and behind it the stream ends

    # -- what the session asks (Shell) --------------------------------------------------------------------------------

    def dirty(self) -> None:
        """Call `Session.outgoing` at the end of this turn."""
        if not self.noted:
            self.noted = True
            self.turn.note(self)

    def resumed(self) -> None:
        """Look at ``readable`` again."""
        self._adjust_reading()

    def certificate(self) -> str | None:
        """Return the subject of the certificate that was checked."""
        transport = self.transport
        return None if transport is None else certified(transport.get_extra_info("ssl_object"))

    def become(self, session: Session) -> None:
        """Drive ``session`` from now on: what it speaks is known now."""
        self.session = session
        if self.full:
            session.writable(False, self.turn.now)

    def go_on(self) -> None:
        """Let the session do more of what it was given before. Called by the turn."""
        if self.ended:
            return
        session = self.session
        try:
            session.resume(self.turn.now)
        except Exception as error:
            self._break_off(error)
        self._after()
        if not session.unfinished and (len(self.held) > 0 or self.ends):
            self.turn.loop.call_soon(self._take_portion)

    # -- what the loop tells ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        """The socket is open: make its session."""
        self.transport = transport
        self.server_name = asked_name(transport.get_extra_info("ssl_object"))
        self.beside = is_one_machine(transport.get_extra_info("sockname"), transport.get_extra_info("peername"))
        transport.set_write_buffer_limits(high=int(self.options.write_mark_high), low=int(self.options.write_mark_low))
        turn = self.turn
        turn.begin()
        try:
            if not self.peer:
                self.peer = peer_name(transport)
            self.session = self.make(self)
        except Exception as error:
            self._break_off(error)
        self._after()
        turn.end()

    def data_received(self, data: bytes) -> None:
        """Hand a chunk to the session and write what comes of it, here and elsewhere."""
        if self.ended:
            return  # the peer still talks while we wait for it to close
        session = self.session
        if session.unfinished or len(self.held) > 0 or (session.portion > 0 and len(data) > session.portion):
            self._hold(data)
            return
        self._take(data)
        if len(data) >= READ_WHOLE and self.turn.greedy and not self.resting:
            self._rest()

    def _take(self, data: bytes) -> None:
        """Do one turn with ``data``."""
        turn = self.turn
        turn.begin()
        try:
            self.session.receive(data, turn.now)
        except Exception as error:
            self._break_off(error)
        self._after()
        turn.end()

    def eof_received(self) -> bool:
        """The peer sends no more. The loop closes the socket after what is still to be written."""
        if not self.ended:
            self.data_received(b"")
        return False

    def pause_writing(self) -> None:
        """The peer does not take what we write."""
        self.full = True
        if self.ended:
            return
        if self.options.write_timeout > 0:
            self.stall_due = self.turn.now + self.options.write_timeout
        self._tell_writable(False)

    def resume_writing(self) -> None:
        """The peer took enough."""
        self.full = False
        self.stall_due = NEVER
        self.turn.unread(self.unsent, 0)
        self.unsent = 0
        if self.ended:
            return
        self.choked = False
        self._tell_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        turn = self.turn
        turn.begin()
        self._end_session("the peer closed the connection" if error is None else f"the connection broke: {error}")
        turn.end()
        self._disarm()
        turn.unread(self.unsent, 0)
        self.unsent = 0
        self.transport = None
        self.session.shell = SILENCE  # a receipt may still come to it from the disk
        self.session = NOBODY  # the two pointed at one another, and the cyclic collector comes seldom
        self.lost(self)

    # -- what the owner asks ------------------------------------------------------------------------------------------

    def stop_reading(self) -> None:
        """Take nothing more from the peer; it still gets its answers."""
        self.muted = True
        self._adjust_reading()

    def shut(self, why: str) -> None:
        """Tell the peer ``why`` where its protocol can, and close."""
        if self.ended:
            return
        turn = self.turn
        turn.begin()
        try:
            self.session.shut(why, turn.now)
        except Exception as error:
            self._break_off(error)
        self.dirty()
        turn.end()

    def abort(self) -> None:
        """Close at once; what was not written is lost."""
        if self.transport is not None:
            self.transport.abort()

    # -- within a turn ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what the session has. Called by the turn, at its end."""
        self.noted = False
        transport = self.transport
        if self.ended or transport is None or transport.is_closing():
            return
        session = self.session
        try:
            data = session.outgoing()
            if len(data) > 0:
                transport.write(data)
                if self.full:  # stop reading a peer that asks for answers which it does not read
                    unsent: i64 = transport.get_write_buffer_size()
                    turn = self.turn
                    turn.unread(self.unsent, unsent)
                    self.unsent = unsent
                    if unsent > turn.share(self.options.output_octets_max, self.options.write_mark_high):
                        self.choked = True
                        self._adjust_reading()
            if session.closing:
                self._finish()
            else:
                self._arm()
        except Exception as error:
            self._break_off(error)

    def _after(self) -> None:
        """Do what the session wants after it was called."""
        if self.ended:
            return
        session = self.session
        if session.closing:
            self.dirty()
        elif not self.noted:
            self._arm()
        if (session.readable and not session.unfinished) != self.reading and not self.resting and not self.muted:
            self._adjust_reading()

    def _tell_writable(self, ready: bool) -> None:
        turn = self.turn
        turn.begin()
        try:
            self.session.writable(ready, turn.now)
        except Exception as error:
            self._break_off(error)
        self._after()
        turn.end()

    def _adjust_reading(self) -> None:
        transport = self.transport
        session = self.session
        wanted = session.readable and not session.unfinished
        wanted = wanted and not self.choked and not self.resting and not self.muted
        if transport is None or self.ended or wanted == self.reading or transport.is_closing():
            return
        self.reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _rest(self) -> None:
        """Read on in the next round of the loop.

        libuv reads a socket up to 32 times in a row while it is full: a flooding producer gets 8 MB in before any
        acknowledgement is looked at, and queues grow for nothing.
        """
        self.resting = True
        self._adjust_reading()
        self.turn.loop.call_soon(self._rested)

    def _hold(self, data: bytes) -> None:
        """Take ``data`` in portions, one in each round of the loop: what each causes is sent before the next begins.

        An unfinished session takes nothing before it has done the rest: what comes all the same waits here.
        """
        waiting = len(self.held) > 0
        if not data:
            self.ends = True
        self.held = self.held[self.held_at :] + data if waiting else data
        self.held_at = 0
        if not waiting and not self.session.unfinished:
            self.resting = True
            self._adjust_reading()
            self._take_portion()

    def _take_portion(self) -> None:
        if self.ended:
            self.held = b""
            return
        if self.session.unfinished:
            return  # `go_on` brings it back
        behind: i64 = len(self.held)
        if self.session.portion > 0:
            behind = min(behind, self.held_at + self.session.portion)
        data = self.held[self.held_at : behind]
        self.held_at = behind
        if len(data) > 0:
            self._take(data)
        if self.held_at < len(self.held):
            if not self.session.unfinished:
                self.turn.loop.call_soon(self._take_portion)
            return
        self.held = b""
        self.held_at = 0
        if self.ends and not self.session.unfinished and not self.ended:
            self.ends = False
            self._take(b"")
        self._rested()

    def _rested(self) -> None:
        self.resting = False
        self._adjust_reading()

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """See to it that `_ring` comes with the session's deadline. One that moved later is found when it rings."""
        due: i64 = self.session.deadline()
        due = min(due, self.stall_due)
        if due < self.armed:
            if self.timer is not None:
                self.timer.cancel()
            self.armed = due
            self.timer = self.turn.loop.call_later(delay_seconds(due - self.turn.now), self._ring)

    def _disarm(self) -> None:
        self.armed = NEVER
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _ring(self) -> None:
        self.timer = None
        self.armed = NEVER
        turn = self.turn
        turn.begin()
        if self.ended:
            self.abort()  # the grace is over
        elif self.stall_due <= turn.now:
            log.warning("%s: took nothing for %d ms, closed", self.peer, self.options.write_timeout // MILLISECOND)
            self._end_session("the peer took nothing for too long")
            self.abort()
        else:
            try:
                if self.session.deadline() <= turn.now:
                    self.session.advance(turn.now)
            except Exception as error:
                self._break_off(error)
            self._after()
        turn.end()

    # -- the end ------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Everything is written: half-close, and wait a moment for the peer to close.

        To close with unread input would reset the connection, and the peer lose our last words (RFC 1122 4.2.2.13).
        """
        transport = self.transport
        if self.ended or transport is None:
            return
        refused = refusal_of(self.session)
        if refused:
            log.warning("%s: refused: %s", self.peer, refused)
        self._end_session("the session closed the connection")
        if transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
            if not self.reading:
                self.reading = True
                transport.resume_reading()
        else:
            transport.close()
        self.timer = self.turn.loop.call_later(delay_seconds(self.options.close_grace), self._ring)

    def _break_off(self, error: Exception) -> None:
        """A session failed. That is our bug; its connection ends, and all others go on."""
        log.error("%s: a fault of ours ends this connection: %r", self.peer, error, exc_info=error)
        self._end_session(f"a fault in the broker: {error!r}")
        self.abort()

    def _end_session(self, why: str) -> None:
        if self.ended:
            return
        self.ended = True
        self._disarm()
        try:
            self.session.detach(why, self.turn.now)
        except Exception as error:
            log.error("%s: a session failed while it was detached: %r", self.peer, error, exc_info=error)


def refusal_of(session: Session) -> str:
    """Return why ``session`` sent its peer away, "" if it did not."""
    try:
        return session.describe().get("refused", "")
    except Exception as error:
        return f"{error!r}"


def peer_name(transport: asyncio.Transport) -> str:
    """Return who is at the other end: ``host:port``, ``[host]:port``, or what the kernel tells of a local process."""
    address = transport.get_extra_info("peername")
    if isinstance(address, tuple) and len(address) >= 2:
        host = str(address[0])
        return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
    return "local"


SILENCE: Final = Shell()
"""The shell of a session whose connection is gone."""
NOBODY: Final = Session(SILENCE)
"""The session of a connection that has none yet, or none any more."""
