"""entrepot: a message broker cluster that does what ActiveMQ Classic and Artemis do, in one program.

``import entrepot`` is cheap: what it offers is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entrepot.base.errors import EntrepotError
    from entrepot.node import Broker

__all__ = ["Broker", "EntrepotError", "__version__"]

__version__ = "0.1.0"

_HOMES = {"Broker": "entrepot.node", "EntrepotError": "entrepot.base.errors"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'entrepot' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
