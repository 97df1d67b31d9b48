"""The cache of resolved destinations."""

from __future__ import annotations

from entrepot.core.addressing.routing import Service, Target
from entrepot.model import address as names
from entrepot.protocols.serving.targets import TARGETS_KEPT, keep_target
from kit import Rig


def test_it_forgets_everything_when_it_is_full_and_services_at_once() -> None:
    target = Rig().broker.target(names.parse("/queue/q"))
    known: dict[int, Target] = dict.fromkeys(range(TARGETS_KEPT), target)
    keep_target(known, -1, target)
    assert list(known) == [-1]
    target.service = Service()
    keep_target(known, -2, target)
    assert list(known) == [-1]
