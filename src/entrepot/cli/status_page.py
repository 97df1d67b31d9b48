"""What the status page of a broker of a pair says, for commands: a broker that serves nobody has no other port."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Final

from entrepot.base.errors import Unreachable

TIMEOUT: Final = 5.0  # s
SCHEMES: Final = ("http://", "https://")


def status_of(url: str) -> dict[str, Any]:
    """Return what the page at ``url`` says, http://HOST:PORT as --status was given it. Raises Unreachable."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/status", timeout=TIMEOUT) as answer:
            facts = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise Unreachable(f"{url} has no status page: {error}", remedy="name what --status was given") from error
    if not isinstance(facts, dict) or "role" not in facts:
        raise Unreachable(f"what {url} answers is no status of a broker", remedy="name what --status was given")
    return facts
