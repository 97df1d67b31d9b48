"""Policies as one broker says them to another one, octet by octet, and what is refused of them (artemis.md 4.13)."""

from __future__ import annotations

import pytest

from entrepot.base.errors import Refused
from entrepot.cluster.broker_connections.options import FetchOptions, FetchPolicy
from entrepot.cluster.broker_connections.orders import ADDRESSES, PATTERNS_MOST, QUEUES, read, written
from entrepot.cluster.federation.options import AddressPolicy, Match, QueuePolicy
from entrepot.model.headers import ADD_HEADERS
from entrepot.protocols.amqp.federated import OPERATION, understood

OPTIONS = FetchOptions(credit=7, credit_low=3, pull=5, large_octets=-1, all_messages=True, one_priority=False)
TRANSFORMED = {"policy-name": "p", "transformer-class-name": ADD_HEADERS}
QUEUE_POLICY = FetchPolicy(
    queues=QueuePolicy(
        name="q",
        priority=-5,
        federated=True,
        selectors=False,
        priorities=True,
        keeps=True,
        includes=(Match(address="a.#", queue="b"), Match(address="c", queue="#")),
        excludes=(Match(address="#", queue="x"),),
    ),
    options=OPTIONS,
)
ADDRESS_POLICY = FetchPolicy(
    addresses=AddressPolicy(
        name="a",
        max_hops=2,
        auto_delete=True,
        auto_delete_delay_ms=5,
        auto_delete_messages=-1,
        diverts=True,
        includes=(Match(address="t.#"),),
        excludes=(Match(address="t.x"),),
        headers=(("colour", "red"),),
    ),
    options=OPTIONS,
)


@pytest.mark.parametrize("policy", [QUEUE_POLICY, ADDRESS_POLICY])
def test_what_is_said_is_understood(policy: FetchPolicy) -> None:
    kind, said = understood(written(policy), OPERATION)
    assert kind == (QUEUES if policy.queues is not None else ADDRESSES)
    assert read(kind, said, FetchOptions()) == policy


def test_what_is_not_said_is_as_artemis_has_it() -> None:
    made = read(QUEUES, {"policy-name": "p"}, FetchOptions(credit=9))
    assert made.options.credit == 9
    assert read(QUEUES, {"policy-name": "p", "policy-properties-map": {"amqpCredits": 0}}, made.options).options == (
        FetchOptions(credit=0)
    )
    assert made.queues == QueuePolicy(name="p", priority=-1, priorities=False, keeps=True)
    found = read(ADDRESSES, {"policy-name": "p", "max-hops": 0}, FetchOptions()).addresses
    assert found == AddressPolicy(name="p", auto_delete=False, auto_delete_delay_ms=0, auto_delete_messages=0)


@pytest.mark.parametrize(
    ("kind", "said", "why"),
    [
        ("REMOVE", {"policy-name": "p"}, "nothing that this broker can carry out"),
        (QUEUES, {}, "has no name"),
        (QUEUES, {"policy-name": "p" * 300}, "more than 256 characters"),
        (QUEUES, {"policy-name": 3}, "has no name"),
        (QUEUES, {"policy-name": "p", "transformer-class-name": "X"}, "a Java class"),
        (QUEUES, {**TRANSFORMED, "transformer-properties-map": 3}, "is no map"),
        (QUEUES, {**TRANSFORMED, "transformer-properties-map": {"entrepot.x": "y"}}, "cannot set the property"),
        (QUEUES, {**TRANSFORMED, "transformer-properties-map": {f"{n}": "" for n in range(101)}}, "100 are the most"),
        (QUEUES, {**TRANSFORMED, "transformer-properties-map": {"a": "x" * 65536}}, "65536 are the most"),
        (QUEUES, {"policy-name": "p", "queue-includes": ["a"]}, "without one of a queue"),
        (QUEUES, {"policy-name": "p", "queue-includes": "a"}, "is no list"),
        (ADDRESSES, {"policy-name": "p", "address-includes": ["a"] * 2 * (PATTERNS_MOST + 1)}, "is no list of at most"),
        (ADDRESSES, {"policy-name": "p", "max-hops": "many"}, "no number"),
        (ADDRESSES, {"policy-name": "p", "policy-properties-map": {"amqpCredits": 0}}, "amqpCredits is 0 for 'p'"),
        (QUEUES, {"policy-name": "p", "policy-properties-map": {"amqpPullConsumerCredits": 0}}, "amqpPullConsumer"),
        (QUEUES, {"policy-name": "p", "policy-properties-map": {"amqpCredits": "x"}}, "amqpCredits"),
    ],
)
def test_what_cannot_be_is_refused(kind: str, said: dict[str, object], why: str) -> None:
    with pytest.raises(Refused, match=why):
        read(kind, said, FetchOptions())
