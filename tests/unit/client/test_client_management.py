"""Management as methods: what is asked, and what is made of the answers of ours and of a real Artemis."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.client.management import Management, result_of, text_of
from entrepot.client.message import Message
from entrepot.protocols.artemis.primitives import PacketWriter

YES = {"_AMQ_OperationSucceeded": True}


class Office:
    """A session whose broker answers what it is asked; two questions at once would be a mistake."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, object]]] = []
        self.open = 0
        self.busy = False

    def session(self) -> Any:
        self.open += 1
        return self

    async def request(self, destination: str, message: Message, *, timeout: float) -> Message:
        assert not self.busy
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        self.asked.append((destination, str(message.body), message.properties))
        return Message(json.dumps([len(self.asked)]), properties=dict(YES))

    async def close(self) -> None:
        self.open -= 1


def test_what_is_asked_and_by_whom_one_after_the_other() -> None:
    office = Office()

    async def main() -> list[Any]:
        async with Management(cast(Any, office.session)) as management:
            asked = (
                management.get("queue.orders", "messageCount"),
                management.call("queue.orders", "moveMessages", "n = 1", "other"),
                management.call("broker", "listQueues"),
            )
            return list(await asyncio.gather(*asked))

    assert asyncio.run(main()) == [1, 2, 3]
    assert office.open == 0
    assert office.asked == [
        (
            "activemq.management",
            "[]",
            {"_AMQ_ResourceName": "queue.orders", "_AMQ_Attribute": "messageCount"},
        ),
        (
            "activemq.management",
            '["n = 1", "other"]',
            {"_AMQ_ResourceName": "queue.orders", "_AMQ_OperationName": "moveMessages"},
        ),
        ("activemq.management", "[]", {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "listQueues"}),
    ]


def test_who_asks_nothing_opens_nothing_and_may_close_twice() -> None:
    office = Office()

    async def main() -> None:
        management = Management(cast(Any, office.session))
        assert office.open == 0
        await management.get("broker", "version")
        assert office.open == 1
        await management.close()
        await management.close()

    asyncio.run(main())
    assert office.open == 0


def test_refusals_are_raised_by_their_codes() -> None:
    with pytest.raises(Refused, match="AMQ229017") as plain:
        result_of('["AMQ229017: Queue x does not exist"]', {"_AMQ_OperationSucceeded": False})
    assert type(plain.value) is Refused
    with pytest.raises(InvalidDestination) as known:
        result_of(
            '["no such queue"]',
            {"_AMQ_OperationSucceeded": False, "entrepot_code": InvalidDestination.code, "entrepot_remedy": "make it"},
        )
    assert known.value.remedy == "make it"


@pytest.mark.parametrize("body", ["", "[]", "[null]", b"", b"\0"])
def test_no_answer_is_none(body: Any) -> None:
    assert result_of(body, YES) is None


@pytest.mark.parametrize(
    "text", ["[1]", "[]", '["' + "x" * 40 + '"]', '["' + "ü€" * 30 + '"]', '["' + "y" * 9_000 + '"]']
)
def test_a_text_of_artemis_is_read_as_it_is_written(text: str) -> None:
    writer = PacketWriter(136)
    writer.nullable_text(text)
    assert text_of(writer.out.getvalue()) == text
    assert result_of(writer.out.getvalue(), YES) == (json.loads(text) or [None])[0]


@pytest.mark.parametrize("octets", [b"\1\0\0\0\x20\0\4\xff\xfe\xff\xff", b"\1\0\0\0\x09\0\x50", b"\1\0"])
def test_octets_that_are_no_text_are_refused(octets: bytes) -> None:
    with pytest.raises(Refused, match="no text"):
        text_of(octets)
