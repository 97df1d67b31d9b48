"""Bugs of links of AMQP, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bridge_bugs import patched
from entrepot.core.queue.queue import queue_of
from entrepot.protocols.amqp import settling
from entrepot.protocols.amqp.committing import Committing
from entrepot.protocols.amqp.incoming import Arriving, Incoming
from entrepot.protocols.amqp.outgoing import Feed, Outgoing
from entrepot.protocols.amqp.session import SENDER, AmqpSession, Answer
from entrepot.protocols.serving.confirmations import Confirmations


def _answers_before_the_disk(genuine: Any) -> Any:
    def send(self: Incoming, *rest: Any) -> bool:
        genuine(self, *rest)
        return False

    return send


def _at_once(genuine: Any) -> Any:
    """Answers that ``genuine`` asks for do not wait."""

    def done(self: Any, *rest: Any) -> None:
        with patched(Confirmations, "ask", lambda asks: lambda waiting, answer: answer.give()):
            genuine(self, *rest)

    return done


def _settles_before_the_disk(genuine: Any) -> Any:
    def ask(self: Confirmations, confirmation: Any) -> None:
        if isinstance(confirmation, Answer) and confirmation.role is SENDER:
            confirmation.give()
        else:
            genuine(self, confirmation)

    return ask


def _sends_what_was_rolled_back(genuine: Any) -> Any:
    def roll_back(self: Committing, txn: Any) -> None:
        for message, target in zip(txn.transaction.sends, txn.transaction.targets, strict=True):
            self.connection.broker.sending.send(message, target)
        genuine(self, txn)

    return roll_back


def _settles_what_is_promised(genuine: Any) -> Any:
    def promise(session: AmqpSession, sent: Any, state: Any, settled: bool) -> None:
        queue = queue_of(sent.consumer)
        if queue is not None:
            queue.settle(sent.consumer, sent.number)

    return promise


def _keeps_what_was_rolled_back(genuine: Any) -> Any:
    def give_back(self: Committing, txn: Any) -> None:
        txn.let_go()

    return give_back


def _delivers_beyond_credit(genuine: Any) -> Any:
    def say(self: Feed, *rest: Any) -> None:
        genuine(self, *rest)
        if self.credit == 0:
            self.credit = 1
            self.settle_window()
            self.credit = 0

    return say


def _ignores_the_window(genuine: Any) -> Any:
    def sent_frame(self: AmqpSession) -> None:
        self.next_outgoing += 1

    return sent_frame


def _never_drains(genuine: Any) -> Any:
    def grant(self: Feed, credit: Any, drains: bool) -> None:
        genuine(self, credit, False)

    return grant


def _keeps_what_a_link_held(genuine: Any) -> Any:
    def end(self: Outgoing, last_delivered: Any) -> None:
        if self.durable or self.session.ended:
            genuine(self, last_delivered)
            return
        self.ended = True
        self.session.feeds.pop(self.feed, None)
        self.feed.end()
        self.feed.outlet.starve(self.feed)

    return end


def _deletes_what_is_durable(genuine: Any) -> Any:
    def detach(self: Outgoing, said: Any) -> None:
        said.closed = True
        genuine(self, said)

    return detach


def _sends_what_was_aborted(genuine: Any) -> Any:
    def transfer(self: Arriving, said: Any, payload: bytes) -> None:
        said.aborted = False
        genuine(self, said, payload)

    return transfer


def _commits_part(genuine: Any) -> Any:
    def carry_out(self: Committing, txn: Any, answer: Answer) -> None:
        del txn.transaction.sends[1:]
        del txn.transaction.targets[1:]
        genuine(self, txn, answer)

    return carry_out


def _does_not_wait(genuine: Any) -> Any:
    def answer(self: Outgoing, said: Any) -> None:
        self.session.say(said)

    return answer


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "accepted comes before the disk": lambda: patched(Incoming, "_send", _answers_before_the_disk),
    "a commit is answered before the disk": lambda: patched(Committing, "_committed", _at_once),
    "exactly once is settled before the disk": lambda: patched(Confirmations, "ask", _settles_before_the_disk),
    "what was rolled back is sent": lambda: patched(Committing, "roll_back", _sends_what_was_rolled_back),
    "a transaction settles before its commit": lambda: patched(settling, "_promise", _settles_what_is_promised),
    "a rollback gives nothing back": lambda: patched(Committing, "_give_back", _keeps_what_was_rolled_back),
    "a link gets more than its credit": lambda: patched(Feed, "say", _delivers_beyond_credit),
    "the window of a session is not looked at": lambda: patched(AmqpSession, "sent_frame", _ignores_the_window),
    "a drain is never answered": lambda: patched(Feed, "grant", _never_drains),
    "what a detached link held stays with it": lambda: patched(Outgoing, "end", _keeps_what_a_link_held),
    "a detach deletes a durable subscription": lambda: patched(Outgoing, "detach", _deletes_what_is_durable),
    "an aborted delivery is sent": lambda: patched(Arriving, "transfer", _sends_what_was_aborted),
    "a durable subscription is answered before the disk": lambda: patched(
        Outgoing, "answer_when_stored", _does_not_wait
    ),
    "a detach overtakes answers": lambda: patched(Arriving, "detach", _at_once),
    "a commit does a part": lambda: patched(Committing, "carry_out", _commits_part),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
