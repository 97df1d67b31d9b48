"""Policies that one broker has another one carry out, as Artemis writes and reads them (artemis.md 4.13).

The broker that dialled says them over its control link: a kind, and a map. What is not in the map is as by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.errors import InvalidOption, Refused
from entrepot.base.settings import Dialect
from entrepot.cluster.broker_connections.options import FetchOptions, FetchPolicy
from entrepot.cluster.federation.options import LOWER, AddressPolicy, Match, QueuePolicy
from entrepot.model.headers import ADD_HEADERS, Headers, headers_of
from entrepot.protocols.amqp.federated import OPERATION, control_message

QUEUES: Final = "ADD_QUEUE_POLICY"
ADDRESSES: Final = "ADD_ADDRESS_POLICY"
NAME: Final = "policy-name"
PROPERTIES: Final = "policy-properties-map"
TRANSFORMER: Final = "transformer-class-name"
TRANSFORMER_PROPERTIES: Final = "transformer-properties-map"
CONFIGURATION: Final = "federation-configuration"
"""The property of a control link with what holds for all policies."""
PATTERNS_MOST: Final = 1_000
"""Of one policy: each is tried with each queue that is made."""
NAME_MOST: Final = 256
"""Characters of a policy's name, which is a part of names of queues."""
WHOLE_MOST: Final = 1 << 40


def written(policy: FetchPolicy) -> bytes:
    """Return the message that has ``policy`` carried out."""
    said: dict[str, object] = {NAME: policy.name}
    if policy.queues is not None:
        queues = policy.queues
        said["include-federated"] = queues.federated
        said["priority-adjustment"] = queues.priority
        for key, rules in (("queue-includes", queues.includes), ("queue-excludes", queues.excludes)):
            if rules:
                said[key] = [text for rule in rules for text in (rule.address or "#", rule.queue or "#")]
    elif policy.addresses is not None:
        addresses = policy.addresses
        said["auto-delete"] = addresses.auto_delete
        said["auto-delete-delay"] = addresses.auto_delete_delay_ms
        said["auto-delete-msg-count"] = addresses.auto_delete_messages
        said["max-hops"] = addresses.max_hops
        said["enable-divert-bindings"] = addresses.diverts
        for key, rules in (("address-includes", addresses.includes), ("address-excludes", addresses.excludes)):
            if rules:
                said[key] = [rule.address or "#" for rule in rules]
    chosen = policy.queues or policy.addresses
    if chosen is not None and chosen.headers:
        said[TRANSFORMER] = ADD_HEADERS
        said[TRANSFORMER_PROPERTIES] = dict(chosen.headers)
    options = policy.options
    said[PROPERTIES] = {
        "amqpCredits": str(options.credit),
        "amqpLowCredits": str(options.credit_low),
        "amqpPullConsumerCredits": str(options.pull),
        "minLargeMessageSize": str(options.large_octets),
        "ignoreQueueConsumerFilters": str(options.all_messages).lower(),
        "ignoreQueueConsumerPriorities": str(options.one_priority).lower(),
    }
    return control_message(OPERATION, QUEUES if policy.queues is not None else ADDRESSES, said)


def read(kind: str, said: Mapping[str, object], shared: FetchOptions) -> FetchPolicy:
    """Return the policy that a message says; ``shared``: what holds where it says nothing. Raises Refused."""
    name = said.get(NAME)
    if kind not in (QUEUES, ADDRESSES):
        raise Refused(f"{kind!r} is nothing that this broker can carry out for another one")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MOST:
        raise Refused(f"a policy has no name, or one of more than {NAME_MOST} characters")
    headers = _headers(said)
    options = options_of(said.get(PROPERTIES), shared)
    if kind == QUEUES:
        queues = QueuePolicy(
            name=name,
            priority=_whole(said, "priority-adjustment", LOWER),
            federated=said.get("include-federated") is True,
            selectors=not options.all_messages,
            priorities=not options.one_priority,
            keeps=True,
            headers=headers,
            includes=_pairs(said, "queue-includes"),
            excludes=_pairs(said, "queue-excludes"),
        )
        return FetchPolicy(queues=queues, options=options)
    if not options.credit:
        raise Refused(f"amqpCredits is 0 for {name!r}: from an address nothing would come", remedy="say 1 at least")
    addresses = AddressPolicy(
        name=name,
        max_hops=_whole(said, "max-hops", 0),
        auto_delete=said.get("auto-delete") is True,
        auto_delete_delay_ms=_whole(said, "auto-delete-delay", 0),
        auto_delete_messages=_whole(said, "auto-delete-msg-count", 0),
        diverts=said.get("enable-divert-bindings") is True,
        headers=headers,
        includes=tuple(Match(address=text) for text in _texts(said, "address-includes")),
        excludes=tuple(Match(address=text) for text in _texts(said, "address-excludes")),
    )
    return FetchPolicy(addresses=addresses, options=options)


def _headers(said: Mapping[str, object]) -> Headers:
    """Return what the transformer of a policy sets. Raises Refused for one that cannot run here."""
    name, properties = said.get(TRANSFORMER), said.get(TRANSFORMER_PROPERTIES)
    if not name:
        return ()
    if properties is None:
        properties = {}
    if not isinstance(properties, dict):
        raise Refused(f"{TRANSFORMER_PROPERTIES} of a policy is no map")
    return headers_of(str(name), {str(key): _text(value) for key, value in properties.items()})


def options_of(said: object, shared: FetchOptions) -> FetchOptions:
    """Return ``shared`` with what a map of properties says; what this broker does not know has no effect."""
    if not isinstance(said, dict):
        return shared
    known = FetchOptions.names(Dialect.ARTEMIS)
    texts = {key: _text(value) for key, value in said.items() if isinstance(key, str) and key in known}
    try:
        options, _ = FetchOptions.take(texts, Dialect.ARTEMIS, base=shared)
    except InvalidOption as error:
        raise Refused(error.message, remedy=error.remedy) from None
    return options


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _whole(said: Mapping[str, object], key: str, otherwise: int) -> int:
    value = said.get(key, otherwise)
    if not isinstance(value, int) or isinstance(value, bool) or not -WHOLE_MOST <= value <= WHOLE_MOST:
        raise Refused(f"{key} of a policy is {value!r}, which is no number that can be meant")
    return value


def _texts(said: Mapping[str, object], key: str) -> list[str]:
    value = said.get(key, [])
    if not isinstance(value, list) or len(value) > 2 * PATTERNS_MOST:
        raise Refused(f"{key} of a policy is no list of at most {PATTERNS_MOST} patterns")
    return ["" if each is None else str(each) for each in value]


def _pairs(said: Mapping[str, object], key: str) -> tuple[Match, ...]:
    texts = _texts(said, key)
    if len(texts) % 2:
        raise Refused(f"{key} of a policy has a pattern of an address without one of a queue")
    return tuple(Match(address=address, queue=queue) for address, queue in zip(texts[::2], texts[1::2], strict=True))
