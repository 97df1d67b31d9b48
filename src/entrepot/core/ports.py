"""What the core asks of others, and what its queues ask of their broker. [C]

Called once per message or per state change of the data plane, so these are native base classes, not effects and not
`typing.Protocol` (decision 0002).
"""

from __future__ import annotations

from collections.abc import Sequence

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import Entropy
from entrepot.base.errors import EntrepotError, Fault, Refused
from entrepot.base.reasons import Reason
from entrepot.core.effort import Effort
from entrepot.core.events.facts import Hub
from entrepot.core.events.trace import Trace
from entrepot.core.events.watching import Watch
from entrepot.core.identities import Identities
from entrepot.core.queue.head import QueueHead
from entrepot.core.room import Room
from entrepot.core.scheduling.timed import Alarm, Timetable
from entrepot.journal.log import JournalCore
from entrepot.model.message import Message


class Memory:
    """What all messages held in memory cost together. Each message is charged once, however many queues hold it."""

    def __init__(self, limit: i64) -> None:
        self.limit: i64 = limit
        self.used: i64 = 0
        self.crowded: bool = False  # there are as many as may be, however small
        self.lent: i64 = (
            0  # octets of long frames that are not complete (`core/sending/loans.py`), not part of ``used``
        )

    def hold(self, message: Message) -> None:
        """Note that one more queue keeps ``message`` in memory."""
        if message.holders == 0:
            self.used += message.size
        message.holders += 1

    def release(self, message: Message) -> None:
        """Note that one queue fewer keeps ``message`` in memory."""
        message.holders -= 1
        if message.holders == 0:
            self.used -= message.size


class CountedMemory(Memory):
    """Memory that takes so many messages, and is full then (``global-max-messages``, artemis.md 4.8)."""

    def __init__(self, limit: i64, most: i64) -> None:
        super().__init__(limit)
        self.most: i64 = most
        self.count: i64 = 0

    def hold(self, message: Message) -> None:
        """Note that one more queue keeps ``message`` in memory."""
        if message.holders == 0:
            self.count += 1
            self.crowded = self.count >= self.most
        super().hold(message)

    def release(self, message: Message) -> None:
        """Note that one queue fewer keeps ``message`` in memory."""
        super().release(message)
        if message.holders == 0:
            self.count -= 1
            self.crowded = self.count >= self.most


class ArrivalWatcher:
    """Wants to know when something can be claimed from a queue."""

    def arrived(self) -> None:
        """Something can be: let those who wait for it look, soon."""
        raise Fault("a queue is watched by nobody")


@mypyc_attr(allow_interpreted_subclasses=True)
class ClaimWaiter:
    """Who waits until there is something to claim. Exactly one of the two is called, once."""

    def claimed(self, end: i64) -> None:
        """The ledger reaches to ``end`` now; when the time went by first that is where it was."""

    def refused(self, error: EntrepotError) -> None:
        """The lease is over, or was taken over, or cannot be extended."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientHolder:
    """The connection that has a client id. ``peer``: where it comes from, for people; ``user``: who is served there.

    ``protocol``: what it speaks; ``yields``: a newer connection of the same user may have the client id.
    """

    def __init__(self, peer: str, user: str = "", protocol: str = "", yields: bool = True) -> None:
        self.peer: str = peer
        self.user: str = user
        self.protocol: str = protocol
        self.yields: bool = yields

    def give_way(self, successor: str) -> None:
        """Give back all that is held under the client id, and end: ``successor`` (a peer) has it from now on."""
        raise Fault("a client id was taken from nobody")


@mypyc_attr(allow_interpreted_subclasses=True)
class Neighbours:
    """What a connection may ask about other brokers of the network; this one knows none."""

    def places(self) -> str:
        """Return who is known and where STOMP is spoken there, this broker first: the list of BROKERS' answer."""
        return ""

    def away(self, name: str, topic: bool) -> str:
        """Return the connectors over which messages of the queue ``name`` are to come, and do not come just now.

        Their other broker is not reached, or refuses that queue: then why, too. ``topic``: it is the name of a topic.
        """
        return ""


@mypyc_attr(allow_interpreted_subclasses=True)
class Informant:
    """Knows what brokers of a cluster and their tools ask for; this one knows no cluster.

    ``address``: where it is told what happens, "" for nowhere; ``started``: when the broker did, ms since 1970.
    """

    def __init__(self, address: str = "", started: i64 = 0) -> None:
        self.address: str = address
        self.started: i64 = started

    def topology(self) -> list[dict[str, str]]:
        """Return who is in the cluster: ``nodeID``, and where ``primary`` and ``backup`` are; empty for no cluster."""
        return []

    def send_queue_info(self, queue: str, rule: str) -> None:
        """Send to ``queue`` what queues there are of the addresses that ``rule`` speaks of, and who reads them.

        Raises Refused.
        """
        raise Refused("this broker tells nobody what queues it has")


@mypyc_attr(allow_interpreted_subclasses=True)
class Mirroring:
    """Tells other brokers what happens here.

    ``bringing``: the broker of which a message comes now; ``acting``: the one whose word removes or makes something
    now, and ``doer`` the one where that was done first; "" for none. ``committing``, ``settling``: the connection for
    which a transaction is carried out, or a message settled, now; 0 for none.

    `sent` and `left` are called for each message, in the batch of the journal that stores it, or takes it out.
    """

    def __init__(self) -> None:
        self.bringing: str = ""
        self.acting: str = ""
        self.doer: str = ""
        self.committing: i64 = 0
        self.settling: i64 = 0

    def sent(self, message: Message, queues: Sequence[QueueHead]) -> list[QueueHead]:
        """Return the further queues that get the numbered ``message``, which is for ``queues``."""
        raise Fault("nobody is told what is sent")

    def left(self, queue: QueueHead, message: Message) -> None:
        """``message`` leaves ``queue`` for good."""
        raise Fault("nobody is told what leaves a queue")

    def missed(self, address: str, queue: str, origin: str, number: i64, passed: i64) -> None:
        """Another broker says that message ``number`` of ``origin`` was taken out of ``queue``: it is not here.

        ``passed``: brokers that told it on, with this one.
        """
        raise Fault("nobody is told what is not here")

    def again(self, owner: i64, address: str) -> None:
        """``owner`` says again what came to ``address`` before, perhaps from another connection; "": somewhere."""

    def waiting(self) -> i64:
        """Return how many answers wait until other brokers have what they are about."""
        return 0

    def met(self, queue: str, remote: str) -> None:
        """What waits in ``queue`` to be told goes to the broker ``remote``."""
        raise Fault("nobody is told anything")


class Postponed:
    """Messages whose record is written, and which enter their queues later."""

    def add(self, message: Message, queues: Sequence[QueueHead]) -> None:
        """Let ``message`` enter ``queues`` later."""
        raise Fault("nothing is postponed")


class QueueAlarm(Alarm):
    """Rings for one queue, which does something later."""


class Host:
    """What a queue asks of the broker it lives in. `BrokerCore` is the one implementation outside of tests.

    ``now`` (ns, monotonic) and ``wall`` (ms since 1970) are the time of the stimulus that is being handled.
    """

    def __init__(self, journal: JournalCore, memory: Memory, hub: Hub, entropy: Entropy) -> None:
        self.journal: JournalCore = journal
        self.memory: Memory = memory
        self.hub: Hub = hub
        self.entropy: Entropy = entropy
        self.ids: Identities = Identities(journal)
        self.timetable: Timetable = Timetable()
        self.effort: Effort = Effort()
        self.room: Room = Room(self.effort, memory.limit)
        self.trace: Trace | None = None  # set before there are queues
        self.watch: Watch | None = None  # set: some messages are watched, and their traces recorded
        self.now: i64 = 0
        self.wall: i64 = 0
        self.fraction: float = 0.5  # in [0, 1), drawn anew for each delay: the jitter of redelivery delays
        self.ceased: bool = False  # the broker stops: what comes back from one consumer is not for the next one
        self.working: dict[int, bool] = {}  # identities of queues that go on in the next turn
        self.postponed: Postponed | None = None  # set: who sends now has a message stored, and its queues get it later
        self.mirrors: Mirroring | None = None  # set: other brokers are told what is sent here, and leaves
        self.carrying: bool = False  # a large transaction is under way: queues may have messages that are not in them

    def dead_letter(self, queue: QueueHead, message: Message, reason: Reason, deliveries: i64) -> None:
        """Move ``message`` out of ``queue`` to its dead-letter address, or drop it as the policy says."""
        raise Fault("a queue without a broker cannot dead-letter")

    def unrouted(self, message: Message, routing: int) -> None:
        """Send a copy of ``message``, sent by ``routing`` and taken by no queue, to the dead letters."""
        raise Fault("an address without a broker cannot dead-letter")

    def expire(self, queue: QueueHead, message: Message) -> None:
        """Move ``message``, whose time is over, out of ``queue`` to its expiry address, or drop it."""
        raise Fault("a queue without a broker cannot expire")
