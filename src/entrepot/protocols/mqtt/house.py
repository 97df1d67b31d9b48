"""What connections of MQTT share in one broker: sessions, shared subscriptions, wills, retained messages. [C]

A session outlives its connection for its expiry interval. Shared subscriptions are durable queues that go when no
session has them any more.
"""

from __future__ import annotations

from typing import Final

import msgspec
from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import AccessDenied, EntrepotError
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import durable_queue_name
from entrepot.core.records import KIND_MQTT_RECEIVED, KIND_MQTT_SENT, KIND_MQTT_SESSION
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.sending.flow import SENT as TAKEN
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.mqtt.convert import LIVE, MQTT_LANGUAGE, RETAINS, set_qos
from entrepot.protocols.mqtt.records import SessionRecord
from entrepot.protocols.mqtt.retained import Retained
from entrepot.protocols.mqtt.state import RELEASED, SENT, Flight, MqttState, state_of
from entrepot.protocols.mqtt.topics import address_of, shared, virtual_queue

SHARE_OWNER: Final = ""


class _SessionEnds(Alarm):
    """A session without a connection ends."""

    def __init__(self, house: House, state: MqttState, due: Instant) -> None:
        super().__init__(due)
        self.house: House = house
        self.state: MqttState = state

    def ring(self, now: Instant) -> None:
        self.house.end(self.state)


class _WillDue(Alarm):
    """The delay of a will is over."""

    def __init__(self, house: House, state: MqttState, due: Instant) -> None:
        super().__init__(due)
        self.house: House = house
        self.state: MqttState = state

    def ring(self, now: Instant) -> None:
        self.house.speak_will(self.state)


@mypyc_attr(allow_interpreted_subclasses=True)
class Shown:
    """Figures of the broker, which are no messages of it (`figures.py`)."""

    def check(self, owner: str) -> None:
        """Raise Refused if ``owner`` may not be told in one more subscription."""
        raise NotImplementedError

    def watch(self, queue: Queue, pattern: str, owner: str) -> None:
        """Tell ``queue``, which is ``owner``'s, all under ``pattern`` soon, then what changes. Raises Refused."""
        raise NotImplementedError

    def give(self, queue: Queue, pattern: str) -> None:
        """Give a new subscription all of it."""
        raise NotImplementedError


class House:
    """One broker's."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: BrokerCore = broker
        self.states: dict[str, MqttState] = {}
        self.shares: dict[str, dict[str, bool]] = {}  # queue of a shared subscription -> client ids that have it
        self.alarms: dict[str, list[Alarm]] = {}
        self.retained: Retained = Retained(broker)
        self.figures: Shown | None = None  # made when somebody asks for them
        self.connected: i64 = 0
        self.published: i64 = 0  # PUBLISH packets that came
        self.delivered: i64 = 0  # and went
        self.dropped: i64 = 0  # too large for their client, or nowhere to go

    # -- the start -----------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Take back what the journal had. Whoever was connected when the broker ended is not connected any more."""
        documents = self.broker.documents
        for key, value in documents.pop(KIND_MQTT_SESSION, {}).items():
            state = state_of(key.decode(), msgspec.msgpack.decode(value, type=SessionRecord))
            self.states[state.client_id] = state
            for text in state.subscriptions:
                self._join_share(state, text)
        for key in documents.pop(KIND_MQTT_RECEIVED, {}):
            owner = self.states.get(key[:-3].decode())
            if owner is not None:
                owner.received[int.from_bytes(key[-2:], "big")] = True
        for key, value in documents.pop(KIND_MQTT_SENT, {}).items():
            owner = self.states.get(key[:-3].decode())
            if owner is not None:
                _remember(owner, int.from_bytes(key[-2:], "big"), value)
        for state in list(self.states.values()):
            if state.ended == 0:
                self.left(state, True)
            else:
                self._wait(state)
        self._forget_shares()

    def _forget_shares(self) -> None:
        """Delete shared subscriptions that no session has: their last one ended with the broker."""
        for queue in list(self.broker.table.queues.values()):
            subscription = queue.definition.subscription
            if subscription is None or queue.name in self.shares or not _is_share(queue):
                continue
            self.broker.queues.delete(queue, "no session has this shared subscription")

    # -- sessions ------------------------------------------------------------------------------------------------------

    def check_owner(self, client_id: str, user: str) -> None:
        """Raise AccessDenied if the session of ``client_id`` is another user's."""
        state = self.states.get(client_id)
        if state is not None and state.user != user and self.broker.access.guarded:
            raise AccessDenied(
                f"the session of client id {client_id!r} belongs to another user", remedy="use another client id"
            )

    def open(
        self, client_id: str, user: str, version: i64, clean: bool, virtual: bool = False
    ) -> tuple[MqttState, bool]:
        """Return the session of a connection that begins, and whether it was there. Raises AccessDenied.

        A session belongs to the user who began it: who comes with his client id under another name gets nothing of it.
        """
        self.check_owner(client_id, user)
        state = self.states.get(client_id)
        if state is not None:
            self._disarm(state)
            if clean:
                self.end(state)
                state = None
        present = state is not None
        if state is None:
            state = MqttState(client_id, user, version)
            state.virtual = virtual
            self.states[client_id] = state
        state.version = version
        state.connected = True
        state.ended = 0
        self.connected += 1
        return state, present

    def keep(self, state: MqttState) -> bool:
        """Let the journal have ``state``, or have it no more; return whether anything was written."""
        key = state.client_id.encode()
        if state.persistent:
            self.broker.journal.put(KIND_MQTT_SESSION, key, msgspec.msgpack.encode(state.record()))
            return True
        self.broker.journal.delete(KIND_MQTT_SESSION, key)
        return False

    def left(self, state: MqttState, speak: bool) -> None:
        """The connection of ``state`` is gone. ``speak``: without a word, so its will is due."""
        if state.connected:
            state.connected = False
            self.connected -= 1
        if not speak:
            state.will = None
        if not state.persistent:
            self.speak_will(state)
            self.end(state)
            return
        state.land()
        state.ended = self.broker.wall
        will = state.will
        if self.broker.journal.refusal() is None:
            self.keep(state)
        if will is not None and will.delay == 0:
            self.speak_will(state)
        self._wait(state)

    def _wait(self, state: MqttState) -> None:
        """End ``state`` when its time is over, and speak its will after its delay, or then if that is sooner."""
        broker = self.broker
        alarms: list[Alarm] = []
        passed = max(int(broker.wall) - int(state.ended), 0) * 1_000_000
        if not state.keeps_for_ever():
            due = int(broker.now) + max(int(state.expiry) * SECOND - passed, 0)
            alarms.append(_SessionEnds(self, state, due))
        will = state.will
        if will is not None:
            alarms.append(_WillDue(self, state, int(broker.now) + max(will.delay * SECOND - passed, 0)))
        if not alarms:
            return
        self.alarms[state.client_id] = alarms
        for alarm in alarms:
            broker.timetable.add(alarm)

    def _disarm(self, state: MqttState) -> None:
        for alarm in self.alarms.pop(state.client_id, []):
            alarm.cancelled = True

    def end(self, state: MqttState) -> None:
        """End a session: its will is spoken, its subscriptions and all that waits in them go."""
        self._disarm(state)
        self.speak_will(state)
        if self.states.get(state.client_id) is state:
            del self.states[state.client_id]
        broker = self.broker
        if broker.journal.refusal() is not None:
            return  # nothing can be written any more: what is on disk is looked at when the broker starts again
        broker.journal.begin()
        try:
            for text in list(state.subscriptions):
                self.forget(state, text)
            key = state.client_id.encode()
            broker.journal.delete(KIND_MQTT_SESSION, key)
            for packet_id, kept in state.received.items():
                if kept:
                    broker.journal.delete(KIND_MQTT_RECEIVED, _key(state, packet_id))
            for packet_id, kept in state.releasing.items():
                if kept:
                    broker.journal.delete(KIND_MQTT_SENT, _key(state, packet_id))
            for flight in state.flights.values():
                if flight.kept:
                    broker.journal.delete(KIND_MQTT_SENT, _key(state, int(flight.packet_id)))
        finally:
            broker.journal.end()

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def queue_of(self, state: MqttState, text: str) -> Queue | None:
        """Return the durable queue of a subscription, None when there is none."""
        share, rest = shared(text)
        queues = self.broker.table.queues
        if share:
            return queues.get(share_queue(share, rest, state.virtual))
        if state.virtual:  # by the QoS that it began with
            return queues.get(virtual_queue(state.client_id, 1, rest)) or queues.get(
                virtual_queue(state.client_id, 2, rest)
            )
        return queues.get(durable_queue_name(state.client_id, address_of(rest)))

    def joined(self, state: MqttState, text: str) -> None:
        """``state`` has the subscription ``text`` from now on."""
        self._join_share(state, text)

    def _join_share(self, state: MqttState, text: str) -> None:
        share, rest = shared(text)
        if share:
            self.shares.setdefault(share_queue(share, rest, state.virtual), {})[state.client_id] = True

    def forget(self, state: MqttState, text: str) -> bool:
        """``state`` has the subscription ``text`` no more; False when it had none. A queue that nobody has goes."""
        if state.subscriptions.pop(text, None) is None:
            return False
        queue = self.queue_of(state, text)
        share, rest = shared(text)
        if share:
            name = share_queue(share, rest, state.virtual)
            members = self.shares.get(name, {})
            members.pop(state.client_id, None)
            if members:
                return True
            self.shares.pop(name, None)
        if queue is not None and queue.definition.subscription is not None:
            self.broker.queues.delete(queue, "it was unsubscribed, or its session ended")
        return True

    def give_retained(self, queue: Queue, pattern: str) -> None:
        """Give a new subscription to ``pattern`` what its topics retain."""
        self.retained.give(queue, pattern)

    # -- identifiers ---------------------------------------------------------------------------------------------------

    def note_received(self, state: MqttState, packet_id: i64) -> None:
        """A PUBLISH of QoS 2 came; call inside the journal batch that stores its message."""
        state.received[int(packet_id)] = state.persistent
        if state.persistent:
            self.broker.journal.put(KIND_MQTT_RECEIVED, _key(state, int(packet_id)), b"")

    def release_received(self, state: MqttState, packet_id: i64) -> bool:
        """PUBREL came; return whether the journal must forget the identifier before PUBCOMP is said."""
        kept = state.received.pop(int(packet_id), False)
        if kept:
            self.broker.journal.delete(KIND_MQTT_RECEIVED, _key(state, int(packet_id)))
        return kept

    def note_sent(self, state: MqttState, flight: Flight) -> None:
        """A PUBLISH of QoS 2 is about to be sent."""
        flight.kept = True
        value = bytes((SENT,)) + int(flight.number).to_bytes(8, "big") + int(flight.queue).to_bytes(4, "big")
        self.broker.journal.put(KIND_MQTT_SENT, _key(state, int(flight.packet_id)), value)

    def note_released(self, state: MqttState, flight: Flight) -> None:
        """PUBREC came: PUBREL is due."""
        state.releasing[int(flight.packet_id)] = flight.kept
        if flight.kept:
            self.broker.journal.put(KIND_MQTT_SENT, _key(state, int(flight.packet_id)), bytes((RELEASED,)))

    def forget_sent(self, state: MqttState, packet_id: i64, kept: bool) -> None:
        """PUBCOMP came, or the client refused a PUBLISH of QoS 2."""
        if kept:
            self.broker.journal.delete(KIND_MQTT_SENT, _key(state, int(packet_id)))

    # -- wills ---------------------------------------------------------------------------------------------------------

    def speak_will(self, state: MqttState) -> None:
        """Publish the will of ``state``, once."""
        will = state.will
        if will is None:
            return
        state.will = None
        broker = self.broker
        message = Message(MQTT_LANGUAGE, address_of(will.topic, state.virtual), will.raw)
        message.body_at = will.body_at
        message.timestamp = broker.wall
        if will.expiry:
            message.expiration = broker.wall + will.expiry * 1000
        set_qos(message, will.qos)
        stamps = broker.options.stamps
        try:
            if stamps is not None:
                stamps.put_on(message, state.user)
            self.send(message, will.retain)
        except EntrepotError:
            self.dropped += 1  # the broker is full, or keeps nothing any more: nobody is there who could be told
        if state.persistent and not state.connected and broker.journal.refusal() is None:
            self.keep(state)

    def send(self, message: Message, retain: bool, target: Target | None = None) -> int:
        """Send ``message`` to its topic, and retain it. Raises Refused, StorageError."""
        broker = self.broker
        if target is None:
            target = broker.target([Destination(message.address, MULTICAST)])
        verdict = TAKEN
        if retain:
            verdict = self.retained.keep(message)
            message.mark(RETAINS, LIVE)
        return max(verdict, broker.send(message, target))


def share_queue(share: str, text: str, virtual: bool = False) -> str:
    """Return the name of the queue of a shared subscription.

    Artemis' ``<share>.<filter>`` (artemis.md 5.3), with escaped dots: no client called like the share has such a queue.
    """
    return durable_queue_name(SHARE_OWNER, share_name(share, text, virtual))


def share_name(share: str, text: str, virtual: bool = False) -> str:
    """Return the name of a shared subscription as one of JMS."""
    return f"{share}.{address_of(text, virtual)}"


def _is_share(queue: Queue) -> bool:
    """Return whether ``queue`` was made for a shared subscription of MQTT."""
    return queue.definition.user == SHARED_BY


SHARED_BY: Final = "$share"


def _key(state: MqttState, packet_id: int) -> bytes:
    return state.client_id.encode() + b"\0" + packet_id.to_bytes(2, "big")


def _remember(state: MqttState, packet_id: int, value: bytes) -> None:
    """Take back an identifier that was on its way out."""
    if value[0] == RELEASED:
        state.releasing[packet_id] = True
        return
    number, queue = int.from_bytes(value[1:9], "big"), int.from_bytes(value[9:13], "big")
    flight = Flight(packet_id, number, queue, 2)
    flight.kept = True
    flight.written = True
    state.flights[packet_id] = flight
    state.returned[(queue, number)] = flight
