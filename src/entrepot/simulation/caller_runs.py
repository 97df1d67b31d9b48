"""One world of programs with the real client, from its seed: brokers, programs, what breaks, and the reckoning.

One broker that comes and goes has one store: there what was not answered is asked again, and nothing comes twice. Two
or three brokers that know nothing of one another have a store each: there programs fail over and are moved. Some worlds
are *calm*: nothing breaks, and programs are moved all the time.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.config.model import BrokerConfig, BrokerSettings
from entrepot.model.message import Message
from entrepot.protocols.artemis.conversation.core import CoreConversation
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.simulation.accounts import Account
from entrepot.simulation.blocking import Blocks
from entrepot.simulation.callers import PORT, Caller, Looker, Reader, Sender, Worker, present
from entrepot.simulation.networks import Network
from entrepot.simulation.sites import Blueprint, Site
from entrepot.simulation.subscribers import Reader as InCore
from entrepot.simulation.tongues import CoreTongue, OpenWireTongue, Tongue, name_of
from entrepot.simulation.world import Lots

QUEUES: Final = ("IN", "OUT")
DEAD_LETTERS: Final = "ActiveMQ.DLQ"
STEPS: Final = ("move", "cut", "cut", "commit", "silent", "slow", "kill", "power", "stop")
TEARING: Final = (*STEPS, "tear", "tear", "tear", "tear", "cut", "cut")
STORM_MS: Final = 5_000
HEALING_MS: Final = 180_000  # a silent cut is found after 30 s, and what follows may be one as well
LEAVING_MS: Final = 90_000  # the same
STEP_MS: Final = 100
SLOW_DISK: Final = 300 * MILLISECOND
COUNTING_MS: Final = 3_000
DRAIN_MS: Final = 30_000
TTL_MS: Final = 30_000  # of connections of CORE: a cut that nobody tells of is found as late as in OpenWire


class Hall(Network):
    """Brokers whose messages may be of CORE."""

    def consumed(self, site: Site, reader: InCore, message: Message, deliveries: int) -> None:
        """As `Network.consumed`; what is of CORE came over no bridge."""
        name = name_of(message)
        if name is None:
            super().consumed(site, reader, message, deliveries)
        else:
            self.seen.setdefault(name, []).append(site.name)
            self.world.note(f"consumed {name} at {site.name}")


class CallerRun:
    """The world of one seed."""

    def __init__(
        self,
        seed: int,
        *,
        core: bool = False,
        reattach: bool = False,
        mixed: bool = False,
        blocks: bool = False,
        lines: bool = False,
    ) -> None:
        """``core``: programs speak CORE, and with ``reattach`` their sessions outlive connections.

        ``mixed``: some speak OpenWire and some CORE, so large texts of the one are measured for readers of the other.
        ``blocks``: an operator blocks what they send to, and unblocks it.
        """
        self.blocks: Final = blocks
        names = ("one", "two", "three")
        lots = self.lots = Lots(f"{seed}/callers")
        count = lots.one_of((1, 1, 2, 3))
        if reattach and lots.chance(0.6):
            count = 1  # there is nowhere else to go
        self.steps: Final = TEARING if reattach else STEPS
        self.calm: Final = count > 1 and lots.chance(0.3)
        blueprints = {name: Blueprint(config=BrokerConfig(broker=BrokerSettings(name=name))) for name in names[:count]}
        self.network: Final = Hall(seed, blueprints, lines=lines)
        self.world: Final = self.network.world
        self.account: Final = Account(self.world, calm=self.calm, stores=count, returns=core or mixed)
        self.tongues: Final[list[Tongue]] = [CoreTongue(TTL_MS, reattaches=reattach)] if core or mixed else []
        if not core:
            self.tongues.append(OpenWireTongue())
        self.callers: list[Caller] = self._draw()
        if reattach and lots.chance(0.5):
            for site in self.network.sites.values():
                site.disk.sync_delay_max = SLOW_DISK  # slower than programs dial

    def _draw(self) -> list[Caller]:
        lots, network, account = self.lots, self.network, self.account
        found: list[Caller] = [
            Sender(network, self._tongue(), account, f"sender{n}", "IN") for n in range(lots.between(1, 2))
        ]
        for number in range(lots.below(2)):
            found.append(Worker(network, self._tongue(), account, f"writer{number}", "", lots.one_of(QUEUES)))
        found += [Worker(network, self._tongue(), account, f"relay{n}", "IN", "OUT") for n in range(lots.below(3))]
        found += [Reader(network, self._tongue(), account, f"reader{n}", "IN") for n in range(lots.below(3))]
        found += [Reader(network, self._tongue(), account, f"last{n}", "OUT") for n in range(lots.below(2))]
        if len(self.tongues) > 1:
            found += [Looker(network, self._tongue(), account, f"looker{n}", "IN") for n in range(lots.below(3))]
        for caller in found:
            queue = queue_of(caller)
            account.readers[queue] = account.readers.get(queue, 0) + 1
        return found

    def _tongue(self) -> Tongue:
        return self.tongues[0] if len(self.tongues) == 1 else self.lots.one_of(self.tongues)

    def run(self) -> list[str]:
        """Storm, healing, reckoning; return what was broken."""
        self.network.start()
        self._pass(100)
        for caller in self.callers:
            self.world.later(self.lots.below(500) * MILLISECOND, caller.start)
        if self.blocks:
            for name, site in self.network.sites.items():
                Blocks(self.world, site).haunt(
                    self.world.lots(f"blocks {name}"), lambda: QUEUES, STORM_MS * MILLISECOND
                )
        until = self.world.time + STORM_MS * MILLISECOND
        while self.world.time < until and not self.world.violations:
            self._pass(self.lots.skewed(10, 1_500))
            self._break()
        if not self.world.violations:
            self._heal()
        if not self.world.violations:
            self._reckon()
        return self.world.violations

    def _pass(self, ms: int) -> None:
        self.world.run(self.world.time + ms * MILLISECOND)

    # -- what happens to them ------------------------------------------------------------------------------------------

    def _break(self) -> None:
        lots, network = self.lots, self.network
        caller = lots.one_of(self.callers)
        site = network.sites[lots.one_of(list(network.sites))]
        kind = "move" if self.calm else lots.one_of(self.steps)
        self.world.note(f"step {kind} {caller.name} {site.name}")
        self.world.count(f"steps: {kind}")
        if kind == "move":
            url = f"tcp://{site.name}:{PORT}"
            caller.turn(lambda: caller.lifeline.control("", url, False))
        elif kind == "cut":
            network.cut(caller.name, site.name)
            self.world.later(lots.between(1, 1_000) * MILLISECOND, lambda: network.mend(caller.name, site.name))
        elif kind == "silent":
            network.cut(caller.name, site.name, silent=True)
            self.world.later(lots.between(1, 1_000) * MILLISECOND, lambda: network.mend(caller.name, site.name))
        elif kind == "tear":
            self._tear(caller, lots.one_of((0, 50, 3_000)))
        elif kind == "commit":
            self._trap()
        elif kind == "slow":
            network.slow(caller.name, site.name)
        elif kind == "stop":
            self.account.fell()
            site.stop()
        elif site.broker is not None:
            self._crash(site, torn=kind == "power")
            self.world.later(lots.between(10, 3_000) * MILLISECOND, site.boot)

    def _tear(self, caller: Caller, late_ms: int) -> None:
        """Break the connection of ``caller``, who is told at once; its broker, to which all comes still, later."""
        near = present(caller)
        if near is None or near.other is None:
            return
        far = near.other
        mute, dumb = self.lots.one_of(((False, False), (True, False), (False, True), (True, True)))
        near.deaf, far.deaf = near.deaf or mute, far.deaf or dumb

        def tear() -> None:
            self.world.later(late_ms * MILLISECOND, far.lose)
            near.lose()

        self.world.later(self.lots.one_of((0, 20, 200)) * MILLISECOND, tear)

    def _crash(self, site: Site, *, torn: bool) -> None:
        self.account.fell()
        site.crash(torn=torn)

    def _trap(self) -> None:
        """Have somebody lose his broker while he commits."""
        workers = [caller for caller in self.callers if isinstance(caller, Worker)]
        if not workers:
            return
        worker = self.lots.one_of(workers)
        kind = self.lots.one_of(("cut", "kill", "power"))

        def spring() -> None:
            site = self.network.sites.get(worker.place)
            if site is None or site.broker is None:
                return
            self.world.count("broken commits")
            if kind == "cut":
                self.network.cut(worker.name, site.name)
                self.network.mend(worker.name, site.name)
            else:
                self._crash(site, torn=kind == "power")
                self.world.later(self.lots.between(10, 500) * MILLISECOND, site.boot)

        worker.trap = spring

    # -- the end -------------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.world.note("healing")
        self.network.heal()
        for caller in self.callers:
            caller.finish()
        for _ in range(HEALING_MS // STEP_MS):
            self._pass(STEP_MS)
            if self.world.violations or (not self._busy() and not self._waiting()):
                break
        else:
            self.world.violation(f"after {HEALING_MS} ms: {self._busy()} {self._waiting()}")
            return
        self._count_reattached()
        self._look_at_counts()
        for caller in self.callers:
            caller.turn(caller.leave)
        for _ in range(LEAVING_MS // STEP_MS):
            self._pass(STEP_MS)
            if all(caller.left for caller in self.callers):
                break
        stay = [caller.name for caller in self.callers if not caller.left]
        while not self.world.violations and any(site.broker is None for site in self.network.sites.values()):
            self._pass(STEP_MS)  # one that stops in order comes back a while later
        if stay and not self.world.violations:
            self.world.violation(f"{stay} cannot leave")

    def _look_at_counts(self) -> None:
        """See that brokers did each command of a session that can be reattached once, when none is under way."""
        wrong: list[str] = []
        for _ in range(COUNTING_MS // STEP_MS):
            wrong = [one for caller in self.callers for one in miscounted(caller)]
            if not wrong:
                return
            self._pass(STEP_MS)
        for one in wrong:
            self.world.violation(one)

    def _count_reattached(self) -> None:
        talks = [one.conversation for one in self.callers if isinstance(one.conversation, CoreConversation)]
        self.world.count("reattached", sum(int(talk.reattached) for talk in talks))

    def _busy(self) -> list[str]:
        """Return who has something under way, and what."""
        asking = [one for one in self.callers if one.open_asks]
        found = [f"{one.name}: {', '.join(one.open_asks.values())}" for one in asking]
        return found + [one.name for one in self.callers if not one.is_done() and not one.open_asks]

    def _waiting(self) -> list[str]:
        """Return queues in which messages wait although somebody reads them there."""
        found: list[str] = []
        for caller in self.callers:
            queue = queue_of(caller)
            site = self.network.sites.get(caller.place)
            broker = None if site is None else site.broker
            if queue and site is not None and broker is not None and queue in broker.table.queues:
                left = int(broker.table.queues[queue].count)
                if left:
                    found.append(f"{left} in {queue} of {site.name}, where {caller.name} reads")
            elif queue and not caller.place:
                found.append(f"{caller.name} has no broker")
        return found

    def _reckon(self) -> None:
        for site in self.network.sites.values():
            for queue in (*QUEUES, DEAD_LETTERS):
                site.read(f"queue://{queue}")
        for _ in range(DRAIN_MS // STEP_MS):
            self._pass(STEP_MS)
            if not self._stored():
                break
        for name, places in self.network.seen.items():
            self.account.found[name] = len(places)
        if self._stored():
            self.world.violation(f"{self._stored()} messages cannot be read out")
        for _ in range(2 * TTL_MS // STEP_MS):  # sessions whose clients went elsewhere are kept as long as that
            if not self._files():
                break
            self._pass(STEP_MS)
        left = self._files()
        if left and not self._stored():
            self.world.violation(f"files of large bodies are left behind: {left}")
        self.account.reckon()

    def _files(self) -> dict[str, list[int]]:
        """Return the large bodies on disks."""
        return {site.name: site.disk.blobs() for site in self.network.sites.values() if site.disk.blobs()}

    def _stored(self) -> int:
        brokers = [site.broker for site in self.network.sites.values()]
        return sum(int(queue.count) for one in brokers if one is not None for queue in one.table.queues.values())


def queue_of(caller: Caller) -> str:
    """Return the queue that ``caller`` reads, "" for none."""
    return caller.queue if isinstance(caller, Reader) else caller.source if isinstance(caller, Worker) else ""


def miscounted(caller: Caller) -> list[str]:
    """Return the sessions of ``caller`` of which its broker did more commands, or fewer, than were sent."""
    near, conversation = present(caller), caller.conversation
    whole = near is not None and not near.deaf and near.other is not None and not near.other.deaf
    server = near.other.session if whole and near is not None and near.other is not None else None
    if not isinstance(server, CoreServerSession) or not isinstance(conversation, CoreConversation):
        return []
    found: list[str] = []
    for number, session in conversation.sessions.items():
        replay, commands = session.requests.replay, server.channels.get(number)
        if replay is not None and commands is not None:
            done, sent = int(commands.session.channel.commands), int(replay.sent)
            if done != sent:
                found.append(f"{caller.name} sent {sent} commands on channel {number}, and {done} were done")
    return found
