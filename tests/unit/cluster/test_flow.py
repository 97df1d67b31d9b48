"""Reasons that stop a link add up, and a feed that retires stays stopped."""

from __future__ import annotations

from entrepot.cluster.flow import CLOSED, NO_CREDIT, STREAMING, UNREAD, FlowControl, octets_of
from entrepot.cluster.link import LinkCore, LinkOptions
from entrepot.cluster.source import Feed
from entrepot.core.queue.consumer import Pause
from entrepot.model import address as names
from kit import Rig


def made() -> tuple[FlowControl, Feed, Feed]:
    rig = Rig()
    link = LinkCore("L", rig.broker, LinkOptions())
    first, second = (Feed(link, names.parse(text), 1) for text in ("Q", "R"))
    link.feeds[first] = link.feeds[second] = None
    link.flow.release(CLOSED)
    return link.flow, first, second


def test_a_feed_is_stopped_while_there_is_any_reason() -> None:
    flow, first, _ = made()
    assert not first.window.pauses
    for reason in (UNREAD, STREAMING, NO_CREDIT):
        flow.hold(reason)
    for reason in (UNREAD, STREAMING):
        flow.release(reason)
        assert first.window.pauses
    flow.release(NO_CREDIT)
    assert not first.window.pauses


def test_a_feed_that_retires_is_not_opened_again() -> None:
    flow, first, second = made()
    flow.writable(False)
    first.window.pause(Pause.RETIRING)
    flow.writable(True)
    assert first.window.pauses
    assert not second.window.pauses


def test_what_nobody_counts_is_granted_to_nobody() -> None:
    flow, first, _ = made()
    flow.granted(10)
    assert not flow.bounded
    flow.limited(10)
    flow.spend(11)
    assert first.window.pauses
    flow.granted(1)
    assert first.window.pauses, "what was overdrawn is owed"
    flow.granted(1)
    assert not first.window.pauses


def test_a_large_body_counts() -> None:
    rig = Rig()
    message = rig.message("x", "Q")
    small = octets_of(message)
    message.need_rare().large_length = 1000
    assert octets_of(message) >= small + 1000
