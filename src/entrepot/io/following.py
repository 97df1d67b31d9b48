"""A replica's connection to its primary: it looks for one among its peers. What is decided is in `ha/replica.py`."""

from __future__ import annotations

import asyncio
import logging
import os
from _operator import _compare_digest
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.environment import MIB, SECOND
from entrepot.base.errors import EntrepotError, ProtocolViolation, Refused
from entrepot.ha.fitting import identity
from entrepot.ha.lease import PRIMARY
from entrepot.ha.replica import Replica
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.standing import follows_only
from entrepot.ha.stream import FRAME_MAX, HELLO, PROOF, REFUSED, Frame, encode, greeting
from entrepot.io.copying import CopyDirectory
from entrepot.io.disk import Disk
from entrepot.io.leases import now
from entrepot.io.replica_wire import NONCE, PROVE_WITHIN, Wire, contexts, place_of, proof

if TYPE_CHECKING:
    from entrepot.io.standby import Standby

REDIAL: Final = 0.1  # s: a tenth of what a takeover may take
WAITING_MAX: Final = 16 * MIB
"""Octets that wait for a replica's disk: above, its connection is read no further until half of them are written."""

log: Final = logging.getLogger("entrepot.ha")


class _Followed(Wire):
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
        facts = self.replica.greeting(following.name)
        options = following.standby.options
        facts.update(identity(following.options))
        facts["gives_back"] = options.allow_failback or options.drains
        facts["connectors"] = options.connectors
        self.send(greeting(HELLO, facts))

    def gone(self, why: str) -> None:
        if self.replica is not None:
            self.replica.end(why)
        if not self.ended.done():
            self.ended.set_result(why)

    def refuse(self, error: EntrepotError) -> None:
        if isinstance(error, Refused):
            self.following.refused = str(error)
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
        self.refused = ""  # why this copy may not follow whoever it met last
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
            if wire.welcomed:
                self.refused = ""
            if wire.welcomed or why != self._told:
                self._told = why
                log.warning("%s follows %s no more: %s", self.name, peer, why)
        finally:
            self._let_go("this broker ends")

    def begin(self, wire: _Followed) -> Replica:
        """The primary is who it should be: open the files. Raises StoreUnusable."""
        loop = asyncio.get_running_loop()
        by_lock = self.options.by_lock
        expects = follows_only(self.copy.standing, self.standby.holder) if by_lock else ""
        self._disk = Disk(
            self.copy.directory,
            partial(_from_disk, loop),
            name=self.name,
            epoch=max(1, self.copy.standing.seen),
        )
        replica = Replica(self._disk, self.copy.standing, self.copy, wire.send, self._disk.worker.elsewhere)
        replica.moved = wire.moved
        replica.wants_back = self.wants_back
        replica.expects = expects
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
            "refused": "" if wire is not None and wire.welcomed else self.refused,
            "whole": standing.whole,
            "aside": self.copy.aside,
            "differed": self.copy.differed,
            "refusal": standing.refusal,
        }


def _from_disk(loop: asyncio.AbstractEventLoop, deliver: Callable[[], None]) -> None:
    """Run a completion of the disk on the loop. Called by the disk's thread."""
    loop.call_soon_threadsafe(deliver)
