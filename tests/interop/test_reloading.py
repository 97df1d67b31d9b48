"""A broker.xml that is changed while its broker runs: what a real Artemis makes of each change, and what we do."""

from __future__ import annotations

import json
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from managing import Broker, Manager
from ours import like_artemis

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

PATIENCE_S: Final = 20.0
STILL_S: Final = 0.7  # more than two periods of looking at the file
REFRESH: Final = "<configuration-file-refresh-period>300</configuration-file-refresh-period>"
ADDRESSES: Final = """
<address name="first"><anycast><queue name="first"/></anycast></address>
<address name="second"><anycast><queue name="second"/><queue name="second.more"/></anycast></address>
<address name="forced.q"><anycast><queue name="forced.q"/><queue name="forced.q2"/></anycast></address>
<address name="bare"><multicast/></address>
"""
SETTINGS: Final = """
<address-setting match="first"><max-delivery-attempts>3</max-delivery-attempts></address-setting>
<address-setting match="forced.#">
  <config-delete-queues>FORCE</config-delete-queues><config-delete-addresses>FORCE</config-delete-addresses>
  <config-delete-diverts>FORCE</config-delete-diverts>
</address-setting>
"""
DIVERTS: Final = """
<diverts>
  <divert name="kept"><address>first</address><forwarding-address>second</forwarding-address></divert>
  <divert name="forced"><address>forced.d</address><forwarding-address>third</forwarding-address></divert>
  <divert name="left"><address>first</address><forwarding-address>third</forwarding-address></divert>
</diverts>
"""
INCLUDED: Final = '<addresses xmlns="urn:activemq:core"/>'


class Changing:
    """One broker whose file is changed step by step; `settled` is what it shows after each."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.file = broker.home / "broker.xml"
        self.text = self.file.read_text()
        self.manager = Manager(broker)

    def write(self, *changes: tuple[str, str]) -> None:
        """Write the file with ``changes``, each of which has to be of something that stands there."""
        for old, new in changes:
            assert old in self.text, old
            self.text = self.text.replace(old, new)
        self.file.write_text(self.text)

    def await_queue(self, name: str) -> None:
        """Wait until a queue is there: the file that names it holds."""
        until = time.monotonic() + PATIENCE_S
        while name not in self.manager.ask("broker", "getQueueNames"):
            if time.monotonic() > until:
                raise AssertionError(f"no {name}: {(self.broker.home / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def settled(self) -> dict[str, Any]:
        """What it shows once that stands still: a file is taken over part by part, and step N is among the first."""
        until = time.monotonic() + PATIENCE_S
        before, now = None, self.facts()
        while now != before:
            assert time.monotonic() < until, f"never the same twice: {before}, then {now}"
            time.sleep(STILL_S)
            before, now = now, self.facts()
        return now

    def facts(self) -> dict[str, Any]:
        ask = self.manager.ask
        settings = json.loads(ask("broker", "getAddressSettingsAsJSON", "first"))
        queues = sorted(name for name in ask("broker", "getQueueNames") if not _passing(name))
        return {
            "queues": queues,
            "addresses": sorted(name for name in ask("broker", "getAddressNames") if not _passing(name)),
            "diverts": sorted(ask("broker", "getDivertNames")),
            "bridges": ask("broker", "getBridgeNames"),
            "attempts": settings["maxDeliveryAttempts"],
            "filters": {name: ask(f"queue.{name}", "getFilter") for name in queues if name.startswith("first")},
        }


def _passing(name: str) -> bool:
    return bool(re.match(r"activemq\.|[0-9a-f]{8}-|ID:|notif|\$sys", name))


def scenario(broker: Broker) -> list[dict[str, Any]]:
    """Change the file of one broker, and say what came of each change."""
    broker.start().await_ready()
    one = Changing(broker)
    seen = [one.settled()]
    one.manager.ask("broker", "createDivert", "by hand", "by hand", "second", "fourth", False, None, None)
    one.manager.ask("broker", "createQueue", "forced.q", "forced.by.hand", "ANYCAST")
    one.write(
        ("<max-delivery-attempts>3<", "<max-delivery-attempts>5<"),
        ('<queue name="first"/>', '<queue name="first"><filter string="a = 1"/></queue><queue name="first.new"/>'),
        ('<queue name="second.more"/>', ""),
        ('<queue name="forced.q2"/>', ""),
        ('<divert name="left">', '<divert name="another">'),
        (
            '<divert name="forced"><address>forced.d</address><forwarding-address>third</forwarding-address></divert>',
            "",
        ),
        ('<address name="bare"><multicast/></address>', ""),
        ("<addresses>", '<addresses><address name="step1"><anycast><queue name="step1"/></anycast></address>'),
    )
    one.await_queue("step1")
    seen.append(one.settled())
    one.file.write_text(one.text.replace("</core>", "</cor>"))  # broken: what held goes on to hold
    time.sleep(1.0)
    seen.append(one.settled())
    one.write(
        ("</addresses>", '<address name="step2"><anycast><queue name="step2"/></anycast></address></addresses>'),
        ('<address name="forced.q"><anycast><queue name="forced.q"/></anycast></address>', ""),
        ("</core>", BRIDGES.format(to="step1") + "</core>"),
    )
    one.await_queue("step2")
    seen.append(one.settled())
    one.write(
        ("<forwarding-address>there</forwarding-address>", "<forwarding-address>elsewhere</forwarding-address>"),
        ("</addresses>", '<address name="step3"><anycast><queue name="step3"/></anycast></address></addresses>'),
    )
    one.await_queue("step3")
    seen.append(one.settled())
    one.write(
        (one.text[one.text.index("<bridges>") : one.text.index("</bridges>") + len("</bridges>")], ""),
        ("</addresses>", '<address name="step4"><anycast><queue name="step4"/></anycast></address></addresses>'),
    )
    one.await_queue("step4")
    seen.append(one.settled())
    one.manager.ask("broker", "destroyQueue", "step4")
    os.utime(one.file)  # touched, and not changed
    one.await_queue("step4")
    seen.append(one.settled())
    one.manager.ask("broker", "destroyQueue", "step4")
    one.manager.ask("broker", "reloadConfigurationFile")
    one.await_queue("step4")
    one.manager.ask("broker", "createAddress", "made.by.hand", "ANYCAST,MULTICAST")
    one.manager.ask("broker", "createDivert", "dropped", "dropped", "second", "fourth", False, None, None)
    one.manager.ask("broker", "destroyDivert", "dropped")
    one.manager.close()
    broker.kill()
    broker.start().await_ready()
    one.manager = Manager(broker)
    seen.append(one.settled())
    one.manager.close()
    return seen


BRIDGES: Final = """
<bridges><bridge name="over"><queue-name>{to}</queue-name><forwarding-address>there</forwarding-address>
<static-connectors><connector-ref>self</connector-ref></static-connectors></bridge></bridges>
"""


def test_what_is_reloaded_and_what_stays(tmp_path: Path) -> None:
    theirs = Artemis(tmp_path / "theirs", core=REFRESH + DIVERTS, settings=SETTINGS, addresses=ADDRESSES)
    mine = like_artemis(tmp_path / "ours", theirs)
    try:
        with ThreadPoolExecutor() as both:
            one, other = both.map(scenario, (theirs, mine))
    finally:
        theirs.kill()
        mine.kill()
    for step, (expected, found) in enumerate(zip(one, other, strict=True)):
        assert found == expected, f"step {step}"
    log = (mine.home / "log").read_text()
    assert log.count("cannot be used") == 1
    assert "broker.xml" in log[log.index("cannot be used") :].split("\n")[0]
