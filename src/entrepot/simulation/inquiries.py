"""What programs ask processes that are one broker, what each process did for it, and what the answers must be.

Each question has one answer, within `PATIENCE` of when its process is there to give it. An answer is made of what the
processes said that are not named as missing, and names nobody who was there all the time. Nobody is answered by a
process that gives him no rights. What is refused because a process is away is done nowhere; what one process refuses is
done at those before it, which the refusal names, and at none behind it; what is sent once is there once. A queue that a
process has already is made nowhere, or, where that is asked for, made alike where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from entrepot.assembly import Assembly
from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.base.errors import EntrepotError
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.census import Question
from entrepot.model.address import ANYCAST
from entrepot.simulation.world import World


class Asked(Protocol):
    """A process, as what is asked of it is drawn and judged."""

    life: int
    alive: bool
    slow: Duration
    paused_until: Instant
    made: Assembly | None

    @property
    def number(self) -> int:
        """Which one it is."""

    def turn(self, action: Callable[[], object]) -> None:
        """Do something in a turn of the broker."""


class Region(Protocol):
    """The processes of one world. ``many``: queues that one has more, too many for an answer."""

    @property
    def world(self) -> World:
        """Their time."""

    @property
    def processes(self) -> Sequence[Asked]:
        """All of them."""

    @property
    def count(self) -> int:
        """How many there are."""

    @property
    def many(self) -> int:
        """See above."""

    def may(self, user: str, number: int) -> bool:
        """Return whether process ``number`` gives ``user`` rights."""


PATIENCE: Final[Duration] = 120 * SECOND
NAMED: Final = re.compile(r"process (\d+):")
MAKES: Final = ("createQueue", "createAddress")
CHANGES: Final = (*MAKES, "sendMessage", "removeMessages")
DONE_AT: Final = re.compile(r"it is done at process ([\d, ]+)")
TOO_LARGE: Final = "the answer is longer than"
NOT_BEGUN: Final = "nothing was changed, since not all processes answer"


class Inquiry:
    """One question of a program. ``began``: when; ``lives``: of each process, those that it had since."""

    def __init__(self, identity: str, process: int, life: int, user: str, began: Instant) -> None:
        self.identity: Final = identity
        self.process: Final = process
        self.life: Final = life
        self.user: Final = user
        self.began: Final = began
        self.resource = "broker"
        self.name = ""
        self.attribute = False
        self.values: list[object] = []
        self.answers = 0
        self.paused: Duration = 0  # its own process
        self.lives: dict[int, list[int]] = {}
        self.troubled: dict[int, bool] = {}
        self.had: tuple[int, int] | None = None  # process and life that have what is to be made
        self.differs = False  # and it is another there
        self.minds = True  # that is an error
        self.done: list[tuple[int, int, object, EntrepotError | None]] = []  # process, life, outcome, why not

    def did(self) -> list[tuple[int, int]]:
        """Return which lives of which processes did it."""
        return [(number, life) for number, life, _, failure in self.done if failure is None]


class Inquiries:
    """All of one world."""

    def __init__(self, world_of: Region) -> None:
        self.world_of: Final = world_of
        self.world: Final = world_of.world
        self.lots: Final = self.world.lots("questions")
        self._addresses: Final = self.world.lots("addresses that are made")
        self.all: Final[dict[str, Inquiry]] = {}
        self.under_way: Final[dict[str, Inquiry]] = {}
        self._trouble_until: Final[dict[int, Instant]] = {}

    # -- what is asked -------------------------------------------------------------------------------------------------

    def draw(self, process: Asked, user: str) -> Inquiry | None:
        """Return a question to ``process``; None while it is not there."""
        if not process.alive or self.world.time < process.paused_until:
            return None
        identity = f"i{len(self.all)}"
        made = Inquiry(identity, process.number, process.life, user, self.world.time)
        for each in self.world_of.processes:
            made.lives[each.number] = [each.life]
            away = not each.alive or each.slow > 0 or self.world.time < self._trouble_until.get(each.number, 0)
            made.troubled[each.number] = away
        kinds = ("count", "count", "filtered", "rows", "make", "make", "clash", "clash", "send", "remove")
        kind = self.lots.one_of(kinds)
        if kind == "count":
            made.resource, made.name, made.attribute = "queue.Q", "messageCount", True
        elif kind == "filtered":
            made.resource, made.name, made.values = "queue.Q", "countMessages", [f"n IS NULL OR n <> '{identity}'"]
        elif kind == "rows":
            made.name, made.values = "describeQueues", ["", "", 500]
        elif kind in ("make", "clash"):
            made.name = "createQueue"
            made.values = [f'{{"name": "made.{identity}", "address": "made.{identity}", "routing-type": "ANYCAST"}}']
            if self._addresses.chance(0.3):
                kind = f"{kind} an address"
                made.name, made.values = "createAddress", [f"made.{identity}", "ANYCAST"]
            if kind.startswith("clash"):
                self._clash(made)
        elif kind == "send":
            made.resource, made.name, made.values = "queue.S", "sendMessage", [{"n": identity}, 3, "x", False]
        else:
            most = self.lots.one_of((1, 3, 10))
            made.resource, made.name = "queue.R", "removeMessages"
            made.values = [f"n IS NULL OR n <> '{identity}'", most]
        self.all[identity] = self.under_way[identity] = made
        self.world.count(f"questions: {kind}")
        return made

    def _clash(self, made: Inquiry) -> None:
        """One process has already what is to be made, or another queue of that name; sometimes that is no error."""
        process = self.lots.one_of(self.world_of.processes)
        if not process.alive or process.made is None or self.world.time < process.paused_until:
            return
        broker, name = process.made.broker, f"made.{made.identity}"
        made.had, made.differs = (process.number, process.life), self.lots.chance(0.5)
        if self.lots.chance(0.5) and made.name == "createQueue":
            made.minds = False
            made.values.append(True)
        most = 5 if made.differs else None
        definition = QueueDefinition(name=name, address=name, routing=ANYCAST, max_consumers=most)
        process.turn(lambda: broker.queues.create(definition))

    # -- what happens --------------------------------------------------------------------------------------------------

    def trouble(self, number: int, length: Duration) -> None:
        """Something befalls a process, for so long: who asks now may be told that it is away."""
        until = self.world.time + length + SECOND
        self._trouble_until[number] = max(until, self._trouble_until.get(number, 0))
        for inquiry in self.under_way.values():
            inquiry.troubled[number] = True

    def paused(self, number: int, length: Duration) -> None:
        """A process does nothing for so long: what was asked there is answered later."""
        for inquiry in self.under_way.values():
            if inquiry.process == number:
                inquiry.paused += length

    def died(self, number: int) -> None:
        """A process is gone: what was asked there is answered by nobody."""
        for inquiry in list(self.under_way.values()):
            if inquiry.process == number:
                del self.under_way[inquiry.identity]

    def born(self, number: int, life: int) -> None:
        """A process has a new life: it may be what is told of it."""
        for inquiry in self.under_way.values():
            inquiry.lives[number].append(life)

    def asked_elsewhere(self, question: Question, number: int) -> bool:
        """Return whether a program asks this at another process than ``number``."""
        inquiry = self._inquiry_of(question)
        return inquiry is not None and inquiry.process != number

    def done(self, number: int, life: int, question: Question, value: object, failure: EntrepotError | None) -> None:
        """A process has an outcome for what one asked it."""
        inquiry = self._inquiry_of(question)
        if inquiry is not None and question.operation == inquiry.name:
            inquiry.done.append((number, life, value, failure))
            if failure is None and not self.world_of.may(inquiry.user, number):
                self._wrong(inquiry, f"process {number} did for {inquiry.user} what he may not do there")

    def _inquiry_of(self, question: Question) -> Inquiry | None:
        for value in question.values:
            text = value.get("n", "") if isinstance(value, dict) else str(value)
            found = re.search(r"\bi\d+\b", str(text))
            if found is not None:
                return self.all.get(found[0])
        return None

    def answered(self, identity: str, succeeded: bool, body: Any, missing: str) -> None:
        """A program is answered."""
        inquiry = self.all[identity]
        inquiry.answers += 1
        self.world.note(f"{identity} {inquiry.name}: {succeeded} {str(body)[:200]} missing {missing}")
        if self.under_way.pop(identity, None) is None:
            self._wrong(inquiry, "it is answered twice, or by another life than it was asked in")
            return
        if self.world.time - inquiry.began > PATIENCE + inquiry.paused:
            self._wrong(inquiry, f"it is answered after {(self.world.time - inquiry.began) // SECOND} s")
        self.world.count("answers" if succeeded else "refusals")
        named = [int(one) for one in NAMED.findall(missing)]
        self._see_missing(inquiry, named)
        if succeeded:
            if named and inquiry.name in CHANGES and inquiry.name != "sendMessage":
                self._wrong(inquiry, f"it is done, though {named} are missing")
            self._see_rights(inquiry, named)
            self._see_answer(inquiry, body, named)
        else:
            self._see_refusal(inquiry, str(body))

    def ended(self) -> None:
        """The world is quiet: each question has been answered."""
        for inquiry in self.under_way.values():
            self._wrong(inquiry, "it is never answered")
        for inquiry in self.all.values():
            if inquiry.name == "sendMessage" and len(inquiry.did()) > 1:
                self._wrong(inquiry, f"it is sent more than once: {inquiry.did()}")

    # -- what must hold ------------------------------------------------------------------------------------------------

    def _wrong(self, inquiry: Inquiry, what: str) -> None:
        self.world.violation(f"{inquiry.identity} ({inquiry.name} at process {inquiry.process}): {what}")

    def _see_missing(self, inquiry: Inquiry, named: list[int]) -> None:
        if named:
            self.world.count("answers without a process")
        for number in named:
            if not inquiry.troubled[number] and not inquiry.troubled[inquiry.process]:
                self._wrong(inquiry, f"process {number} was there, and is named as missing")
            if number == inquiry.process:
                self._wrong(inquiry, "the process that was asked is named as missing")

    def _see_rights(self, inquiry: Inquiry, named: list[int]) -> None:
        if inquiry.name in CHANGES:
            return  # `done` looks at each process that does it
        for process in self.world_of.processes:
            if process.number not in named and not self.world_of.may(inquiry.user, process.number):
                self._wrong(inquiry, f"{inquiry.user} is answered, and has no rights at process {process.number}")

    def _see_refusal(self, inquiry: Inquiry, why: str) -> None:
        did = [one for one in inquiry.did() if one != inquiry.had or not inquiry.differs]  # that one has made nothing
        if why.startswith(NOT_BEGUN):
            self.world.count("changes that are not begun")
            if did:
                self._wrong(inquiry, f"nothing was changed, it says, and it is done at {did}")
        elif TOO_LARGE in why:
            self.world.count("answers that are too large")
            if not self.world_of.many or inquiry.name != "describeQueues":
                self._wrong(inquiry, "an answer that is small is refused as too large")
        elif "AMQ229019" in why or "AMQ229204" in why:
            self.world.count("queues and addresses that a process has already")
            if did or inquiry.had is None:
                self._wrong(inquiry, f"a process has it already, it says, and it is done at {did}")
        elif inquiry.name in MAKES and (stopped := NAMED.match(why)) is None:
            self._see_first(inquiry, did)
        elif inquiry.name in MAKES and stopped is not None:
            self._see_stop(inquiry, why, int(stopped[1]), did)

    def _see_first(self, inquiry: Inquiry, did: list[tuple[int, int]]) -> None:
        """See that what the first process refuses is done at no other: where one has another queue, that is it."""
        alone = inquiry.had[0] if inquiry.had is not None and inquiry.differs else 0
        if any(number not in (0, alone) for number, _ in did):
            self._wrong(inquiry, f"the first process refuses, and it is done at {did}")

    def _see_stop(self, inquiry: Inquiry, why: str, stopped: int, did: list[tuple[int, int]]) -> None:
        """See that a refusal of one process in the middle of a change says where it is done."""
        self.world.count("changes that one process refuses")
        listed = DONE_AT.search(why)
        said = sorted(int(one) for one in listed[1].split(", ")) if listed is not None else []
        others = sorted({number for number, _ in did if number != stopped})  # that one may be gone since
        if others != said or max(others, default=0) > stopped:
            self._wrong(inquiry, f"it says that it is done at {said}, and it is at {did}")

    def _see_answer(self, inquiry: Inquiry, body: Any, named: list[int]) -> None:
        there = [one.number for one in self.world_of.processes if one.number not in named]
        if inquiry.name in ("messageCount", "countMessages"):
            self._see_sum(inquiry, int(body), there)
        elif inquiry.name == "describeQueues":
            [row] = [row for row in body if row["name"] == "Q"]
            if sorted(int(one) for one in str(row["process"]).split()) != there:
                self._wrong(inquiry, f"rows are of {row['process']}, and not missing are {there}")
            self._see_sum(inquiry, int(row["messages"]), there)
        elif inquiry.name in MAKES:
            self._see_made(inquiry, there)
        elif inquiry.name == "sendMessage":
            self.world.count("messages that are sent")
            if len(inquiry.did()) != 1 or str(inquiry.did()[0][0]) != str(body).partition(":")[0]:
                self._wrong(inquiry, f"it is sent at {body}, it says, and it was at {inquiry.did()}")
        elif inquiry.name == "removeMessages":
            removed = sum(int(str(value)) for _, _, value, failure in inquiry.done if failure is None)
            if body != removed or removed > int(str(inquiry.values[-1])):
                self._wrong(inquiry, f"{body} are removed, it says; {removed} were, of {inquiry.values[-1]} at most")

    def _see_made(self, inquiry: Inquiry, there: list[int]) -> None:
        """See that it is at each process and everywhere the same; a queue may be left where one has another."""
        had = [one for one in self.world_of.processes if one.made and (one.number, one.life) == inquiry.had]
        if had and inquiry.minds:
            self._wrong(inquiry, f"it is made, though process {had[0].number} had it")
        elif had and inquiry.differs:
            self.world.count("queues that stay as they are")
            name = f"made.{inquiry.identity}"
            made = [one.number for one in self.world_of.processes if one.made and name in one.made.broker.table.queues]
            if made != [had[0].number]:
                self._wrong(inquiry, f"process {had[0].number} has another of that name, and it is at {made}")
        elif inquiry.had is not None and not had:
            return  # it died since, and had it when it was looked at, or not
        elif sorted(number for number, _ in inquiry.did()) != there:
            self._wrong(inquiry, f"it is done at {inquiry.did()}, and not missing are {there}")

    def _see_sum(self, inquiry: Inquiry, told: int, there: list[int]) -> None:
        """See that a sum is one of what each process has that is not missing, in a life that it had meanwhile."""
        for process in self.world_of.processes:
            number = process.number
            digit = told // 4**number % 4
            possible = [1 + life % 3 for life in inquiry.lives[number]] if number in there else [0]
            if digit not in possible:
                self._wrong(inquiry, f"the sum {told} has {digit} of process {number}, and not one of {possible}")
        if told >= 4**self.world_of.count:
            self._wrong(inquiry, f"the sum {told} is more than all have")
