"""The primary's connections of replication: its replicas dial it. What is decided is in `ha/replication.py`."""

from __future__ import annotations

import asyncio
import logging
import os
from _operator import _compare_digest
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from entrepot.base.errors import AddressInUse, EntrepotError, ProtocolViolation, Refused
from entrepot.ha.failback import Returns
from entrepot.ha.follower import Fetched, Follower, Host, Link
from entrepot.ha.mirror import Mirror
from entrepot.ha.proposals import Named, Recorded
from entrepot.ha.replication import Replication, facts_of, settled
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.stream import FRAME_MAX, HELLO, PROOF, REFUSED, Frame, encode
from entrepot.ha.successors import Note, Telling, heir_of
from entrepot.io.disk import Disk
from entrepot.io.leases import now, wall
from entrepot.io.replica_wire import NONCE, PROVE_WITHIN, Wire, contexts, place_of, proof
from entrepot.journal.inspect import Damage, damages
from entrepot.journal.ports import JournalPort

if TYPE_CHECKING:
    import ssl

    from entrepot.io.standby import Standby

TICK: Final = 0.05  # s between two looks at the time
WHOLE_WITHIN: Final = 1.0  # s that a primary which stops waits for its replicas
STRANGERS_MAX: Final = 16
"""Connections that have not said who they are: one more, and the oldest goes. They have `PROVE_WITHIN` for it."""

T = TypeVar("T")

log: Final = logging.getLogger("entrepot.ha")


class _Greeted(Wire, Link):
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
        self.stands_in: Callable[[Mapping[str, str]], None] = lambda connectors: None
        self.replication: Final = Replication(
            mirror, self, options, copy=standing.copy, name=self.name, store=standing.store
        )
        self.returns: Final = Returns(standing, allowed=standby.options.allow_failback)
        self._withheld = False  # that it is was said
        self._telling: Final = Telling()
        self._place: Final = place_of(options.listen)
        self._tls: Final = contexts(options)
        self._disk: Final = disk
        self._reading: ThreadPoolExecutor | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    def attach(
        self,
        run: Callable[[Callable[[], None]], None],
        asked: Callable[[str], None],
        stands_in: Callable[[Mapping[str, str]], None],
    ) -> None:
        """``asked``: to stop, since the store is given back; ``stands_in``: tells clients who would take over."""
        self.run, self.asked, self.stands_in = run, asked, stands_in

    async def open(self) -> None:
        """Be there for replicas. Raises AddressInUse."""
        standby, loop = self.standby, asyncio.get_running_loop()
        self.run(partial(self.replication.begin, standby.tenure.epoch, dict(standby.mine.eligible), now()))
        standby.answered = lambda effect: self.run(partial(self._answered, effect))
        standby.about = self.facts
        standby.successor = lambda: bool(self.replication.pieces.in_sync)
        standby.would_return = self._would_return
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
        self.run(self._look)
        self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)

    def _look(self) -> None:
        """Time goes by; and who would take over may be another one."""
        self.replication.tick(now())
        telling = self._telling
        heir = heir_of(self.replication.pieces.in_sync, telling.heir)
        telling.found("" if heir is None else heir.copy, None if heir is None else Note(heir.name, 0, heir.connectors))
        self._named(self.standby.name(telling.heir))

    def _answered(self, effect: Recorded | Named) -> None:
        if isinstance(effect, Recorded):
            self.replication.recorded(effect.serial)
        else:
            self._named(effect.heir)

    def _named(self, heir: str) -> None:
        """The record names ``heir``: clients may be told."""
        if self._telling.news(heir):
            self.stands_in(self._telling.known)

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

    def verify(self, bandwidth: int) -> int:
        """Begin to compare; return with how many. Raises Refused where no replica is in sync."""
        count = self.replication.verifying.begin(now(), bandwidth)
        if not count:
            raise Refused(
                f"no replica of {self.name} is in sync: one that is being made is compared as it is made",
                remedy="see `entrepot ha status URL` for how far they are",
            )
        return count

    # -- Host ----------------------------------------------------------------------------------------------------------

    def record(self, serial: int, eligible: dict[str, int]) -> None:
        """Have the lock's record changed."""
        self.standby.propose(serial, eligible)

    def fetch(self, name: str, offset: int, length: int, then: Fetched) -> None:
        """Read on a thread of its own, one after the other: neither the loop nor the journal's writer waits for it."""
        read = self._disk.files.reader(name)

        def do() -> bytes | EntrepotError:
            try:
                return read(offset, length)
            except EntrepotError as error:
                return error

        self._aside(do, then)

    def examine(self, name: str, then: Callable[[list[Damage]], None]) -> None:
        """Read all of a file on that thread, as long as it is now, and look at its checksums; a body piece by piece."""
        mirror = self.replication.mirror
        length, growing = mirror.ends.get(name, 0), name in mirror.growing
        read = self._disk.files.reader(name)

        def do() -> list[Damage]:
            try:
                return damages(name, read, length, growing=growing)
            except EntrepotError as error:
                return [] if isinstance(error.__cause__, FileNotFoundError) else [Damage(0, length, str(error))]

        self._aside(do, then)

    def _aside(self, do: Callable[[], T], then: Callable[[T], None]) -> None:
        if self._reading is None:
            self._reading = ThreadPoolExecutor(1, "entrepot-catch-up")
        loop = asyncio.get_running_loop()

        def work() -> None:
            found = do()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.run, partial(then, found))

        self._reading.submit(work)

    def say(self, text: str, *, loud: bool) -> None:
        """Log it."""
        log.log(logging.WARNING if loud else logging.INFO, "%s", text)

    def asked_back(self, follower: Follower) -> None:
        """The primary by the configuration is in sync and wants its store."""
        returns, at, copy = self.returns, wall(), self.standby.copy
        if self.standby.options.drains:  # nobody is served: it moves no clients, however often it happens
            if follower.since >= 0:
                self._give_back(follower)
            return
        withheld = returns.withheld(at)
        if withheld and not self._withheld:
            log.warning("%s keeps the store, which %s asks for: %s", self.name, follower.name, withheld)
        self._withheld = bool(withheld)
        if copy is None or not returns.due(follower.since, now(), at):
            return
        returns.note(at)
        try:
            copy.persist(copy.standing)  # before it happens: who forgets it would do it for ever
        except EntrepotError as error:
            log.error("%s keeps the store, which %s asks for: %s", self.name, follower.name, error)
            return
        self._give_back(follower)

    def _give_back(self, follower: Follower) -> None:
        self.standby.candidate.gave_back = True
        self.asked(f"the primary asks for its store back: {follower.name}")

    def facts(self) -> dict[str, Any]:
        """Return what operators see; ``returned``: how often the store was given back within a day."""
        at = wall()
        returns = {"returned": len(self.returns.recent(at)), "withheld": self.returns.withheld(at)}
        return {**facts_of(self.replication, now()), **(returns if self.returns.allowed else {})}

    def _would_return(self) -> bool:
        """Say whether whoever could take over would give the store back at once, if this broker asked."""
        return all(each.gives_back for each in self.replication.pieces.in_sync)


def mirrored(port: Disk, standby: Standby | None) -> tuple[JournalPort, Hosting | None]:
    """Return what the journal writes to where ``standby`` has a copy of a replicated store; else the disk itself."""
    if standby is None or standby.copy is None or standby.options.replication is None:
        return port, None
    mirror = Mirror(port)
    return mirror, Hosting(standby, standby.options.replication, mirror, port)
