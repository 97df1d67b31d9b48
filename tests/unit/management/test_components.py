"""What is around a core, as resources: which there are, what they show, and a router's filters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from entrepot.base.errors import InvalidDestination
from entrepot.cluster.routers.options import RouterOptions
from entrepot.cluster.routers.router import Router, Routers
from entrepot.config.model import BrokerConfig
from entrepot.config.peering import GroupEntry, Peering, Position, Reference
from entrepot.core.operators.controls import control
from entrepot.management.census import OpenConnections
from entrepot.management.components import Components
from entrepot.management.parts_census import PartsCensus
from kit import Rig


def office(**given: Any) -> tuple[Rig, OpenConnections]:
    rig = Rig(disk=False)
    options = RouterOptions(name="by ip", local_filter=re.compile("10[.].*"))
    routers = Routers([Router(rig.broker, options, lambda: 0, lambda who, what: None)])
    at = Position()
    group = GroupEntry(
        name="g", address="231.7.7.7", port="9876", jgroups="", period_ms=500, at=at, connectors=(Reference("c", at),)
    )
    config = BrokerConfig(peering=Peering(broadcasts=(group,)))
    return rig, OpenConnections([], parts=Components([], {}, lambda: None, lambda: config, lambda: routers))


def test_a_broker_without_a_file_has_no_users_to_change_and_nothing_to_read_again() -> None:
    census = PartsCensus(Components([], {}, lambda: None, lambda: None))
    assert not census.reload()
    assert set(census.operations()) == {"addUser", "listUser", "removeUser", "resetUser"}


def test_routers_and_broadcast_groups_show_what_the_file_says() -> None:
    rig, census = office()
    router = control(rig.broker, census, "connectionrouter.by ip")
    assert (router.get("keyType"), router.get("localTargetFilter"), router.get("targetKeyFilter")) == (
        "SOURCE_IP",
        "10[.].*",
        None,
    )
    assert json.loads(str(router.get("report")))["name"] == "by ip"
    group = control(rig.broker, census, "broadcastgroup.g")
    shown = [group.get(name) for name in ("groupAddress", "groupPort", "broadcastPeriod", "connectorPairs")]
    assert shown == ["231.7.7.7", 9876, 500, ["c"]]
    assert not group.operations()


@pytest.mark.parametrize("kind", ["acceptor", "bridge", "clusterconnection", "broadcastgroup", "connectionrouter"])
def test_what_is_not_there_is_refused_with_what_is(kind: str) -> None:
    rig, census = office()
    with pytest.raises(InvalidDestination) as caught:
        control(rig.broker, census, f"{kind}.none")
    known = {"broadcastgroup": "g", "connectionrouter": "by ip"}.get(kind, "none")
    assert caught.value.remedy == f"there are: {known}"


class Copies:
    """The primary's side of replication, with so many copies in sync."""

    def __init__(self, count: int) -> None:
        self.replication = self.pieces = self
        self.in_sync = [object()] * count


def test_how_a_store_is_shared_is_said_in_the_words_of_artemis(tmp_path: Path) -> None:
    rig, census = office()

    def told() -> list[object]:
        return [control(rig.broker, census, "broker").get(name) for name in ("HAPolicy", "replicaSync")]

    assert told() == ["Primary Only", False]
    census.standby = cast(Any, object())
    assert told() == ["Shared Store Primary", False]
    census.hosting = cast(Any, Copies(0))
    assert told() == ["Replication Primary w/lock manager", False]
    census.hosting = cast(Any, Copies(1))
    assert told()[1] is True
    parts = Components([], {}, lambda: None, lambda: None, directory=str(tmp_path))
    names = ("journalDirectory", "bindingsDirectory", "pagingDirectory", "largeMessagesDirectory")
    assert [parts.settings()[name]() for name in names] == [str(tmp_path)] * 3 + [f"{tmp_path}/blobs"]
