"""A configuration made true in a broker: what exists after the start, and where messages go."""

from __future__ import annotations

from entrepot.config.founding import found
from entrepot.config.model import BrokerConfig, BrokerSettings, CompositeEntry, ForwardEntry, VirtualTopicEntry
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from kit import Rig

QUEUE = Destination("Q", ANYCAST)
TOPIC = Destination("T", MULTICAST)


def founded(config: BrokerConfig) -> Rig:
    rig = Rig()
    found(config, rig.broker)
    rig.turn()
    return rig


def test_destinations_exist_and_being_there_already_is_no_error() -> None:
    config = BrokerConfig(destinations=(QUEUE, TOPIC))
    rig = founded(config)
    assert rig.queue("Q").durable
    assert rig.broker.table.addresses["T"].created_by_operator
    rig.send("queue://Q", "kept")
    rig.restart()
    found(config, rig.broker)
    assert rig.bodies("queue://Q") == ["kept"]


def test_a_start_may_delete_everything_before_it_makes_what_should_be_there() -> None:
    rig = founded(BrokerConfig(destinations=(QUEUE,)))
    rig.send("queue://Q", "old")
    rig.send("queue://other", "old")
    rig.restart()
    found(BrokerConfig(broker=BrokerSettings(delete_all=True), destinations=(QUEUE,)), rig.broker)
    assert list(rig.broker.table.queues) == ["Q"]
    assert rig.bodies("queue://Q") == []


def test_virtual_topics_are_those_of_the_configuration() -> None:
    rig = founded(BrokerConfig(virtual_topics=(VirtualTopicEntry(name="V.>", prefix="C.*.", postfix=".x"),)))
    for name in ("C.A.V.1.x", "Consumer.A.VirtualTopic.1"):
        rig.reader(f"queue://{name}").close()
    rig.send("topic://V.1", "mine")
    rig.send("topic://VirtualTopic.1", "nobody's")
    assert rig.bodies("queue://C.A.V.1.x") == ["mine"]
    assert rig.bodies("queue://Consumer.A.VirtualTopic.1") == []


def test_composites_forward_what_their_selectors_let_through_and_mirrors_publish() -> None:
    config = BrokerConfig(
        composites=(
            CompositeEntry(
                name="in",
                topic=False,
                forwards=(
                    ForwardEntry(target=Destination("all", ANYCAST)),
                    ForwardEntry(target=Destination("red", ANYCAST), selector="colour = 'red'"),
                ),
                forward_only=False,
            ),
        ),
        mirror_prefix="M.",
    )
    rig = founded(config)
    mirror = rig.reader("topic://M.plain")
    rig.send("queue://in", "1", properties={"colour": "red"})
    rig.send("queue://in", "2", properties={"colour": "blue"})
    rig.send("queue://plain", "3")
    assert rig.bodies("queue://all") == ["1", "2"]
    assert rig.bodies("queue://red") == ["1"]
    assert rig.bodies("queue://in") == ["1", "2"]
    assert mirror.bodies == ["3"]
