"""The sessions of a conversation, and the handles by which a program has them and what they open. [C]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Instant
from entrepot.protocols.conversing.content import Outgoing, Wish
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.port import Answer, ConsumerPort, ProducerPort, SessionPort
from entrepot.protocols.conversing.xid import Xid
from entrepot.protocols.openwire.commands import ConsumerInfo, RemoveInfo, SessionId, SessionInfo
from entrepot.protocols.openwire.conversation.branches import Branches, branch_id_of
from entrepot.protocols.openwire.conversation.consuming import Consumers
from entrepot.protocols.openwire.conversation.messages import compose, place_of
from entrepot.protocols.openwire.conversation.producing import Producers
from entrepot.protocols.openwire.conversation.records import Identity, ProducerRecord, SessionRecord, Transaction
from entrepot.protocols.openwire.conversation.requests import Requests
from entrepot.protocols.openwire.conversation.transactions import Transactions
from entrepot.protocols.openwire.ids import LastDelivered


class Sessions:
    """The sessions by number, and the roles that do their work."""

    def __init__(
        self,
        identity: Identity,
        requests: Requests,
        producers: Producers,
        consumers: Consumers,
        transactions: Transactions,
        branches: Branches,
    ) -> None:
        self.records: dict[int, SessionRecord] = {}
        self.producers: Final = producers
        self.consumers: Final = consumers
        self.transactions: Final = transactions
        self.branches: Final = branches
        self._identity: Final = identity
        self._requests: Final = requests

    def open(self, mode: Acknowledge) -> SessionRecord:
        """Open a session."""
        session_id = SessionId(self._identity.text, self._identity.fresh())
        session = SessionRecord(SessionInfo(session_id=session_id), mode)
        self.records[session.number] = session
        self._requests.post(session.info)
        return session

    def close(self, session: SessionRecord) -> None:
        """Close a session with all that it opened; what it did in an open transaction is undone."""
        if self.records.pop(session.number, None) is None:
            return
        self.transactions.abandon(session)
        for record in list(session.consumers.values()):
            record.inbox.delivered.clear()
            self.consumers.close(record)
        for producer in list(session.producers.values()):
            self.producers.close(producer)
        self._requests.post(
            RemoveInfo(object_id=session.info.session_id, last_delivered_sequence_id=LastDelivered.UNKNOWN)
        )

    def at_work(self) -> bool:
        """Tell whether a transaction is open, or something was handed out and is not settled."""
        for session in self.records.values():
            if session.transaction is not None and session.transaction.begun:
                return True
            if any(record.inbox.delivered for record in session.consumers.values()):
                return True
        return False

    def open_transactions(self) -> list[Transaction]:
        """Return the transactions of all sessions."""
        return [session.transaction for session in self.records.values() if session.transaction is not None]

    def lost(self, consumed: list[SessionRecord]) -> None:
        """The wire is gone: what cannot commit any more is doomed; ``consumed``: whose transactions did on it."""
        for session in consumed:
            self.transactions.of(session).doomed = "the connection was lost while it consumed"
        for transaction in self.open_transactions():
            if transaction.is_branch:
                transaction.doomed = "the connection was lost"


class ProducerHandle(ProducerPort):
    """A producer as a program has it."""

    def __init__(self, producers: Producers, record: ProducerRecord) -> None:
        self.record: Final = record
        self._producers: Final = producers

    def is_full(self) -> bool:
        """Tell whether the window is used up; transactions know none."""
        record = self.record
        return 0 < record.info.window_size <= record.outstanding and record.session.mode is not Acknowledge.TRANSACTED

    def send(self, outgoing: Outgoing, answer: Answer | None) -> bool:
        """Send as `ProducerPort.send`; what was not taken has used no number."""
        record = self.record
        message = compose(outgoing, record.info.destination)
        self._producers.identify(record, message)
        sent = self._producers.send(record, message, answer)
        if not sent:
            record.sequence -= 1
        return sent

    def close(self) -> None:
        """Close it."""
        self._producers.close(self.record)


class SessionHandle(SessionPort):
    """A session as a program has it."""

    def __init__(self, sessions: Sessions, mode: Acknowledge, now: Callable[[], Instant]) -> None:
        super().__init__(mode)
        self.record: Final = sessions.open(mode)
        self._sessions: Final = sessions
        self._now: Final = now

    def open_producer(self, destination: str | None, window: int, answer: Answer) -> ProducerPort:
        """Open a producer."""
        where = None if destination is None else place_of(destination)
        producers = self._sessions.producers
        return ProducerHandle(producers, producers.open(self.record, where, window, answer))

    def open_consumer(
        self, wish: Wish, policy: RedeliveryPolicy, wake: Callable[[], None], answer: Answer
    ) -> ConsumerPort:
        """Open a consumer."""
        return self._sessions.consumers.open(self.record, _described(wish), policy, wake, answer).inbox

    def acknowledge(self) -> None:
        """Settle all that was handed out (CLIENT)."""
        for record in self.record.consumers.values():
            record.inbox.acknowledge_all()

    def recover(self, now: Instant) -> None:
        """Hand out again what is not settled."""
        for record in self.record.consumers.values():
            record.inbox.roll_back(now)
        self._wake()

    def commit(self, answer: Answer) -> None:
        """Commit what the session did."""
        self._sessions.transactions.commit(self.record, self._now(), answer)

    def roll_back(self, now: Instant, answer: Answer) -> None:
        """Undo what the session did."""
        self._sessions.transactions.roll_back(self.record, now, answer)
        self._wake()

    def begin_branch(self, xid: Xid) -> None:
        """Work for ``xid`` from now on."""
        self._sessions.branches.begin(self.record, branch_id_of(xid))

    def end_branch(self, xid: Xid, answer: Answer) -> None:
        """End the work for ``xid``."""
        self._sessions.branches.end(self.record, branch_id_of(xid), answer)

    def close(self) -> None:
        """Close it."""
        self._sessions.close(self.record)

    def _wake(self) -> None:
        for record in self.record.consumers.values():
            record.inbox.port.arrived(record.inbox)


def _described(wish: Wish) -> ConsumerInfo:
    """Return a consumer as OpenWire describes it, without its identity. Raises InvalidDestination."""
    return ConsumerInfo(
        destination=place_of(wish.destination),
        browser=wish.browser,
        prefetch_size=wish.prefetch,
        selector=wish.selector,
        subscription_name=wish.durable,
        no_local=wish.no_local,
        exclusive=wish.exclusive,
        retroactive=wish.retroactive,
        priority=wish.priority,
        dispatch_async=wish.dispatch_async,
        maximum_pending_message_limit=wish.pending_max,
    )
