"""What reads the messages of each protocol, loaded when the first of them is met: in a journal may be any of them."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Final

from entrepot.model.message import LANGUAGE_AMQP, LANGUAGE_CORE, LANGUAGE_MQTT, LANGUAGE_OPENWIRE, offer

FOLDERS: Final = {
    LANGUAGE_OPENWIRE: "openwire",
    LANGUAGE_CORE: "artemis",
    LANGUAGE_AMQP: "amqp",
    LANGUAGE_MQTT: "mqtt",
}


def offer_languages() -> None:
    """Have what reads messages loaded when it is needed, as far as it is not there. Costs nothing when said again."""
    for code, folder in FOLDERS.items():
        offer(code, partial(_load, folder))


def _load(folder: str) -> None:
    importlib.import_module(f"entrepot.protocols.{folder}.convert")  # it registers itself
