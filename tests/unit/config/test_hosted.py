"""The configuration of a hosted backup, made from the file of the node that hosts it."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.config.clusters import clusters_of
from entrepot.config.founding import shared_store
from entrepot.config.hosted import colocation_of, hosted, name_of, port_of, shifted
from entrepot.config.model import BrokerConfig
from entrepot.ha.lease import BACKUP
from unit.config.artemis.test_artemis import config
from unit.config.artemis.test_sharing import CLUSTERED, colocated

INSIDE = "<max-backups>2</max-backups><excludes><connector-ref>far</connector-ref></excludes>"
ACCEPTORS = (
    '<acceptors><acceptor name="a">tcp://0.0.0.0:61613?protocols=STOMP</acceptor>'
    '<acceptor name="b">tcp://[::1]:5000?protocols=CORE,OPENWIRE;tcpNoDelay=true</acceptor></acceptors>'
)
FORCE = (
    '<address-settings><address-setting match="#"><config-delete-queues>FORCE</config-delete-queues>'
    "<config-delete-addresses>FORCE</config-delete-addresses><max-delivery-attempts>3</max-delivery-attempts>"
    "</address-setting></address-settings>"
)


def node(more: str = "") -> BrokerConfig:
    return config(CLUSTERED + colocated(INSIDE) + more, acceptors=ACCEPTORS)


@pytest.mark.parametrize(("number", "shift"), [(1, 100), (2, 200)])
def test_ports_are_moved_but_for_connectors_that_lead_elsewhere(number: int, shift: int) -> None:
    made = hosted(node(), "/stores/b", number)
    assert [port_of(one.uri) for one in made.connectors] == [61613 + shift, 5000 + shift]
    assert "[::1]" in made.connectors[1].uri
    assert {one.name: port_of(one.uri) for one in made.peering.places} == {"own": 61616 + shift, "far": 61616}


def test_it_is_a_backup_of_another_store_that_hosts_and_asks_nothing() -> None:
    made = hosted(node(), "/stores/b", 2)
    assert (made.store.directory, made.broker.name) == ("/stores/b", name_of("n", 2))
    assert colocation_of(made) is None
    assert made.sharing is not None
    options = shared_store(made.sharing)
    assert (options.part, options.allow_failback, options.failover_on_shutdown) == (BACKUP, True, False)


def test_queues_of_the_other_node_are_not_deleted_because_this_file_does_not_name_them() -> None:
    mine = node(FORCE)
    assert any("undeploy_queues" in one.settings for one in mine.policies)
    made = hosted(mine, "/stores/b", 1)
    assert not any(name.startswith("undeploy") for one in made.policies for name in one.settings)
    assert [one.settings.get("max_deliveries") for one in made.policies] == [
        one.settings.get("max_deliveries") for one in mine.policies
    ]


@pytest.mark.parametrize("number", [0, 3])
def test_a_number_that_the_file_does_not_have_is_refused(number: int) -> None:
    with pytest.raises(InvalidOption, match="hosts no backup"):
        hosted(node(), "/stores/b", number)


def test_a_file_without_colocated_hosts_none() -> None:
    with pytest.raises(InvalidOption, match="hosts no backup"):
        hosted(config(""), "/stores/b", 1)


@pytest.mark.parametrize("uri", ["stomp://0.0.0.0:0", "no uri", "tcp://a:port", "static:(tcp://a:1)"])
def test_what_has_no_port_of_its_own_stays(uri: str) -> None:
    assert shifted(uri, 100) == uri


@pytest.mark.parametrize(
    ("inside", "ports"),
    [
        ("", [61616]),
        ("<connectors><connector-ref>far</connector-ref></connectors>", [61616]),
        ("<connectors><connector-ref>own</connector-ref></connectors>", [61716]),
        ("<group-name>g</group-name>", []),
    ],
)
def test_one_that_gives_away_what_it_takes_over_gives_it_to_its_host(inside: str, ports: list[int]) -> None:
    mine = config(CLUSTERED + colocated(f"{INSIDE}<backup><scale-down>{inside}</scale-down></backup>"))
    assert mine.peering.scale_down is None, "the host serves"
    assert mine.sharing is not None
    assert not mine.sharing.drains
    made = hosted(mine, "/stores/b", 1)
    assert made.sharing is not None
    assert made.sharing.drains
    assert [one.port for one in clusters_of(made.peering).takers] == ports
    if not inside:
        assert clusters_of(made.peering).takers[0].host == "a", "where the host listens, and not its backup"
