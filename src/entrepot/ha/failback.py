"""Whether a primary that asks for its store back is alive: a request counts once it was seen to change.

A primary that asked and died leaves its request behind; a backup that obeyed it would hand the store to nobody.
"""

from __future__ import annotations


class Heard:
    """The side of the backup. Call `look` with what stands in the request each time that the lease is renewed."""

    def __init__(self) -> None:
        self._seen: tuple[str, int] | None = None

    def look(self, request: tuple[str, int] | None) -> bool:
        """Return whether the same asker has asked again since the last look; ``request``: instance and count."""
        before, self._seen = self._seen, request
        if before is None or request is None:
            return False
        return before[0] == request[0] and request[1] > before[1]
