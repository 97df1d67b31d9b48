"""The page Rights: who comes in, what the rules give to whom, and what one user may do at one address, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.console.access import Visitor
from entrepot.console.tables import Table
from entrepot.management.rights import Told, matrix, rules_of, users_of, verdicts_of

if TYPE_CHECKING:
    from entrepot.console.pages import Pages
    from entrepot.core.operators.together.asker import Asker

ROWS: Final = 500  # users, and grants of rules: what one answer of a broker holds
GROUPS_MOST: Final = 12  # columns of the matrix; of more groups a row each is easier to read
PATTERN: Final = [("pattern", "On", "mono"), ("kind", "Kind", "")]
WRITTEN: Final = ("where", "Written in", "mono")


class Rights:
    """The page of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages

    def routes(self) -> list[Route]:
        """Return where it is."""
        return [Route("/rights", self.pages.page(self.rights))]

    async def rights(self, request: Request, visitor: Visitor) -> Response:
        """What one user may do, then everybody, then every rule."""
        broker, desk = await self.pages.desk(request, visitor)
        query = request.query_params
        user, address = query.get("user", ""), query.get("address", "")
        tables: list[Table] = []
        trouble = ""
        if user and address:
            tables, trouble = await _judged(desk, user, address)
        people, rules = await users_of(desk, most=ROWS), await rules_of(desk, most=ROWS)
        tables += [_people(people), _rules(rules)]
        ask = [("user", "User", user), ("address", "Address", address)]
        lead = f"of {broker}. An address is a name, queue://NAME or topic://NAME, or a pattern"
        notes = _notes(people, rules)
        return self.pages.rows(request, visitor, "Rights", lead, broker, tables, ask=ask, trouble=trouble, notes=notes)


async def _judged(desk: Asker, user: str, address: str) -> tuple[list[Table], str]:
    """Return a table of what a user may do, or what is wrong with the question."""
    try:
        told = await verdicts_of(desk, user, address)
    except (Refused, InvalidDestination) as error:
        if type(error) not in (Refused, InvalidDestination):
            raise  # who may not ask is told so on a page of its own
        return [], str(error)
    rows = [{**_placed(row), "may": "yes" if row["allowed"] else "no"} for row in told["verdicts"]]
    columns = [("right", "Right", ""), ("kind", "To", ""), ("may", "May", ""), ("why", "Why", "text"), WRITTEN]
    groups = ", ".join(told["groups"]) or "no group"
    known = "" if told["known"] else ": nobody is called so here, so these are the rights of everybody"
    return [Table(f"{user} ({groups}) at {address}{known}", columns, rows, "")], ""


def _people(told: Told) -> Table:
    columns = [("user", "User", ""), ("roles", "Groups, or roles", "text"), ("comes", "Comes in", "text"), WRITTEN]
    rows = [{**_placed(row), "roles": ", ".join(row["groups"])} for row in told.rows]
    empty = "Nobody comes in." if told.asks else "This broker asks nobody who he is."
    return Table(_title("Users", told), columns, rows, empty)


def _rules(told: Told) -> Table:
    """Return the rules: a row for each, with a column for each group, where they are few."""
    groups, patterns = matrix(told.rows)
    title = _title("Rights by pattern and group", told)
    empty = "The rules give nothing." if told.guarded else "There are no rules: who is in may do everything."
    if len(groups) <= GROUPS_MOST:
        named = [(f"group {at}", "everybody" if group == "*" else group, "text") for at, group in enumerate(groups)]
        rows = [_placed(row) | _given(row["given"], groups) for row in patterns]
        return Table(title, [*PATTERN, *named, WRITTEN], rows, empty)
    each = [{**_placed(row), "given": ", ".join(row["rights"])} for row in told.rows]
    return Table(title, [*PATTERN, ("group", "Group", ""), ("given", "May", "text"), WRITTEN], each, empty)


def _given(given: Mapping[str, str], groups: Sequence[str]) -> dict[str, str]:
    """Return the cells of a row; keys are numbers, for a group may be called like another column."""
    return {f"group {at}": given.get(group, "") for at, group in enumerate(groups)}


def _placed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "where": f"{row['file']}:{row['line']}" if row["line"] else row["file"]}


def _title(what: str, told: Told) -> str:
    return what if told.count <= len(told.rows) else f"{what}: the first {len(told.rows):,} of {told.count:,}"


def _notes(people: Told, rules: Told) -> list[str]:
    found = []
    if rules.guarded:
        most = "the most specific rule for an address counts alone"
        every = "every rule that covers an address counts, and what one gives is given"
        found.append(f"Here {most if rules.narrowest else every}.")
    if not people.asks:
        found.append("This broker asks nobody who he is.")
    return found
