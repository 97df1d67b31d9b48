"""The elements of ``broker.xml`` that name a transformer (artemis.md 4.15)."""

from __future__ import annotations

from typing import Final

from entrepot.config.vocabulary import Kind, Slot, obeyed

TRANSFORMER: Final = Slot("transformer", ("transformer",))
CLASS: Final = "transformer-class-name"
TRANSFORMER_KINDS: Final = [
    Kind(
        "transformer",
        obeyed("name:text class-name:text"),
        Slot("property", ("transformer-property",), many=True),
        about="properties that are set on messages: AddHeadersTransformer is obeyed, any other class is refused",
    ),
    Kind("transformer-property", obeyed("key:text value:text"), about="a property, and its value"),
]
