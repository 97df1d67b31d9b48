"""Users and rights of real brokers: the commands that keep them, and the commands that need them."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon import PATIENCE, Daemon, Wire

import guides
from entrepot.base.scram import DIGESTS
from entrepot.cli.configuration import load
from entrepot.core.security.logins import GUESSES_A_SECOND
from entrepot.core.security.passwords import Kept

RIGHTS = """\
allow ops   all      >
allow shop  send,create  queue://orders
allow shop  consume  queue://answers
"""


def entrepot(*arguments: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "entrepot", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **environment},
        check=False,
    )


def did(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def failed(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stderr


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A users file, made by the commands."""
    file = tmp_path_factory.mktemp("users") / "users.conf"
    did(entrepot("user", "add", "boss", "--groups", "ops", "--users", str(file), given="manager\n"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text(file.read_text() + RIGHTS)
    did(entrepot("user", "add", "app", "--groups", "shop", "--users", str(file), ENTREPOT_NEW_PASSWORD="secret"))
    return file


@pytest.fixture(scope="module")
def broker(users: Path) -> Iterator[str]:
    made = Daemon(users.parent, "--users", str(users), ephemeral=True).start()
    assert "2, who have rights by 5 rules" in made.told()
    yield f"stomp://127.0.0.1:{made.port}"
    assert made.stop() == 0


def test_users_are_kept_in_a_file(users: Path, tmp_path: Path) -> None:
    assert [line.split() for line in did(entrepot("user", "list", "--users", str(users))).splitlines()[1:]] == [
        ["boss", "ops", "scrypt"],
        ["app", "shop", "scrypt"],
    ]
    text = users.read_text()
    assert "manager" not in text
    assert "secret" not in text
    copy = tmp_path / "users.conf"
    copy.write_text(text)
    copy.chmod(0o640)
    did(entrepot("user", "remove", "app", ENTREPOT_USERS=str(copy)))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640
    assert [line for line in text.splitlines() if "user app" not in line] == copy.read_text().splitlines()
    assert "there is no user 'app'" in failed(entrepot("user", "remove", "app", "--users", str(copy)), 2)
    assert "cannot be the name" in failed(entrepot("user", "add", "a,b", "--users", str(copy), given="x\n"), 2)
    assert "empty password" in failed(entrepot("user", "add", "b", "--users", str(copy), given="\n"), 2)
    did(entrepot("user", "add", "prover", "--scram", "--users", str(copy), given="secret\n"))
    (line,) = [line for line in copy.read_text().splitlines() if "user prover" in line]
    kept = Kept(line.split()[-1])
    assert kept.matches("secret")
    assert not kept.matches("secrets")
    assert all(kept.keys(digest, b"") is not None for digest in DIGESTS)
    assert list(tmp_path.iterdir()) == [copy]


def test_a_broker_does_not_start_with_a_file_that_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "users.conf").write_text("user a - plain:x\nuser b hidden\n")
    run = ("run", "--ephemeral", "--listen", "stomp://127.0.0.1:0", "--users")
    said = failed(entrepot(*run, str(tmp_path / "users.conf")))
    assert "users.conf:2" in said
    assert "hidden" not in said
    assert "cannot read the users" in failed(entrepot(*run, str(tmp_path / "none")))


def test_commands_say_who_they_are_in_three_ways(broker: str) -> None:
    place = broker.removeprefix("stomp://")
    did(entrepot("send", "--url", f"stomp://app:secret@{place}", "/queue/orders", "1"))
    did(entrepot("send", "--url", broker, "--login", "app", "--passcode", "secret", "/queue/orders", "2"))
    did(entrepot("send", "/queue/orders", "3", ENTREPOT_URL=broker, ENTREPOT_LOGIN="app", ENTREPOT_PASSCODE="secret"))
    for given in ({}, {"ENTREPOT_LOGIN": "app"}, {"ENTREPOT_LOGIN": "app", "ENTREPOT_PASSCODE": "guess"}):
        assert "or password is invalid." in failed(entrepot("send", "/queue/orders", "x", ENTREPOT_URL=broker, **given))
    boss = {"ENTREPOT_URL": broker, "ENTREPOT_LOGIN": "boss", "ENTREPOT_PASSCODE": "manager"}
    assert did(entrepot("receive", "/queue/orders", "--count", "3", **boss)).split() == ["1", "2", "3"]


def test_commands_tell_what_their_user_may_not_do(broker: str) -> None:
    app = {"ENTREPOT_URL": broker, "ENTREPOT_LOGIN": "app", "ENTREPOT_PASSCODE": "secret"}
    boss = {**app, "ENTREPOT_LOGIN": "boss", "ENTREPOT_PASSCODE": "manager"}
    did(entrepot("queue", "list", **boss))
    refused = "User app is not authorized to"
    assert f"{refused} manage: queue://activemq.management" in failed(entrepot("queue", "list", **app))
    assert f"{refused} write to: queue://other" in failed(entrepot("send", "/queue/other", "x", **app))
    assert f"{refused} read from: queue://orders" in failed(entrepot("receive", "/queue/orders", "--count", "1", **app))
    assert f"{refused} create: queue://answers" in failed(entrepot("receive", "/queue/answers", "--count", "1", **app))
    did(entrepot("send", "/queue/answers", "yes", **boss))
    assert did(entrepot("receive", "/queue/answers", "--count", "1", **app)).strip() == "yes"


def test_what_is_refused_leaves_the_broker_and_its_others_alone(broker: str) -> None:
    port = int(broker.rpartition(":")[2])
    wire = Wire(port, login="boss", passcode="manager")
    with pytest.raises(AssertionError):
        Wire(port, login="boss", passcode="guess")
    assert wire.send("/queue/quiet", b"still here").command == "RECEIPT"
    wire.cut()


# -- guessing ----------------------------------------------------------------------------------------------------------

GUESSERS = 30
BALANCED = b"PROXY TCP4 %s 192.0.2.1 40000 61613\r\n"


class Guesser(threading.Thread):
    """Tries passwords from one address, one after the other, as fast as it is answered."""

    def __init__(self, port: int, address: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.address = address
        self.stop = stop
        self.refused = 0

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                frame = come_in(self.port, self.address, "app", f"guess-{self.refused}")
            except OSError:
                return
            if not frame:
                return  # the broker stops
            assert frame.startswith(b"ERROR")
            self.refused += 1


def come_in(port: int, address: str, login: str, passcode: str) -> bytes:
    """Connect as through a load balancer that says where one is from; return the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
        sock.sendall(BALANCED % address.encode())
        sock.sendall(f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{login}\npasscode:{passcode}\n\n\0".encode())
        found = b""
        while not found.endswith(b"\0\n"):
            data = sock.recv(4096)
            if not data:
                break
            found += data
        return found


def test_guessers_slow_down_themselves_alone(users: Path, tmp_path: Path) -> None:
    """Thirty of them used up the ten looks a second of all: who knew his password was refused, five times of six."""
    balanced = "stomp://127.0.0.1:0?proxyProtocolEnabled=true"
    made = Daemon(tmp_path, "--users", str(users), "--listen", balanced, ephemeral=True).start()
    (port,) = [
        int(uri.rpartition(":")[2].partition("?")[0])
        for uri in json.loads(made.ports.read_text())["uris"]
        if f":{made.port}" not in uri
    ]
    stop = threading.Event()
    guessers = [Guesser(port, f"198.51.100.{number}", stop) for number in range(GUESSERS)]
    for each in guessers:
        each.start()
    until = time.monotonic() + PATIENCE
    while not all(each.refused for each in guessers) and time.monotonic() < until:
        time.sleep(0.01)
    before = sum(each.refused for each in guessers)
    assert come_in(port, "203.0.113.5", "boss", "manager").startswith(b"CONNECTED")
    assert come_in(port, "203.0.113.6", "app", "secret").startswith(b"CONNECTED")
    between = sum(each.refused for each in guessers) - before
    stop.set()
    assert between <= 4 * GUESSES_A_SECOND, "they were looked at before him"
    assert made.stop() == 0


# -- the guide ---------------------------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    return [block.text for block in guides.blocks("docs/security.md", language)]


def shell(script: str, where: Path, **environment: str) -> str:
    """Run a script of the guide with ``entrepot`` on the path; return what it wrote, errors too."""
    command = where / "bin" / "entrepot"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m entrepot "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=where,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_examples_of_the_guide_run_as_they_stand(tmp_path: Path) -> None:
    keeping, using = blocks("sh")
    (program,) = blocks("python")
    assert "shop-app" in shell(keeping, tmp_path)
    broker = Daemon(tmp_path, "--users", "users.conf", "--listen", "openwire://127.0.0.1:0", ephemeral=True).start()
    try:
        said = shell(using, tmp_path, ENTREPOT_URL=f"stomp://127.0.0.1:{broker.port}")
        assert said.count("refused: ") == 4  # by the broker, and by the example
        assert "not authorized to read from: queue://orders.eu [ENT-3003]" in said
        assert "one of these" in said
        place = json.loads(broker.ports.read_text())["uris"][1].replace("openwire", "tcp")
        command = [sys.executable, "-c", program.replace("tcp://127.0.0.1:61616", place)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        assert "User shop-app is not authorized to read from: queue://orders.eu" in done.stdout
    finally:
        assert broker.stop() == 0


def test_the_xml_of_the_guide_says_what_its_users_file_does(tmp_path: Path) -> None:
    (text,) = blocks("xml")
    file = tmp_path / "activemq.xml"
    file.write_text(
        '<broker xmlns="http://activemq.apache.org/schema/core" persistent="false">'
        f'{text}<transportConnectors><transportConnector name="s" uri="stomp://127.0.0.1:0"/></transportConnectors></broker>'
    )
    config, findings = load(str(file), ["boss.password=manager", "shop.password=secret"], strict=False)
    assert config is not None, [finding.describe() for finding in findings]
    assert not findings.all
    assert [user.name for user in config.security.users or ()] == ["boss", "shop-app"]
    assert len(config.security.rules or ()) == 4
