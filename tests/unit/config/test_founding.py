"""A configuration made true in a broker: what exists after the start, and where messages go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrepot.config.founding import add_policies, found, renew
from entrepot.config.model import (
    AddressEntry,
    BrokerConfig,
    BrokerSettings,
    CompositeEntry,
    DivertEntry,
    ForwardEntry,
    PolicyEntry,
    VirtualTopicEntry,
)
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import divert
from entrepot.core.addressing.policy import Policies
from entrepot.core.addressing.upkeep_settings import Undeploy
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from kit import Rig

Said = list[tuple[str, str]]
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


# -- a file that is read again -----------------------------------------------------------------------------------------


def queue(name: str, address: str = "", **more: Any) -> QueueDefinition:
    return QueueDefinition(name=name, address=address or name, configured=True, **more)


def entry(name: str, address: str, to: str, **more: Any) -> DivertEntry:
    return DivertEntry(name=name, address=address, targets=(Destination(to, UNTYPED),), **more)


FORCE = PolicyEntry(
    pattern="forced.#",
    settings={
        "undeploy_queues": Undeploy.FORCE,
        "undeploy_addresses": Undeploy.FORCE,
        "undeploy_diverts": Undeploy.FORCE,
    },
)


def renewed(had: BrokerConfig, now: BrokerConfig, before: Callable[[Rig], None] = lambda rig: None) -> tuple[Rig, Said]:
    """Return a broker that began with one file and follows another, and what it said."""
    rig = founded(had)
    before(rig)
    told: Said = []
    policies = Policies()
    add_policies(now, policies)
    rig.broker.queues.govern(policies)
    renew(now, had, rig.broker, lambda who, what: told.append((who, what)))
    rig.turn()
    return rig, told


def test_queues_come_change_and_stay() -> None:
    had = BrokerConfig(queues=(queue("same"), queue("changes"), queue("left")))
    now = BrokerConfig(queues=(queue("same"), queue("changes", max_consumers=1), queue("new", "place")))
    rig, told = renewed(had, now)
    assert list(rig.broker.table.queues) == ["same", "changes", "left", "new"]
    assert rig.queue("changes").traits.max_consumers == 1
    assert told == []


def test_what_the_file_leaves_out_goes_where_its_settings_say_so() -> None:
    had = BrokerConfig(
        addresses=(AddressEntry("forced.a", 2), AddressEntry("forced.b", 2), AddressEntry("kept", 2)),
        queues=(queue("forced.a"), queue("forced.a2", "forced.a"), queue("forced.b"), queue("kept")),
    )
    now = BrokerConfig(addresses=(AddressEntry("forced.a", 2),), queues=(queue("forced.a"),), policies=(FORCE,))

    def by_hand(rig: Rig) -> None:
        rig.broker.queues.create(QueueDefinition(name="forced.hand", address="forced.a"))
        rig.send("queue://forced.a::forced.a2", "lost with it")
        rig.send("queue://forced.c", "by itself")

    rig, told = renewed(had, now, by_hand)
    assert list(rig.broker.table.queues) == ["forced.a", "kept", "forced.hand", "forced.c"]
    assert "forced.b" not in rig.broker.table.addresses
    assert [who for who, _ in told] == ["queue forced.a2", "queue forced.b", "address forced.b"]
    rig.restart()
    assert "forced.a2" not in rig.broker.table.queues


def test_a_queue_that_cannot_be_as_the_file_says_is_told_of_and_others_are_made() -> None:
    had = BrokerConfig(queues=(queue("moved", "there"), queue("turned")))
    refused = queue("refused", internal=True)
    now = BrokerConfig(queues=(queue("moved", "elsewhere"), queue("turned", routing=MULTICAST), refused, queue("last")))
    rig, told = renewed(had, now)
    assert rig.queue("moved").address == "there"
    assert rig.queue("turned").routing == ANYCAST
    assert "last" in rig.broker.table.queues
    assert [who for who, _ in told] == ["queue moved", "queue turned", "queue refused"]


def test_diverts_of_the_new_file_count_and_others_stay_unless_their_settings_say_otherwise() -> None:
    had = BrokerConfig(
        diverts=(
            entry("gone", "a", "x"),
            entry("forced.gone", "forced.e", "x"),
            entry("turned", "a", "x"),
            entry("same", "a", "y"),
        )
    )
    now = BrokerConfig(diverts=(entry("turned", "b", "x"), entry("same", "a", "y")), policies=(FORCE,))

    def by_hand(rig: Rig) -> None:
        for name in ("a", "forced.d"):
            rig.broker.queues.follow(divert(f"hand {name}", name, [Destination("z", UNTYPED)]))

    rig, told = renewed(had, now, by_hand)
    found = {one.name: one.address for diverts in rig.broker.table.diverts.values() for one in diverts}
    assert found == {"gone": "a", "turned": "b", "same": "a", "hand a": "a"}
    assert [who for who, _ in told] == ["divert forced.gone", "divert hand forced.d"]
    rig.send("queue://a", "1")
    assert (rig.bodies("queue://x"), rig.bodies("queue://y")) == (["1"], ["1"])


def test_queues_that_are_there_follow_changed_settings_and_what_was_chosen_for_good_stays() -> None:
    rig = founded(BrokerConfig(queues=(queue("q"), queue("values", last_value_key="k"))))
    rig.send("queue://q", "1")
    now = BrokerConfig(
        policies=(
            PolicyEntry(pattern="#", settings={"max_deliveries": 2, "ring_size": 1, "non_destructive": True}),
            PolicyEntry(pattern="values", settings={"last_value": False, "max_deliveries": 3}),
        )
    )
    policies = Policies()
    add_policies(now, policies)
    rig.broker.queues.govern(policies)
    rig.turn()
    plain, values = rig.queue("q"), rig.queue("values")
    assert (plain.policy.max_deliveries, values.policy.max_deliveries) == (2, 3)
    assert (plain.traits.non_destructive, plain.traits.ring_size) == (False, 1)
    assert values.traits.last_value_key == "k"
    rig.send("queue://q", "2")
    assert rig.bodies("queue://q") == ["2"]


def test_many_queues_get_their_policies_in_several_turns() -> None:
    rig = founded(BrokerConfig(queues=tuple(queue(f"q{n}") for n in range(300))))
    rig.broker.effort.allowance = 50
    policies = Policies()
    policies.put("#", {"max_deliveries": 2})
    rig.broker.queues.govern(policies)
    done = [one for one in rig.broker.table.queues.values() if one.policy.max_deliveries == 2]
    assert 0 < len(done) < 300
    while rig.broker.effort.waits():
        rig.broker.effort.go_on()
    assert all(one.policy.max_deliveries == 2 for one in rig.broker.table.queues.values())
