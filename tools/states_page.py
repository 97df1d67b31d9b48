"""docs/states/connection.md: the life of a connection, drawn from the table that the server obeys."""

from __future__ import annotations

import sys
from typing import Final

from source_tree import SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.protocols.serving import life  # the line above must come first

HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/protocols/serving/life.py. -->
# The life of a connection

What an accepted connection is, whatever is spoken over it, and what may happen to it then. An empty field cannot
happen: it would be a fault of the broker.

"""


def states_page() -> str:
    """Return the page."""
    rows = [f"| State | Meaning |{''.join(f' {event} |' for event in life.EVENTS)}\n"]
    rows.append("|---|---|" + "---|" * len(life.EVENTS) + "\n")
    for number, name in enumerate(life.LIVES):
        after = [life.TRANSITIONS.get((number, event)) for event in range(len(life.EVENTS))]
        cells = "".join(f" {'' if one is None else life.LIVES[one]} |" for one in after)
        rows.append(f"| **{name}** | {life.ABOUT[name]} |{cells}\n")
    events = "".join(f"- **{name}**: {life.ABOUT[name]}.\n" for name in life.EVENTS)
    return HEAD + "".join(rows) + "\n" + events
