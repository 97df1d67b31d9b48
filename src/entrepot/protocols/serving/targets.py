"""Destinations that a connection has sent to: resolved once, and once looked at whether its user may send there. [C]"""

from __future__ import annotations

from typing import Final, TypeVar

from entrepot.core.addressing.routing import Target

TARGETS_KEPT: Final = 10_000  # destinations that one connection's cache remembers

Written = TypeVar("Written")


def keep_target(known: dict[Written, Target], written: Written, target: Target) -> None:
    """Remember that ``written`` leads to ``target``; not for a service, where each message is looked at."""
    if target.service is not None:
        return
    if len(known) >= TARGETS_KEPT:
        known.clear()
    known[written] = target
