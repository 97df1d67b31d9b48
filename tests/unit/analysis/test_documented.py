"""The networks of the documentation: what is shown as an example has no error and no warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.analysis.graph import UNREACHED, served
from entrepot.analysis.members import member_of
from entrepot.analysis.rules import judge
from entrepot.analysis.survey import network_of
from entrepot.config.files import read
from entrepot.config.findings import Severity

CONF = Path(__file__).parents[3] / "docs" / "networks" / "conf"
DEFINES = {"dmz.password": "first", "guest.password": "second"}


@pytest.mark.parametrize("name", sorted(path.name for path in CONF.iterdir()))
def test_everybody_reaches_everybody_and_nothing_is_to_be_mended(name: str) -> None:
    members = []
    for file in sorted((CONF / name).glob("*.xml")):
        reading = read(file, spoken=("openwire", "stomp"), bridges=True, defines=DEFINES, environment={})
        assert reading.draft is not None
        members.append(member_of(reading.draft, file.name))
    network = network_of(members)
    assert [one.what for one in judge(network) if one.severity > Severity.NOTE] == []
    assert all(node.members for node in network.nodes)
    hops = served(len(network.nodes), network.links)
    assert UNREACHED not in [one for row in hops for one in row]
