"""What the broker itself says in messages: answers of management, and what an operator has it send."""

from __future__ import annotations

from base64 import b64decode
from typing import Final

import msgspec

from entrepot.model.message import BODY_BYTES, BODY_TEXT, LANGUAGE_ANSWER, Common, Language, Message, register
from entrepot.model.predicate import Value


class Said(msgspec.Struct):
    """What the broker itself says, as it is kept: an answer, ``body`` its JSON array, or an operator's message.

    ``octets``: in base64, instead of a text. ``plain``: it is not JSON.
    """

    body: str
    properties: dict[str, bool | str]
    correlation_id: str | None
    octets: str = ""
    plain: bool = False


class AnswerLanguage(Language):
    """How answers are laid out: JSON that every protocol says in its own way when it delivers."""

    def __init__(self) -> None:
        super().__init__(LANGUAGE_ANSWER, "management")

    def common(self, message: Message) -> Common:
        """Return the answer in the common form."""
        answer = msgspec.json.decode(message.raw, type=Said)
        said = Common(BODY_BYTES, b64decode(answer.octets)) if answer.octets else Common(BODY_TEXT, answer.body)
        said.correlation_id = answer.correlation_id
        if not answer.plain:
            said.content_type = "application/json"
        for name, value in answer.properties.items():
            said.properties[name] = value
        return said

    def fact(self, message: Message, name: str) -> Value:
        """Return a property, or the correlation id."""
        said = self.common(message)
        return said.correlation_id if name == "JMSCorrelationID" else said.properties.get(name)


ANSWER_LANGUAGE: Final = AnswerLanguage()
register(ANSWER_LANGUAGE)
