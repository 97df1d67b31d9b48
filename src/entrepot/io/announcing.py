"""A broker tells where it can be reached: in a multicast group, or by DNS-SD. And DNS-SD heard.

Multicast is ActiveMQ's own (classic.md 1.4): a datagram every ``keepAliveInterval``, one more when the broker leaves.
DNS-SD is ``zeroconf:``, once called ``rendezvous:``: a service whose name is the URI of the broker. It needs the
package ``zeroconf``. What ActiveMQ makes of it is told at `service_type` and `foreign_type`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import OperatorError
from entrepot.base.uri import Endpoint
from entrepot.cluster.networks.discovery import Beacon
from entrepot.io.datagram import Group, join
from entrepot.protocols.announcement import announcement
from entrepot.protocols.openwire.options import Published

if TYPE_CHECKING:
    from zeroconf import RecordUpdate, ServiceStateChange, Zeroconf
    from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

Told = Callable[[str, bool], None]
"""Called with the URI of a broker, and whether it lives."""

POINTER: Final = 12  # RFC 1035, 3.2.2; what the library does not export
INTERNET: Final = 1
QUERY: Final = 0
FIRST_QUESTION_S: Final = 1.0
LAST_QUESTION_S: Final = 60.0

log: Final = logging.getLogger("entrepot.discovery")


class Announcer:
    """Announces ``uri`` at ``beacon``, from `start` to `stop`."""

    def __init__(self, beacon: Beacon, uri: str) -> None:
        self.beacon: Final = beacon
        self.uri: Final = uri
        self._group: Group | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._zeroconf: AsyncZeroconf | None = None

    async def start(self) -> None:
        """Begin. Raises OperatorError for a group that cannot be joined, or a missing package."""
        options = self.beacon.options
        if self.beacon.zeroconf:
            self._zeroconf = open_zeroconf(options.address)
            from zeroconf import ServiceInfo  # noqa: PLC0415 - optional

            kind = service_type(options.group)
            info = ServiceInfo(kind, f"{self.uri}.{kind}", port=_port(self.uri), addresses=_addresses(options.address))
            await self._zeroconf.async_register_service(info, allow_name_change=False)
        else:
            self._group = await join(
                self.beacon.host,
                self.beacon.port,
                lambda data, sender: None,
                time_to_live=options.time_to_live,
                interface=options.network_interface or options.interface,
            )
            self._say()
        log.info("announcing %s to the group %s", self.uri, options.group)

    async def stop(self) -> None:
        """Say that this broker leaves."""
        if self._timer is not None:
            self._timer.cancel()
        if self._group is not None:
            self._group.say(announcement(self.beacon.options.group, self.uri, alive=False))
            self._group.close()
        if self._zeroconf is not None:
            await self._zeroconf.async_unregister_all_services()
            await self._zeroconf.async_close()

    def _say(self) -> None:
        assert self._group is not None
        self._group.say(announcement(self.beacon.options.group, self.uri, alive=True))
        interval = self.beacon.options.keep_alive_interval / SECOND
        self._timer = asyncio.get_running_loop().call_later(interval, self._say)


class ZeroconfBrowser:
    """Hears the brokers of one group by DNS-SD: those of our type, and ActiveMQ's of the type that is none."""

    def __init__(self, beacon: Beacon, told: Told) -> None:
        self._zeroconf: Final = open_zeroconf(beacon.options.address)
        self._kind: Final = service_type(beacon.options.group)
        self._told: Final = told
        self._loop = asyncio.get_running_loop()
        from zeroconf.asyncio import AsyncServiceBrowser  # noqa: PLC0415 - optional

        self._browser: AsyncServiceBrowser = AsyncServiceBrowser(
            self._zeroconf.zeroconf, self._kind, handlers=[self._changed]
        )
        self._question: Final = _Question(self._zeroconf, foreign_type(beacon.options.group), told)

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        from zeroconf import ServiceStateChange as Change  # noqa: PLC0415 - optional

        if name.lower().endswith("." + self._kind.lower()):
            self._told(announced_uri(name, self._kind), state_change is not Change.Removed)

    async def close(self) -> None:
        """Listen no more."""
        self._question.close()
        await self._browser.async_cancel()
        await self._zeroconf.async_close()


class _Question:
    """Asks for the records of a type that DNS-SD does not allow, and so the library does not browse."""

    def __init__(self, zeroconf: AsyncZeroconf, kind: str, told: Told) -> None:
        from zeroconf import DNSQuestion, RecordUpdateListener  # type: ignore[attr-defined]  # noqa: PLC0415

        class Records(RecordUpdateListener):
            """Hears what the library caches."""

            def async_update_records(self, zc: Zeroconf, now: float, records: list[RecordUpdate]) -> None:
                """Tell of brokers."""
                for update in records:
                    alias = getattr(update.new, "alias", None)
                    if alias is not None and update.new.name.lower() == kind:
                        told(announced_uri(alias, kind), not update.new.is_expired(now))

        self._zeroconf: Final = zeroconf.zeroconf
        self._asked: Final = DNSQuestion(kind, POINTER, INTERNET)
        self._records: Final = Records()
        self._timer: asyncio.TimerHandle | None = None
        self._zeroconf.async_add_listener(self._records, self._asked)
        self._ask(FIRST_QUESTION_S)

    def _ask(self, wait: float) -> None:
        """Ask again, less and less often: who came before us says nothing by himself."""
        from zeroconf import DNSOutgoing  # type: ignore[attr-defined]  # noqa: PLC0415

        out = DNSOutgoing(QUERY)
        out.add_question(self._asked)
        self._zeroconf.async_send(out)
        wait = min(wait * 3, LAST_QUESTION_S)
        self._timer = asyncio.get_running_loop().call_later(wait, self._ask, wait)

    def close(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._zeroconf.async_remove_listener(self._records)


def service_type(group: str) -> str:
    """Return the type of service that brokers of ``group`` are.

    A broker of ActiveMQ hears it, and is one, when its URI says ``?type=_activemq-5._tcp.local.``; see `foreign_type`
    for one that says nothing.
    """
    return f"_{group.lower()}._activemq-5._tcp.local."


def foreign_type(group: str) -> str:
    """Return the type that ActiveMQ's agent has on the wire when nobody gave it another.

    One label lacks the underscore that DNS-SD asks for (RFC 6763, 7). JmDNS makes it of ``_<group>.ActiveMQ-5.``, for
    which it goes on asking; so ActiveMQ announces what it cannot find again, and two of its brokers never meet.
    """
    return f"_{group.lower()}.activemq-5._tcp.local."


def announced_uri(name: str, kind: str) -> str:
    """Return the URI in the name of a service: what comes before its type, which ActiveMQ's agent appends twice."""
    return name[: -len(kind) - 1].partition("._")[0]


def open_zeroconf(interface: str) -> AsyncZeroconf:
    """Return the library, listening. Raises OperatorError where it is not installed, or there is no network."""
    try:
        from zeroconf import InterfaceChoice  # noqa: PLC0415 - optional
        from zeroconf.asyncio import AsyncZeroconf  # noqa: PLC0415
    except ImportError:
        raise OperatorError(
            "zeroconf: needs the package zeroconf", remedy="pip install 'entrepot[zeroconf]', or use multicast:"
        ) from None
    interfaces: Any = [interface] if interface else InterfaceChoice.All
    try:
        return AsyncZeroconf(interfaces=interfaces)
    except OSError as error:
        raise OperatorError(
            f"DNS-SD cannot be spoken here: {error}", remedy="does this machine have a network with multicast?"
        ) from None


def public_uri(scheme: str, host: str, port: int) -> str:
    """Return how others reach a place where we listen; all interfaces are this machine's name, as in ActiveMQ."""
    if host in ("0.0.0.0", "::", ""):
        host = socket.gethostname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def published_uri(place: Endpoint, policy: Published) -> str:
    """Return what clients are told of ``place``; a host of "" is this machine (``publishedAddressPolicy``).

    Looks names up where the policy asks for an address or a full name; call it once, at the start.
    """
    host = place.host or socket.gethostname()
    if policy.strategy == "IPADDRESS":
        host = socket.inet_ntoa(_addresses("")[0])
    elif policy.strategy == "HOSTNAME":
        host = socket.gethostname()
    elif policy.strategy == "FQDN":
        host = socket.getfqdn()
    host = policy.hosts.get(host, host)
    port = int(policy.ports.get(str(place.port), str(place.port)))
    text = Endpoint(place.scheme, host, port, place.path).format()
    return f"{text}?{policy.query}" if policy.query else text


def _port(uri: str) -> int:
    digits = uri.rpartition(":")[2]
    return int(digits) if digits.isdigit() else 0


def _addresses(interface: str) -> list[bytes]:
    try:
        return [socket.inet_aton(interface or socket.gethostbyname(socket.gethostname()))]
    except OSError:
        return [socket.inet_aton("127.0.0.1")]
