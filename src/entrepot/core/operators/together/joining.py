"""What several processes that are one broker answer, joined: rows of one queue made one, numbers added, lists in a row.

Numbers that count something at each process are added. Others are what a file or an operator said, the same at each,
and the first answer is told; of times the one that stands for all. Who wants the part of one process asks that one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from entrepot.core.operators.listing import ranked

Row = dict[str, Any]
Answers = Mapping[int, Any]
"""Process -> what it answers."""

OLDEST: Final = ("oldest_ms", "firstMessageAge")
EARLIEST: Final = ("firstMessageTimestamp",)
TIMES: Final = (*OLDEST, *EARLIEST)
COUNTS: Final = (
    *("messageCount", "messagesAdded", "messagesAcked", "messagesAcknowledged", "messagesExpired", "messagesKilled"),
    *("deliveringCount", "scheduledCount", "leasedCount", "consumerCount", "acknowledgeAttempts", "groupCount"),
    *("persistentSize", "deliveringSize", "scheduledSize", "durableMessageCount", "durablePersistentSize"),
    *("durableDeliveringCount", "durableDeliveringSize", "durableScheduledCount", "durableScheduledSize"),
    *("preparedTransactionMessageCount", "numberOfMessages", "routedMessageCount", "unRoutedMessageCount"),
    *("addressSize", "currentDuplicateIdCacheSize"),
)
"""Numbers of a queue or an address that are those of its parts together."""
COUNTED_LISTS: Final = {"queueCount": "queueNames", "addressCount": "addressNames"}
"""How many, and what is counted: a queue that several processes have is one."""
FIRST: Final = ("firstMessageAsJSON",)
"""Messages that are the first of their part: told is the first of all."""
INFO: Final = re.compile(r"Address \[name=(.*), routingTypes=\{(.*)\}, autoCreated=(true|false)\]")
NAMED: Final = ("connectionID", "connection")
"""What names a connection, in rows of connections, sessions, consumers and producers."""


def of_process(number: int, row: object) -> Any:
    """Return a row of one process, which says so."""
    return {**row, "process": number} if isinstance(row, dict) else row


def named(number: int, row: Row) -> Row:
    """Return a row of one process whose connection can be told from that of another one."""
    mine = {name: f"{number}:{row[name]}" for name in NAMED if row.get(name)}
    return {**of_process(number, row), **mine}


def together(rows: Sequence[Row]) -> Row:
    """Return the attributes of one queue, or address, of which each of ``rows`` tells a part."""
    return counted({name: fact(name, [row[name] for row in rows if name in row]) for name in rows[0]})


def counted(joined: Row) -> Row:
    """Return ``joined`` with the number of what is listed in it, where both are told."""
    for count, names in COUNTED_LISTS.items():
        if count in joined and isinstance(joined.get(names), list):
            joined[count] = type(joined[count])(len(joined[names]))
    return joined


def fact(name: str, told: Sequence[Any]) -> Any:
    """Return one attribute of which ``told`` are the parts. Numbers may be texts: so Artemis lists them."""
    first = told[0]
    if isinstance(first, bool):
        return any(told)
    if name in COUNTS and all(isinstance(one, int | str) for one in told):
        return type(first)(sum(int(one) for one in told))
    if name in OLDEST:
        return max(one or 0 for one in told)
    if name in EARLIEST:
        return min((one for one in told if one), default=first)
    if name in FIRST:
        return earliest(told)
    if isinstance(first, list):
        return union(told)
    return first


def earliest(told: Sequence[str]) -> str:
    """Return, of texts with a message each as JSON, or in a list, the one whose message is stamped first."""
    best, found = told[0], -1
    for text in told:
        said = json.loads(text)
        row = said[0] if isinstance(said, list) and said else said
        if isinstance(row, dict) and (found < 0 or int(row["timestamp"]) < found):
            best, found = text, int(row["timestamp"])
    return best


def sums(told: Sequence[str]) -> str:
    """Return counts by some value, which each tells as JSON, added."""
    found: dict[str, int] = {}
    for text in told:
        for name, count in json.loads(text).items():
            found[name] = found.get(name, 0) + int(count)
    return json.dumps(found)


def address_info(told: Sequence[str]) -> str:
    """Return what all tell of one address (`making.address_text`): it has the routing types that any of them has."""
    found = [INFO.fullmatch(text) for text in told]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return told[0]
    types = ",".join(dict.fromkeys(name for one in known for name in one[2].split(",") if name))
    made = str(all(one[3] == "true" for one in known)).lower()
    return f"Address [name={known[0][1]}, routingTypes={{{types}}}, autoCreated={made}]"


def bindings(told: Sequence[str]) -> str:
    """Return the bindings of all, a line each: those of one queue are one, with the consumers of all."""
    found: dict[str, int | None] = {}
    for line in [line for text in told for line in text.split("\n") if line]:
        head, said, count = line.removesuffix("]").rpartition("consumers=")
        if said and count.isdecimal():
            found[head] = (found.get(head) or 0) + int(count)
        else:
            found[line] = None
    return "\n".join(head if count is None else f"{head}consumers={count}]" for head, count in found.items())


def ordered(rows: list[Row], options: str) -> list[Row]:
    """Return rows of a list of Artemis in the order that its ``options`` ask for, as each process has its own."""
    try:
        said = json.loads(options) if options else {}
    except ValueError:
        return rows
    name = str(said.get("sortColumn") or said.get("sortField") or "") if isinstance(said, dict) else ""
    if not name or not rows:
        return rows
    if name not in rows[0]:
        head, *rest = name.lower().split("_")  # older consoles write MESSAGE_COUNT
        name = head + "".join(word.capitalize() for word in rest)
    down = str(said.get("sortOrder") or "").lower().startswith("desc")
    return sorted(rows, key=lambda row: ranked(row.get(name)), reverse=down)


def union(told: Sequence[list[Any]]) -> list[Any]:
    """Return what is in any of the lists; names, and lists of names, once."""
    every = [one for part in told for one in part]
    if all(isinstance(one, str | int) for one in every):
        return list(dict.fromkeys(every))
    if all(isinstance(one, list) for one in every):
        return [one for at, one in enumerate(every) if one not in every[:at]]
    return every


def parted(answers: Answers, key: str) -> list[Row]:
    """Return the rows of all, those with one ``key`` made one, in the order of it; ``process`` says whose they are."""
    found: dict[str, dict[int, Row]] = {}
    for number, rows in answers.items():
        for row in rows:
            found.setdefault(str(row[key]), {})[number] = row
    return [
        {**together(list(parts.values())), "process": " ".join(str(one) for one in parts)}
        for _, parts in sorted(found.items())
    ]


def queues(answers: Answers) -> list[Row]:
    """Return the queues of all by name, each once: its counts are those of its parts together."""
    found: dict[str, Row] = {}
    for number, rows in answers.items():
        for row in rows:
            known = found.get(row["name"])
            if known is None:
                found[row["name"]] = {**row, "process": str(number)}
                continue
            for name, value in row.items():
                if isinstance(value, bool):
                    known[name] = known[name] and value if name == "temporary" else known[name] or value
                elif isinstance(value, int):
                    known[name] = max(known[name], value) if name in OLDEST else known[name] + value
            known["process"] += f" {number}"
    return [found[name] for name in sorted(found)]


def by_address(answers: Answers, most: int) -> list[Row]:
    """Return a page of ``most`` rows of each process by address, up to where all of them told everything."""
    told = [str(rows[-1]["address"]) for rows in answers.values() if len(rows) >= max(1, most)]
    rows = [of_process(number, row) for number, some in answers.items() for row in some]
    kept = [row for row in rows if not told or row["address"] <= min(told)]
    return sorted(kept, key=lambda row: str(row["address"]))


def resources(answers: Answers, kind: str, most: int) -> list[Row]:
    """Return a page of `describeResources`: what comes behind it has later names at each process, too."""
    return parted(answers, "name" if kind == "queue" else "address")[:most]


def looked_at(answers: Answers, name: str) -> Row:
    """Return what all say of a destination (`explain`), or of a message (`where`), in the shape of what one says.

    Rows say whose they are; numbers are added. ``name``: of the broker; the node and its URL are those of the first.
    """
    found = {**_laid_together(answers), "broker": name}
    if found.get("queues"):
        found["near"] = []  # one process at least has what is asked for
    if found.get("places"):
        found["had"] = False
    return found


def _laid_together(answers: Answers) -> Row:
    first = next(iter(answers.values()))
    return {name: _laid({number: answer[name] for number, answer in answers.items()}) for name in first}


def _laid(parts: Answers) -> Any:
    first = next(iter(parts.values()))
    if isinstance(first, dict):
        keys = dict.fromkeys(key for part in parts.values() for key in part)
        return {key: _laid({number: part[key] for number, part in parts.items() if key in part}) for key in keys}
    if isinstance(first, list):
        return union([[of_process(number, row) for row in rows] for number, rows in parts.items()])
    if isinstance(first, bool):
        return any(parts.values())
    return sum(parts.values()) if isinstance(first, int) else first


def text(answers: Answers) -> str | None:
    """Return lists that are told as JSON as one; None for what is no list."""
    found: list[Any] = []
    for number, answer in answers.items():
        try:
            rows = json.loads(answer)
        except ValueError:
            return None
        if not isinstance(rows, list):
            return None
        found += [named(number, row) if isinstance(row, dict) else row for row in rows]
    return json.dumps(found)
