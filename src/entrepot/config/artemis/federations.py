"""The federations of a ``broker.xml``: upstreams with their places and policies looked up (artemis.md 4.12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.settings import Dialect
from entrepot.base.uri import Endpoint
from entrepot.cluster.federation.options import (
    HOUR_MS,
    LOWER,
    AddressPolicy,
    DownstreamEntry,
    FederationEntries,
    Match,
    QueuePolicy,
    UpstreamEntry,
    UpstreamOptions,
)
from entrepot.cluster.federation.policies import may_share
from entrepot.config.artemis.bridges import heard_in, place_called, places_of
from entrepot.config.artemis.reading import PartReader
from entrepot.config.artemis.transformers import headers_said
from entrepot.config.peering import Peering
from entrepot.config.reading import Bean
from entrepot.model.headers import Headers

Policy = QueuePolicy | AddressPolicy
HOPS_MIN: Final = -1
EVERYWHERE: Final = ("0.0.0.0", "::")  # where one listens, and nobody is dialled


def federations(reader: PartReader, core: Bean, peering: Peering) -> FederationEntries:
    """Return what a file says of federations; what is wrong with one is an error."""
    below = core.one("federations")
    found: dict[str, UpstreamEntry] = {}
    deployed: dict[str, DownstreamEntry] = {}
    named: dict[str, None] = {}
    beans: dict[str, Bean] = {}
    for bean in [] if below is None else below.many("federation"):
        name = bean.text("name")
        if not name:
            reader.error(bean, "a federation has no name", "queues at its upstreams are named after it")
        elif name in named:
            reader.error(bean, f"there is a federation {name!r} already", "names are unique in a broker", "name")
        else:
            named[name] = None
            federation = _Federation(reader, bean, peering)
            federation.read()
            beans |= federation.beans
            found |= federation.upstreams
            deployed |= federation.downstreams
    for entry in deployed.values():
        _check_rounds(reader, beans[entry.name], entry, list(found.values()))
    return FederationEntries(
        upstreams=tuple(found.values()), downstreams=tuple(deployed.values()), deployers=_deployers(below)
    )


def _check_rounds(reader: PartReader, bean: Bean, downstream: DownstreamEntry, upstreams: list[UpstreamEntry]) -> None:
    """Warn of a broker that is told to fetch what is fetched from it, where a fetch comes before readers.

    ``bean`` is the element of ``downstream``. Only a downstream shows both ways: an upstream's own file is not at hand.
    """
    for upstream in upstreams:
        if not _meet(upstream, downstream):
            continue
        for ours in upstream.queues:
            for theirs in downstream.queues:
                over = max(ours.priority + upstream.options.priority, theirs.priority + downstream.options.priority)
                if over > 0 and may_share(ours, theirs):
                    reader.warn(
                        bean,
                        f"this broker and {downstream.name!r} fetch the same queues from each other "
                        f"(policies {theirs.name!r} and {ours.name!r} of {upstream.name!r}), {over} before readers: "
                        "messages may go round for ever",
                        "leave priority-adjustment below 0 at both",
                    )
                    return


def _meet(upstream: UpstreamEntry, downstream: DownstreamEntry) -> bool:
    """Return whether both are one broker, as far as a file says it."""
    if upstream.group or downstream.group:
        return upstream.group == downstream.group
    dialled = {(place.host, place.port) for place in upstream.places}
    return any((place.host, place.port) in dialled for place in downstream.places)


def _deployers(below: Bean | None) -> tuple[str, ...]:
    """Return the roles whose users may deploy a federation to this broker: nobody, where none is named."""
    said = "" if below is None else below.text("downstream-authorization")
    return tuple(role for role in (one.strip() for one in said.split(",")) if role)


class _Federation:
    """One of them."""

    def __init__(self, reader: PartReader, bean: Bean, peering: Peering) -> None:
        self.reader: Final = reader
        self.bean: Final = bean
        self.peering: Final = peering
        self.name: Final = bean.text("name")
        self.policies: Final[dict[str, Policy]] = {}
        self.sets: Final[dict[str, Bean]] = {}
        self.upstreams: Final[dict[str, UpstreamEntry]] = {}
        self.downstreams: Final[dict[str, DownstreamEntry]] = {}
        self.transformers: Final[dict[str, Headers]] = {}
        self.beans: Final[dict[str, Bean]] = {}  # the elements of downstreams, by their names

    def read(self) -> None:
        """Find its upstreams and downstreams that can be dialled."""
        for one in self.bean.many("transformer"):
            self._transformer(one)
        for one in self.bean.many("queue-policy"):
            self._name(one, queue_policy_of(one, self._set_by(one)))
        for one in self.bean.many("address-policy"):
            self._name(one, self._address_policy(one))
        for one in self.bean.many("policy-set"):
            if one.text("name") in self.sets or one.text("name") in self.policies:
                self.reader.error(
                    one, f"there is a policy {one.text('name')!r} already", "give it another name", "name"
                )
            self.sets[one.text("name")] = one
        for one in self.sets.values():
            self._looked_up(one, {one.text("name"): None})
        for one in self.bean.many("upstream"):
            entry = self._upstream(one)
            if entry is not None:
                self._check_name(one, entry, self.upstreams)
                self.upstreams[entry.name] = entry
        for one in self.bean.many("downstream"):
            made = self._downstream(one)
            if made is not None:
                self._check_name(one, made, self.downstreams)
                self.downstreams[made.name] = made
                self.beans[made.name] = one

    def _transformer(self, bean: Bean) -> None:
        name = bean.text("name")
        if not name or name in self.transformers:
            what = f"there is a transformer {name!r} already" if name else "a transformer has no name"
            self.reader.error(bean, what, "a policy names it by transformer-ref", "name")
        self.transformers[name] = headers_said(self.reader, bean)

    def _set_by(self, bean: Bean) -> Headers:
        """Return what the transformer of a policy sets."""
        name = bean.text("transformer-ref")
        if name and name not in self.transformers:
            known = ", ".join(self.transformers)
            remedy = f"known: {known}" if known else "add it to the federation"
            what = f"there is no transformer {name!r} in this federation"
            self.reader.error(bean, what, remedy, "transformer-ref")
        return self.transformers.get(name, ())

    def _check_name(self, bean: Bean, entry: UpstreamEntry, known: Mapping[str, UpstreamEntry]) -> None:
        if entry.name in known:
            what = f"there is {_kind(bean)} {entry.options.name!r} already"
            self.reader.error(bean, what, "names are unique in a federation", "name")

    def _name(self, bean: Bean, policy: Policy) -> None:
        if not policy.name:
            self.reader.error(bean, "a policy has no name", "an upstream names it by <policy ref=.../>")
        elif policy.name in self.policies:
            self.reader.error(bean, f"there is a policy {policy.name!r} already", "give it another name", "name")
        self.policies[policy.name] = policy

    def _address_policy(self, bean: Bean) -> AddressPolicy:
        hops = int(bean.get("max-hops", 0))
        if hops < HOPS_MIN:
            self.reader.error(bean, f"max-hops is {hops}", "write -1 for any number, or how many", "max-hops")
        for each in (*bean.many("include"), *bean.many("exclude")):
            if each.text("queue-match"):
                self.reader.error(each, "an address policy knows no queues", "write address-match", "queue-match")
        return AddressPolicy(
            name=bean.text("name"),
            max_hops=hops,
            auto_delete=bool(bean.get("auto-delete", True)),
            auto_delete_delay_ms=int(bean.get("auto-delete-delay", HOUR_MS)),
            auto_delete_messages=int(bean.get("auto-delete-message-count", -1)),
            diverts=bool(bean.get("enable-divert-bindings", False)),
            includes=matches_of(bean, "include"),
            excludes=matches_of(bean, "exclude"),
            headers=self._set_by(bean),
        )

    def _upstream(self, bean: Bean) -> UpstreamEntry | None:
        reader = self.reader
        values: dict[str, Any] = {}
        for written, declared in UpstreamOptions.names(Dialect.ARTEMIS).items():
            value = bean.get(written)
            if value is not None:
                values[declared.name] = value
        values.setdefault("user", self.bean.text("user"))
        if values["user"] == self.bean.text("user"):
            values.setdefault("password", self.bean.text("password"))
        try:
            options = UpstreamOptions(**values)
        except InvalidOption as error:
            reader.error(bean, error.message, error.remedy)
            return None
        for secret in (options.password, self.bean.text("password")):
            reader.findings.hide(secret)
        if not options.name:
            reader.error(bean, f"{_kind(bean)} has no name", "queues there are named after it")
            return None
        if "/" in options.name or "/" in self.name:
            reader.error(bean, "a name of a federation has a stroke (/)", "operators write FEDERATION/UPSTREAM", "name")
            return None
        group = bean.one("discovery-group-ref")
        heard = "" if group is None else heard_in(reader, bean, group, self.peering)
        places = places_of(reader, bean, options.name, self.peering) if group is None else []
        policies = self._looked_up(bean, {})
        if not policies:
            reader.warn(bean, f"the {bean.kind.name} {options.name!r} has no policy: nothing is fetched for it")
        if not places and not heard:
            return None
        return UpstreamEntry(
            federation=self.name,
            options=options,
            places=tuple(places),
            group=heard,
            queues=tuple(one for one in policies.values() if isinstance(one, QueuePolicy)),
            addresses=tuple(one for one in policies.values() if isinstance(one, AddressPolicy)),
        )

    def _downstream(self, bean: Bean) -> DownstreamEntry | None:
        """Return a broker that is told to fetch from here, and the place that it is told."""
        entry = self._upstream(bean)
        wanted = bean.text("upstream-connector-ref")
        if not wanted:
            remedy = "name the connector of this broker in <upstream-connector-ref>"
            self.reader.error(bean, f"the downstream {bean.text('name')!r} is not told where this broker is", remedy)
            return None
        try:
            back = place_called(wanted, self.peering)
        except (InvalidOption, InvalidURI) as error:
            self.reader.error(bean, error.message, error.remedy, "upstream-connector-ref")
            return None
        if entry is None:
            return None
        if back.host in EVERYWHERE:
            what = f"the connector {wanted!r} leads to {back.host}: the other broker would dial itself"
            self.reader.warn(bean, what)
        return DownstreamEntry(
            federation=entry.federation,
            options=entry.options,
            places=entry.places,
            group=entry.group,
            queues=entry.queues,
            addresses=entry.addresses,
            back=Endpoint(back.scheme, host=back.host, port=back.port, options=back.options),
            connector=wanted,
        )

    def _looked_up(self, bean: Bean, above: Mapping[str, None]) -> dict[str, Policy]:
        """Return the policies that ``bean`` names, those of sets too. ``above``: the sets on the way here."""
        found: dict[str, Policy] = {}
        for reference in bean.many("policy"):
            name = reference.text("ref")
            if name in self.policies:
                found[name] = self.policies[name]
            elif name in above:
                self.reader.error(reference, f"the policy set {name!r} holds itself", "take it out", "ref")
            elif name in self.sets:
                found |= self._looked_up(self.sets[name], {**above, name: None})
            else:
                known = ", ".join([*self.policies, *self.sets])
                remedy = f"known: {known}" if known else "add it to the federation"
                self.reader.error(reference, f"there is no policy {name!r} in this federation", remedy, "ref")
        return found


def _kind(bean: Bean) -> str:
    return "an upstream" if bean.kind.name == "upstream" else "a downstream"


def queue_policy_of(bean: Bean, headers: Headers) -> QueuePolicy:
    """Return a policy of queues, over whatever it is carried out. ``headers``: what its transformer sets."""
    return QueuePolicy(
        name=bean.text("name"),
        priority=int(bean.get("priority-adjustment", LOWER)),
        federated=bool(bean.get("include-federated", False)),
        includes=matches_of(bean, "include"),
        excludes=matches_of(bean, "exclude"),
        headers=headers,
    )


def matches_of(bean: Bean, name: str) -> tuple[Match, ...]:
    """Return the patterns of a policy: its elements ``name``."""
    return tuple(Match(address=one.text("address-match"), queue=one.text("queue-match")) for one in bean.many(name))
