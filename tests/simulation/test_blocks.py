"""Addresses that an operator blocks: in every language nothing is lost, and nothing stays behind `unblock`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from planted import FORGETS_WHO_WAITS, planted

from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import Result, run_amqp, run_callers, run_mqtt

WORLDS: Final[dict[str, Callable[..., Result]]] = {
    "MQTT": run_mqtt,
    "AMQP": run_amqp,
    "OpenWire": run_callers,
    "CORE": partial(run_callers, core=True),
    "CORE that reattaches": partial(run_callers, core=True, reattach=True),
}
FOUND: Final = {  # the first seed that finds it; MQTT and AMQP dial, or attach, again when nothing comes
    "OpenWire": 2,
    "CORE": 39,
    "CORE that reattaches": 4,
}

REGRESSIONS: Final = [
    ("AMQP", 19037, "a durable subscription was answered before the disk had it, and a power cut took it"),
    ("AMQP", 19885, "the same"),
    ("MQTT", 18598, "simulated machine: power was cut while a start wrote down which sessions had been left"),
]


@pytest.mark.parametrize(("language", "seed", "why"), REGRESSIONS)
def test_what_failed_once_passes(language: str, seed: int, why: str) -> None:
    result = WORLDS[language](seed, blocks=True)
    assert result.violations == (), f"seed {seed} fails again; it stood for: {why}"


@pytest.mark.parametrize("language", WORLDS)
def test_seeds_keep_every_promise(language: str) -> None:
    run = WORLDS[language]
    results = {seed: run(seed, blocks=True) for seed in range(1, 4)}
    assert {seed: one.violations for seed, one in results.items() if one.failed} == {}
    assert sum(one.counts.get("blocks", 0) for one in results.values()) > 0


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("language", FOUND)
def test_a_planted_bug_is_found(language: str) -> None:
    run, seed = WORLDS[language], FOUND[language]
    assert not run(seed, blocks=True).failed
    with planted(FORGETS_WHO_WAITS):
        assert run(seed, blocks=True).failed
