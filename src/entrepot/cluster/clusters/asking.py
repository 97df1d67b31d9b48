"""A session at another broker that asks its management, one question after the other (artemis.md 5.2.11, 7.2).

Questions are messages to the management address, answers come to a temporary queue. What is asked before the queue is
there waits. The answer to a question is told with whether it succeeded: a value of JSON, or the text of the refusal.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from entrepot.base.environment import Entropy
from entrepot.base.errors import PeerError
from entrepot.cluster.clusters.reading import MANAGEMENT, UNLIMITED, ReadingSession
from entrepot.protocols.artemis.bodies import text_of
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.headers import body_of, properties_in
from entrepot.protocols.artemis.packets import CreateQueue
from entrepot.protocols.artemis.places import CORE_ANYCAST

CHANNEL: Final = 20  # beside those of a carrier and of notifications on the same connection
LARGE_OCTETS: Final = 100 * 1024

Answer = Callable[[bool, object], None]


class _Question:
    def __init__(self, properties: dict[str, object], body: str, answer: Answer) -> None:
        self.properties: Final = properties
        self.body: Final = body
        self.answer: Final = answer


class Asking(ReadingSession):
    """One session over ``client``. ``refused``: why it asks nothing, told once."""

    def __init__(
        self,
        client: CoreClient,
        user: str,
        password: str,
        entropy: Entropy,
        refused: Callable[[str], None],
        client_id: str = "",
    ) -> None:
        self._refused: Final = refused
        self._waiting: deque[_Question] = deque()
        self._asked: _Question | None = None
        self._ready = False
        super().__init__(
            client,
            CHANNEL,
            entropy,
            user=user or None,
            password=password or None,
            client_id=client_id,
            large_octets=LARGE_OCTETS,
        )
        self._queue: Final = f"{MANAGEMENT}.{self.unique}"

    def attribute(self, resource: str, name: str, answer: Answer) -> None:
        """Ask for the attribute ``name`` of ``resource``."""
        said: dict[str, object] = {"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}
        self._add(_Question(said, "[]", answer))

    def operation(self, resource: str, name: str, arguments: Sequence[object], answer: Answer) -> None:
        """Ask ``resource`` to do ``name``."""
        said: dict[str, object] = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": name}
        self._add(_Question(said, json.dumps(list(arguments), separators=(",", ":")), answer))

    def _add(self, question: _Question) -> None:
        self._waiting.append(question)
        self._go_on()

    def _go_on(self) -> None:
        if not self._ready or self._asked is not None or not self._waiting:
            return
        question = self._asked = self._waiting.popleft()
        self.ask({"JMSReplyTo": f"queue://{self._queue}", **question.properties}, question.body)

    def queue(self) -> CreateQueue:
        """Return the queue of answers."""
        return CreateQueue(
            address=self._queue,
            queue=self._queue,
            temporary=True,
            require_response=True,
            routing=CORE_ANYCAST,
            max_consumers=UNLIMITED,
        )

    def denied(self, why: str) -> None:
        """The other broker refuses something."""
        self._refused(why)

    def ready(self) -> None:
        """Ask what waits."""
        self._ready = True
        self._go_on()

    def came(self, message: bytes) -> None:
        """Take the answer."""
        question, self._asked = self._asked, None
        if question is None:
            return
        succeeded = properties_in(message).get("_AMQ_OperationSucceeded") is True
        value: object = None
        try:
            found = json.loads(text_of(body_of(message)) or "[]")
            value = found[0] if isinstance(found, list) and found else None
        except (ValueError, PeerError, RecursionError):
            succeeded, value = False, "its answer cannot be read"
        question.answer(succeeded, value)
        self._go_on()
