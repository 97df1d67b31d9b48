"""Selectors of groups of dead letters: they mean all of a group, and nothing else."""

from __future__ import annotations

import pytest

from entrepot.management.letters import selector_of
from entrepot.model.predicate import Facts, compile_selector


class Letter(Facts):
    """What a condition looks at."""

    def __init__(self, queue: str, cause: str | None) -> None:
        self.facts = {"_AMQ_ORIG_QUEUE": queue, "dlqDeliveryFailureCause": cause}

    def fact(self, name: str) -> str | None:
        return self.facts.get(name)


@pytest.mark.parametrize(
    ("cause", "others"),
    [
        ("after 5 deliveries, of 10", ["after 77 deliveries, of 2"]),
        ("it's 100%_full", ["it's 3%_full"]),
        ("42 of them", ["7 of them"]),
    ],
)
def test_letters_of_one_cause_are_meant_whatever_its_numbers(cause: str, others: list[str]) -> None:
    condition = compile_selector(selector_of({"origin": "a'b", "cause": cause}))

    def means(queue: str, said: str) -> bool:
        return condition.matches(Letter(queue, said))

    assert means("a'b", cause)
    assert all(means("a'b", other) for other in others)
    assert not means("a'b", "something else")
    assert not means("ab", cause)


def test_what_expired_has_no_cause() -> None:
    condition = compile_selector(selector_of({"origin": "q", "cause": "expired"}))
    assert condition.matches(Letter("q", None))
    assert not condition.matches(Letter("q", "after 5 deliveries")), "letters of the same queue that died of something"
