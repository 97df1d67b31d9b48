from __future__ import annotations

from typing import Any

from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.config.model import (
    BrokerConfig,
    BrokerSettings,
    CompositeEntry,
    Connector,
    NetworkConnector,
    PolicyEntry,
    StoreOptions,
    UsageOptions,
    VirtualTopicEntry,
    changes,
)
from entrepot.model.address import ANYCAST, Destination


def told(a: BrokerConfig, b: BrokerConfig) -> dict[str, tuple[Any, Any, bool]]:
    return {change.what: (change.old, change.new, change.live) for change in changes(a, b)}


def test_equal_configurations_need_no_change() -> None:
    made = BrokerConfig(destinations=(Destination("a", ANYCAST),))
    assert made == BrokerConfig(destinations=(Destination("a", ANYCAST),))
    assert changes(made, made) == []


def test_a_limit_of_memory_can_follow_and_a_name_cannot() -> None:
    new = BrokerConfig(
        broker=BrokerSettings(name="b"), usage=UsageOptions(memory_limit=2**30), store=StoreOptions(directory="d")
    )
    assert told(BrokerConfig(), new) == {
        "broker name": ("localhost", "b", False),
        "usage memory_limit": (2**29, 2**30, True),
        "store directory": ("", "d", False),
    }


def test_what_there_may_be_many_of_comes_goes_and_changes_by_its_key() -> None:
    old = BrokerConfig(
        connectors=(Connector(name="c", uri="stomp://a:1", protocol="stomp"),),
        policies=(PolicyEntry(pattern=">", settings={"full": "FAIL"}),),
        virtual_topics=(VirtualTopicEntry(),),
        composites=(CompositeEntry(name="a", topic=False, forwards=()),),
    )
    new = BrokerConfig(
        connectors=(Connector(name="c", uri="stomp://a:2", protocol="stomp"),),
        policies=(PolicyEntry(pattern=">", settings={"full": "PAGE"}), PolicyEntry(pattern="a", settings={})),
        virtual_topics=(),
        destinations=(Destination("a", ANYCAST),),
        networks=(NetworkConnector(options=NetworkConnectorOptions(name="n")),),
        mirror_prefix="M.",
    )
    found = told(old, new)
    assert {what: live for what, (_, _, live) in found.items()} == {
        "connector c": False,
        "policy > 2": True,
        "policy a 2": True,
        "destination queue://a": True,
        "virtual topic Consumer.*. VirtualTopic.> ": True,
        "composite queue a": True,
        "network connector n": True,
        "mirrored queues": True,
    }
    assert found["policy a 2"][0] is None
    assert found["composite queue a"][1] is None


def test_where_a_connector_stands_in_its_file_is_no_change() -> None:
    a = BrokerConfig(connectors=(Connector(name="c", uri="u", protocol="stomp", line=1),))
    b = BrokerConfig(connectors=(Connector(name="c", uri="u", protocol="stomp", line=9),))
    assert changes(a, b) == []
