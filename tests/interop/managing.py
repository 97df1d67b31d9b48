"""Management by messages over CORE, of a real Artemis and of ours alike."""

from __future__ import annotations

import json
from typing import Any

from artemis import Artemis
from ours import Entrepot

from entrepot import Message, blocking

Broker = Artemis | Entrepot


class Manager:
    """Asks one broker by management messages, over CORE."""

    def __init__(self, broker: Broker, user: str | None = None, password: str | None = None) -> None:
        self.connection = blocking.connect(broker.url.replace("tcp://", "core://"), user=user, password=password)
        self.session = self.connection.session()

    def read(self, resource: str, attribute: str) -> Any:
        """Return an attribute."""
        return self.send(resource, [], _AMQ_Attribute=attribute)

    def ask(self, resource: str, operation: str, *arguments: object) -> Any:
        """Return what an operation answers."""
        return self.send(resource, arguments, _AMQ_OperationName=operation)

    def send(self, resource: str, arguments: Any, **properties: str) -> Any:
        """Return the answer to a request. Raises RuntimeError for a refusal."""
        wanted = Message(json.dumps(arguments), properties={"_AMQ_ResourceName": resource, **properties})
        answer = self.session.request("activemq.management", wanted, timeout=10)
        body = answer.body
        if isinstance(body, bytes):  # Artemis answers in a message without a type: a nullable text
            body = body[body.index(b"[") :].decode() if b"\0" not in body else _text(body)
        (result,) = json.loads(body) if body else [None]
        if not answer.properties["_AMQ_OperationSucceeded"]:
            raise RuntimeError(str(result))
        return result

    def close(self) -> None:
        self.connection.close()


def _text(body: bytes) -> str:
    """Read a nullable text of CORE: a flag, the number of characters, and these in one of three ways."""
    if not body[0]:
        return ""
    count = int.from_bytes(body[1:5], "big")
    if count < 9:
        return bytes(body[6 + 2 * at] for at in range(count)).decode("latin-1")
    if count < 0xFFF:
        return body[7:].decode()
    return body[9 : 9 + int.from_bytes(body[5:9], "big")].decode("utf-16-le")
