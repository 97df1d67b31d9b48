"""What an operator says of rights while a broker runs, as Artemis' management does (artemis.md 7.1, 7.2).

The permissions on one pattern hold in the place of what the configuration says of that pattern. Each is one note of the
journal: it holds after a restart, and after the configuration was read again. When it is taken back, what the
configuration says of the pattern holds again, at once; with Artemis it does after the next restart.

A role has what is said of its name. (Artemis 2.42 looks for the name anywhere in the text: there ``all`` for a
permission gives it to a role ``a`` too.)

A broker that asks nobody for rights remembers what is said, and does nothing about it until it asks. Where rules add up
(Classic, a users file) nothing is taken: there a rule of an operator could never take away what another one gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from entrepot.base.errors import Refused
from entrepot.core.amendments import check_pattern, keep
from entrepot.core.notes import Notes
from entrepot.core.security.access import Access, adds_up
from entrepot.core.security.access import amend as put_rules
from entrepot.core.security.permissions import held_by, rules_of, temporary_of

PART: Final = "security settings"  # of the notes
EVERYTHING: Final = "#"


def amend(access: Access, notes: Notes, pattern: str, said: Mapping[str, str]) -> None:
    """Let ``said`` (permission -> roles, with commas between) hold on ``pattern``, after a restart too.

    Raises Refused, InvalidDestination, LimitExceeded, StorageError: nothing is changed then.
    """
    _check(access, pattern)
    held_by(said)
    keep(notes, PART, pattern, msgspec.json.encode(dict(said)).decode())
    _let_hold(access, pattern, said)


def withdraw(access: Access, notes: Notes, pattern: str) -> None:
    """Let hold again what the configuration says on ``pattern``. Raises as `amend`."""
    _check(access, pattern)
    notes.remove(PART, pattern)
    put_rules(access, pattern, None)


def restore(access: Access, notes: Notes) -> None:
    """Let hold what the notes say: after a start, and when the configuration was read again."""
    if access.guarded and adds_up(access):
        return  # the store comes from a broker with another configuration
    for pattern, text in notes.of(PART).items():
        _let_hold(access, pattern, msgspec.json.decode(text, type=dict[str, str]))


def _let_hold(access: Access, pattern: str, said: Mapping[str, str]) -> None:
    held = held_by(said)
    put_rules(access, pattern, rules_of(pattern, held), temporary_of(pattern, held) if pattern == EVERYTHING else None)


def _check(access: Access, pattern: str) -> None:
    if "::" in pattern:
        raise Refused("rights on one queue of an address are not known", remedy="name the address")
    check_pattern(pattern)
    if access.guarded and adds_up(access):
        raise Refused(
            "the rights of this broker are not those of a broker.xml: rules add up",
            remedy="change its file: docs/security.md",
        )
