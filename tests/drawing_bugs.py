"""Bugs of drawing, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
"a draw that ends waits for room" was in the product until this simulation found it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from bridge_bugs import patched
from entrepot.cluster.carrying.demand import ReaderDemand
from entrepot.cluster.carrying.drawing import STOPS, UNWANTED, DrawnBridge
from entrepot.core.events.facts import CONSUMER_DETACHED
from entrepot.core.sending.duplicates import OF_BRIDGES, Duplicates, cache_of
from entrepot.core.sending.sending import Sending
from entrepot.protocols import drawing
from entrepot.protocols.artemis.headers import headers_at, number_at
from entrepot.protocols.artemis.linking.intake import RECEIVE_OCTETS, CoreIntake
from entrepot.protocols.artemis.packets import FlowToken, Receive
from entrepot.protocols.drawing import CLOSING, ENDING, Batch, Draw, Drawer, Intake
from entrepot.protocols.openwire.drawing import OpenWireDraw, OpenWireIntake


def _nothing(genuine: Any) -> Any:
    return lambda *given, **named: None


def _before_the_disk(genuine: Any) -> Any:
    def settle(self: Intake) -> None:
        touched, self._touched = self._touched, {}
        for draw in touched.values():
            self.confirmations.waiting += 1
            self.batch(draw).stored(b"")

    return settle


def _forgets_ids_of_bridges(genuine: Any) -> Any:
    def remember(self: Duplicates, address: str, *rest: Any) -> None:
        if not address.startswith(OF_BRIDGES):
            genuine(self, address, *rest)

    return remember


def _forgets_at_a_restart(genuine: Any) -> Any:
    def recovered(self: Duplicates, key: bytes) -> None:
        if not key.startswith(OF_BRIDGES.encode()):
            genuine(self, key)

    return recovered


def _behind_the_message(genuine: Any) -> Any:
    """Write the id when the next message comes, which may be in a later batch than its own."""

    def send_once(self: Sending, message: Any, target: Any, rare: Any) -> int:
        late: list[tuple[str, bytes, int, bool]] = self.__dict__.setdefault("late", [])
        while late:
            self.duplicates.remember(*late.pop())
        cache = cache_of(target.name, message, rare)
        if not rare.bridged or self.duplicates.seen(cache, rare.duplicate_id):
            return int(genuine(self, message, target, rare))
        verdict = self._admit(message, target)
        limit = self.policies.of(target.name, target.routing).id_cache
        self.duplicates.remember(cache, rare.duplicate_id, limit, False)
        late.append((cache, rare.duplicate_id, limit, message.durable))
        return int(verdict)

    return send_once


def _closes_at_once(genuine: Any) -> Any:
    def close_if_done(self: Drawer, draw: Draw) -> None:
        if draw.state == ENDING:
            draw.state = CLOSING
            self.ask_end(draw)

    return close_if_done


def _one_too_far(genuine: Any) -> Any:
    """Acknowledge the message behind a range, where it is here already."""

    def acknowledge(self: OpenWireIntake, batch: Any) -> None:
        ids = _ids_of(batch.drawn)
        if len(ids) > batch.upto:
            batch.last = ids[int(batch.upto)]
            batch.upto += 1
        genuine(self, batch)

    return acknowledge


def _ids_of(draw: Any) -> list[Any]:
    found: list[Any] = draw.__dict__.setdefault("ids", [])
    return found


def _notes_ids(genuine: Any) -> Any:
    def take(self: Any) -> None:
        _ids_of(self).append(self.coming)
        genuine(self)

    return take


@contextmanager
def _ranges_one_too_far() -> Iterator[None]:
    with patched(OpenWireDraw, "take", _notes_ids), patched(OpenWireIntake, "acknowledge", _one_too_far):
        yield


def _takes_what_it_does_not_keep(genuine: Any) -> Any:
    def take(self: CoreIntake, packet: Any) -> None:
        draw: Any = self.draws.get(int(packet.consumer))
        if isinstance(packet, Receive) and draw is not None and draw.state == ENDING:
            octets = packet.message
            draw.coming = number_at(octets, headers_at(octets))
            draw.size = len(octets) + RECEIVE_OCTETS
            draw.take()
            self._touched[int(draw.number)] = draw
        else:
            genuine(self, packet)

    return take


def _acknowledged_while_held(genuine: Any) -> Any:
    def made(self: Any, batch: Batch) -> None:
        genuine(self, batch)
        batch.intake.stored(batch)

    return made


def _stays_refused(genuine: Any) -> Any:
    def ended(self: DrawnBridge, draw: Draw) -> None:
        if draw.why in (UNWANTED, STOPS):
            genuine(self, draw)

    return ended


def _by_its_id_alone(genuine: Any) -> Any:
    def give(self: Intake, draw: Draw, message: Any, identity: bytes) -> None:
        genuine(self, draw, message, identity.rpartition(b"\t")[0] if isinstance(self, OpenWireIntake) else identity)

    return give


def _credit_at_once(genuine: Any) -> Any:
    def batch(self: CoreIntake, draw: Draw) -> Any:
        made = genuine(self, draw)
        self.poster.post(FlowToken(consumer=draw.number, credits=made.octets))
        return made

    return batch


@contextmanager
def _credit_before_the_disk() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patched(CoreIntake, "batch", _credit_at_once))
        stack.enter_context(patched(CoreIntake, "restore", _nothing))
        yield


def _as_many_as_there_are(genuine: Any) -> Any:
    return lambda self, draw: 1 << 40


def _hears_nobody_go(genuine: Any) -> Any:
    def heard(self: ReaderDemand, fact: Any) -> None:
        if fact.kind != CONSUMER_DETACHED:
            genuine(self, fact)

    return heard


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "what comes is acknowledged before the disk has it": lambda: patched(Intake, "settle", _before_the_disk),
    "what comes again is not known": lambda: patched(Duplicates, "remember", _forgets_ids_of_bridges),
    "what comes again is not known after a restart": lambda: patched(Duplicates, "recovered", _forgets_at_a_restart),
    "the id is not written with its message": lambda: patched(Sending, "_send_once", _behind_the_message),
    "a message is known by its id alone": lambda: patched(Intake, "give", _by_its_id_alone),
    "a consumer is closed before what was taken is acknowledged": lambda: patched(
        Drawer, "close_if_done", _closes_at_once
    ),
    "a range is acknowledged one message too far": _ranges_one_too_far,
    "what comes to a draw that ends is acknowledged, and not kept": lambda: patched(
        CoreIntake, "take", _takes_what_it_does_not_keep
    ),
    "credit is given once": lambda: patched(CoreIntake, "restore", _nothing),
    "credit is given again before the disk has what came": _credit_before_the_disk,
    "what waits for room is acknowledged": lambda: patched(drawing._HeldBatch, "__init__", _acknowledged_while_held),
    "a draw that ends waits for room": lambda: patched(Intake, "let_go", _nothing),
    "ids of a lost connection are replaced": lambda: patched(Duplicates, "pin", _nothing),
    "ids of an earlier life are replaced": lambda: patched(Duplicates, "pin_recovered", _nothing),
    "more is asked for than is remembered": lambda: patched(Intake, "remembered", _as_many_as_there_are),
    "a draw that was refused is left for ever": lambda: patched(DrawnBridge, "ended", _stays_refused),
    "who has left is drawn for": lambda: patched(ReaderDemand, "heard", _hears_nobody_go),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
