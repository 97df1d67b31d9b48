"""The consumers of a conversation: opening and closing them, pulls, and what their inboxes ask of the broker. [C]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from entrepot.base.environment import Entropy
from entrepot.base.errors import EntrepotError, Refused
from entrepot.protocols.conversing.modes import Acknowledge, Handling, RedeliveryPolicy
from entrepot.protocols.conversing.port import Answer, in_doubt
from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.commands import (
    ActiveMQTopic,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    LocalTransactionId,
    MessageAck,
    MessagePull,
    RemoveInfo,
    Response,
)
from entrepot.protocols.openwire.conversation.inbox import Inbox, InboxPort
from entrepot.protocols.openwire.conversation.records import ConsumerRecord, Identity, Request, SessionRecord
from entrepot.protocols.openwire.conversation.requests import Requests
from entrepot.protocols.openwire.conversation.temporaries import Temporaries
from entrepot.protocols.openwire.ids import LastDelivered, TransactionStep

TEMPORARY_ADVISORIES: Final = "ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"
ADVISORY_SESSION: Final = -1
ADVISORY_PREFETCH: Final = 1000


class Confirming:
    """Who waits for an acknowledgement, which has no answer. ``losses``: how many wires were lost.

    ``reports``: how many errors the broker reported that answered no request.
    """

    def __init__(self, identity: Identity, requests: Requests) -> None:
        self.losses: int = 0
        self.reports: int = 0
        self._report: EntrepotError | None = None  # the last of them
        self._identity: Final = identity
        self._requests: Final = requests

    def reported(self, error: EntrepotError) -> None:
        """The broker reports an error."""
        self._report = error
        self.reports += 1

    def confirm(self, era: int, reports: int, answer: Answer) -> None:
        """Let ``answer`` come when the broker has stored what it was told without an answer before this.

        ``era``: what `losses` was then; ``reports``: what `reports` was, for an error that the broker reports since may
        be about it. An empty transaction asks: its commit is answered behind all that came before, and after the disk.
        """
        requests = self._requests
        wire = requests.wire
        if era != self.losses or wire is None or not wire.live:
            answer(in_doubt("the connection was lost before the broker was asked"))
            return
        if not isinstance(wire, OpenWireClient):
            answer(Refused("several brokers at once cannot confirm an acknowledgement", remedy="do not wait for it"))
            return
        identity = self._identity
        transaction_id = LocalTransactionId(identity.fresh(), identity.connection_id)
        requests.post(identity.step(transaction_id, TransactionStep.BEGIN))

        def confirmed(response: Response | None, error: EntrepotError | None) -> None:
            if error is None and self.reports != reports:
                error = self._report
            answer(error)

        commit = identity.step(transaction_id, TransactionStep.COMMIT_ONE_PHASE)
        requests.put(Request(commit, confirmed, confirms=True))


class Outlet(InboxPort):
    """What an inbox says goes to the broker; who waits at it is woken."""

    def __init__(self, consumers: Consumers, wake: Callable[[], None]) -> None:
        self._consumers: Final = consumers
        self._wake: Final = wake

    def acknowledge(self, ack: MessageAck) -> None:
        """Tell the broker."""
        self._consumers.requests.post(ack)

    def acknowledge_session(self, inbox: Inbox) -> None:
        """Settle all that the session of ``inbox`` was handed (CLIENT)."""
        record = self._consumers.record_of(inbox)
        if record is not None and record.session is not None:
            for each in record.session.consumers.values():
                each.inbox.acknowledge_all()

    def reports(self) -> int:
        """Return how many errors the broker reported."""
        return self._consumers.confirming.reports

    def losses(self) -> int:
        """Return how many wires were lost."""
        return self._consumers.confirming.losses

    def confirm(self, era: int, reports: int, answer: Answer) -> None:
        """As `Confirming.confirm`."""
        self._consumers.confirming.confirm(era, reports, answer)

    def pull(self, inbox: Inbox, timeout_ms: int) -> None:
        """Ask for one message."""
        record = self._consumers.record_of(inbox)
        if record is not None:
            self._consumers.pull(record, timeout_ms)

    def close(self, inbox: Inbox) -> None:
        """Close the consumer."""
        record = self._consumers.record_of(inbox)
        if record is not None:
            self._consumers.close(record)

    def arrived(self, inbox: Inbox) -> None:
        """Wake who waits."""
        self._wake()


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumers:
    """The consumers by number, those of sessions and our own of advisories."""

    def __init__(
        self,
        identity: Identity,
        requests: Requests,
        confirming: Confirming,
        entropy: Entropy,
        handling: Handling,
        audit: bool,
    ) -> None:
        """``audit``: do not hand out again what was settled just before the wire was lost."""
        self.records: dict[int, ConsumerRecord] = {}
        self.requests: Final = requests
        self.confirming: Final = confirming
        self._identity: Final = identity
        self._entropy: Final = entropy
        self._handling: Final = handling
        self._audit: Final = audit

    def open(
        self,
        session: SessionRecord,
        info: ConsumerInfo,
        policy: RedeliveryPolicy,
        wake: Callable[[], None],
        answer: Answer,
    ) -> ConsumerRecord:
        """Open a consumer described by ``info``, which gets its identity here. ``wake``: something may be taken."""
        identity = self._identity
        info.consumer_id = ConsumerId(identity.text, session.number, identity.fresh())
        if info.subscription_name is not None:
            info.client_id = identity.info.client_id  # Artemis names the subscription after this
        inbox = Inbox(info, session.mode, policy, Outlet(self, wake), self._entropy, self._audit, self._handling)
        inbox.era = self.confirming.losses
        record = ConsumerRecord(info, inbox, session)
        session.consumers[info.consumer_id.value] = record
        self._announce(record, answer)
        return record

    def close(self, record: ConsumerRecord) -> None:
        """Close a consumer; one that consumed in an open transaction stays until that ends."""
        if record.inbox.mode == Acknowledge.TRANSACTED and record.inbox.delivered:
            record.closing = True
            return
        record.inbox.flush()
        if self.forget(record):
            sequence = int(record.inbox.last_sequence)
            last = sequence if sequence >= 0 else int(LastDelivered.UNSET)
            self.requests.post(RemoveInfo(object_id=record.info.consumer_id, last_delivered_sequence_id=last))

    def close_waiting(self, session: SessionRecord) -> None:
        """Close those that stayed for the transaction of ``session``, which has ended."""
        for record in list(session.consumers.values()):
            if record.closing:
                record.closing = False
                self.close(record)

    def pull(self, record: ConsumerRecord, timeout_ms: int) -> None:
        """Ask for one message (prefetch 0): -1 what is there now, 0 wait for ever, else so long."""
        record.inbox.pulling = True
        record.inbox.pulled_nothing = False
        record.pull = MessagePull(
            consumer_id=record.info.consumer_id, destination=record.info.destination, timeout=timeout_ms
        )
        self.requests.post(record.pull)

    def watch_temporaries(self, temporaries: Temporaries, now: Callable[[], int]) -> None:
        """Hear of temporary destinations that end, so that a send to one is refused (classic.md 4.15, 5.8)."""
        info = ConsumerInfo(
            consumer_id=ConsumerId(self._identity.text, ADVISORY_SESSION, self._identity.fresh()),
            destination=ActiveMQTopic(TEMPORARY_ADVISORIES),
            prefetch_size=ADVISORY_PREFETCH,
            no_local=True,
            dispatch_async=True,
        )
        inbox = Inbox(info, Acknowledge.AUTO, RedeliveryPolicy(), InboxPort(), self._entropy, False)
        inbox.port = Outlet(self, lambda: temporaries.note(inbox, now()))
        self._announce(ConsumerRecord(info, inbox, None), lambda error: None)

    def controlled(self, control: ConsumerControl) -> None:
        """The broker closes a consumer, or changes its prefetch."""
        record = self.records.get(control.consumer_id.value) if control.consumer_id is not None else None
        if record is None:
            return
        if control.close:
            self.forget(record)
            record.inbox.end("the broker closed this consumer")
        elif control.prefetch >= 0 and not (control.flush or control.start or control.stop):
            record.info.prefetch_size = control.prefetch
            record.inbox.prefetch = int(control.prefetch)

    def lost(self) -> list[SessionRecord]:
        """The wire is gone, and `Confirming.losses` counted: return the sessions whose transaction consumed on it."""
        doomed: list[SessionRecord] = []
        for record in list(self.records.values()):
            unsettled = record.inbox.interrupted()
            record.inbox.era = self.confirming.losses
            session = record.session
            if unsettled and session is not None and session.mode is Acknowledge.TRANSACTED:
                doomed.append(session)
            if record.closing or record.inbox.browser:
                self.forget(record)
            if record.inbox.browser and not record.inbox.exhausted:
                record.inbox.end("the connection was lost while it browsed")
        return doomed

    def flush(self) -> None:
        """Tell the broker what is processed."""
        for record in list(self.records.values()):
            record.inbox.flush()

    def forget(self, record: ConsumerRecord) -> bool:
        """Know ``record`` no more; False when it was not known."""
        consumer_id = record.info.consumer_id
        if consumer_id is None or self.records.pop(consumer_id.value, None) is None:
            return False
        record.inbox.closed = True
        if record.session is not None:
            record.session.consumers.pop(consumer_id.value, None)
        return True

    def record_of(self, inbox: Inbox) -> ConsumerRecord | None:
        """Return the consumer of ``inbox``, None when it is closed."""
        consumer_id = inbox.info.consumer_id
        return self.records.get(consumer_id.value) if consumer_id is not None else None

    def _announce(self, record: ConsumerRecord, answer: Answer) -> None:
        consumer_id = record.info.consumer_id
        number = int(consumer_id.value) if consumer_id is not None else 0
        self.records[number] = record

        def opened(response: Response | None, error: EntrepotError | None) -> None:
            record.confirmed = error is None
            if error is not None:
                self.forget(record)
            answer(error)

        self.requests.request(record.info, opened)
