"""What fetches messages is started, stopped and shown alike, whatever it fetches from."""

from __future__ import annotations

import pytest

from entrepot.cluster.fetching import Fetcher

from .carrying.drawn import Drawn
from .federation.federated import Pair


@pytest.mark.parametrize("kit", [Drawn, Pair])
def test_it_is_stopped_started_again_and_ended(kit: type[Drawn | Pair]) -> None:
    pair = kit()
    fetcher: Fetcher = pair.connector
    assert fetcher.started
    assert fetcher.report(pair.near.now)["connector"] == fetcher.name
    fetcher.leave(pair.near.now)
    pair.run()
    assert not fetcher.started
    assert fetcher.report(pair.near.now)["state"] == "stopped"
    pair.start()
    assert fetcher.started
    assert fetcher.report(pair.near.now)["state"] == "open"
    fetcher.drain(pair.near.now)
    pair.run()
    assert fetcher.drain(pair.near.now)
    fetcher.stop(pair.near.now)
    pair.run()
    assert not pair.cables
