"""Management of a broker from a program: attributes and operations by name, over messages (artemis.md 7.2).

::

    async with connection.management() as management:
        waiting = await management.get("queue.orders", "messageCount")
        await management.call("queue.orders", "moveMessages", "region = 'eu'", "orders.eu")

The same with a broker of ours, in any language, and with an Artemis, over CORE. It takes the right to manage.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from entrepot.base.errors import EntrepotError, PeerError, Refused, kinds
from entrepot.client.message import Message
from entrepot.client.opening import Closing
from entrepot.client.session import Session
from entrepot.protocols.conversing.bodies import Body

ADDRESS: Final = "activemq.management"
PATIENCE_S: Final = 30.0  # for one answer; what moves a million messages takes longer, and says how long to wait

RESOURCE: Final = "_AMQ_ResourceName"
OPERATION: Final = "_AMQ_OperationName"
ATTRIBUTE: Final = "_AMQ_Attribute"
SUCCEEDED: Final = "_AMQ_OperationSucceeded"
CODE: Final = "entrepot_code"
REMEDY: Final = "entrepot_remedy"
ALONE: Final = "entrepot_alone"  # of a request: one of several processes answers, and not all of the broker

VERSION: Final = 136  # of CORE; all write a text alike


class Management(Closing):
    """Asks the broker of one connection, one question after the other; any number of tasks may ask.

    Resources are ``broker``, ``queue.NAME``, ``address.NAME``, ``bridge.NAME`` and so on (docs/managing.md). Arguments
    and results are values of JSON.
    """

    def __init__(
        self, open_session: Callable[[], Session], address: str = ADDRESS, timeout: float = PATIENCE_S
    ) -> None:
        """`Connection.management` is what programs call."""
        self._open_session: Final = open_session
        self._address: Final = address
        self._timeout: Final = timeout
        self._session: Session | None = None
        self._turn: Final = asyncio.Lock()

    async def get(self, resource: str, attribute: str) -> Any:
        """Return an attribute. Raises Refused and what is below it, InvalidDestination say; TimedOut; Unreachable."""
        return await self._ask(resource, ATTRIBUTE, attribute, ())

    async def call(self, resource: str, operation: str, *arguments: object) -> Any:
        """Do ``operation`` and return its result, None for none. Raises as `get`.

        After TimedOut or Unreachable it may have been done all the same.
        """
        return await self._ask(resource, OPERATION, operation, arguments)

    async def close(self) -> None:
        """End the session that answers come to. Does nothing the second time."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ask(self, resource: str, what: str, name: str, arguments: tuple[object, ...]) -> Any:
        async with self._turn:
            if self._session is None:
                self._session = self._open_session()
            wanted = Message(json.dumps(arguments), properties={RESOURCE: resource, what: name})
            answer = await self._session.request(self._address, wanted, timeout=self._timeout)
        return result_of(answer.body, answer.properties)


def result_of(body: Body, properties: Mapping[str, object]) -> Any:
    """Return what an answer says. Raises what the broker refused: by its code where it is one of ours, else Refused."""
    text = text_of(body) if isinstance(body, bytes | bytearray | memoryview) else str(body or "")
    found = json.loads(text) if text else [None]
    result = found[0] if isinstance(found, list) and found else None
    if properties.get(SUCCEEDED) in (True, "true"):
        return result
    kind = kinds(EntrepotError).get(str(properties.get(CODE, "")), Refused)
    raise kind(str(result), remedy=str(properties.get(REMEDY) or ""))


def text_of(body: bytes | bytearray | memoryview) -> str:
    """Return the text of an answer of Artemis, whose message has no type: a String of CORE that may be none.

    Raises Refused for octets that are none.
    """
    if not body:
        return ""
    from entrepot.protocols.artemis.primitives import PacketReader  # noqa: PLC0415 - for answers of Artemis alone

    octets = bytes(body)
    try:
        return PacketReader(octets, 0, len(octets), VERSION).nullable_text() or ""
    except (PeerError, UnicodeDecodeError) as error:
        raise Refused(f"the answer of management is no text: {error}", remedy="is it a broker's?") from None
