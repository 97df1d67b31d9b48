"""The connections of replication: a primary that is dialled by its replicas, and a replica that looks for its primary.

Before anything else both sides prove that they know the secret, each with a nonce of the other, so neither a stranger
nor a recording of yesterday gets a message. What is decided is in `ha/replication.py` and `ha/replica.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from _blake2 import blake2b  # as in `core/sending/copies.py`
from _operator import _compare_digest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from entrepot.base.environment import KIB, MIB, SECOND
from entrepot.base.errors import (
    AddressInUse,
    EntrepotError,
    InvalidOption,
    ProtocolViolation,
    Refused,
)
from entrepot.base.places import host_and_port
from entrepot.ha.lease import PRIMARY
from entrepot.ha.mirror import Mirror
from entrepot.ha.replica import Replica
from entrepot.ha.replication import Fetched, Follower, Host, Link, Replication, facts_of, settled
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.stream import FRAME_MAX, HELLO, PROOF, REFUSED, Frame, Frames, encode, greeting
from entrepot.io.copying import CopyDirectory
from entrepot.io.disk import Disk
from entrepot.io.leases import now
from entrepot.journal.ports import JournalPort

if TYPE_CHECKING:
    import ssl

    from entrepot.io.standby import Standby

TICK: Final = 0.05  # s between two looks at the time
NONCE: Final = 16
STRANGER_FRAME_MAX: Final = 1 * KIB  # of somebody who has not proved anything
PROVE_WITHIN: Final = 5.0  # s
REDIAL: Final = 0.1  # s: a tenth of what a takeover may take
WHOLE_WITHIN: Final = 1.0  # s that a primary which stops waits for its replicas
STRANGERS_MAX: Final = 16
"""Connections that have not said who they are: one more, and the oldest goes. They have `PROVE_WITHIN` for it."""
WAITING_MAX: Final = 16 * MIB
"""Octets that wait for a replica's disk: above, its connection is read no further until half of them are written."""

LOCAL: Final = ("127.", "localhost", "::1", "[::1]")

log: Final = logging.getLogger("entrepot.ha")


def proof(secret: str, *, asked: bytes, asks: bytes, who: bytes) -> bytes:
    """Return what only one who knows ``secret`` can say to the nonce ``asked``; ``asks``: his own nonce."""
    key = blake2b(secret.encode(), digest_size=32).digest()
    return blake2b(asked + asks + who, key=key, digest_size=32).digest()


def place_of(text: str) -> tuple[str, int]:
    """Return host and port. Raises InvalidOption."""
    return host_and_port(text, "10.0.0.1:61620")


def check_places(options: ReplicationOptions) -> None:
    """Raise InvalidOption for places that are none, strangers that could connect, and files of TLS that are no use."""
    for text in (options.listen, *options.peers):
        host, _ = place_of(text)
        if not options.secret and not host.startswith(LOCAL):
            raise InvalidOption(
                f"whoever reaches {text} could read or replace the store: replication has no secret",
                remedy="give all brokers the same --replication-secret FILE",
            )
    contexts(options)


def contexts(options: ReplicationOptions) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """Return what a primary and what a replica speaks, None without TLS. Raises InvalidOption."""
    if not options.certificate:
        return None
    from entrepot.io.tls import TlsOptions, client_context, server_context  # noqa: PLC0415 - half a megabyte

    told = TlsOptions(
        certificate=options.certificate,
        key=options.key,
        trust=options.trust,
        need_client=True,
        verify_host=options.verify_host,
    )
    return server_context(told), client_context(told)


class _Wire(asyncio.Protocol):
    """One connection, either side: frames in, octets out at the end of the turn."""

    def __init__(self) -> None:
        self.frames: Final = Frames()
        self.frames.most = STRANGER_FRAME_MAX
        self.transport: asyncio.Transport | None = None
        self.over = False
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self.transport.set_write_buffer_limits(high=1 << 30)
        self.begin()

    def data_received(self, data: bytes) -> None:
        if self.over:
            return
        try:
            self.take(self.frames.feed(data))
        except EntrepotError as error:
            self.refuse(error)
        except (ValueError, TypeError, KeyError) as error:
            self.refuse(ProtocolViolation(f"a greeting of replication is not as it should be: {error!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over:
            self.over = True
            self.gone("the connection was cut" if exc is None else str(exc))

    def send(self, octets: bytes) -> None:
        """Have it written at the end of this turn."""
        if not self._out:
            self._loop.call_soon(self._write)
        self._out.append(octets)

    def _write(self) -> None:
        out, self._out = self._out, []
        if self.transport is not None and out and not self.transport.is_closing():
            self.transport.write(b"".join(out))

    def hang_up(self, *, at_once: bool = False) -> None:
        """End it; write first what is to be written, unless it ends ``at_once``: a peer that reads nothing keeps it."""
        self.over = True
        self._write()
        if self.transport is not None:
            self.transport.close()
            if at_once and self.transport.get_write_buffer_size():
                self.transport.abort()

    def begin(self) -> None:
        """The connection stands."""

    def take(self, frames: list[Frame]) -> None:
        """Something came."""
        raise NotImplementedError

    def gone(self, why: str) -> None:
        """The other side is gone."""

    def refuse(self, error: EntrepotError) -> None:
        """The other side did what may not be, or is not who should be here."""
        raise NotImplementedError


class _Greeted(_Wire, Link):
    """The primary's end of the connection to one replica."""

    def __init__(self, hosting: Hosting) -> None:
        super().__init__()
        self.hosting: Final = hosting
        self.follower: Follower | None = None
        self._nonce: Final = os.urandom(NONCE)
        self._proved = False
        self._until: asyncio.TimerHandle | None = None  # who has not said who it is by then goes

    def begin(self) -> None:
        self.hosting.links[self] = True
        self.hosting.come(self)
        self.send(encode(Frame(PROOF, octets=self._nonce)))
        self._until = self._loop.call_later(PROVE_WITHIN, self.turn_away)

    def turn_away(self) -> None:
        """Nobody is known to be there."""
        if self.follower is None and not self.over:
            self.hang_up(at_once=True)
            self._forget()

    def _forget(self) -> None:
        self.hosting.links.pop(self, None)
        self.hosting.strangers.pop(self, None)
        if self._until is not None:
            self._until.cancel()

    def take(self, frames: list[Frame]) -> None:
        self.hosting.run(partial(self._taken, frames))

    def _taken(self, frames: list[Frame]) -> None:
        try:
            self._take(frames)
        except EntrepotError as error:
            self.refuse(error)

    def _take(self, frames: list[Frame]) -> None:
        replication = self.hosting.replication
        if frames and not self._proved:
            self._prove(frames.pop(0))
        if frames and self.follower is None:
            frame = frames.pop(0)
            if frame.kind != HELLO:
                raise ProtocolViolation(f"a replica begins with kind {frame.kind} instead of a greeting")
            self.follower = replication.greeted(self, frame.facts(), now())
            self.hosting.refused = 0
            self.hosting.strangers.pop(self, None)
            replication.tick(now())
        if frames and self.follower is not None:
            replication.take(self.follower, frames, now())

    def _prove(self, frame: Frame) -> None:
        secret, said = self.hosting.replication.options.secret, frame.octets
        theirs = said[:NONCE]
        right = proof(secret, asked=self._nonce, asks=theirs, who=b"replica")
        if frame.kind != PROOF or not _compare_digest(said[NONCE:], right):
            raise Refused("this replica does not know the secret", remedy="give all brokers the same secret")
        self._proved = True
        self.frames.most = FRAME_MAX
        self.send(encode(Frame(PROOF, octets=proof(secret, asked=theirs, asks=self._nonce, who=b"primary"))))

    def gone(self, why: str) -> None:
        self._forget()
        follower = self.follower
        if follower is not None:
            self.hosting.run(lambda: self.hosting.replication.lost(follower, why, now()))

    def refuse(self, error: EntrepotError) -> None:
        self.hosting.refused += 1
        if self.hosting.refused & (self.hosting.refused - 1) == 0:  # as in `Hosting.come`
            log.warning("%s refuses a replica: %s", self.hosting.name, error)
        self.send(encode(Frame(REFUSED, octets=str(error).encode()[:500])))
        self.gone(error.message)
        self.hang_up()

    def close(self, why: str) -> None:
        self._forget()
        self.hang_up(at_once=True)


class _Gate(asyncio.Protocol):
    """A connection that has yet to shake hands for TLS: a stranger as others are."""

    def __init__(self, hosting: Hosting, context: ssl.SSLContext) -> None:
        self.hosting: Final = hosting
        self._context: Final = context
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()  # what comes is TLS
        self.hosting.come(self)
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(self._transport))

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        link = _Greeted(self.hosting)
        try:
            spoken = await asyncio.get_running_loop().start_tls(
                transport, link, self._context, server_side=True, ssl_handshake_timeout=PROVE_WITHIN
            )
        except OSError as error:  # what TLS finds wrong is one, too
            log.info("%s: a connection of replication shook no hands: %s", self.hosting.name, error)
            return
        finally:
            self.hosting.strangers.pop(self, None)
        if spoken is not None:
            link.connection_made(spoken)

    def turn_away(self) -> None:
        """Nobody is known to be there."""
        self.hosting.strangers.pop(self, None)
        if self._transport is not None:
            self._transport.abort()


class Hosting(Host):
    """The primary's side. ``run`` does something as a turn of the broker."""

    def __init__(self, standby: Standby, options: ReplicationOptions, mirror: Mirror, disk: Disk) -> None:
        """``disk``: under ``mirror``. Call `open` once the store is read back. Raises InvalidOption, StorageError."""
        assert standby.copy is not None
        standing = standby.copy.standing
        if not standing.store:
            standing.store = os.urandom(16).hex()
            standby.copy.persist(standing)
        self.standby: Final = standby
        self.name: Final = standby.mine.name
        self.links: Final[dict[_Greeted, bool]] = {}
        self.strangers: Final[dict[_Greeted | _Gate, bool]] = {}
        self.crowded = self.refused = 0  # how often: a stranger went, and somebody was refused since one was greeted
        self.run: Callable[[Callable[[], None]], None] = lambda action: action()
        self.asked: Callable[[str], None] = lambda why: None
        self.replication: Final = Replication(
            mirror, self, options, copy=standing.copy, name=self.name, store=standing.store
        )
        self._place: Final = place_of(options.listen)
        self._tls: Final = contexts(options)
        self._disk: Final = disk
        self._reading: ThreadPoolExecutor | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Be there for replicas. Raises AddressInUse."""
        standby, loop = self.standby, asyncio.get_running_loop()
        self.run(partial(self.replication.begin, standby.tenure.epoch, dict(standby.mine.eligible), now()))
        standby.recorded = lambda serial: self.run(partial(self.replication.recorded, serial))
        standby.about = lambda: facts_of(self.replication, now())
        host, port = self._place
        try:
            self._server = await loop.create_server(self._meet, host, port)
        except OSError as error:
            raise AddressInUse(
                f"replication cannot listen on {host}:{port}: {error.strerror}",
                remedy="choose another place with --replication",
            ) from error
        self._tick()

    def _meet(self) -> _Greeted | _Gate:
        return _Greeted(self) if self._tls is None else _Gate(self, self._tls[0])

    def _tick(self) -> None:
        self.run(lambda: self.replication.tick(now()))
        self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)

    async def finish(self) -> None:
        """The store is closed: let replicas have the end of it, and let go."""
        loop = asyncio.get_running_loop()
        until = loop.time() + WHOLE_WITHIN
        self.replication.end()
        while not settled(self.replication) and loop.time() < until:
            await asyncio.sleep(0.002)
        self.stop()

    def stop(self) -> None:
        """Let go of all of them, at once."""
        self.run = lambda action: None  # what is being read for them concerns nobody any more
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        for link in list(self.links):
            link.hang_up()
        self.links.clear()
        for stranger in list(self.strangers):
            stranger.turn_away()
        if self._reading is not None:
            self._reading.shutdown(wait=False, cancel_futures=True)

    def come(self, link: _Greeted | _Gate) -> None:
        """Somebody connects, who is a stranger yet: of too many the oldest goes."""
        self.strangers[link] = True
        if len(self.strangers) > STRANGERS_MAX:
            oldest = next(iter(self.strangers))
            self.crowded += 1
            if self.crowded & (self.crowded - 1) == 0:  # the 1st, 2nd, 4th, 8th...: a flood must not fill the log
                log.warning("%s: %d connections have not said who they are; one goes", self.name, STRANGERS_MAX)
            oldest.turn_away()

    # -- Host ----------------------------------------------------------------------------------------------------------

    def record(self, serial: int, eligible: dict[str, int]) -> None:
        """Have the lock's record changed."""
        self.standby.propose(serial, eligible)

    def fetch(self, name: str, offset: int, length: int, then: Fetched) -> None:
        """Read on a thread of its own, one after the other: neither the loop nor the journal's writer waits for it."""
        if self._reading is None:
            self._reading = ThreadPoolExecutor(1, "entrepot-catch-up")
        loop, read = asyncio.get_running_loop(), self._disk.files.reader(name, offset, length)

        def do() -> None:
            found: bytes | EntrepotError
            try:
                found = read()
            except EntrepotError as error:
                found = error
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.run, partial(then, found))

        self._reading.submit(do)

    def say(self, text: str, *, loud: bool) -> None:
        """Log it."""
        log.log(logging.WARNING if loud else logging.INFO, "%s", text)

    def asked_back(self, name: str) -> None:
        """The primary by the configuration is in sync and wants its store."""
        options, candidate = self.standby.options, self.standby.candidate
        if options.allow_failback and not candidate.gave_back:
            candidate.gave_back = True
            self.asked(f"the primary asks for its store back: {name}")


def mirrored(port: Disk, standby: Standby | None) -> tuple[JournalPort, Hosting | None]:
    """Return what the journal writes to where ``standby`` has a copy of a replicated store; else the disk itself."""
    if standby is None or standby.copy is None or standby.options.replication is None:
        return port, None
    mirror = Mirror(port)
    return mirror, Hosting(standby, standby.options.replication, mirror, port)


class _Followed(_Wire):
    """A replica's end of the connection to its primary."""

    def __init__(self, following: Following) -> None:
        super().__init__()
        self.following: Final = following
        self.replica: Replica | None = None
        self.ended: Final[asyncio.Future[str]] = self._loop.create_future()
        self.heard = now()
        self.held = False  # nothing is read until the disk has done some of what came
        self._nonce: Final = os.urandom(NONCE)
        self._proof = b""

    def take(self, frames: list[Frame]) -> None:
        self.heard = now()
        while frames and self.replica is None:
            self._greet(frames.pop(0))
        if self.replica is None or not frames:
            return
        if frames[0].kind == REFUSED:
            raise Refused(frames[0].octets.decode(errors="replace"))
        self.replica.take(frames)
        if self.replica.ended:
            raise Refused(self.replica.ended)
        if self.replica.waits > WAITING_MAX and self.transport is not None and not self.held:
            self.held = True
            self.transport.pause_reading()

    @property
    def welcomed(self) -> bool:
        """Say whether the primary let it in: who is refused dials again at once, and need not say so each time."""
        return self.replica is not None and self.replica.epoch > 0

    def moved(self) -> None:
        """The disk has done something: go on reading when enough of it is done."""
        self.heard = now()
        if self.held and self.replica is not None and self.replica.waits <= WAITING_MAX // 2:
            self.held = False
            if self.transport is not None and not self.over:
                self.transport.resume_reading()

    def _greet(self, frame: Frame) -> None:
        following = self.following
        secret = following.options.secret
        if frame.kind == REFUSED:
            raise Refused(frame.octets.decode(errors="replace"))
        if frame.kind != PROOF:
            raise ProtocolViolation(f"a primary begins with kind {frame.kind} instead of its nonce")
        if not self._proof:
            said = self._nonce + proof(secret, asked=frame.octets, asks=self._nonce, who=b"replica")
            self.send(encode(Frame(PROOF, octets=said)))
            self._proof = proof(secret, asked=self._nonce, asks=frame.octets, who=b"primary")
            return
        if not _compare_digest(frame.octets, self._proof):
            raise Refused("the primary does not know the secret", remedy="give all brokers the same secret")
        self.frames.most = FRAME_MAX
        self.replica = following.begin(self)
        self.send(greeting(HELLO, self.replica.greeting(following.name)))

    def gone(self, why: str) -> None:
        if self.replica is not None:
            self.replica.end(why)
        if not self.ended.done():
            self.ended.set_result(why)

    def refuse(self, error: EntrepotError) -> None:
        self.hang_up()
        self.gone(str(error))


class Following:
    """A replica: looks for a primary among its peers, and follows it. ``standing`` says whether its copy is whole."""

    def __init__(self, standby: Standby, options: ReplicationOptions) -> None:
        assert standby.copy is not None
        self.standby: Final = standby
        self.options: Final = options
        self.name: Final = standby.mine.name
        self.copy: Final[CopyDirectory] = standby.copy
        self._tls: Final = contexts(options)
        self.wants_back: Final = standby.options.part == PRIMARY  # the store is this broker's by the configuration
        self._wire: _Followed | None = None
        self._disk: Disk | None = None
        self._task: asyncio.Task[None] | None = None
        self._told = ""
        standby.about = self.facts

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            for peer in self.options.peers:
                await self._follow(peer)
            await asyncio.sleep(REDIAL)

    async def _follow(self, peer: str) -> None:
        host, port = place_of(peer)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PROVE_WITHIN):
                _, wire = await loop.create_connection(
                    lambda: _Followed(self),
                    host,
                    port,
                    ssl=None if self._tls is None else self._tls[1],
                    server_hostname=None if self._tls is None else host,
                )
        except (OSError, TimeoutError) as error:
            if self._tls is not None and type(error).__module__ == "ssl" and str(error) != self._told:
                self._told = str(error)
                log.warning("%s cannot follow %s: TLS fails: %s", self.name, peer, error)
            return
        self._wire = wire
        patience = self.options.patience
        try:
            while not wire.ended.done():
                await asyncio.wait([wire.ended], timeout=patience / SECOND / 5)
                if now() - wire.heard > patience:
                    wire.gone(f"the primary has said nothing for {patience // SECOND} s")
            why = wire.ended.result()
            if wire.welcomed or why != self._told:
                self._told = why
                log.warning("%s follows %s no more: %s", self.name, peer, why)
        finally:
            self._let_go("this broker ends")

    def begin(self, wire: _Followed) -> Replica:
        """The primary is who it should be: open the files. Raises StoreUnusable."""
        loop = asyncio.get_running_loop()
        self._disk = Disk(
            self.copy.directory,
            partial(_from_disk, loop),
            name=self.name,
            epoch=max(1, self.copy.standing.seen),
        )
        replica = Replica(self._disk, self.copy.standing, self.copy, wire.send, self._disk.worker.elsewhere)
        replica.moved = wire.moved
        replica.wants_back = self.wants_back
        return replica

    def _let_go(self, why: str) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            if wire.replica is not None:
                wire.replica.end(why)
            wire.hang_up()
        disk, self._disk = self._disk, None
        if disk is not None:
            disk.sync(0)
            disk.close()

    async def end(self) -> None:
        """Follow nobody any more; what was taken is on disk then."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        self._let_go("it is primary now")

    async def take_office(self, epoch: int) -> bool:
        """The lease is won: return whether this copy may be served. Raises StorageError."""
        await self.end()
        standing = self.copy.standing
        if not standing.whole:
            standing.epochs = []
            self.copy.persist(standing)
            return False
        standing.won(epoch)
        self.copy.persist(standing)
        return True

    def facts(self) -> dict[str, Any]:
        """Return what operators see."""
        wire = self._wire
        replica = None if wire is None else wire.replica
        standing = self.copy.standing
        return {
            "following": "" if replica is None else replica.primary,
            "in_sync": replica is not None and replica.in_sync,
            "whole": standing.whole,
            "aside": self.copy.aside,
            "refusal": standing.refusal,
        }


def _from_disk(loop: asyncio.AbstractEventLoop, deliver: Callable[[], None]) -> None:
    """Run a completion of the disk on the loop. Called by the disk's thread."""
    loop.call_soon_threadsafe(deliver)
