"""MessageDispatch: how one connection writes the messages that it delivers or shows. [C]

What a consumer's `deliver` cannot write as it came is encoded here. A message that cannot be said at all goes to the
dead letters, once the core is done with what made it be delivered.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.base.reasons import UNSENDABLE, Reason
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import Consumer, Window
from entrepot.model.message import LANGUAGE_OPENWIRE, Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import ConsumerId, Destination, MessageDispatch
from entrepot.protocols.openwire.convert import presented
from entrepot.protocols.openwire.large import body_of, is_large
from entrepot.protocols.openwire.replies import Replies
from entrepot.protocols.openwire.streaming import begin
from entrepot.protocols.serving.outlet import Outlet


class DispatchConsumer(Consumer):
    """A consumer whose messages are written from the queue ``where`` to ``consumer_id``."""

    def __init__(self, key: i64, window: Window, consumer_id: ConsumerId) -> None:
        super().__init__(key, window, True)
        self.speaks = LANGUAGE_OPENWIRE
        self.consumer_id: ConsumerId = consumer_id
        self.where: Destination | None = None

    def forget(self, number: int) -> None:
        """Message ``number`` is no longer in flight here."""
        raise NotImplementedError


class _Failed:
    """A message that could not be said to its consumer."""

    def __init__(self, consumer: DispatchConsumer, number: int, reason: str) -> None:
        self.consumer: DispatchConsumer = consumer
        self.number: int = number
        self.reason: str = reason


class Dispatching:
    """The dispatches of one connection. ``plain``: the peer reads messages as they are kept."""

    def __init__(self, broker: BrokerCore, outlet: Outlet, replies: Replies) -> None:
        self.broker: BrokerCore = broker
        self.outlet: Outlet = outlet
        self.replies: Replies = replies
        self.plain: bool = False
        self.frame_octets_max: i64 = 0
        self.failed: list[_Failed] | None = None
        self.sent: i64 = 0

    def head(self, consumer_id: ConsumerId, where: Destination) -> bytes:
        """Return what stands between the size of a dispatch and its message; b"" when each must be encoded anew."""
        if not self.plain:
            return b""
        frame = self.replies.encoder.encode(MessageDispatch(consumer_id=consumer_id, destination=where))
        return frame[4:-5] + b"\x01"  # without "there is no message" and the redelivery counter

    def deliver_anew(self, consumer: DispatchConsumer, message: Message, deliveries: i64) -> None:
        """Write a dispatch whose message has to be encoded."""
        counter = int(deliveries)
        if counter == 0 and message.redelivered:
            counter = 1
        try:
            self._write(consumer.consumer_id, consumer.where, message, counter)
        except EntrepotError as error:
            if self.failed is None:
                self.failed = []
            self.failed.append(_Failed(consumer, int(message.number), f"it cannot be said in OpenWire: {error}"))
            self.outlet.note()

    def show(self, consumer_id: ConsumerId, where: Destination | None, message: Message) -> None:
        """Write what a browser shows, from the queue ``where``. One that cannot be said cannot be shown."""
        try:
            self._write(consumer_id, where, message, int(message.redelivered))
        except EntrepotError:
            return

    def show_none(self, consumer_id: ConsumerId) -> None:
        """Say that there is nothing (more) to deliver."""
        self.replies.write(MessageDispatch(consumer_id=consumer_id))

    def _write(self, consumer_id: ConsumerId, where: Destination | None, message: Message, counter: int) -> None:
        assert where is not None
        broker = self.broker
        ids = broker.ids
        large = is_large(broker, message, self.frame_octets_max)
        made = presented(message, where, ids.identity_of(message), ids.node_id, b"" if large else None)
        made.broker_out_time = broker.wall
        dispatch = MessageDispatch(consumer_id=consumer_id, destination=where, message=made, redelivery_counter=counter)
        if large:
            self._stream(dispatch, message, made)
        else:
            self.replies.write(dispatch)
        self.sent += 1
        outlet = self.outlet
        if len(outlet.out) > outlet.high:
            outlet.choke()

    def _stream(self, dispatch: MessageDispatch, message: Message, made: commands.Message) -> None:
        """Write a dispatch whose body is on disk, at the pace of the socket; all else waits behind it."""
        body = body_of(self.broker, message, made)
        if body is None:
            self.replies.write(dispatch)
            return
        try:
            head = begin(self.replies.encoder, dispatch, made, body, self.frame_octets_max)
        except EntrepotError:
            body.finish(False)
            raise
        outlet = self.outlet
        outlet.out.write(head)
        outlet.pour(body)

    def bury(self) -> None:
        """Give up what could not be said."""
        failed = self.failed
        if failed is None:
            return
        self.failed = None
        for each in failed:
            queue = each.consumer.queue
            each.consumer.forget(each.number)
            if queue is not None:
                queue.reject(each.consumer, each.number, Reason(UNSENDABLE, each.reason))
