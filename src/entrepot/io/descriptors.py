"""Closing what the system gave us, where nothing can be done about an error any more."""

from __future__ import annotations

import os
from contextlib import suppress


def let_go(descriptor: int) -> None:
    """Close it. A file system that has died may say so here; it is no news, for what counts was synced before."""
    with suppress(OSError):  # Linux has closed it in any case (close(2), "Dealing with error returns")
        os.close(descriptor)
