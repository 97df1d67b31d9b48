"""Programs that speak MQTT, from seeds; and the bugs of its sessions, planted."""

from __future__ import annotations

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_mqtt
from mqtt_bugs import BUGS, planted

FOUND = {  # the first seed that finds it
    "PUBACK comes before the disk": 38,
    "identifiers of QoS 2 are forgotten at reconnect": 16,
    "the disk has no identifier of a PUBLISH of QoS 2": 9,
    "PUBCOMP comes before the disk": 18,
    "PUBREL is said once": 9,
    "a message comes again under another identifier": 1,
    "retained messages are lost with the broker": 1,
    "figures stop for a session that goes on": 4,
    "figures are told once": 4,
    "who left counts as connected": 23,
    "the queue of a virtual topic is not found": 5,
    "a restart forgets that topics are virtual": 15,
}


@pytest.mark.parametrize("first", range(201, 213, 4))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 4):
        assert not run_mqtt(seed).violations


def test_what_is_retained_while_somebody_subscribes_comes_once() -> None:
    """Seed 76: it came as it was published, and once more as what was retained when SUBACK was said."""
    assert not run_mqtt(76).violations


def test_a_session_that_goes_on_is_told_figures_that_changed_meanwhile() -> None:
    """Seed 4: they had not changed since it was back, so it was left with those of before."""
    assert not run_mqtt(4).violations


def test_a_seed_is_one_world() -> None:
    assert run_mqtt(2).trace == run_mqtt(2).trace


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    seed = FOUND[bug]
    assert not run_mqtt(seed).violations
    with planted(bug):
        assert run_mqtt(seed).violations
