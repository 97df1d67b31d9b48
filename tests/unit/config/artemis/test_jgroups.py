"""Where the members of a JGroups channel meet, by the file of its stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.config.artemis.jgroups import Meeting, meeting_of
from entrepot.config.clusters import clusters_of
from unit.config.artemis.test_peering import peering

STACK = '<config xmlns="urn:org:jgroups">{}<pbcast.NAKACK2/><UNICAST3/><pbcast.GMS/></config>'
UDP = '<UDP mcast_addr="${jgroups.mcast:228.1.2.3}" mcast_port="4444"/>'
GROUP = """<connectors><connector name="me">tcp://a:1</connector></connectors>
<broadcast-groups><broadcast-group name="b"><jgroups-file>{0}</jgroups-file><jgroups-channel>c</jgroups-channel>
<connector-ref>me</connector-ref></broadcast-group></broadcast-groups>
<discovery-groups><discovery-group name="d"><jgroups-file>{0}</jgroups-file><jgroups-channel>c</jgroups-channel>
</discovery-group></discovery-groups>"""


def meeting(text: str, **defines: str) -> Meeting:
    return meeting_of(
        STACK.format(text).encode(), "s.xml", {name.replace("_", "."): one for name, one in defines.items()}
    )


def test_a_stack_names_a_group_or_a_directory() -> None:
    assert meeting(UDP + "<PING/>") == Meeting("228.1.2.3", "4444")
    assert meeting(UDP + "<PING/>", jgroups_mcast="228.9.9.9") == Meeting("228.9.9.9", "4444")
    assert meeting("<UDP/><PING/>") == Meeting("228.8.8.8", "7600")
    assert meeting("<TCP/><MPING mcast_port='5'/>") == Meeting("230.5.6.7", "5")
    assert meeting("<TCP/><FILE_PING location='/share'/>") == Meeting(directory="/share")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<TCP/><TCPPING initial_hosts='a[7800]'/>", "TCPPING is not obeyed"),
        ("<TCP/><JDBC_PING/>", "JDBC_PING is not obeyed"),
        ("<TCP/><dns.DNS_PING/>", "DNS_PING is not obeyed"),
        ("<TCP/><TCPGOSSIP/>", "TCPGOSSIP is not obeyed"),
        ("<TCP/><PING/>", "not UDP"),
        ("<TCP/>", "no protocol by which"),
        ("<TCP/><FILE_PING/>", "no location"),
        ("<UDP mcast_port='x'/><PING/>", "not a number"),
        ("<", "s.xml"),
    ],
)
def test_what_is_not_obeyed_is_named(text: str, told: str) -> None:
    assert told in meeting(text).flaw


def test_groups_meet_there_and_channels_stay_apart(tmp_path: Path) -> None:
    stack = tmp_path / "stack.xml"
    stack.write_text(STACK.format(UDP + "<PING/>"))
    found = clusters_of(peering(GROUP.format(stack)))
    (broadcast,), (discovery,) = found.broadcasts, found.discoveries
    assert (broadcast.address, broadcast.port, broadcast.channel) == ("228.1.2.3", 4444, "c")
    assert (discovery.address, discovery.port, discovery.channel) == ("228.1.2.3", 4444, "c")
    stack.write_text(STACK.format(f"<TCP/><FILE_PING location='{tmp_path}'/>"))
    (broadcast,) = clusters_of(peering(GROUP.format(stack))).broadcasts
    assert broadcast.directory == str(tmp_path)
    stack.write_text(STACK.format("<TCP/><TCPPING/>"))
    found = clusters_of(peering(GROUP.format(stack)))
    assert (found.broadcasts, found.discoveries) == ((), ())
    assert sum("TCPPING is not obeyed" in note for note in found.notes) == 2
    assert "cannot be read" in clusters_of(peering(GROUP.format(tmp_path / "none.xml"))).notes[0]
