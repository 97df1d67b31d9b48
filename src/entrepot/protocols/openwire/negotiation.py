"""What two peers agree on: each offers once, both compute the same result.

Before the agreement both directions use: size prefix on, loose, no cache. Each peer sends its `WireFormatInfo` at once
and nothing else until it has read the other's; then version, sizes and delays become the smaller of the two, and a
switch is on if both want it. An absent switch is off.

entrepot offers neither tight encoding nor a cache unless told to, because only a loose frame without cache references
can be passed on without being encoded again (see `codec`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from entrepot.base.environment import MIB
from entrepot.base.errors import InvalidOption, MalformedFrame, ProtocolViolation
from entrepot.base.primitive import INT, LONG, Primitive
from entrepot.base.settings import I64_MAX
from entrepot.base.uri import Endpoint, split_options
from entrepot.base.values import boolean, whole
from entrepot.protocols.openwire.commands import WireFormatInfo
from entrepot.protocols.openwire.primitives import PrimitiveReader, write_map
from entrepot.protocols.openwire.schema import VERSION_MAX, VERSION_MIN

WIRE_FORMAT: Final = "wireFormat."
"""What the names of these options begin with in a URI."""
CACHE_SIZE: Final = 1024
"""What Java offers. A Java sender keeps 100 slots free and never returns when there are fewer, so offer no less."""
CACHE_SIZE_MAX: Final = 32_767
"""The index is an int16."""
UNLIMITED: Final = 2**63 - 1
PROPERTIES_MAX: Final = 64
PROPERTY_OCTETS_MAX: Final = 512
"""ActiveMQ's own limits for what an unknown peer may offer: 64 entries, 512 octets each, nothing nested."""


class WireFormatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one side is ready to speak; the ``wireFormat.`` options of a transport URI. Delays in milliseconds."""

    version: int = VERSION_MAX
    tight_encoding_enabled: bool = False
    cache_enabled: bool = False
    cache_size: int = CACHE_SIZE
    size_prefix_disabled: bool = False
    stack_trace_enabled: bool = True
    tcp_no_delay_enabled: bool = True
    max_frame_size: int = 100 * MIB
    """Octets of a frame without its prefix. The shipped configuration of ActiveMQ 5 says 100 MiB, its code 2^63-1."""
    max_frame_size_enabled: bool = True
    max_inactivity_duration: int = 30_000
    max_inactivity_duration_initial_delay: int = 10_000
    host: str = ""
    provider_name: str = "entrepot"
    provider_version: str = ""
    platform_details: str = ""

    @classmethod
    def of(cls, place: Endpoint, inactivity_ms: int = 0) -> WireFormatOptions:
        """Return what the URI of one broker says. Raises InvalidOption.

        ``inactivity_ms``: how long a silence may be at most, where the URI does not say it; 0: as usual.
        """
        options, _ = split_options(place.options, WIRE_FORMAT)
        found = cls.parse({"host": place.host, **options})
        if inactivity_ms <= 0 or "maxInactivityDuration" in options:
            return found
        return replace(found, max_inactivity_duration=min(found.max_inactivity_duration, inactivity_ms))

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WireFormatOptions:
        """Return the options that ``options`` (names without ``wireFormat.``) say.

        Raises InvalidOption for a name that does not exist and a value outside its range.
        """
        values: dict[str, object] = {}
        for name, text in options.items():
            if name == "includePlatformDetails":  # steers what Java puts into platformDetails; there is nothing to hide
                continue
            field = OPTION_NAMES.get(name)
            if field is None:
                raise InvalidOption(f"there is no option wireFormat.{name}", remedy=f"known: {', '.join(OPTION_NAMES)}")
            values[field] = _parsed(name, text, cls.__annotations__[field])
        made = cls(**values)  # type: ignore[arg-type]
        if not VERSION_MIN <= made.version <= VERSION_MAX:
            raise InvalidOption(f"wireFormat.version is {made.version}, not within {VERSION_MIN}..{VERSION_MAX}")
        if not 0 <= made.cache_size <= CACHE_SIZE_MAX:
            raise InvalidOption(f"wireFormat.cacheSize is {made.cache_size}, not within 0..{CACHE_SIZE_MAX}")
        return made


OPTION_NAMES: Final[Mapping[str, str]] = {
    "version": "version",
    "tightEncodingEnabled": "tight_encoding_enabled",
    "cacheEnabled": "cache_enabled",
    "cacheSize": "cache_size",
    "sizePrefixDisabled": "size_prefix_disabled",
    "stackTraceEnabled": "stack_trace_enabled",
    "tcpNoDelayEnabled": "tcp_no_delay_enabled",
    "maxFrameSize": "max_frame_size",
    "maxFrameSizeEnabled": "max_frame_size_enabled",
    "maxInactivityDuration": "max_inactivity_duration",
    "maxInactivityDurationInitalDelay": "max_inactivity_duration_initial_delay",
    "host": "host",
    "providerName": "provider_name",
    "providerVersion": "provider_version",
    "platformDetails": "platform_details",
}
"""The name in a URI, spelt as ActiveMQ spells it (sic), to the field."""


def _parsed(name: str, text: str, annotation: str) -> object:
    try:
        if annotation == "bool":
            return boolean(text)
        return whole(text, -I64_MAX, I64_MAX) if annotation == "int" else text
    except ValueError as error:
        what = "not true or false" if annotation == "bool" else "not a number"
        raise InvalidOption(f"wireFormat.{name} is {text!r}, {what}", remedy=str(error)) from None


class WireFormat:
    """How one connection speaks: constant once agreed. ``stack_traces`` changes the layout of throwables.

    ``offer`` not None: nothing is agreed yet, the next frame must be the peer's `WireFormatInfo`. ``peer``: what it
    calls itself, like ``ActiveMQ 5.17.2``.
    Delays are in milliseconds, 0 for never; ``max_frame_size`` is in octets.
    """

    def __init__(
        self,
        *,
        version: int = VERSION_MAX,
        tight: bool = False,
        cache_size: int = 0,
        size_prefix: bool = True,
        stack_traces: bool = True,
        tcp_no_delay: bool = True,
        max_frame_size: int = 100 * MIB,
        max_inactivity_ms: int = 0,
        max_inactivity_initial_ms: int = 0,
        version_min: int = 0,
        offer: WireFormatInfo | None = None,
        peer: str = "",
    ) -> None:
        self.version = version
        self.tight = tight
        self.cache_size = cache_size
        self.size_prefix = size_prefix
        self.stack_traces = stack_traces
        self.tcp_no_delay = tcp_no_delay
        self.max_frame_size = max_frame_size
        self.max_inactivity_ms = max_inactivity_ms
        self.max_inactivity_initial_ms = max_inactivity_initial_ms
        self.version_min = version_min
        self.offer = offer
        self.peer = peer

    @classmethod
    def before_agreement(cls, offer: WireFormatInfo, *, version_min: int = 0) -> WireFormat:
        """Return the format in which the first frame of each side is written, with what we offer."""
        properties = offered(offer)
        return cls(
            max_frame_size=_frame_size_max(properties, properties),
            version_min=version_min,
            offer=offer,
        )


def offer_of(options: WireFormatOptions) -> WireFormatInfo:
    """Return the frame that offers ``options``. Java casts, so every value has exactly the type it expects."""
    properties: dict[str, object] = {
        "TightEncodingEnabled": options.tight_encoding_enabled,
        "CacheEnabled": options.cache_enabled,
        "CacheSize": Primitive(INT, options.cache_size),
        "SizePrefixDisabled": options.size_prefix_disabled,
        "StackTraceEnabled": options.stack_trace_enabled,
        "TcpNoDelayEnabled": options.tcp_no_delay_enabled,
        "MaxFrameSizeEnabled": options.max_frame_size_enabled,
        "MaxFrameSize": Primitive(LONG, options.max_frame_size),
        "MaxInactivityDuration": Primitive(LONG, options.max_inactivity_duration),
        "MaxInactivityDurationInitalDelay": Primitive(LONG, options.max_inactivity_duration_initial_delay),
        "ProviderName": options.provider_name,
        "ProviderVersion": options.provider_version,
        "PlatformDetails": options.platform_details,
    }
    if options.host:
        properties["Host"] = options.host
    return WireFormatInfo(version=options.version, marshalled_properties=write_map(properties))


def offered(info: WireFormatInfo) -> dict[str, object]:
    """Return what a `WireFormatInfo` says, by Java's names. Raises MalformedFrame or LimitExceeded."""
    if not info.marshalled_properties:
        return {}
    reader = PrimitiveReader(
        info.marshalled_properties, entries_max=PROPERTIES_MAX, text_octets_max=PROPERTY_OCTETS_MAX, depth_max=0
    )
    properties = reader.map()
    if not reader.exhausted():
        raise MalformedFrame("octets are left behind the properties of a wire format")
    return properties or {}


def negotiate(local: WireFormatInfo, remote: WireFormatInfo, *, version_min: int = 0) -> WireFormat:
    """Return what both sides compute from the two offers (section 5.2 of the protocol's description).

    ``version_min`` is the transport option ``minmumWireFormatVersion``. Raises ProtocolViolation when the versions do
    not meet, MalformedFrame when a property has a type that ActiveMQ would not accept.
    """
    ours, theirs = offered(local), offered(remote)
    version = _smaller_positive(local.version, remote.version)
    # A newer peer than we know has offered more than we have: min() keeps us inside our own range.
    if version is None or version < version_min:
        raise ProtocolViolation(f"the peer speaks OpenWire {remote.version}, at least {version_min} is required")
    cache_size = min(_number(ours, "CacheSize"), _number(theirs, "CacheSize"))
    return WireFormat(
        version=version,
        tight=_both(ours, theirs, "TightEncodingEnabled"),
        cache_size=(cache_size if cache_size > 0 else CACHE_SIZE) if _both(ours, theirs, "CacheEnabled") else 0,
        size_prefix=not _both(ours, theirs, "SizePrefixDisabled"),
        stack_traces=_both(ours, theirs, "StackTraceEnabled"),
        tcp_no_delay=_both(ours, theirs, "TcpNoDelayEnabled"),
        max_frame_size=_frame_size_max(ours, theirs),
        max_inactivity_ms=_delay(ours, theirs, "MaxInactivityDuration"),
        max_inactivity_initial_ms=_delay(ours, theirs, "MaxInactivityDurationInitalDelay"),
        version_min=version_min,
        peer=_program(theirs),
    )


def _program(properties: dict[str, object]) -> str:
    """Return which program a peer says it is, like ``ActiveMQ 5.17.2``; "" when it does not say."""
    said = (properties.get("ProviderName"), properties.get("ProviderVersion"))
    return " ".join(one for one in said if isinstance(one, str) and one)


def _both(ours: dict[str, object], theirs: dict[str, object], name: str) -> bool:
    wanted = [_switch(ours, name), _switch(theirs, name)]  # both are looked at: a wrong type is refused either way
    return all(wanted)


def _switch(properties: dict[str, object], name: str) -> bool:
    value = properties.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise MalformedFrame(f"{name} of a wire format is not a boolean")
    return value


def _number(properties: dict[str, object], name: str) -> int:
    value = properties.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedFrame(f"{name} of a wire format is not a whole number")
    return value


def _delay(ours: dict[str, object], theirs: dict[str, object], name: str) -> int:
    return max(0, min(_number(ours, name), _number(theirs, name)))


def _smaller_positive(one: int, other: int) -> int | None:
    return min((number for number in (one, other) if number > 0), default=None)


def _frame_size_max(ours: dict[str, object], theirs: dict[str, object]) -> int:
    """Return the smaller of both limits; whether it counts at all is our own decision."""
    if not _switch(ours, "MaxFrameSizeEnabled"):
        return UNLIMITED
    return _smaller_positive(_number(ours, "MaxFrameSize"), _number(theirs, "MaxFrameSize")) or UNLIMITED
