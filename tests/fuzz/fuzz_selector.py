"""Any octets as a selector: read, compiled, rendered, read again and asked, with nothing raised but InvalidSelector."""

from __future__ import annotations

from entrepot.base.errors import InvalidSelector
from entrepot.model.predicate import BODY_FACT, Facts, Value, compile_selector

SAMPLE: dict[str, Value] = {
    "a": 7,
    "b": -(2**63),
    "c": "red",
    "d": 2.5,
    "e": True,
    "f": b"\x00\xff",
    "g": "12",
    "h": float("nan"),
    "i": 2**70,
    "j": float("inf"),
    BODY_FACT: "<order><item size='3'/></order>",
}


class Sample(Facts):
    """One value of every kind, the extreme ones among them."""

    def fact(self, name: str) -> Value:
        return SAMPLE.get(name)


def fuzz(data: bytes) -> None:
    """Raises InvalidSelector for a text outside the grammar, AssertionError for our own mistakes."""
    predicate = compile_selector(data.decode("utf-8", "replace"))
    assert isinstance(predicate.matches(Sample()), bool)
    try:
        again = compile_selector(predicate.text)
    except InvalidSelector as wrong:
        raise AssertionError(f"{predicate.text!r} cannot be read back: {wrong}") from wrong
    assert again.text == predicate.text
    assert again.names == predicate.names
    assert again.matches(Sample()) == predicate.matches(Sample())
