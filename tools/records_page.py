"""The page of the journal's register: kinds of documents, reserved queue ids, languages, layouts."""

from __future__ import annotations

import sys
from typing import Final

from source_tree import SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.core import records  # the line above must come first

HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/core/records.py. -->
# Register of the journal

The numbers that stand in [journals](journal.md). None changes its meaning, and none is given out a second time.

## Documents

A document is what the last PUT said under its kind and key. Numbers are big-endian; `·` puts one field behind another.

| Kind | What it keeps | Key | Value | Written by |
|---:|---|---|---|---|
"""

QUEUES: Final = f"""
## Queue ids

A message of the journal is in one or more queues. Those below {records.FIRST_QUEUE} are not queues of users:

| Id | Name | What is in it |
|---:|---|---|
"""

LANGUAGES: Final = """
## Languages

The second octet of an envelope says in which language the octets of a message are, as it came from its sender. A broker
that does not know the language of a message keeps it, and refuses only to say it in another one.

| Code | Name | The octets |
|---:|---|---|
"""

LAYOUTS: Final = """
## Layouts

| Layout | Of | What it says |
|---:|---|---|
"""


def records_page() -> str:
    """Return the page."""
    kinds = [
        f"| {kind.number} | {kind.name} | {kind.key} | {kind.value} | `{kind.module}` |\n" for kind in records.KINDS
    ]
    return (
        HEAD
        + "".join(kinds)
        + QUEUES
        + _rows(records.RESERVED_QUEUES)
        + LANGUAGES
        + _rows(records.LANGUAGES)
        + LAYOUTS
        + _rows(records.LAYOUTS)
    )


def _rows(entries: list[records.Entry]) -> str:
    return "".join(f"| {entry.number} | {entry.name} | {entry.about} |\n" for entry in entries)
