from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption, LimitExceeded, MalformedFrame, ProtocolViolation
from entrepot.base.primitive import Primitive
from entrepot.protocols.openwire.commands import WireFormatInfo
from entrepot.protocols.openwire.negotiation import (
    OPTION_NAMES,
    UNLIMITED,
    WireFormat,
    WireFormatOptions,
    negotiate,
    offer_of,
    offered,
)
from entrepot.protocols.openwire.primitives import read_map, write_map

EVERYTHING = WireFormatOptions(
    tight_encoding_enabled=True, cache_enabled=True, size_prefix_disabled=True, max_frame_size=UNLIMITED
)


def offer(version: int = 12, **properties: object) -> WireFormatInfo:
    return WireFormatInfo(version=version, marshalled_properties=write_map(properties))


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"), [(12, 12, 12), (12, 9, 9), (3, 12, 3), (12, 99, 12), (12, 0, 12), (9, -1, 9)]
)
def test_the_lower_version_is_spoken(ours: int, theirs: int, agreed: int) -> None:
    assert negotiate(offer(ours), offer(theirs)).version == agreed


def test_versions_that_do_not_meet_end_the_connection() -> None:
    assert negotiate(offer(12), offer(6), version_min=6).version == 6
    with pytest.raises(ProtocolViolation):
        negotiate(offer(12), offer(5), version_min=6)
    with pytest.raises(ProtocolViolation):
        negotiate(offer(0), offer(0))


SWITCHES = {
    "TightEncodingEnabled": lambda agreed: agreed.tight,
    "CacheEnabled": lambda agreed: agreed.cache_size > 0,
    "SizePrefixDisabled": lambda agreed: not agreed.size_prefix,
    "StackTraceEnabled": lambda agreed: agreed.stack_traces,
    "TcpNoDelayEnabled": lambda agreed: agreed.tcp_no_delay,
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_on_if_both_want_it(name: str) -> None:
    on, off, absent = offer(**{name: True}), offer(**{name: False}), offer()
    outcomes = {(0, 0): True, (0, 1): False, (0, 2): False, (1, 0): False, (1, 1): False, (2, 2): False}
    for (ours, theirs), expected in outcomes.items():
        peers = (on, off, absent)
        assert SWITCHES[name](negotiate(peers[ours], peers[theirs])) is expected


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [(1024, 1024, 1024), (1024, 200, 200), (0, 500, 1024), (500, None, 1024), (9, -4, 1024)],
)
def test_the_smaller_cache_is_used_and_none_means_1024(ours: int, theirs: int | None, agreed: int) -> None:
    remote = offer(CacheEnabled=True) if theirs is None else offer(CacheEnabled=True, CacheSize=theirs)
    assert negotiate(offer(CacheEnabled=True, CacheSize=ours), remote).cache_size == agreed


def test_the_smaller_positive_frame_size_counts_if_we_check_at_all() -> None:
    def agreed(ours: dict[str, object], theirs: dict[str, object]) -> int:
        return negotiate(offer(**ours), offer(**theirs)).max_frame_size

    checking: dict[str, object] = {"MaxFrameSizeEnabled": True, "MaxFrameSize": 1000}
    assert agreed(checking, {"MaxFrameSize": 500}) == 500
    assert agreed(checking, {"MaxFrameSize": 5000, "MaxFrameSizeEnabled": False}) == 1000
    assert agreed(checking, {"MaxFrameSize": 0}) == agreed(checking, {}) == 1000
    assert agreed({"MaxFrameSize": 1000}, {"MaxFrameSize": 500}) == UNLIMITED


def test_the_shorter_delay_counts_and_zero_means_never() -> None:
    ours = offer_of(WireFormatOptions())
    theirs = offer(MaxInactivityDuration=5000, MaxInactivityDurationInitalDelay=0)
    agreed = negotiate(ours, theirs)
    assert (agreed.max_inactivity_ms, agreed.max_inactivity_initial_ms) == (5000, 0)
    assert negotiate(ours, offer()).max_inactivity_ms == 0
    assert negotiate(ours, offer(MaxInactivityDuration=-5)).max_inactivity_ms == 0


def test_both_sides_compute_the_same() -> None:
    one, other = offer_of(WireFormatOptions(version=10, cache_enabled=True)), offer_of(EVERYTHING)
    mine, yours = negotiate(one, other), negotiate(other, one)
    for name in (
        "version",
        "tight",
        "cache_size",
        "size_prefix",
        "stack_traces",
        "max_frame_size",
        "max_inactivity_ms",
    ):
        assert getattr(mine, name) == getattr(yours, name)
    assert mine.size_prefix
    assert not negotiate(other, other).size_prefix


def test_an_offer_has_the_types_that_java_casts_to() -> None:
    typed = read_map(offer_of(WireFormatOptions(host="broker")).marshalled_properties or b"", typed=True)
    tags = {name: value.tag for name, value in typed.items() if isinstance(value, Primitive)}
    assert tags["CacheSize"] == 5
    for name in ("MaxFrameSize", "MaxInactivityDuration", "MaxInactivityDurationInitalDelay"):
        assert tags[name] == 6
    for name in ("TightEncodingEnabled", "CacheEnabled", "MaxFrameSizeEnabled", "SizePrefixDisabled"):
        assert tags[name] == 1
    assert tags["Host"] == tags["ProviderName"] == 9


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"CacheEnabled": 1}, MalformedFrame),
        ({"CacheSize": True}, MalformedFrame),
        ({"MaxFrameSize": "big"}, MalformedFrame),
        ({"Host": {"a": 1}}, LimitExceeded),
        ({"Host": "x" * 513}, LimitExceeded),
        ({f"p{number}": 1 for number in range(65)}, LimitExceeded),
    ],
)
def test_an_offer_beyond_the_limits_is_refused(properties: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        negotiate(offer_of(WireFormatOptions()), offer(**properties))


def test_an_offer_without_properties_offers_nothing() -> None:
    assert offered(WireFormatInfo(version=1)) == {}
    with pytest.raises(MalformedFrame):
        offered(WireFormatInfo(version=1, marshalled_properties=write_map({}) + b"\0"))


def test_before_the_agreement_both_speak_loose_with_a_prefix_and_no_cache() -> None:
    first = WireFormat.before_agreement(offer_of(EVERYTHING))
    assert (first.tight, first.cache_size, first.size_prefix) == (False, 0, True)


def test_options_of_a_uri() -> None:
    options = WireFormatOptions.parse({"cacheSize": "2048", "tightEncodingEnabled": "TRUE", "maxFrameSize": "1000"})
    assert (options.cache_size, options.tight_encoding_enabled, options.max_frame_size) == (2048, True, 1000)
    assert WireFormatOptions.parse({"includePlatformDetails": "true"}) == WireFormatOptions()
    assert sorted(OPTION_NAMES.values()) == sorted(WireFormatOptions.__struct_fields__)


@pytest.mark.parametrize(
    "options",
    [
        {"nonsense": "1"},
        {"cacheEnabled": "yes"},
        {"cacheSize": "many"},
        {"cacheSize": "32768"},
        {"version": "13"},
        {"version": "0"},
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOption):
        WireFormatOptions.parse(options)
