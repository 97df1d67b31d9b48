"""The ``<federation>`` of a connection over AMQP: its policies, and what their properties say (artemis.md 4.13)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidOption
from entrepot.base.settings import Dialect
from entrepot.cluster.broker_connections.options import FederationEntry, FetchOptions, FetchPolicy
from entrepot.cluster.federation.options import AddressPolicy, QueuePolicy
from entrepot.cluster.federation.policies import may_share
from entrepot.config.artemis.federations import matches_of, queue_policy_of
from entrepot.config.artemis.reading import PartReader
from entrepot.config.artemis.transformers import headers_in
from entrepot.config.reading import Bean

WITHOUT_EFFECT: Final = {
    "tunnel-core-messages": "messages of CORE cross as messages of AMQP",
    "attach-timeout": "a link that is not answered in 30 s ends the connection",
    "receiverQuiesceTimeout": "a link that nobody wants ends when what came is answered",
    "queueReceiverIdleTimeout": "a link that nobody wants ends at once",
    "addressReceiverIdleTimeout": "a link that nobody wants ends at once",
    "ignoreAddressBindingFilters": "filters of queues here do not go along with an address",
    "amqpUseModifiedForTransientDeliveryErrors": "what cannot be taken now is released",
    "amqpDrainOnTransientDeliveryErrors": "what cannot be taken now is released, and the link attached anew",
    "amqpLinkQuiesceTimeout": "a link that nobody wants ends when what came is answered",
}


def federation_of(reader: PartReader, bean: Bean, connection: str, base: FetchOptions) -> FederationEntry | None:
    """Return the federation of a connection; what is wrong with it is a finding. ``base``: what its URI says."""
    one = bean.one("federation")
    if one is None:
        return None
    shared = _options(reader, one, base)
    local = _policies(reader, one, "local", shared)
    remote = _policies(reader, one, "remote", shared)
    if not local and not remote:
        reader.warn(one, f"the federation of {connection!r} has no policy: nothing is fetched for it")
    _look_for_circles(reader, one, local, remote)
    return FederationEntry(name=one.text("name") or connection, policies=local, remote=remote)


def _policies(reader: PartReader, bean: Bean, side: str, shared: FetchOptions) -> tuple[FetchPolicy, ...]:
    """Return the policies that are carried out on one side of the connection."""
    found: dict[tuple[str, str], FetchPolicy] = {}
    for kind in ("queue", "address"):
        for each in bean.many(f"{side}-{kind}-policy"):
            name = each.text("name")
            if not name or (kind, name) in found:
                what = "a policy has no name" if not name else f"there is a policy {name!r} already"
                reader.error(each, what, "give each policy of a federation a name of its own")
                continue
            options = _options(reader, each, shared)
            if kind == "queue":
                found[kind, name] = FetchPolicy(queues=_queues(reader, each, options), options=options)
            else:
                if not options.credit:
                    what = f"amqpCredits is 0 for {name!r}: queues are pulled so, from an address nothing would come"
                    reader.error(each, what, "write <property key='amqpCredits' value='1000'/> into this policy")
                found[kind, name] = FetchPolicy(addresses=_addresses(reader, each), options=options)
    return tuple(found.values())


def _look_for_circles(
    reader: PartReader, bean: Bean, local: tuple[FetchPolicy, ...], remote: tuple[FetchPolicy, ...]
) -> None:
    """Warn of addresses that each side fetches from the other: they stay wanted when nobody wants them any more."""
    for one in local:
        for other in remote:
            ours, theirs = one.addresses, other.addresses
            if ours is None or theirs is None or (ours.max_hops == 1 and theirs.max_hops == 1):
                continue
            if may_share(_as_queues(ours), _as_queues(theirs)):
                what = f"addresses may be fetched by {ours.name!r} and, the other way, by {theirs.name!r}"
                text = f"{what}: each side wants them as long as the other one does"
                reader.warn(bean, text, 'write max-hops="1" in both, and in those that lead on how far they go')


def _as_queues(policy: AddressPolicy) -> QueuePolicy:
    return QueuePolicy(name=policy.name, includes=policy.includes, excludes=policy.excludes)


def _queues(reader: PartReader, bean: Bean, options: FetchOptions) -> QueuePolicy:
    return replace(
        queue_policy_of(bean, headers_in(reader, bean)),
        selectors=not options.all_messages,
        priorities=not options.one_priority,
        keeps=True,
    )


def _addresses(reader: PartReader, bean: Bean) -> AddressPolicy:
    """Return a policy of addresses, with what Artemis means over AMQP where nothing is said."""
    hops = int(bean.get("max-hops", 0))
    if hops < 0:
        reader.error(bean, f"max-hops is {hops}", "write 0 for any number, or how many", "max-hops")
    for each in (*bean.many("include"), *bean.many("exclude")):
        if each.text("queue-match"):
            reader.error(each, "an address policy knows no queues", "write address-match", "queue-match")
    return AddressPolicy(
        name=bean.text("name"),
        max_hops=hops,
        auto_delete=bool(bean.get("auto-delete", False)),
        auto_delete_delay_ms=int(bean.get("auto-delete-delay", 0)),
        auto_delete_messages=int(bean.get("auto-delete-message-count", 0)),
        diverts=bool(bean.get("enable-divert-bindings", False)),
        includes=matches_of(bean, "include"),
        excludes=matches_of(bean, "exclude"),
        headers=headers_in(reader, bean),
    )


def _options(reader: PartReader, bean: Bean, shared: FetchOptions) -> FetchOptions:
    """Return ``shared`` with what the properties of ``bean`` say."""
    said: dict[str, str] = {}
    for one in bean.many("property"):
        key, value = one.text("key"), one.text("value")
        if key in WITHOUT_EFFECT:
            reader.warn(one, f"the property {key} has no effect: {WITHOUT_EFFECT[key]}", "leave it out")
        else:
            said[key] = value
    try:
        options, unknown = FetchOptions.take(said, Dialect.ARTEMIS, base=shared)
    except InvalidOption as error:
        reader.error(bean, error.message, error.remedy)
        return shared
    for key in unknown:
        known = ", ".join(FetchOptions.names(Dialect.ARTEMIS))
        reader.error(bean, f"there is no property {key!r} of a federation over AMQP", f"known: {known}")
    return options
