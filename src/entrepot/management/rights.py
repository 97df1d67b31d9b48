"""Users, rules and rights of a running broker, asked for page by page: what the console and the command line show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, convert

from entrepot.core.operators.together.asker import Asker
from entrepot.management.sifting import sifted

ROWS_MOST: Final = 10_000  # that are shown: beyond it somebody searches
EVERYBODY: Final = "*"


class Told(Struct, frozen=True):
    """Rows, and how many there are in all. ``asks``: whether people are asked who they are; ``guarded``: by rules.

    ``narrowest``: only the most specific rule for an address counts.
    """

    rows: list[dict[str, Any]]
    count: int
    asks: bool
    guarded: bool
    narrowest: bool


async def users_of(asker: Asker, search: Iterable[str] = (), most: int = ROWS_MOST) -> Told:
    """Ask who comes in. Raises EntrepotError."""
    return await _told(asker, "describeUsers", search, most)


async def rules_of(asker: Asker, user: str | None = None, most: int = ROWS_MOST) -> Told:
    """Ask for the rules, all or those that give something to one user. Raises EntrepotError."""
    told = await _told(asker, "describeRules", (), most)
    if user is None:
        return told
    groups = (await verdicts_of(asker, user, "*"))["groups"]
    kept = [row for row in told.rows if row["group"] in (EVERYBODY, *groups)]
    return Told(kept, len(kept), told.asks, told.guarded, told.narrowest)


async def verdicts_of(asker: Asker, user: str, address: str) -> dict[str, Any]:
    """Ask what a user may do at an address, and why. Raises EntrepotError."""
    found: dict[str, Any] = await asker.ask("broker", "describeRights", user, address)
    return found


def matrix(rows: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the groups, and a row for each pattern with what it gives to each of them."""
    groups: dict[str, None] = {}
    found: dict[tuple[str, str, str, int], dict[str, Any]] = {}
    for row in rows:
        groups[row["group"]] = None
        key = (row["pattern"], row["kind"], row["file"], row["line"])
        made = found.setdefault(key, {"pattern": key[0], "kind": key[1], "file": key[2], "line": key[3], "given": {}})
        made["given"][row["group"]] = ", ".join(row["rights"])
    return sorted(groups), list(found.values())


async def _told(asker: Asker, operation: str, search: Iterable[str], most: int) -> Told:
    return convert(await sifted(asker, operation, most, search=list(search)), Told)
