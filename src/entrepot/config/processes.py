"""What each of several brokers is that one command runs on one machine and that share its ports (`--processes N`).

To clients they are one broker at one place; among themselves they are a cluster, each connected to each other over
sockets of this machine. Each has the file's configuration, its own directory, and its part of what the machine has
once: memory and disk. What the file says about other brokers, or about a store that is shared with them, would hold
for each process by itself, and means something else then: it is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from entrepot.base.errors import InvalidOption
from entrepot.base.settings import Dialect
from entrepot.base.uri import Endpoint
from entrepot.cluster.clusters.members import Credentials
from entrepot.cluster.clusters.options import ClusterOptions, connector_of
from entrepot.config.clusters import Clusters
from entrepot.config.model import BrokerConfig, UsageOptions
from entrepot.config.peering import Position, ScaleDownEntry
from entrepot.ha.options import FILE_LOCKER

CLUSTER: Final = "processes"
USER: Final = "entrepot.processes"
EVERYTHING: Final = ("#", ">")  # the pattern for all addresses, in the words of Artemis and of Classic
DELAY: Final = "redistribution_delay"
AT_ONCE: Final = {DELAY: 0}
"""What waits where nobody reads moves to where somebody does: who comes next may come to any process."""
TOGETHER: Final = 16  # hexadecimal digits; the password has 256 bits of chance, which no digest of it gives away
RETRY_MS: Final = 50
RETRY_MS_MAX: Final = 1_000


class ProcessPlan(Struct, frozen=True, kw_only=True):
    """What all processes of one command know. ``listen``: URIs with the ports that are really taken.

    ``sockets``: the directory in which each has a socket; ``password``: what they show one another.
    """

    count: int
    listen: tuple[str, ...]
    sockets: str
    password: str

    def socket(self, number: int) -> str:
        """Return the path of the socket of process ``number``."""
        return f"{self.sockets}/{number}.sock"

    def reception(self, number: int) -> str:
        """Return the path of the socket at which the others ask process ``number`` about itself."""
        return f"{self.sockets}/{number}.ask"

    def ports_file(self, number: int) -> str:
        """Return the path of the file in which process ``number`` says that it is ready, and where it is."""
        return f"{self.sockets}/{number}.json"

    def inner(self, number: int) -> str:
        """Return where process ``number`` listens for the others, and for commands about it alone."""
        return f"auto+unix://{self.socket(number)}"


class Process(Struct, frozen=True):
    """One of them. One with a number that is not below the count only gives its messages to the others, and ends."""

    plan: ProcessPlan
    number: int

    @property
    def leaves(self) -> bool:
        """Return whether it serves nobody any more."""
        return self.number >= self.plan.count

    def whole(self, name: str) -> str:
        """Return what all are called together, of which this one is called ``name``."""
        return name.removesuffix(name_of("", self.number))

    def facts(self, name: str) -> dict[str, object]:
        """Return what operators are told of this one, which is called ``name``.

        Whoever reaches the sockets asks all of them as one, and calls that as ``name`` says here.
        ``together``: the same for all, and for no other broker's, whatever machine these are seen from.
        """
        plan = self.plan
        return {
            "name": self.whole(name),
            "process": self.number,
            "processes": plan.count,
            "sockets": [plan.socket(number) for number in range(plan.count)],
            "together": sha256(plan.password.encode()).hexdigest()[:TOGETHER],
        }

    @property
    def inner(self) -> str:
        """Where it listens for the others, and for commands about it alone."""
        return self.plan.inner(self.number)

    @property
    def ports_file(self) -> str:
        """Where it says that it is ready."""
        return self.plan.ports_file(self.number)

    @property
    def base(self) -> Mapping[str, object]:
        """Return the settings of addresses that hold where nothing else is said."""
        return AT_ONCE

    @property
    def clusters(self) -> Clusters:
        """Return its cluster connection: to each of the others."""
        others = [one for one in range(self.plan.count) if one != self.number]
        options = ClusterOptions(
            name=CLUSTER,
            own=connector_of(CLUSTER, Endpoint("unix", host=f"process-{self.number}", port=0)),
            ways=tuple(Endpoint("unix", path=self.plan.socket(one)) for one in others),
            direct=True,
            retry_ms=RETRY_MS,
            retry_multiplier=2.0,
            retry_ms_max=RETRY_MS_MAX,
        )
        down = ScaleDownEntry(at=Position()) if self.leaves else None
        return Clusters(Credentials(USER, self.plan.password), (options,), scale_down=down)


def name_of(name: str, number: int) -> str:
    """Return what process ``number`` of the broker ``name`` is called: in logs, and in ids of messages."""
    return f"{name}-{number}"


def shared_out(config: BrokerConfig, count: int) -> BrokerConfig:
    """Return what each of ``count`` processes is by ``config``. Raises InvalidOption for what they cannot be."""
    contrary = contraries(config)
    if contrary:
        raise InvalidOption(
            f"the file says {', '.join(contrary)}, which cannot hold for several processes that are one broker",
            remedy="leave that out of the file, or --processes",
        )
    messages = config.serving.messages_max
    serving = replace(config.serving, messages_max=max(1, messages // count)) if messages > 0 else config.serving
    return replace(
        config,
        usage=_usage(config.usage, count),
        sharing=None,
        serving=serving,
        base=_moving(config.base),
        policies=tuple(
            replace(one, settings=_moving(one.settings)) if one.pattern in EVERYTHING else one
            for one in config.policies
        ),
    )


def _moving(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what holds for all addresses, with messages that move at once where it has the default of a family.

    A reader fills in all that a file leaves out: that messages stay is what both families have then. For some
    addresses a file can say so.
    """
    return {**settings, **AT_ONCE} if settings.get(DELAY, 0) < 0 else settings


def contraries(config: BrokerConfig) -> list[str]:
    """Return what of ``config`` is about other brokers, or a store shared with them, by its name in the file."""
    peering = config.peering
    sharing = config.sharing
    found = {
        "<networkConnectors>": bool(config.networks),
        "<cluster-connections>": bool(peering.clusters),
        "<broadcast-groups>": bool(peering.broadcasts),
        "<grouping-handler>": peering.grouping is not None,
        "<connection-routers>": bool(peering.routers),
        "<scale-down>": peering.scale_down is not None,
        # a store of Classic's is locked whether anybody shares it or not; each process has one of its own
        "<ha-policy>": sharing is not None and config.family is Dialect.ARTEMIS,
        "<locker>": sharing is not None and sharing.locker != FILE_LOCKER and config.family is Dialect.CLASSIC,
        "discoveryUri": any(one.discovery for one in config.connectors),
    }
    return [name for name, said in found.items() if said]


def _usage(usage: UsageOptions, count: int) -> UsageOptions:
    """Return the part of one process in limits for all. What must stay free on the disk is the same for each."""

    def part(value: int) -> int:
        return max(1, value // count) if value > 0 else value

    return usage.replaced(
        memory_limit=part(usage.memory_limit),
        store_limit=part(usage.store_limit),
        store_percent=part(usage.store_percent),
        temp_limit=part(usage.temp_limit),
        temp_percent=part(usage.temp_percent),
    )
