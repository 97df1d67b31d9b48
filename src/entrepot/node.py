"""One running broker: its options, its journal, its core and its listeners, wired together. The one composition root.

Order of a start: everything that can be wrong with the options, then the data directory, then recovery, then the
ports; so a broker that does not come up has changed nothing but what recovery repaired. Order of a stop: the ports, the
handing out of messages, the word to clients where else they are served (`Node._close`), then bridges, peers and the
journal; what was confirmed is on disk, and what was not was never confirmed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import clock_gettime_ns
from typing import TYPE_CHECKING, Any, Final

from entrepot.assembly import Assembly, Ports, stand_in
from entrepot.base.environment import KIB
from entrepot.base.errors import EntrepotError, InvalidOption, StorageFull, StoreLost
from entrepot.base.settings import Dialect
from entrepot.cluster.clients import read_filter
from entrepot.config.founding import set_limits
from entrepot.config.model import BrokerConfig, UsageOptions, changes
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import Hub
from entrepot.ha.fence import LeaseFence
from entrepot.ha.role import Effect, Role, Signal
from entrepot.io.announcing import Announcer
from entrepot.io.dialects import Dialects
from entrepot.io.disk import Disk
from entrepot.io.hashing import ThreadHasher
from entrepot.io.links import Links, log_bridges, verify, verify_bridges, verify_places
from entrepot.io.local import Door
from entrepot.io.options import no_option
from entrepot.io.places import SPOKEN, Places, published
from entrepot.io.retention import Retention, retain, settle
from entrepot.io.runtime import SystemClock, SystemEntropy
from entrepot.io.several import refuse_parts
from entrepot.io.tcp import Greeter, Listener, Listening
from entrepot.io.traces import TraceFiles
from entrepot.io.turns import BrokerTurn
from entrepot.io.web import SocketGreeter, WebGreeter
from entrepot.journal.log import JournalCore, JournalOptions, RecoveryReport
from entrepot.journal.memory import MemoryJournal
from entrepot.journal.ports import JournalPort
from entrepot.management.census import OpenConnections
from entrepot.management.components import Components
from entrepot.management.fact_log import FactLog
from entrepot.node_options import NodeOptions, names_of, planned, retention_of
from entrepot.protocols.session import AMQP, CORE, HTTP, MQTT, OPENWIRE, STOMP, WS, Session, Shell

if TYPE_CHECKING:
    from entrepot.io.contacts import Contacts
    from entrepot.io.reloading import Reloader
    from entrepot.io.renewing import Renewal
    from entrepot.io.replicating import Hosting
    from entrepot.io.standby import Standby
    from entrepot.management.processes import Processes

ANSWER_GRACE: Final = 1.0  # s; a sync takes a thousandth of it, on a disk that is not in trouble
COMPACT_OCTETS: Final = 512 * KIB  # about 1 ms of work: what other events wait for it
COMPACT_AGAIN: Final = 0.01  # s; so compaction takes at most a tenth of the loop, and still 50 MB/s
COMPACT_LOOK: Final = 0.5  # s between two looks for garbage, and at the health of the journal

log: Final = logging.getLogger("entrepot.node")


class Node:
    """A broker that runs on the current loop. Call `start` once, then `wait` or anything else, then `stop`."""

    def __init__(self, options: NodeOptions, standby: Standby | None = None) -> None:
        """Check ``options``; nothing is opened. Raises InvalidURI, InvalidOption.

        ``standby``: the lease of a shared store, when it has been won already; else `start` waits for it.
        """
        if options.shared is not None and options.data is None:
            raise InvalidOption("a broker that keeps nothing on disk has no store to share")
        self.standby = standby
        self.drains: Final = options.shared is not None and options.shared.drains  # serves nobody
        self._disk: Disk | None = None
        self._retention: Retention | None = None
        self._hosting: Hosting | None = None
        self._fencing: asyncio.Task[None] | None = None
        self.options: Final = options
        self.plan: Final = planned(options)
        override = -1 if options.config is None else options.config.serving.ttl_override_ms
        self.dialects: Final = [Dialects(override) for _ in options.listen]
        self.listening: Final = [
            Listening(text, dialects.read, SPOKEN, shared=options.process is not None)
            for text, dialects in zip(options.listen, self.dialects, strict=True)
        ]
        for each in self.dialects:
            read_filter(each.openwire.update_filter)
        self.fact_log: Final = FactLog(SystemClock())
        self.listeners: list[Listener] = []
        self.places: Final = Places(self.listeners, len(options.listen))
        self.report: RecoveryReport | None = None
        self._made: Assembly | None = None
        for connector in self.plan.connectors():
            verify(connector)
        if options.config is not None:
            verify_bridges(options.config)
        for draw in options.draws:
            verify_places(draw.places)
        self.links: Links | None = None
        self._contacts: Contacts | None = None
        self._reloader: Reloader | None = None
        self._renewal: Renewal | None = None
        self._door: Door | None = None
        self.processes: Processes | None = None  # where this one is one of several
        self._traces = None if options.trace is None else TraceFiles(options.trace, limit=options.trace_limit)
        self._announcers: list[Announcer] = []
        self._turn: BrokerTurn | None = None
        self._hasher: ThreadHasher | None = None
        self._measured = 0.0
        self._maintenance: asyncio.TimerHandle | None = None
        self._stop_asked: asyncio.Future[str] | None = None
        self._stopping: asyncio.Future[None] | None = None

    @property
    def broker(self) -> BrokerCore:
        """Return the core. Raises InvalidOption before `start`."""
        return self.made.broker

    @property
    def made(self) -> Assembly:
        """Return the broker as it was put together. Raises InvalidOption before `start`."""
        if self._made is None:
            raise InvalidOption("the broker is not running", remedy="start it first")
        return self._made

    @property
    def turn(self) -> BrokerTurn:
        """Return the turns of this broker: every call into the core belongs into `Turn.run`, or begin and end."""
        if self._turn is None:
            raise InvalidOption("the broker is not running", remedy="start it first")
        return self._turn

    @property
    def uris(self) -> list[str]:
        """Return where it listens, in the order of ``listen``, with the ports that it really has."""
        return [listener.uri for listener in self.places.public]

    def uri(self, protocol: str) -> str:
        """Return a place where ``protocol`` is spoken, to be dialled from this machine. Raises InvalidOption."""
        return self.places.spoken(protocol)

    async def start(self) -> None:
        """Recover and listen. Raises OperatorError, StorageError; nothing stays open then.

        With a shared store it waits until it is this broker's turn.
        """
        loop = asyncio.get_running_loop()
        self._stop_asked = loop.create_future()
        await self._take_turn()
        try:
            journal = self._open_journal(loop)
        except BaseException as error:
            if self.standby is not None:
                await self._hand_over(Signal.FAILED, "the store cannot be opened", error)
            raise
        try:
            self._start_core(loop, journal)
            self._recovered()
            if not self.drains and self.broker.notes.of("drain"):  # a backup began to give it away: nobody came yet
                from entrepot.io.contacts import serve_the_rest_of  # noqa: PLC0415 - few brokers need it

                serve_the_rest_of(self.turn, self.broker, self.made.draining)
            if self._hosting is not None:
                self._hosting.attach(self._run, self.ask_to_stop, partial(stand_in, self.made))
                await self._hosting.open()
            elif self.standby is not None:
                self.standby.tell_clients(lambda at: self._run(partial(stand_in, self.made, at)))
            await listen(self)
        except BaseException as error:
            if self.standby is not None:
                await self._hand_over(Signal.FAILED, "the broker could not start", error)
                raise
            await self._close()
            journal.close()
            raise
        made = self.made
        self.turn.run(made.acceptor.advisories.now_master)
        sharing = bool(self.plan.zone) or any(one.openwire.update_clients for one in self.dialects)
        clients = made.neighbourhood.clients
        self.turn.run(partial(clients.activate, sharing=sharing, stomp=" ".join(self.places.stomp())))
        self._maintenance = loop.call_later(COMPACT_LOOK, self._maintain)
        self.links = Links(self.turn, made)
        if made.plan.clusters is not None:
            from entrepot.io.contacts import Contacts  # noqa: PLC0415 - see `entrepot.artemis`

            self._contacts = Contacts(
                self.turn,
                made.clusters,
                made.plan.clusters,
                (made.ports.entropy, made.broker.ids.node.uuid_text),
                self.links.carry,
                made.routers,
            )
        try:
            if not self.drains:
                await self.links.start()
            if self._contacts is not None:
                await self._contacts.start(made.draining, hidden=self.drains)
            if self.drains:
                empty(self, self._contacts, self._hosting)
                return
            colocate(self, self._contacts)
            await self._appear(loop)
        except BaseException:
            await self.stop()
            raise
        self._watch_files()
        if any(one.options.tls.reloads for one in self.listeners):
            from entrepot.io.renewing import Renewal  # noqa: PLC0415 - few listeners want it

            config = self.options.config
            self._renewal = Renewal(self.listeners, 0 if config is None else config.refresh_ms)
            await self._renewal.start()

    def _watch_files(self) -> None:
        """Read the configuration again when it was changed, if it wants that."""
        origin, config = self.options.origin, self.options.config
        if origin is None or config is None or config.family is not Dialect.ARTEMIS:
            return  # nothing of Classic's files is read again
        from entrepot.io.reloading import Reloader  # noqa: PLC0415 - a broker without a file needs none

        self._reloader = Reloader(origin, config.refresh_ms / 1000, self._follow)
        self._reloader.start()

    async def _follow(self, config: BrokerConfig) -> list[str]:
        """Let hold what can change while the broker runs; return what cannot. Raises EntrepotError."""
        made = self.made
        had = made.plan.config or BrokerConfig()
        verify_bridges(config)
        restart = [change.what for change in changes(had, config) if not change.live]
        config.ledger.pending = tuple(dict.fromkeys((*had.ledger.pending, *restart)))
        made.follow(config, self.turn.run)
        if self.links is not None:
            await self.links.follow(had, config)
        return restart

    async def _appear(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open the door for this process, and announce to others where this broker is. Raises OperatorError."""
        indoors = self._listener(Listening("openwire://127.0.0.1:0", no_option, SPOKEN), Dialects())
        self.listeners.append(indoors)
        self._door = Door(self.options.name, loop, indoors.adopt)
        self._door.open()
        config = self.options.config
        wanted = {} if config is None else {one.uri: one.discovery for one in config.connectors if one.discovery}
        each = [wanted.get(text, "") for text in self.options.listen]
        for beacon, uri in self.places.announced(self.options.announce, each):
            announcer = Announcer(beacon, uri)
            self._announcers.append(announcer)
            await announcer.start()

    async def wait(self) -> str:
        """Return why the broker should stop, once somebody asked for it or its journal failed."""
        if self._stop_asked is None:
            raise InvalidOption("the broker is not running", remedy="start it first")
        return await asyncio.shield(self._stop_asked)

    def ask_to_stop(self, why: str) -> None:
        """Let `wait` return ``why``. The first reason counts."""
        if self._stop_asked is not None and not self._stop_asked.done():
            self._stop_asked.set_result(why)

    async def stop(self, why: str = "the broker stops") -> None:
        """Stop accepting, tell the peers, keep what was promised, close. A second call waits for the first."""
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
            return
        self._stopping = asyncio.get_running_loop().create_future()
        try:
            self.ask_to_stop(why)
            if self.standby is not None:
                await self._hand_over(Signal.STOP, why)
                return
            await self._close(why)
            if self._made is not None:
                self.broker.journal.close()
        finally:
            self._stopping.set_result(None)

    # -- taking turns at a store --------------------------------------------------------------------------------------

    @property
    def fenced(self) -> bool:
        """Say whether its store may be another broker's now: it serves no more and should begin anew, as a backup."""
        return self.standby is not None and self.standby.role.role is Role.FENCED

    async def _take_turn(self) -> None:
        """Wait for the lease, and learn of its loss from now on."""
        shared = self.options.shared
        if self.standby is None and shared is not None and self.options.data is not None:
            from entrepot.io.standby import Standby  # noqa: PLC0415 - pairs only, as CLOCK below

            standby = Standby(self.options.data, self.options.name, shared)
            await standby.win()
            self.standby = standby
        if self.standby is not None:
            self.standby.lost = self._lease_lost
            self.standby.asked_back = self.ask_to_stop

    def _recovered(self) -> None:
        """The store is read back: from here on the ports may open. Raises StoreLost when it took too long."""
        if self.standby is None:
            return
        if not self.standby.holds() or self.standby.role.role is not Role.ACTIVATING:
            raise StoreLost(f"the store was lost while it was read back: {self.standby.tenure.lost}")
        self.standby.role.signal(Signal.DRAINS if self.drains else Signal.RECOVERED)

    def _lease_lost(self, why: str) -> None:
        """Another broker may be the master: confirm nothing from this moment on, then close."""
        assert self.standby is not None
        effects = self.standby.role.signal(Signal.LOST)
        if effects:
            self._disown(why)  # now, not when a task gets its turn
            self._fencing = asyncio.get_running_loop().create_task(self._carry_out(effects, why))
        self.ask_to_stop(why)

    async def _hand_over(self, signal: Signal, why: str, error: BaseException | None = None) -> None:
        """Let others have the store. ``error``: of a start; another broker that has it by now explains a lost one."""
        assert self.standby is not None
        if isinstance(error, StoreLost) and not self.standby.holds() and self._fencing is None:
            self._lease_lost("it took longer to read the store back than its lease lasted")
        if self._fencing is not None:
            await self._fencing
            return
        await self._carry_out(self.standby.role.signal(signal), why)
        if self.standby.role.role is Role.STOPPING:
            self.standby.role.signal(Signal.DONE)

    async def _carry_out(self, effects: Sequence[Effect], why: str) -> None:
        """Do what the role asks for, one after the other: the order is what keeps a pair safe."""
        assert self.standby is not None
        for effect in effects:
            if effect is Effect.STOP_CONFIRMING:
                self._disown(why)
            elif effect is Effect.CLOSE_PORTS:
                await self._close(why)
            elif effect is Effect.CLOSE_STORE:
                self._close_store()
                if self._hosting is not None:
                    await self._hosting.finish()
            elif effect is Effect.ABANDON_STORE:
                if self._hosting is not None:
                    self._hosting.stop()
                self._close_store()
                self.standby.forfeit(why)
            elif effect is Effect.RELEASE:
                self.standby.release(why)

    def _disown(self, why: str) -> None:
        """Tell everybody who waits that it will not be confirmed here, and begin no more writes."""
        error = StoreLost(
            f"this broker is not the master of its store any more: {why}", remedy="connect to the one that is now"
        )
        if self._disk is not None:
            self._disk.abandon(error)
        if self._made is not None:
            self._run(partial(self.broker.journal.failed, error))

    def _close_store(self) -> None:
        if self._made is not None:
            self.broker.journal.close()
        elif self._disk is not None:
            self._disk.close()

    # -- parts --------------------------------------------------------------------------------------------------------

    def _open_journal(self, loop: asyncio.AbstractEventLoop) -> JournalCore:
        if self.options.data is None:
            return MemoryJournal()
        if self.options.process is None:
            refuse_parts(self.options.data)
        standby = self.standby
        epoch = 0 if standby is None else standby.tenure.epoch
        look = None if standby is None else standby.look
        port = Disk(self.options.data, partial(self._from_disk, loop), name=self.options.name, epoch=epoch, look=look)
        self._disk = port
        self._retention = retain(port, retention_of(self.options))
        options = JournalOptions() if self.options.journal is None else self.options.journal
        options.created = SystemClock().wall()
        options.epoch = epoch
        files: JournalPort = port
        if standby is not None and standby.copy is not None:
            from entrepot.io.replicating import mirrored  # noqa: PLC0415 - few brokers need it

            files, self._hosting = mirrored(port, standby)
        journal = JournalCore(files, options)
        config = self.options.config
        set_limits(UsageOptions() if config is None else config.usage, journal.space.limits, port.capacity())
        if standby is not None:
            from entrepot.io.leases import CLOCK  # noqa: PLC0415

            journal.fence = LeaseFence(standby.tenure, partial(clock_gettime_ns, CLOCK))
        return journal

    def _from_disk(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[], None]) -> None:
        """Run a completion of the disk as a turn. Called by the disk's thread."""
        loop.call_soon_threadsafe(self._run, deliver)

    def _run(self, deliver: Callable[[], None]) -> None:
        if self._turn is None:
            deliver()
        else:
            self._turn.run(deliver)

    def _start_core(self, loop: asyncio.AbstractEventLoop, journal: JournalCore) -> None:
        ports = Ports(journal, SystemEntropy(), Hub([self.fact_log]), sink=self._traces, say=log_bridges)
        made = Assembly(self.plan, ports)
        broker = made.broker
        if self.options.telemetry is not None:
            self.options.telemetry.watch(broker, loop.call_soon)
        turn = BrokerTurn(loop, SystemClock(), broker)
        self.report = made.recover(int(turn.now), int(turn.wall))
        settle(self._retention, journal)
        if self._traces is not None:
            self._traces.introduce(broker, int(turn.wall))
        trace = "" if self.options.trace is None else str(self.options.trace.resolve())
        directory = "" if self.options.data is None else str(self.options.data)
        parts = Components(
            self.listeners, names_of(self.options), lambda: self.links, lambda: self.plan.config, lambda: made.routers,
            lambda: self._reloader, directory,
        )  # fmt: skip
        census = OpenConnections(self.listeners, lambda: self.links, trace, parts)
        census.disk, census.standby, census.hosting = self._disk, self.standby, self._hosting
        census.archive, census.written.said = self._retention, self.options.said
        census.process = {} if (part := self.options.process) is None else part.facts(self.options.name)
        made.equip(census, self.places.by_protocol, directory)
        self._made = made
        self._turn = turn
        assert broker.access.logins is not None
        broker.access.logins.hasher = self._hasher = ThreadHasher(turn)
        log.info("%s: recovered %s", self.options.name, self.report.describe())
        for flaw in self.report.bodies_lost:
            log.error("%s: %s; its message becomes a dead letter without it", self.options.name, flaw)
        made.found(turn.run)
        turn.catch_up()

    def _listener(self, listening: Listening, dialects: Dialects) -> Listener:
        made = self.made
        if listening.protocol == CORE:
            made.load_artemis()  # now, and not when the first client comes
        if listening.protocol == AMQP:
            made.load_amqp()

        def greeter(make: Callable[[Shell, Any, str], Session], options: object) -> Greeter:
            return lambda shell, peer: make(shell, options, peer)

        greet = greeter(made.greet_openwire, dialects.openwire)
        web = WebGreeter(self.turn, greet, frame_max=dialects.openwire.wire.max_frame_size)
        greeters: dict[str, Greeter] = {
            OPENWIRE: greet,
            STOMP: greeter(made.greet_stomp, dialects.stomp),
            HTTP: web,
            CORE: greeter(made.greet_core, dialects.core),
            MQTT: greeter(made.greet_mqtt, dialects.mqtt),
            AMQP: greeter(made.greet_amqp, dialects.amqp),
        }
        spoken = [STOMP, MQTT, AMQP] if listening.protocol == WS else listening.protocols
        inside: dict[str, Greeter] = {name: greeters[name] for name in (STOMP, MQTT, AMQP) if name in spoken}
        greeters[WS] = web.socket = SocketGreeter(self.turn, made.broker.memory, inside)
        listener = Listener(listening, self.turn, greeters)
        web.carry = partial(listener.carry, greet)
        return listener

    async def _close(self, why: str = "the broker stops") -> None:
        if self._maintenance is not None:
            self._maintenance.cancel()
        for one in (self._reloader, self._renewal, self.processes):
            if one is not None:
                one.stop()
        if self._door is not None:
            self._door.close()
        for announcer in self._announcers:
            await announcer.stop()
        for listener in self.listeners:
            listener.close()
        if self._contacts is not None:
            await self._contacts.scale_down(why, self.listeners)
        if self._turn is not None:
            self._turn.run(self.made.take_leave)
        if self.links is not None:  # before clients are (classic.md 1.3): what they have on its way is still answered
            await self.links.stop()
        if self._contacts is not None:
            await self._contacts.stop()
        for listener in self.listeners:
            listener.stop_reading()
        await self._answer()
        await asyncio.gather(*(listener.drain(why) for listener in self.listeners))
        if self._turn is not None:
            self._turn.run(self.broker.finish_work)
            self._turn.catch_up()
            self._turn.stop()
        for part in (self._hasher, self.options.telemetry):
            if part is not None:
                part.close()
        if self._traces is not None:
            if self._made is not None:
                self.broker.end_trace()
                self.broker.trace = None
            self._traces.close()

    async def _answer(self) -> None:
        """Wait a moment for the disk, so that producers get the receipts that they wait for."""
        if self._turn is None:
            return
        loop = self._turn.loop
        until = loop.time() + ANSWER_GRACE
        while self.broker.journal.flush() and loop.time() < until:
            await asyncio.sleep(0.002)

    def _maintain(self) -> None:
        """Give the journal a little time to compact itself, and look whether it still can be trusted."""
        more = False
        turn = self.turn
        turn.begin()
        try:
            if self._disk is not None:
                self._disk.look_at_lock()
                self._disk.look_at_space()
            self._measure(turn.loop.time())
            more = self.broker.journal.compact(COMPACT_OCTETS)
            refusal = self.broker.journal.refusal()
            if refusal is not None and not isinstance(refusal, StorageFull):
                log.critical("the journal cannot be trusted any more, the broker stops: %s", refusal)
                self.ask_to_stop(f"the journal failed: {refusal}")
        except EntrepotError as error:
            log.error("the journal could not compact itself: %s", error)
        finally:
            turn.end()
        self._maintenance = turn.loop.call_later(COMPACT_AGAIN if more else COMPACT_LOOK, self._maintain)

    def _measure(self, at: float) -> None:
        """See whether the limits of the disk are reached, twice a second at most."""
        if at < self._measured + COMPACT_LOOK / 2:
            return
        self._measured = at
        limits = self.broker.journal.space.limits
        before = limits.full
        if self.made.measure():
            full = limits.full
            told = (
                f"{full}: producers wait or are refused" if full else f"messages may be stored again; before, {before}"
            )
            log.warning("%s: %s", self.options.name, told)


def colocate(node: Node, contacts: Contacts | None) -> None:
    """Host backups of other nodes, and have this one's hosted, where its file says so and there is a cluster."""
    options, clusters = node.options, node.made.clusters
    if options.colocation is None or options.data is None or not clusters or contacts is None:
        return
    from entrepot.io.colocated import begin, copy_of  # noqa: PLC0415 - few brokers need it

    own = str(options.data.resolve())
    copy = None if options.shared is None else copy_of(options.name, options.shared, node.standby)
    contacts.colocated = begin(node.turn, clusters[0], options.colocation, own, copy, options.housing, options.command)
    if node.standby is not None:
        node.standby.more["colocated"] = contacts.colocated.facts


def empty(node: Node, contacts: Contacts | None, hosting: Hosting | None) -> None:
    """Give away all that was taken over, and stop when nothing is left. Raises InvalidOption where nobody is there.

    Where each broker has a store it stays, empty: only from it can the primary have a copy that counts.
    """
    standby = node.standby
    if contacts is None or standby is None:
        raise InvalidOption("there is no cluster: nobody could take what this backup took over")

    def over(why: str) -> None:
        if hosting is None:
            standby.candidate.emptied = True
            node.ask_to_stop(why)

    def may() -> bool:
        return hosting is None or not hosting.replication.held

    standby.more["drain"] = contacts.empty(over, may, stays=hosting is not None)


async def listen(node: Node) -> None:
    """Open the ports, unless there is nobody to serve. Raises OperatorError."""
    made = node.made
    for listening, dialects in () if node.drains else zip(node.listening, node.dialects, strict=True):
        listener = node._listener(listening, dialects)
        await listener.open()
        node.listeners.append(listener)
        if not made.acceptor.url:
            made.acceptor.set_url(published(listener, dialects.openwire.published))
    if node.options.process is not None:  # the others dial there, and who asks about this one alone
        from entrepot.management.processes import opened  # noqa: PLC0415 - a broker alone needs none

        inner = node._listener(Listening(node.options.process.inner, no_option, SPOKEN), Dialects())
        node.listeners.append(inner)
        node.processes = await opened(node.options.process, node.turn, made.management, inner)
