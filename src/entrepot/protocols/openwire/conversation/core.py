"""A program's connection, which outlives its sockets: what it opened, what it asked, what a new broker must be told.

Puts the roles together: requests, sessions, producers, consumers, transactions, branches, temporary destinations. Holds
at most one wire; `use` gives it one, its loss takes it away. Whether and whither to dial is `protocols/failover.py`'s
matter.

Replay on a new wire (classic.md 2.3): ConnectionControl, ConnectionInfo, temporary destinations, then per session its
producers and consumers, open transactions (BEGIN and what was sent), cached messages, pulls, and every request without
an answer, in order, sends with their old sequence, so that a broker that stored one swallows it. Invariants:

- a transaction that consumed on a lost wire never commits: `TransactionRolledBack`, and the broker delivers again;
- a commit whose answer was lost is sent again, with the same messages, only to the same store (the broker has the same
  name, or the same identity, as those that take turns at one store have) and only if it did nothing but send; otherwise
  it is reported as `TransactionInDoubt`. Never silently;
- a branch of a distributed transaction that is not prepared ends with its wire; one that is prepared ends when it is
  told to, on whatever wire. [C]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Entropy, Instant
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.protocols.conversing.modes import Acknowledge, Handling
from entrepot.protocols.conversing.port import (
    Answer,
    Conversation,
    ConversationEvents,
    SessionPort,
    Wire,
    WireEvents,
)
from entrepot.protocols.conversing.xid import Xid
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import (
    BrokerInfo,
    Command,
    ConnectionControl,
    ConnectionError,
    ConnectionInfo,
    ConsumerControl,
    ExceptionResponse,
    MessageDispatch,
    ProducerAck,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
)
from entrepot.protocols.openwire.conversation.branches import Branches, branch_id_of
from entrepot.protocols.openwire.conversation.consuming import Confirming, Consumers
from entrepot.protocols.openwire.conversation.dialling import DialledWire, WireUser, speaks
from entrepot.protocols.openwire.conversation.inbox import USUAL
from entrepot.protocols.openwire.conversation.messages import place_of
from entrepot.protocols.openwire.conversation.producing import Producers
from entrepot.protocols.openwire.conversation.records import Identity, refusal
from entrepot.protocols.openwire.conversation.requests import Requests
from entrepot.protocols.openwire.conversation.requests import Wire as CommandWire
from entrepot.protocols.openwire.conversation.sessions import SessionHandle, Sessions
from entrepot.protocols.openwire.conversation.temporaries import Temporaries
from entrepot.protocols.openwire.conversation.transactions import Transactions
from entrepot.protocols.openwire.ids import DestinationKind, LastDelivered, TransactionStep, qualified_name
from entrepot.protocols.openwire.whereabouts import ZONE_TOKEN, read_zones
from entrepot.protocols.session import Shell


class ConversationCore(Conversation):
    """One connection of a program to OpenWire brokers."""

    def __init__(
        self,
        info: ConnectionInfo,
        events: ConversationEvents,
        entropy: Entropy,
        *,
        reconnects: bool,
        zone: str = "",
        watch_advisories: bool = True,
        audit: bool = True,
        cache_octets: int = 0,
        track_transaction_producers: bool = True,
        handling: Handling = USUAL,
    ) -> None:
        """``audit``: do not hand out again what was settled just before the wire was lost.

        ``cache_octets``: of messages sent without an answer that are sent again (trackMessages).
        """
        super().__init__(events)
        self.info: Final = info
        self.zone: Final = zone
        identity = Identity(info)
        self.requests: Final = Requests(reconnects)
        self.confirming: Final = Confirming(identity, self.requests)
        self.temporaries: Final = Temporaries(identity, self.requests)
        self.consumers: Final = Consumers(
            identity, self.requests, self.confirming, entropy, handling, audit and reconnects
        )
        self.transactions: Final = Transactions(identity, self.requests, self.consumers)
        self.branches: Final = Branches(identity, self.requests, self.consumers)
        self.producers: Final = Producers(
            identity,
            self.requests,
            self.transactions,
            self.temporaries,
            cache_octets=cache_octets,
            tracked=track_transaction_producers,
        )
        self.sessions: Final = Sessions(
            identity, self.requests, self.producers, self.consumers, self.transactions, self.branches
        )
        self.hearing: Final = Hearing(self)
        self._identity: Final = identity
        self._watch: Final = watch_advisories
        self._first = True
        self._introduction = 0  # the number of the command that introduces us, 0 when it is answered

    # -- the wire ------------------------------------------------------------------------------------------------------

    def speaks(self, option: str) -> bool:
        """Tell whether ``option`` is about the format of OpenWire, or about the client."""
        return speaks(option)

    def dial(self, place: Endpoint, shell: Shell, now: Instant, events: WireEvents) -> Wire:
        """Return a wire to ``place``."""
        return DialledWire(place, shell, now, events, _User(self))

    def use(self, wire: CommandWire) -> None:
        """Take ``wire``, which has agreed on a format: introduce ourselves and tell again what was."""
        self.requests.wire = wire
        *said, introduction = self.opening()
        for command in said:
            self.requests.post(command)
        self._introduction = wire.ask(introduction)
        if not self._first:
            self._replay()

    def opening(self) -> list[Command]:
        """Return what introduces us; the last of it is to be answered."""
        self.info.failover_reconnect = not self._first
        if not self.requests.reconnects:
            return [self.info]
        token = ZONE_TOKEN + self.zone.encode() if self.zone else None
        return [ConnectionControl(fault_tolerant=True, token=token), self.info]

    def opened(self, *, consumers: bool) -> list[Command]:
        """Return what is open for a broker that joins: all but consumers, or the consumers."""
        if consumers:
            return [record.info for record in self.consumers.records.values() if record.confirmed]
        commands: list[Command] = list(self.temporaries.again())
        for session in self.sessions.records.values():
            commands.append(session.info)
            commands += [producer.info for producer in session.producers.values() if producer.confirmed]
            transaction = session.transaction
            if transaction is not None and transaction.begun and not transaction.doomed:
                commands.append(self._identity.step(transaction.transaction_id, TransactionStep.BEGIN))
                commands += transaction.sends
        return commands

    def lost(self, wire: CommandWire, why: str) -> None:
        """The wire is gone: see what that means for what was under way."""
        if wire is self.requests.wire:
            self._withdraw()
            self.events.lost(why)

    def leave_wire(self, wire: CommandWire) -> None:
        """Settle what is processed, and use this wire no more; whoever calls this knows why it goes."""
        if wire is self.requests.wire:
            self.consumers.flush()
            self._withdraw()

    def answered_introduction(self, number: int, error: EntrepotError | None) -> bool:
        """Tell whether the answer ``number`` is that to our introduction, and go on with it."""
        if number != self._introduction:
            return False
        self._introduction = 0
        first = self._first
        if error is not None:
            self._withdraw()  # first of all: what was said behind the introduction is refused as well
            self.events.rejected(error, first)
            return True
        self._first = False
        self.introduced = True
        if first:
            if self._watch:
                self.consumers.watch_temporaries(self.temporaries, lambda: self.now)
            self._replay()
        for doubtful in self.requests.resolved():
            self.transactions.replay(doubtful.transaction)
            self.requests.put(doubtful.request)
        self.events.introduced(first)
        return True

    def _withdraw(self) -> None:
        self.introduced = False
        self.confirming.losses += 1
        self.requests.wire = None
        self.sessions.lost(self.consumers.lost())
        self.producers.lost()
        self.branches.lost()
        self.requests.lost()

    def _replay(self) -> None:
        requests = self.requests
        for told in self.temporaries.again():
            requests.post(told)
        closed: list[ProducerInfo] = []
        for session in self.sessions.records.values():
            requests.post(session.info)
            transaction = session.transaction
            if transaction is not None:
                closed += transaction.closed_producers
            for producer in session.producers.values():
                if producer.confirmed:
                    requests.post(producer.info)
        for info in closed:
            requests.post(info)
        for record in self.consumers.records.values():
            if record.confirmed:
                requests.post(record.info)
        for transaction in self.sessions.open_transactions():
            self.transactions.replay(transaction)
        for info in closed:
            requests.post(RemoveInfo(object_id=info.producer_id, last_delivered_sequence_id=LastDelivered.UNKNOWN))
        for message in self.producers.cache.messages:
            requests.post(message)
        for record in self.consumers.records.values():
            if record.pull is not None and record.inbox.pulling:
                requests.post(record.pull)
        parked, requests.parked = requests.parked, []
        for request in parked:
            if request.transaction is not None:
                self.transactions.replay(request.transaction)
            requests.put(request)

    # -- what a program asks -------------------------------------------------------------------------------------------

    def busy(self) -> bool:
        """Tell whether to leave now would repeat or undo something: requests, a transaction, what was handed out."""
        return bool(self.requests.pending) or self.sessions.at_work()

    def has_room(self) -> bool:
        """Tell whether the broker reads as fast as we write."""
        wire = self.requests.wire
        return wire is None or wire.ready

    def unwritten(self) -> int:
        """Return how many octets wait for the socket."""
        wire = self.requests.wire
        return 0 if wire is None else int(wire.pending())

    def settle_turn(self, now: Instant) -> None:
        """Tell the broker what was processed in the turn that ends."""
        for record in self.consumers.records.values():
            record.inbox.settle_turn(now)

    def flush(self) -> None:
        """Tell the broker what is processed."""
        self.consumers.flush()

    def open_session(self, mode: Acknowledge, xa: bool = False) -> SessionPort:
        """Open a session; every transacted one may work for branches."""
        return SessionHandle(self.sessions, mode, lambda: self.now)

    def add_temporary(self, topic: bool, answer: Answer) -> str:
        """Make a temporary destination of this connection."""
        kind = DestinationKind.TEMPORARY_TOPIC if topic else DestinationKind.TEMPORARY_QUEUE
        return qualified_name(self.temporaries.add(kind, answer))

    def remove_temporary(self, destination: str, answer: Answer) -> None:
        """Delete a temporary destination of this connection."""
        self.temporaries.remove(place_of(destination), answer)

    def unsubscribe(self, name: str, answer: Answer) -> None:
        """Delete a durable subscription."""
        info = RemoveSubscriptionInfo(
            connection_id=self.info.connection_id, subscription_name=name, client_id=self.info.client_id
        )
        self.requests.ask(info, answer)

    def prepare_branch(self, xid: Xid, answer: Callable[[bool, EntrepotError | None], None]) -> None:
        """Have the broker promise."""
        self.branches.prepare(branch_id_of(xid), answer)

    def commit_branch(self, xid: Xid, one_phase: bool, answer: Answer) -> None:
        """Commit a branch."""
        self.branches.commit(branch_id_of(xid), one_phase, answer)

    def roll_back_branch(self, xid: Xid, now: Instant, answer: Answer) -> None:
        """Undo a branch."""
        self.branches.roll_back(branch_id_of(xid), now, answer)

    def recover_branches(self, answer: Callable[[list[Xid], EntrepotError | None], None]) -> None:
        """Ask which branches are prepared and not ended."""
        self.branches.recover(answer)

    def leave(self, answer: Answer) -> None:
        """Tell the broker that we end; shut the wire when it answered."""
        self.consumers.flush()
        wire = self.requests.wire
        if wire is None or not wire.live:
            answer(None)
            return
        last = int(LastDelivered.UNSET)
        for record in list(self.consumers.records.values()):
            if record.session is not None and record.inbox.mode != Acknowledge.TRANSACTED:
                self.consumers.close(record)  # each says what it saw: a connection can name one message only
            else:
                last = max(last, int(record.inbox.last_sequence))
        self.requests.ask(RemoveInfo(object_id=self.info.connection_id, last_delivered_sequence_id=last), answer)

    def end(self, error: EntrepotError) -> None:
        """The connection is over: everything that waits gets ``error``."""
        if self.failure is not None:
            return
        self.failure = error
        self.requests.end(error)
        for record in list(self.consumers.records.values()):
            record.inbox.end(str(error))


class _User(WireUser):
    """A conversation uses a wire that was dialled for it."""

    def __init__(self, core: ConversationCore) -> None:
        self._core: Final = core

    def port(self) -> ClientPort:
        return self._core.hearing

    def use(self, client: OpenWireClient) -> None:
        self._core.use(client)

    def leave(self, client: OpenWireClient, why: str) -> None:
        self._core.leave_wire(client)


class Hearing(ClientPort):
    """Takes what a broker says on the wire in use to the role that it concerns."""

    def __init__(self, core: ConversationCore) -> None:
        self._core: Final = core
        self._requests: Final = core.requests

    def dispatched(self, client: CommandWire, dispatch: MessageDispatch) -> None:
        """Put a message into its inbox."""
        core = self._core
        consumer_id = dispatch.consumer_id
        record = core.consumers.records.get(consumer_id.value) if consumer_id is not None else None
        if record is None or client is not self._requests.wire:
            return
        record.inbox.arrive(dispatch, core.wall)

    def responded(self, client: CommandWire, response: Response) -> None:
        """Answer the request."""
        if client is not self._requests.wire:
            return
        error = refusal(response.exception) if isinstance(response, ExceptionResponse) else None
        number = int(response.correlation_id)
        if not self._core.answered_introduction(number, error):
            self._requests.answered(number, response, error)

    def told(self, client: CommandWire, command: Command) -> None:
        """Take what answers nothing."""
        core = self._core
        if isinstance(command, BrokerInfo):
            self._requests.meet(command)
        elif client is not self._requests.wire:
            return
        elif isinstance(command, ConnectionControl):
            zones = read_zones(command.token)
            if zones is not None:
                core.events.located(zones.here, zones.there)
            brokers, reconnect_to = command.connected_brokers or "", command.reconnect_to or ""
            core.events.directed(brokers, reconnect_to, command.rebalance_connection)
        elif isinstance(command, ConnectionError):
            error = refusal(command.exception)
            core.confirming.reported(error)
            core.events.failed(error)
        elif isinstance(command, ProducerAck):
            if core.producers.widened(command):
                core.events.flowing()
        elif isinstance(command, ConsumerControl):
            core.consumers.controlled(command)

    def settled(self, client: CommandWire) -> None:
        """A chunk is taken in."""
        if client is self._requests.wire:
            self._core.events.settled()

    def writable(self, client: CommandWire, ready: bool) -> None:
        """The socket drained, or is full."""
        if ready:
            self._core.events.flowing()

    def lost(self, client: CommandWire, why: str) -> None:
        """The wire is gone."""
        self._core.lost(client, why)

    # What a wire to several brokers at once tells each that joins (`fanout`).

    def opening(self) -> list[Command]:
        """Return what introduces us; the last of it is to be answered."""
        return self._core.opening()

    def opened(self, *, consumers: bool) -> list[Command]:
        """Return what is open: all but consumers, or the consumers."""
        return self._core.opened(consumers=consumers)
