"""What a node says that wants a copy of its store hosted, where one that shares its store names the directory.

A request of Artemis for a copy names the node alone, and the rest is said over its own protocol of replication, which
is not spoken here (artemis.md 5.2.5). Ours says what a copy cannot do without: whose store it is, and where it comes
from. An Artemis that is asked refuses before it looks: how many backups it has, it is not told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlencode

PREFIX: Final = "entrepot-copy:"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Of a broker whose copy is hosted: it is in the name of a lock, which is a file's or a node's elsewhere."""
_STORE: Final = re.compile(r"[0-9a-f]{32}")
_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253}):([1-9][0-9]{0,4})")


@dataclass(frozen=True)
class Copy:
    """``store``: its identity; ``owner``: the broker whose it is; ``place``: where that has its replicas connect."""

    store: str
    owner: str
    place: str

    def text(self) -> str:
        """Return it as a request says it."""
        return PREFIX + urlencode({"store": self.store, "owner": self.owner, "place": self.place})


def is_copy(text: str) -> bool:
    """Say whether a request asks for a copy, sound or not."""
    return text.startswith(PREFIX)


def read_copy(text: str) -> Copy | None:
    """Return what a request asks for, None where it makes no sense: names become those of files here."""
    if not is_copy(text):
        return None
    try:
        said = parse_qs(text.removeprefix(PREFIX), strict_parsing=True, max_num_fields=8)
        (store,), (owner,), (place,) = said["store"], said["owner"], said["place"]
    except (KeyError, ValueError):
        return None
    sound = _STORE.fullmatch(store) and NAME.fullmatch(owner) and _PLACE.fullmatch(place)
    return Copy(store, owner, place) if sound else None
