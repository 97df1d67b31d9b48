"""Bugs of sessions of MQTT, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from msgspec.structs import replace

from bridge_bugs import patched
from entrepot.protocols.mqtt import house
from entrepot.protocols.mqtt.delivery import Outgoing
from entrepot.protocols.mqtt.figures import Figures
from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.retained import Retained
from entrepot.protocols.mqtt.sending import Sending
from entrepot.protocols.mqtt.state import Flight, MqttState
from entrepot.protocols.mqtt.subscribing import Subscribing


def _answers_before_the_disk(genuine: Any) -> Any:
    def send(self: Sending, *rest: Any) -> bool:
        genuine(self, *rest)
        return False

    return send


def _forgets_what_it_received(genuine: Any) -> Any:
    def opened(self: House, *rest: Any) -> Any:
        state, present = genuine(self, *rest)
        state.received.clear()
        return state, present

    return opened


def _keeps_no_identifier(genuine: Any) -> Any:
    def note(self: House, state: MqttState, flight: Flight) -> None:
        flight.kept = True

    return note


def _completes_before_the_disk(genuine: Any) -> Any:
    def release(self: House, *rest: Any) -> bool:
        genuine(self, *rest)
        return False

    return release


def _releases_once(genuine: Any) -> Any:
    return lambda self: None


def _loses_identifiers_on_the_way(genuine: Any) -> Any:
    def land(self: MqttState) -> None:
        self.flights.clear()

    return land


def _retains_in_memory(genuine: Any) -> Any:
    def keep(self: Retained, message: Any) -> int:
        durable, message.durable = message.durable, False
        copies = self.broker.queues.create

        def fleeting(definition: Any, *rest: Any) -> Any:
            return copies(replace(definition, durable=False), *rest)

        self.broker.queues.create = fleeting  # type: ignore[method-assign]
        try:
            return int(genuine(self, message))
        finally:
            self.broker.queues.create = copies  # type: ignore[method-assign]
            message.durable = durable

    return keep


def _is_told_once(genuine: Any) -> Any:
    def show(self: Subscribing, subscription: Any, share: str, text: str, at_once: bool) -> None:
        if at_once:
            genuine(self, subscription, share, text, at_once)

    return show


def _waits_once(genuine: Any) -> Any:
    def wait(self: Figures, now: int) -> None:
        if not vars(self).setdefault("waited", False):
            vars(self)["waited"] = True
            genuine(self, now)

    return wait


def _counts_who_left(genuine: Any) -> Any:
    def left(self: House, *rest: Any) -> None:
        connected = self.connected
        genuine(self, *rest)
        self.connected = connected

    return left


def _finds_no_virtual_queue(genuine: Any) -> Any:
    def queue_of(self: House, state: MqttState, text: str) -> Any:
        return None if state.virtual else genuine(self, state, text)

    return queue_of


def _forgets_that_topics_are_virtual(genuine: Any) -> Any:
    def state_of(*rest: Any) -> MqttState:
        state: MqttState = genuine(*rest)
        state.virtual = False
        return state

    return state_of


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "PUBACK comes before the disk": lambda: patched(Sending, "_send", _answers_before_the_disk),
    "identifiers of QoS 2 are forgotten at reconnect": lambda: patched(House, "open", _forgets_what_it_received),
    "the disk has no identifier of a PUBLISH of QoS 2": lambda: patched(House, "note_sent", _keeps_no_identifier),
    "PUBCOMP comes before the disk": lambda: patched(House, "release_received", _completes_before_the_disk),
    "PUBREL is said once": lambda: patched(Outgoing, "resume", _releases_once),
    "a message comes again under another identifier": lambda: patched(MqttState, "land", _loses_identifiers_on_the_way),
    "retained messages are lost with the broker": lambda: patched(Retained, "keep", _retains_in_memory),
    "figures stop for a session that goes on": lambda: patched(Subscribing, "_show", _is_told_once),
    "figures are told once": lambda: patched(Figures, "_wait", _waits_once),
    "who left counts as connected": lambda: patched(House, "left", _counts_who_left),
    "the queue of a virtual topic is not found": lambda: patched(House, "queue_of", _finds_no_virtual_queue),
    "a restart forgets that topics are virtual": lambda: patched(house, "state_of", _forgets_that_topics_are_virtual),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
