"""Stages of a broker in a test: written, closed and published."""

from __future__ import annotations

from typing import Any

from entrepot.core.stages.staged import Publication, Stage
from entrepot.model import address as names
from kit import Rig


def write(
    rig: Rig, part: str, bodies: list[str], *, batch: int = 0, to: str = "Q", close: bool = True, **fields: Any
) -> Stage:
    """Stage ``bodies`` and close the stage."""
    stage = rig.broker.stages.open("s", batch, part)
    send(rig, stage, bodies, to, **fields)
    if close:
        assert rig.broker.stages.close(stage) == len(bodies)
    rig.turn()
    return stage


def send(rig: Rig, stage: Stage, bodies: list[str], to: str = "Q", **fields: Any) -> None:
    target = rig.broker.target(names.parse(to))
    for body in bodies:
        rig.broker.stages.send(stage, rig.message(body, target.name, **fields), target)


def publish(rig: Rig, *parts: str, batch: int = 0) -> Publication:
    publication = rig.broker.stages.publish("s", batch, list(parts))
    rig.sync()
    return publication
