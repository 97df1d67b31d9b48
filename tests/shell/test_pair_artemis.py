"""A primary and a backup from two broker.xml: who serves when, and who gives the store back (artemis.md 2.2)."""

from __future__ import annotations

from pathlib import Path

from test_pair_xml import Running, Start, receive, send, start

from pairs import PATIENCE, free_port, until

__all__ = ["start"]

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><journal-directory>{home}/journal</journal-directory>
<ha-policy><shared-store>{part}</shared-store></ha-policy>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:{port}?protocols=STOMP</acceptor></acceptors>
<addresses><address name="orders"><multicast><queue name="small"><filter string="n &lt; 10"/></queue></multicast>
</address></addresses>
<diverts><divert name="d"><address>q</address><forwarding-address>copy</forwarding-address>
<routing-type>ANYCAST</routing-type></divert></diverts>
</core></configuration>
"""
HANDS_OVER = "<failover-on-shutdown>true</failover-on-shutdown>"


class Two:
    """The files of a primary and a backup."""

    def __init__(self, home: Path, start: Start, *, primary: str = "", backup: str = "") -> None:
        self.start_one = start
        self.ports = {"primary": free_port(), "backup": free_port()}
        self.files: dict[str, Path] = {}
        for part, inner in (("primary", primary), ("backup", backup)):
            self.files[part] = home / f"{part}.xml"
            text = CONFIGURATION.format(name=part, home=home, port=self.ports[part], part=f"<{part}>{inner}</{part}>")
            self.files[part].write_text(text)

    def start(self, part: str) -> Running:
        return self.start_one(self.files[part])

    def pair(self) -> tuple[Running, Running]:
        primary = self.start("primary")
        until(primary.serves, "the primary serves")
        backup = self.start("backup")
        until(backup.waits, "the backup waits")
        return primary, backup


def test_a_crash_hands_over_and_the_primary_gets_its_store_back(start: Start, tmp_path: Path) -> None:
    two = Two(tmp_path, start)
    primary, backup = two.pair()
    send(two.ports["primary"], b"one", b"two")
    primary.end(9)
    until(backup.serves, "the backup serves")
    send(two.ports["backup"], b"three")
    again = two.start("primary")
    until(again.serves, "the primary has its store back")
    assert receive(two.ports["primary"], 3) == [b"one", b"two", b"three"]
    until(lambda: backup.text().count("slave mode") == 2, "the backup waits again, in the same process")
    assert "the primary asks for its store back" in backup.text()
    again.end(9)
    until(lambda: backup.text().count("  listening  stomp://") == 2, "the backup serves again")


def test_a_graceful_stop_pauses_the_store_for_its_primary(start: Start, tmp_path: Path) -> None:
    two = Two(tmp_path, start)
    primary, backup = two.pair()
    assert primary.end() == 0
    until(lambda: "left the store" in backup.text(), "the backup says why it waits")
    assert not backup.serves()
    again = two.start("primary")
    until(again.serves, "the primary takes what it paused")
    assert not backup.serves()


def test_a_stop_that_hands_over_and_a_backup_that_ends_after_it_gave_back(start: Start, tmp_path: Path) -> None:
    two = Two(tmp_path, start, primary=HANDS_OVER, backup="<restart-backup>false</restart-backup>")
    primary, backup = two.pair()
    assert primary.end() == 0
    until(backup.serves, "the backup serves")
    again = two.start("primary")
    until(again.serves, "the primary has its store back")
    assert backup.process.wait(PATIENCE) == 0


def test_a_backup_that_keeps_what_it_has(start: Start, tmp_path: Path) -> None:
    two = Two(tmp_path, start, primary=HANDS_OVER, backup="<allow-failback>false</allow-failback>")
    primary, backup = two.pair()
    assert primary.end() == 0
    until(backup.serves, "the backup serves")
    again = two.start("primary")
    until(again.waits, "the primary waits")
    send(two.ports["backup"], b"one")
    assert not again.serves()
    backup.end(9)
    until(again.serves, "the primary takes over from the dead backup")
