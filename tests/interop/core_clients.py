"""Unmodified clients of Artemis: the programs of `java/core/`, compiled against one version from a Maven repository.

The same source runs with every version: for ``jakarta`` the package of JMS is renamed, and versions without
``QueueConfiguration`` go without the part that uses it. `CORE` etc. configure the broker that the programs expect.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Final, NamedTuple

import artemis
import maven
import ours
from java_clients import compiled, run

SOURCES: Final = Path(__file__).with_name("java") / "core"
CORE_API: Final = "CoreApi.java"


class Client(NamedTuple):
    """One version of the client library."""

    name: str
    library: str
    """``group:artifact:version`` in a Maven repository."""
    jakarta: bool = False
    old: bool = False
    """Made before ``QueueConfiguration``, or refused by newer versions: without the part about the core API."""


SAME: Final = Client("2.42", "org.apache.activemq:artemis-jms-client:2.42.0")
CLIENTS: Final = (
    Client("2.1", "org.apache.activemq:artemis-jms-client:2.1.0", old=True),  # the Netty of 2.0.0 fails on Java 17
    Client("2.19", "org.apache.activemq:artemis-jms-client:2.19.1"),
    Client("2.31", "org.apache.activemq:artemis-jms-client:2.31.2"),
    SAME,
    Client("newest", "org.apache.artemis:artemis-jms-client:2.54.0"),
    Client("jakarta", "org.apache.artemis:artemis-jakarta-client:2.54.0", jakarta=True),
)
ALWAYS: Final = ("2.42", "jakarta")
"""Versions whose transcripts every run compares; `make core-clients` asks for all six, which takes minutes."""


def speaks_core() -> bool:
    """Say whether this build of ours has the server."""
    try:
        return importlib.util.find_spec("entrepot.protocols.artemis.server") is not None
    except ModuleNotFoundError:
        return False


def chosen() -> list[Client]:
    """Return the versions for this run."""
    everything = os.environ.get("ENTREPOT_CORE_CLIENTS") == "all"
    return [each for each in CLIENTS if everything or each.name in ALWAYS]


def setting(match: str, **attributes: object) -> str:
    """Return an ``<address-setting>``."""
    made = "".join(
        f"<{name.replace('_', '-')}>{value}</{name.replace('_', '-')}>" for name, value in attributes.items()
    )
    return f'<address-setting match="{match}">{made}</address-setting>'


def queue(name: str) -> str:
    """Return an anycast ``<address>`` with its queue."""
    return f'<address name="{name}"><anycast><queue name="{name}"/></anycast></address>'


SETTINGS: Final = "".join(
    (
        setting("strict.#", auto_create_queues="false", auto_create_addresses="false"),
        setting("only.#", auto_create_queues="false", auto_create_addresses="false"),
        setting("expiry.#", expiry_address="expired.here"),
        setting("three.#", max_delivery_attempts=3, dead_letter_address="dead.here"),
        setting("slow.#", redelivery_delay=400, redelivery_delay_multiplier=2, max_redelivery_delay=5000),
        setting("full.fails.#", max_size_bytes=20000, address_full_policy="FAIL"),
        setting("full.blocks.#", max_size_bytes=20000, address_full_policy="BLOCK"),
        setting("exclusive.#", default_exclusive_queue="true"),
        setting("last.#", default_last_value_queue="true"),
        setting("ring.#", default_ring_size=3),
        setting("kept.for.#", default_non_destructive="true"),
        setting("purged.#", default_purge_on_no_consumers="true"),
        setting("one.reader.#", default_max_consumers=1),
        setting("retro.#", retroactive_message_count=2),
        setting(
            "letters.bad",
            max_delivery_attempts=1,
            dead_letter_address="letters.all",
            auto_create_dead_letter_resources="true",
            dead_letter_queue_suffix=".x",
        ),
        setting("letters.old", expiry_address="letters.late", auto_create_expiry_resources="true"),
        setting("life.default", expiry_delay=60000),
        setting("life.bounds", min_expiry_delay=10000, max_expiry_delay=300000),
        setting("life.min", min_expiry_delay=10000),
        setting("life.none", no_expiry="true"),
        setting("unrouted", dead_letter_address="dead.here", send_to_dla_on_no_route="true"),
        setting("few.fails", max_size_messages=10, address_full_policy="FAIL"),
        setting("few.drops", max_size_messages=10, address_full_policy="DROP"),
        setting("paged.fails", max_size_messages=5, page_limit_messages=10, page_full_policy="FAIL"),
        setting("paged.drops", max_size_messages=5, page_limit_messages=10, page_full_policy="DROP"),
        setting("stamped", enable_ingress_timestamp="true"),
    )
)
QUEUES: Final = (
    "expired.here", "dead.here", "only.queue", "divert.copy", "divert.move", "diverted.copy", "diverted.move",
    "chain.a", "chain.b", "chain.c", "chain.d",
)  # fmt: skip
TYPES: Final = ("strip", "any", "multi", "pass")
ADDRESSES: Final = "".join(
    (
        *map(queue, QUEUES),
        '<address name="only.topic"><multicast/></address>',
        '<address name="many"><multicast><queue name="many.one"/><queue name="many.two"/></multicast></address>',
        '<address name="retro.t"><multicast/></address>',
        '<address name="unrouted"><multicast/></address>',
        '<address name="types"><anycast><queue name="types"/></anycast>'
        '<multicast><queue name="types.t"/></multicast></address>',
        *(
            f'<address name="types.{each}"><anycast><queue name="types.{each}.q"/></anycast>'
            f'<multicast><queue name="types.{each}.t"/></multicast></address>'
            for each in TYPES
        ),
    )
)
DIVERTS: Final = "".join(
    f'<divert name="to-{each}"><address>types</address><forwarding-address>types.{each}</forwarding-address>'
    f"<routing-type>{word}</routing-type></divert>"
    for each, word in zip(TYPES, ("STRIP", "ANYCAST", "MULTICAST", "PASS"), strict=True)
)
CORE: Final = f"""
<diverts>
  {DIVERTS}
  <divert name="first"><address>chain.a</address><forwarding-address>chain.b</forwarding-address></divert>
  <divert name="second">
    <address>chain.b</address><forwarding-address>chain.c,chain.d</forwarding-address><exclusive>true</exclusive>
  </divert>
  <divert name="copies"><address>divert.copy</address><forwarding-address>diverted.copy</forwarding-address></divert>
  <divert name="moves">
    <address>divert.move</address><forwarding-address>diverted.move</forwarding-address>
    <exclusive>true</exclusive><filter string="n &gt; 1"/>
  </divert>
</diverts>
<message-expiry-scan-period>200</message-expiry-scan-period>
"""


PREFIXES: Final = "anycastPrefix=/queue/;multicastPrefix=/topic/"  # names of STOMP, as ours has them without a word


def theirs(home: Path) -> artemis.Artemis:
    """Return a real Artemis as the programs expect it."""
    return artemis.Artemis(home, core=CORE, settings=SETTINGS, addresses=ADDRESSES, acceptor=PREFIXES)


def own(home: Path) -> ours.Entrepot:
    """Return a broker of ours that runs the very same file."""
    return ours.like_artemis(home, theirs(home / "artemis"))


MADE_OF: Final = (CORE, SETTINGS, ADDRESSES, PREFIXES, artemis.CONFIGURATION, artemis.ARTIFACTS)
"""What a real broker is here, for recordings."""


def spread(features: list[str], ways: int = 4) -> list[list[str]]:
    """Return ``features`` dealt to as many programs, each with a broker of its own: they wait most of the time."""
    return [dealt for at in range(ways) if (dealt := features[at::ways])]


class Program:
    """The programs for one version of the client; `run` returns what one printed. Raises maven.Unavailable."""

    def __init__(self, client: Client, *others: Path) -> None:
        """``others``: programs that use JMS alone, from elsewhere."""
        jars = maven.jars(client.library)
        names = [each for each in sorted(SOURCES.glob("*.java")) if not (client.old and each.name == CORE_API)]
        sources = {each.name: each.read_text() for each in (*names, *others)}
        if client.jakarta:
            sources = {name: text.replace("javax.jms", "jakarta.jms") for name, text in sources.items()}
        self.made_of = (client, sources)
        self.path = f"{compiled(sources, f'{jars}/*')}:{jars}/*"

    def command(self, name: str, *arguments: str) -> list[str]:
        return ["java", "-XX:TieredStopAtLevel=1", "-Xmx256M", "-cp", self.path, name, *arguments]

    def run(self, name: str, *arguments: str, env: dict[str, str] | None = None) -> str:
        return run(self.command(name, *arguments), env)
