"""The port of a lease that is kept elsewhere: one small record with a version, changed by compare-and-swap."""

from __future__ import annotations

import threading
from typing import Final

NAME: Final = "entrepot"
"""Of a lease, where a URI gives it none."""


class Register:
    """One record with a version, in a place that all brokers reach. Calls block; errors of the service are OSError."""

    def read(self) -> tuple[bytes, int]:
        """Return the record and its version; (b"", 0) when there is none."""
        raise NotImplementedError

    def swap(self, version: int, octets: bytes) -> int:
        """Write ``octets`` if the version still is ``version``; return the new version, or -1 when it is not."""
        raise NotImplementedError

    def pause(self, wake: threading.Event, seconds: float) -> None:
        """Wait until ``wake`` is set, ``seconds`` are over, or the record may have changed since it was read."""
        wake.wait(seconds)

    def tell(self) -> None:
        """Let those who pause know that the record is worth a look. Raises OSError."""

    def ended(self, instance: str) -> bool:
        """Say whether it was known at the last `read` that the process ``instance`` has ended; asked after each."""
        return False

    def close(self) -> None:
        """Let go of the connection."""
        raise NotImplementedError
