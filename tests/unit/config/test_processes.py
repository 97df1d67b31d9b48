"""What each of several processes is, that are one broker."""

from __future__ import annotations

import pytest

from entrepot.assembly import Plan
from entrepot.base.environment import MIB
from entrepot.base.errors import InvalidOption
from entrepot.config.model import BrokerConfig, StoreOptions, UsageOptions
from entrepot.config.processes import CLUSTER, Process, ProcessPlan, contraries, name_of, shared_out
from unit.config import test_classic as classic
from unit.config.artemis import test_artemis as artemis
from unit.config.artemis.test_sharing import CLUSTERED, colocated
from unit.config.broker_xml import broker

PLAN = ProcessPlan(count=3, listen=("stomp://127.0.0.1:61613",), sockets="/run/x", password="secret")


def test_each_dials_the_sockets_of_all_others() -> None:
    for number in range(3):
        [connection] = Process(PLAN, number).clusters.connections
        assert [one.path for one in connection.ways] == [f"/run/x/{one}.sock" for one in range(3) if one != number]
        assert {one.scheme for one in connection.ways} == {"unix"}
        assert connection.direct, "no other node is dialled: where it is, clients of others would be told"
        assert connection.name == CLUSTER
    assert len({str(Process(PLAN, one).clusters.connections[0].own.value("host")) for one in range(3)}) == 3
    assert Process(PLAN, 1).inner == "auto+unix:///run/x/1.sock"
    assert Process(PLAN, 0).clusters.credentials.match("entrepot.processes", "secret")


def test_one_of_an_earlier_start_gives_its_messages_to_those_that_serve() -> None:
    late = Process(PLAN, 4)
    assert late.leaves
    assert late.clusters.scale_down is not None
    assert [one.path for one in late.clusters.connections[0].ways] == [f"/run/x/{one}.sock" for one in range(3)]
    assert not Process(PLAN, 2).leaves
    assert Process(PLAN, 2).clusters.scale_down is None


def test_messages_move_at_once_unless_something_else_is_said() -> None:
    alone = Plan("a", MIB).policies
    assert alone.of("orders").redistribution_delay < 0
    assert Plan("a", MIB, process=Process(PLAN, 0)).policies.of("orders").redistribution_delay == 0
    said = Plan("a", MIB, process=Process(PLAN, 0), policies={"orders": {"redistribution_delay": "100"}}).policies
    assert said.of("orders").redistribution_delay == 100_000_000
    assert said.of("other").redistribution_delay == 0


STAYS = (
    '<address-settings><address-setting match="{}"><redistribution-delay>-1</redistribution-delay>'
    "</address-setting></address-settings>"
)


@pytest.mark.parametrize(
    "made", [artemis.config(""), artemis.config(STAYS.format("#")), classic.config(broker(""))], ids=["a", "#", "c"]
)
def test_messages_move_at_once_with_a_file_that_leaves_it_out(made: BrokerConfig) -> None:
    plan = Plan("a", MIB, config=shared_out(made, 2), process=Process(PLAN, 0))
    assert plan.policies.of("orders").redistribution_delay == 0


def test_a_file_says_of_some_addresses_whether_their_messages_move() -> None:
    plan = Plan("a", MIB, config=shared_out(artemis.config(STAYS.format("a.#")), 2), process=Process(PLAN, 0))
    assert plan.policies.of("a.b").redistribution_delay < 0
    assert plan.policies.of("b").redistribution_delay == 0


def test_limits_of_the_machine_are_shared_out() -> None:
    usage = UsageOptions(memory_limit=400 * MIB, store_limit=100, temp_percent=50, disk_free_min=7)
    made = shared_out(BrokerConfig(usage=usage, store=StoreOptions(directory="/data")), 4)
    assert (made.usage.memory_limit, made.usage.store_limit, made.usage.temp_percent) == (100 * MIB, 25, 12)
    assert made.usage.store_percent == made.usage.temp_limit == 0, "what has no limit gets none"
    assert made.usage.disk_free_min == 7, "the disk is one"
    assert made.store.directory == "/data"
    assert name_of("mq", 2) == "mq-2"


def test_a_limit_of_messages_is_shared_out_and_none_stays_none() -> None:
    limited = artemis.config("<global-max-messages>10</global-max-messages>")
    assert [shared_out(limited, count).serving.messages_max for count in (3, 20)] == [3, 1]
    assert shared_out(artemis.config(), 3).serving.messages_max == -1


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (artemis.config(CLUSTERED), "<cluster-connections>"),
        (artemis.config(CLUSTERED + colocated("")), "<ha-policy>"),
        (
            artemis.config('<grouping-handler name="g"><type>LOCAL</type><address>a</address></grouping-handler>'),
            "<grouping-handler>",
        ),
        (
            classic.config(
                broker('<networkConnectors><networkConnector uri="static:(tcp://b:1)"/></networkConnectors>')
            ),
            "<networkConnectors>",
        ),
        (
            classic.config(
                broker(
                    '<transportConnectors><transportConnector uri="tcp://127.0.0.1:0" '
                    'discoveryUri="multicast://default"/></transportConnectors>'
                )
            ),
            "discoveryUri",
        ),
    ],
)
def test_what_is_about_other_brokers_is_refused_by_name(made: BrokerConfig, named: str) -> None:
    assert named in contraries(made)
    with pytest.raises(InvalidOption, match=named):
        shared_out(made, 2)


def test_a_store_of_classic_that_is_merely_locked_is_no_shared_one() -> None:
    made = classic.config(broker(""))
    assert made.sharing is not None
    assert contraries(made) == []
    assert shared_out(made, 2).sharing is None
