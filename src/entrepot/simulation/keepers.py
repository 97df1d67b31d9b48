"""A client of a queue that keeps the newest: of each key (`last.`), of all (`ring.`), or of both (`both.`).

It alone sends there, numbers that rise, and reads in between: what it has and does not acknowledge comes back when it
leaves. When the storm is over it reads everything out. What must hold then, whatever crashed (artemis.md 4.5):

- no value of a key beside another, no more messages than the ring has places, and all in the order in which they came;
- what was confirmed is there, or was acknowledged, or was pushed out by what came behind it, of its key or in the ring;
- nothing is there that was refused, or that was acknowledged for certain.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.protocols.stomp.client import CLIENT_INDIVIDUAL, Message
from entrepot.simulation.clients import CODE_NOT_KNOWN, Client, Stage

RING: Final = 3
POLICIES: Final[dict[str, dict[str, str]]] = {
    "last.#": {"last_value": "true", "max_deliveries": "-1"},
    "ring.#": {"ring_size": str(RING), "max_deliveries": "-1"},
    "both.#": {"last_value": "true", "ring_size": str(RING), "max_deliveries": "-1"},
}
LOOK: Final = 20 * MILLISECOND


class Value:
    """One message that was sent."""

    def __init__(self, sequence: int, key: str) -> None:
        self.sequence = sequence
        self.key = key
        self.confirmed = False
        self.refused = False
        self.asked = False  # an acknowledgement was sent
        self.gone = False  # and confirmed


class Keeper(Client):
    """Sends ``count`` values to its own queue, one in ``interval`` ns, and reads them."""

    def __init__(self, stage: Stage, name: str, kind: str, count: int, interval: Duration) -> None:
        super().__init__(stage, name)
        self.kind = kind
        self.queue = f"{kind}.{name}"
        self.count = count
        self.interval = interval
        self.keys = self.lots.one_of((1, 2, 5))
        self.octets = self.lots.skewed(10, 2000)
        self.acks = self.lots.one_of((0.0, 0.0, 0.3))  # of what it reads before the end
        self.prefetch = self.lots.one_of((1, 2, 10))
        self.values: dict[int, Value] = {}
        self.found: dict[int, Value] = {}
        self.subscription = ""
        self.ending = False
        self.draining = False

    def ready(self) -> None:
        """Go on where it stopped."""
        self.act(self._end if self.ending else self._step, 0)

    def lost(self) -> None:
        """What it had goes back."""
        self.subscription = ""

    def heal(self) -> None:
        """Send nothing new, read all out."""
        self.ending = True

    # -- the storm ----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        if self.ending:
            self._end()
            return
        if self.client.ready and len(self.values) < self.count:
            self._send()
        if self.lots.chance(0.1):
            if self.subscription:
                self.client.unsubscribe(self.subscription)
                self.subscription = ""
            else:
                self._subscribe(self.prefetch)
        self.act(self._step, self.lots.between(self.interval // 2, self.interval * 2))

    def _send(self) -> None:
        value = Value(len(self.values) + 1, str(self.lots.below(self.keys)))
        self.values[value.sequence] = value
        body = f"{value.sequence}|" + "x" * self.octets
        headers = {"persistent": "true", "_AMQ_LVQ_NAME": value.key}
        token = self.client.send(f"/queue/{self.queue}", body, headers, receipt=True)
        self.world.count("values")
        self.receipts[token] = lambda code: self._answered(value, code)

    def _answered(self, value: Value, code: str) -> None:
        value.confirmed = not code
        value.refused = code != "" and code not in CODE_NOT_KNOWN

    def _subscribe(self, prefetch: int) -> None:
        headers = {"activemq.prefetchSize": str(prefetch)}
        self.subscription, _ = self.client.subscribe(f"/queue/{self.queue}", ack=CLIENT_INDIVIDUAL, headers=headers)

    def took(self, message: Message) -> None:
        """Look at one value, and acknowledge it, or keep it until it leaves."""
        value = self.values[int(message.body.split(b"|")[0])]
        if message.subscription not in ("", self.subscription) or not self.online:
            return
        if value.refused or value.gone:
            self.world.violation(f"{value.sequence} is read from {self.queue}: it was refused, or acknowledged before")
        if self.draining:
            if self.found and value.sequence < max(self.found) and value.sequence not in self.found:
                self.world.violation(f"{value.sequence} comes out of {self.queue} behind {max(self.found)}")
            self.found[value.sequence] = value
        if self.draining or self.lots.chance(self.acks):
            value.asked = True
            token = self.client.ack(message, receipt=True)
            self.receipts[token] = lambda code: self._settled(value, code)

    def _settled(self, value: Value, code: str) -> None:
        value.gone = value.gone or not code

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Wait until all is answered and has come back, read it out, and judge."""
        broker = self.stage.machine.broker
        queue = None if broker is None else broker.table.queues.get(self.queue)
        if not self.draining:
            if self.subscription:
                self.client.unsubscribe(self.subscription)
                self.subscription = ""
            elif queue is None and broker is not None and not self.receipts:  # nor will there be one
                self.leave()
                return
            elif queue is not None and not self.receipts and not queue.roster.consumers:
                if self.kind != "last" and queue.count > RING:
                    self.world.violation(f"{self.queue} holds {queue.count}, its ring {RING}")
                self.draining = True
        if self.draining and queue is not None:
            if queue.count == 0 and not self.receipts:
                self._judge()
                self.leave()
                return
            if not self.subscription and not queue.roster.consumers:
                self._subscribe(200)
        self.act(self._end, LOOK)

    def _judge(self) -> None:
        lasting = self.kind != "ring"
        found = sorted(self.found)
        keys = [self.values[number].key for number in found]
        if lasting and len(set(keys)) < len(keys):
            self.world.violation(f"{self.queue} kept {found} of the keys {keys}")
        for value in self.values.values():
            if not value.confirmed or value.asked:
                continue
            newer = [one for one in self.values.values() if one.sequence > value.sequence and one.asked]
            if lasting and any(one.key == value.key for one in newer):
                continue
            if self.kind != "last" and len(newer) >= RING:
                continue
            self.world.violation(f"{self.queue} lost {value.sequence} of the key {value.key}; it kept {found}")
