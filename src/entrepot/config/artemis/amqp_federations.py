"""The ``<federation>`` of a connection over AMQP: its policies, and what their properties say (artemis.md 4.13)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidOption
from entrepot.base.settings import Dialect
from entrepot.cluster.broker_connections.options import FederationEntry, FetchOptions, FetchPolicy
from entrepot.cluster.federation.options import QueuePolicy
from entrepot.config.artemis.federations import queue_policy_of
from entrepot.config.artemis.reading import PartReader
from entrepot.config.reading import Bean

WITHOUT_EFFECT: Final = {
    "tunnel-core-messages": "messages of CORE cross as messages of AMQP",
    "minLargeMessageSize": "what is large is streamed, in whatever form it comes",
    "attach-timeout": "a link that is not answered in 30 s ends the connection",
    "amqpPullConsumerCredits": "credit is given as messages come",
    "receiverQuiesceTimeout": "a link that nobody wants ends when what came is answered",
    "queueReceiverIdleTimeout": "a link that nobody wants ends at once",
    "addressReceiverIdleTimeout": "addresses are not federated",
    "ignoreAddressBindingFilters": "addresses are not federated",
    "amqpUseModifiedForTransientDeliveryErrors": "what cannot be taken now is released",
    "amqpDrainOnTransientDeliveryErrors": "what cannot be taken now is released, and the link attached anew",
    "amqpLinkQuiesceTimeout": "a link that nobody wants ends when what came is answered",
}
CREDIT: Final = "amqpCredits"


def federation_of(reader: PartReader, bean: Bean, connection: str) -> FederationEntry | None:
    """Return the federation of a connection; what is wrong with it is a finding."""
    one = bean.one("federation")
    if one is None:
        return None
    shared = _options(reader, one, FetchOptions())
    found: dict[str, FetchPolicy] = {}
    for each in one.many("local-queue-policy"):
        name = each.text("name")
        if not name or name in found:
            what = "a policy has no name" if not name else f"there is a policy {name!r} already"
            reader.error(each, what, "give each policy of a federation a name of its own")
            continue
        options = _options(reader, each, shared)
        found[name] = FetchPolicy(queues=_policy(each, options), options=options)
    if not found:
        reader.warn(one, f"the federation of {connection!r} has no policy: nothing is fetched for it")
    return FederationEntry(name=one.text("name") or connection, policies=tuple(found.values()))


def _policy(bean: Bean, options: FetchOptions) -> QueuePolicy:
    return replace(
        queue_policy_of(bean),
        selectors=not options.all_messages,
        priorities=not options.one_priority,
        keeps=True,
    )


def _options(reader: PartReader, bean: Bean, shared: FetchOptions) -> FetchOptions:
    """Return ``shared`` with what the properties of ``bean`` say."""
    said: dict[str, str] = {}
    for one in bean.many("property"):
        key, value = one.text("key"), one.text("value")
        if key in WITHOUT_EFFECT:
            reader.warn(one, f"the property {key} has no effect: {WITHOUT_EFFECT[key]}", "leave it out")
        elif key == CREDIT and value.strip() == "0":
            reader.error(one, f"{key} is 0: fetching only when nothing waits here is not built yet", "write 1 at least")
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
