"""Bugs of clients, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bridge_bugs import patched
from entrepot.core.queue.consumer import Pause
from entrepot.core.queue.measuring import Measuring
from entrepot.core.queue.walk import Walk
from entrepot.core.transactions.carrying import Work
from entrepot.protocols.artemis.channel import Channel
from entrepot.protocols.artemis.commanding import Commands
from entrepot.protocols.artemis.conversation.consuming import ConsumerCore
from entrepot.protocols.artemis.conversation.replay import Replay
from entrepot.protocols.artemis.delivery import CoreSubscription
from entrepot.protocols.artemis.large import LargeDelivery
from entrepot.protocols.artemis.reception import Reception
from entrepot.protocols.artemis.replies import Replies
from entrepot.protocols.artemis.settling import Settling as CoreSettling
from entrepot.protocols.failover import FailoverCore
from entrepot.protocols.openwire.conversation.consuming import Consumers
from entrepot.protocols.openwire.conversation.inbox import Inbox
from entrepot.protocols.openwire.conversation.requests import Requests
from entrepot.protocols.openwire.conversation.transactions import Transactions
from entrepot.protocols.openwire.ids import AckType
from entrepot.protocols.serving.looking import Looking


def _forgets_a_doubt(genuine: Any) -> Any:
    def resolved(self: Requests) -> Any:
        self.doubtful = []
        return []

    return resolved


def _does_not_replay(genuine: Any) -> Any:
    return lambda self, transaction: None


def _moves_at_once(genuine: Any) -> Any:
    return FailoverCore._leave_for


def _tells_twice(genuine: Any) -> Any:
    def tell(self: Inbox, ack_type: int, *arguments: Any, **more: Any) -> None:
        genuine(self, ack_type, *arguments, **more)
        if ack_type in (AckType.STANDARD, AckType.INDIVIDUAL):
            genuine(self, ack_type, *arguments, **more)

    return tell


def _settles_on_the_next_wire(genuine: Any) -> Any:
    def interrupted(self: Inbox) -> bool:
        kept = list(self.delivered)
        unsettled: bool = genuine(self)
        self.delivered = kept
        for delivery in kept:
            delivery.live = True
        return unsettled

    return interrupted


def _does_not_subscribe_again(genuine: Any) -> Any:
    def lost(self: Consumers) -> Any:
        doomed = genuine(self)
        for record in self.records.values():
            record.confirmed = False
        return doomed

    return lost


def _does_not_ask_again(genuine: Any) -> Any:
    def lost(self: Requests) -> None:
        genuine(self)
        self.parked = []

    return lost


def _commits_what_was_lost(genuine: Any) -> Any:
    def lost(self: Consumers) -> Any:
        genuine(self)
        return []

    return lost


def _goes_on_when_doomed(genuine: Any) -> Any:
    def sends(self: Transactions, session: Any, message: Any) -> bool:
        transaction = self.begun(session)
        message.transaction_id = transaction.transaction_id
        if self._requests.reconnects and not transaction.doomed:
            transaction.sends.append(message)
        return self._requests.post(message) or self._requests.reconnects

    return sends


def _stores_a_repeated_commit(genuine: Any) -> Any:
    def begin(self: Work) -> None:
        self.transaction.sequences = {}
        genuine(self)

    return begin


BUGS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "a commit in doubt is forgotten": (Requests, "resolved", _forgets_a_doubt),
    "an open transaction is not told again": (Transactions, "replay", _does_not_replay),
    "a move does not wait for a commit": (FailoverCore, "_move", _moves_at_once),
    "a message is acknowledged twice": (Inbox, "_tell", _tells_twice),
    "an acknowledgement goes out on the next connection": (Inbox, "interrupted", _settles_on_the_next_wire),
    "a consumer is not subscribed again": (Consumers, "lost", _does_not_subscribe_again),
    "what was not answered is not asked again": (Requests, "lost", _does_not_ask_again),
    "a transaction that consumed on a lost connection commits": (Consumers, "lost", _commits_what_was_lost),
    "a transaction that cannot commit goes on": (Transactions, "sends", _goes_on_when_doomed),
    "a commit that is repeated is stored twice": (Work, "_begin", _stores_a_repeated_commit),
}


def _takes_any_answer_for_a_message(genuine: Any) -> Any:
    return lambda self, octets: False


def _settles_what_it_overtook(genuine: Any) -> Any:
    def done(self: ConsumerCore, delivery: Any) -> None:
        self.processed = delivery.number
        self.handed.pop(int(delivery.number), None)

    return done


def _answers_at_once(genuine: Any) -> Any:
    def answer(self: Replies, packet: Any, stored: bool) -> None:
        genuine(self, packet, False)

    return answer


def _counts_no_tries(genuine: Any) -> Any:
    def give_back(self: CoreSettling, subscription: Any, settled: Any, seen: bool) -> None:
        before = dict(settled.consumers)
        settled.consumers.clear()
        for consumer, numbers in before.items():
            for number in numbers if consumer.queue is not None else ():
                consumer.queue.give_back(consumer, number, False)
        genuine(self, subscription, settled, False)

    return give_back


def _keeps_the_file(genuine: Any) -> Any:
    return lambda self: None


def _writes_nothing_again(genuine: Any) -> Any:
    def attach(self: Channel, outlet: Any, encoder: Any) -> None:
        self.kept = None
        genuine(self, outlet, encoder)

    return attach


def _forgets_the_last_command(genuine: Any) -> Any:
    def last_command(self: Channel) -> int:
        last: int = genuine(self)
        return last - 1 if self.outlet is None and last > 0 else last

    return last_command


def _forgets_what_it_heard(genuine: Any) -> Any:
    def last_heard(self: Replay) -> int:
        last: int = genuine(self)
        return max(last - 1, -1)

    return last_heard


def _sends_nothing_again(genuine: Any) -> Any:
    def go_on(self: Replay, wire: Any, last: int) -> None:
        self.kept.clear()
        genuine(self, wire, last)

    return go_on


def _leaks(genuine: Any) -> Any:
    def spend(self: CoreSubscription, octets: int) -> None:
        genuine(self, octets + octets // 4)

    return spend


def _gives_no_credit_back(genuine: Any) -> Any:
    def drop(self: ConsumerCore) -> None:
        for delivery in self.inbox:
            delivery.size = 0
        genuine(self)

    return drop


def _does_not_wait(genuine: Any) -> Any:
    def reattach(self: Reception, packet: Any) -> None:
        commands = self.connection.acceptor.sessions.get(packet.name)
        if isinstance(commands, Commands):
            self.take_over(commands, packet.last_confirmed)
        else:
            self.say_lost()

    return reattach


REATTACH_BUGS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "what was not confirmed is not written again": (Channel, "attach", _writes_nothing_again),
    "a command is done twice": (Channel, "last_command", _forgets_the_last_command),
    "a session goes on before its commands are answered": (Reception, "_reattach", _does_not_wait),
    "what was heard is asked for again": (Replay, "last_heard", _forgets_what_it_heard),
    "what was not done is not sent again": (Replay, "go_on", _sends_nothing_again),
}
"""Planted where sessions of CORE outlive connections."""

CORE_BUGS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "that there is nothing is taken for a message": (ConsumerCore, "_is_forced", _takes_any_answer_for_a_message),
    "an acknowledgement settles what it overtook": (ConsumerCore, "done", _settles_what_it_overtook),
    "a reply does not wait for the disk": (Replies, "answer", _answers_at_once),
    "the file of a large body is left behind": (LargeDelivery, "finish", _keeps_the_file),
    "a consumer spends more credit than it writes": (CoreSubscription, "spend", _leaks),
    "a rollback keeps the credit of what it dropped": (ConsumerCore, "drop", _gives_no_credit_back),
    "a rolled-back delivery is not counted": (CoreSettling, "_give_back", _counts_no_tries),
}


def _holds_for_ever(genuine: Any) -> Any:
    def resume(self: Looking) -> None:
        self.broker.journal.overflow.hold(self.message.need_rare().large_id)
        genuine(self)

    return resume


def _stays_closed(genuine: Any) -> Any:
    def resume(self: Measuring) -> None:
        genuine(self)
        if not self.waiting:
            self.consumer.window.pause(Pause.MEASURING)

    return resume


def _skips_what_follows(genuine: Any) -> Any:
    def back_to(self: Walk, found: Any) -> None:
        self.done = False

    return back_to


MIXED_BUGS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "the body of what was shown is held for ever": (Looking, "resume", _holds_for_ever),
    "who was given what had to be measured is given nothing more": (Measuring, "resume", _stays_closed),
    "a browser skips what comes behind a large message": (Walk, "back_to", _skips_what_follows),
}
"""Planted where some programs speak CORE, with large texts, and others OpenWire."""


def planted(bug: str) -> AbstractContextManager[None]:
    """Return what plants ``bug``; "" for none."""
    if not bug:
        return nullcontext()
    owner, name, make = {**BUGS, **CORE_BUGS, **REATTACH_BUGS, **MIXED_BUGS}[bug]
    return patched(owner, name, make)
