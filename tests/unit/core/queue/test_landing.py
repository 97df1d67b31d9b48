"""What another broker brought reaches a third when no crash takes it back here; programs get it at once."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.model import address as names
from entrepot.model.message import Message
from kit import Reader, Rig


class BrokersReader(Reader):
    """What a broker that fetches has here."""

    kind = INCOMING_BRIDGE
