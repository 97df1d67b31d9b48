"""The queue of another node that stands for one of ours: it is asked for, and made where there is none."""

from __future__ import annotations

import pytest

from entrepot.cluster.clusters.asking import Answer
from entrepot.cluster.clusters.finding import configuration_of, find_queue
from entrepot.core.addressing.definition import QueueDefinition

QUEUE = QueueDefinition(name="Q", address="A")


class Far:
    """Answers as it is told to; ``asked``: what it was asked."""

    def __init__(self, *answers: tuple[bool, object]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def attribute(self, resource: str, name: str, answer: Answer) -> None:
        self.asked.append(f"{resource} {name}")
        answer(*self.answers.pop(0))

    def operation(self, resource: str, name: str, arguments: list[object], answer: Answer) -> None:
        self.asked.append(f"{resource} {name} {arguments[1]}")
        answer(*self.answers.pop(0))


@pytest.mark.parametrize(
    ("answers", "found", "asked"),
    [
        ([(True, 7)], (7, ""), 1),
        ([(False, "no such queue"), (True, None), (True, 8)], (8, ""), 3),
        ([(False, "no"), (False, "not allowed")], (0, "the target does not make it: not allowed"), 2),
        ([(True, "x"), (True, None), (True, "y")], (0, "the target does not say which queue it is: y"), 3),
    ],
)
def test_a_queue_is_found_or_made(answers: list[tuple[bool, object]], found: tuple[int, str], asked: int) -> None:
    far = Far(*answers)
    told: list[tuple[int, str]] = []
    find_queue(far, QUEUE, lambda number, why: told.append((number, why)))  # type: ignore[arg-type]
    assert told == [found]
    assert far.asked == ["queue.Q ID", "broker createQueue True", "queue.Q ID"][:asked]


def test_it_is_made_with_what_was_said_of_it() -> None:
    plain = {"name": "Q", "address": "A", "routing-type": "ANYCAST", "durable": True, "auto-create-address": True}
    assert configuration_of(QUEUE) == plain
    more = QueueDefinition(name="Q", address="A", selector="i > 2", exclusive=True, max_consumers=1)
    assert configuration_of(more) == {**plain, "filter-string": "i > 2", "exclusive": True, "max-consumers": 1}
