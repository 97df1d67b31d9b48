"""What programs ask a console for, over real sockets: Jolokia, metrics, feeds, messages; and what they may not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import urlopen

import pytest

pytest.importorskip("uvicorn")

from entrepot.client.connection import connect
from shell.consoles import Answer, Console, Process, until

BROKER = "org.apache.activemq:type=Broker,brokerName=here"
QUEUE = BROKER + ",destinationType=Queue,destinationName="
ODD = "a\"b&<script>alert(1)</script>'*?"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    made = Console(tmp_path_factory.mktemp("console"))
    made.do("send", "/queue/orders", "-H", "colour=red", given="one\ntwo\nthree\n")
    yield made
    made.stop()


def test_the_broker_is_read_by_both_names_and_operations_act(console: Console) -> None:
    assert console.ask(f"/api/jolokia/read/{QUEUE}orders/QueueSize").json["value"] == 3
    keys = 'component=addresses,address="orders",subcomponent=queues,routing-type="anycast",queue="orders"'
    name = f'org.apache.activemq.artemis:broker="here",{keys}'
    asked = [
        {"type": "read", "mbean": name, "attribute": ["MessageCount", "Durable"]},
        {
            "type": "exec",
            "mbean": name,
            "operation": "countMessages(java.lang.String)",
            "arguments": ["colour = 'blue'"],
        },
        {"type": "exec", "mbean": name, "operation": "pause()"},
        {"type": "read", "mbean": name, "attribute": "Paused"},
        {"type": "exec", "mbean": name, "operation": "resume()"},
        {"type": "read", "mbean": "no name"},
    ]
    told = console.ask("/console/jolokia", body=asked).json
    assert [one.get("value", one["status"]) for one in told] == [
        {"MessageCount": 3, "Durable": True}, 0, None, True, None, 400,
    ]  # fmt: skip
    sent = {"type": "exec", "mbean": QUEUE + "made", "operation": "sendTextMessage(java.util.Map,java.lang.String)"}
    console.ask("/api/jolokia", body={"type": "exec", "mbean": BROKER, "operation": "addQueue", "arguments": ["made"]})
    answer = console.ask("/api/jolokia", body={**sent, "arguments": [{"n": "1", "JMSPriority": 7}, "hello"]})
    assert answer.json["status"] == 200, answer.text
    (message,) = console.ask(f"/api/jolokia/exec/{QUEUE}made/browse()").json["value"]
    assert (message["Text"], message["JMSPriority"], message["StringProperties"]["n"]) == ("hello", 7, "1")
    assert console.ask(f"/api/jolokia/exec/{QUEUE}made/purge()").json["status"] == 200
    assert console.ask(f"/api/jolokia/read/{QUEUE}made/QueueSize").json["value"] == 0


def test_metrics_health_and_feeds(console: Console) -> None:
    assert console.ask("/health/live").status == 200
    assert console.ask("/health/ready").json == {"ready": True, "brokers": {"here": "ready"}}
    text = console.ask("/metrics").text
    assert 'artemis_message_count{broker="here",address="orders",queue="orders"} 3\n' in text
    assert 'artemis_routed_message_count{broker="here",address="orders"} 3\n' in text
    detailed = console.ask("/metrics/detailed", headers={"Accept": "application/openmetrics-text"})
    assert detailed.headers["content-type"].startswith("application/openmetrics-text")
    assert 'entrepot_stuck_messages{broker="here",reason="no-consumer"} 3' in detailed.text
    assert (
        '<queue name="orders">\n<stats size="3" consumerCount="0" enqueueCount="3" dequeueCount="0"/>'
        in console.ask("/admin/xml/queues.jsp").text
    )


@pytest.mark.parametrize("odd", ["²", "9" * 5000])
def test_odd_numbers_are_mistakes_of_who_asks(console: Console, odd: str) -> None:
    asked = quote(odd)
    for path in (f"/queues?page={asked}", f"/queue?name=orders&page={asked}"):
        assert console.ask(path).status == 200
    assert console.ask(f"/api/message/orders?type=queue&readTimeout={asked}").status == 400
    assert console.ask(f"/api/message/orders?type=queue&JMSPriority={asked}", body="x").status == 400
    assert console.ask(f"/api/jolokia/read/{QUEUE}orders?maxDepth={asked}").json["status"] == 400


@pytest.mark.parametrize("host", ["[::1", "localhost:99999", "localhost:²"])
def test_a_host_that_is_none_is_refused(console: Console, host: str) -> None:
    answer = console.ask("/", headers={"Host": host.encode("utf-8").decode("latin-1")})
    assert answer.status == 400
    assert console.ask("/", headers={"Origin": "http://["}).status == 403


def test_messages_are_sent_and_taken_over_http(console: Console) -> None:
    assert console.ask("/api/message/rest?type=queue&n=1", body="hello").text == "Message sent"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    console.ask("/api/message/rest?type=queue", body="body=from+a+form&JMSType=x", headers=form)
    first = console.ask("/api/message/rest?type=queue&readTimeout=5000")
    assert (first.status, first.text, first.headers["destination"]) == (200, "hello", "queue://rest")
    assert console.ask("/api/message/rest?type=queue&readTimeout=5000", method="DELETE").text == "from a form"
    assert console.ask("/api/message/rest?type=queue&readTimeout=50").status == 204
    assert console.ask("/api/message/rest?type=file").status == 400


def test_what_hostile_names_say_is_data(console: Console) -> None:
    console.ask(f"/api/message/{quote(ODD, safe='')}?type=queue", body="x")
    feed = console.ask("/admin/xml/queues.jsp").text
    assert "<script>" not in feed
    assert "&lt;script&gt;" in feed
    text = until(lambda: console.ask("/metrics").text, lambda text: "script" in text)  # views are kept for a moment
    assert '\\"b&<script>' in text
    found = console.ask(
        "/console/jolokia", body={"type": "search", "mbean": "org.apache.activemq.artemis:subcomponent=queues,*"}
    )
    (odd,) = [one for one in found.json["value"] if "script" in one]
    assert (
        console.ask("/console/jolokia", body={"type": "read", "mbean": odd, "attribute": "MessageCount"}).json["value"]
        > 0
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "evil.example"},  # a name that an attacker points to 127.0.0.1
    ],
)
def test_pages_of_others_do_nothing(console: Console, headers: dict[str, str]) -> None:
    before = console.ask(f"/api/jolokia/read/{QUEUE}orders/QueueSize").json["value"]
    for path in (
        f"/api/jolokia/exec/{QUEUE}orders/purge()",
        "/api/message/orders?type=queue&readTimeout=10",
        "/metrics",
    ):
        assert console.ask(path, headers=headers).status in (401, 403)
    assert console.ask("/api/message/orders?type=queue", body="x", headers=headers).status in (401, 403)
    assert console.ask(f"/api/jolokia/read/{QUEUE}orders/QueueSize").json["value"] == before


def test_answers_are_json_unless_a_text_is_asked_for(console: Console) -> None:
    assert console.ask("/api/jolokia/version").headers["content-type"] == "application/json"
    text = console.ask("/api/jolokia/version?mimeType=text/plain")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.json["status"] == 200


def test_scripts_of_activemq_send_an_origin(console: Console) -> None:
    assert console.ask("/api/jolokia/version", headers={"Origin": "http://localhost"}).status == 200


def test_what_is_too_long_is_refused_and_others_are_served(console: Console) -> None:
    assert console.ask("/api/jolokia", body="[" * 3_000_000).status == 413
    deep = console.ask("/api/jolokia", body="[" * 100_000 + "]" * 100_000)
    assert deep.json["status"] == 400
    host, _, port = urlsplit(console.url).netloc.partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:  # a body longer than its head says, in chunks
        link.sendall(b"POST /api/jolokia HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(40):
                link.sendall(chunk)
            answer = link.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            answer = b"HTTP/1.1 413"
    assert answer.startswith(b"HTTP/1.1 413")
    with socket.create_connection(
        (host, int(port)), timeout=10
    ) as link:  # two lengths: one request in two readers' eyes
        link.sendall(
            b"POST /api/jolokia HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"0\r\n\r\nGET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        link.settimeout(5)
        told = link.recv(65536)
    assert told.count(b"HTTP/1.1") <= 2
    assert console.ask("/health/live").status == 200


def test_a_client_that_holds_its_body_back_and_is_refused_is_not_misread(console: Console) -> None:
    """Jolokia's Java client does: without a password first, then with one, on the same connection if it stays."""
    host, _, port = urlsplit(console.url).netloc.partition(":")
    head = b"POST /api/jolokia HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18\r\nExpect: 100-continue\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(head + b"Authorization: Basic none\r\n\r\n")
        told = b""
        while some := link.recv(65536):  # to its end: it is closed
            told += some
    assert told.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in told.lower()
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(head + b"\r\n")
        assert link.recv(65536).startswith(b"HTTP/1.1 100")
        link.sendall(b'{"type":"version"}')
        answer = link.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" not in answer.lower()


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/static/../../../pyproject.toml", "/static/%2e%2e/desk.py", "//etc/passwd"]
)
def test_paths_lead_out_of_nothing(console: Console, path: str) -> None:
    assert console.ask(path).status in (400, 404)


def test_many_slow_heads_stop_nobody(console: Console) -> None:
    host, _, port = urlsplit(console.url).netloc.partition(":")
    links = [socket.create_connection((host, int(port)), timeout=10) for _ in range(100)]
    try:
        for link in links:
            link.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert console.ask("/health/live").status == 200
    finally:
        for link in links:
            link.close()


def test_what_was_done_is_in_the_audit_log(console: Console) -> None:
    console.ask(f"/api/jolokia/exec/{QUEUE}orders/pause()")
    console.ask(f"/api/jolokia/exec/{QUEUE}orders/resume()")
    lines = [
        json.loads(line.partition("entrepot.audit: ")[2])
        for line in console.log().splitlines()
        if "entrepot.audit" in line
    ]
    (paused,) = [line for line in lines if line.get("operation") == "pause()"][-1:]
    assert (paused["user"], paused["peer"], paused["status"]) == ("anonymous", "127.0.0.1", 200)
    assert "hello" not in console.log()  # no bodies


def test_limits_are_written_hold_and_are_in_the_audit_log(console: Console) -> None:
    def write(mbean: str, attribute: str, value: object, **headers: str) -> dict[str, object]:
        body = {"type": "write", "mbean": mbean, "attribute": attribute, "value": value}
        told: dict[str, object] = console.ask("/api/jolokia", body=body, headers=headers).json
        return told

    before = console.ask(f"/api/jolokia/read/{BROKER}/MemoryLimit").json["value"]
    assert write(BROKER, "MemoryLimit", 70_000_000)["value"] == before
    assert console.ask(f"/api/jolokia/write/{BROKER}/MemoryLimit/{before}").json["value"] == 70_000_000
    assert write(BROKER, "MemoryLimit", 1)["status"] == 200  # a slip of the hand can be taken back
    assert write(BROKER, "MemoryLimit", before)["value"] == 1
    console.do("send", "/queue/limited", given="one\n")
    bean = QUEUE + "limited"
    assert write(bean, "MemoryLimit", 5000)["status"] == 200
    assert write(bean, "ProducerFlowControl", True)["value"] is False
    read = {"type": "read", "mbean": bean, "attribute": ["MemoryLimit", "ProducerFlowControl"]}
    assert console.ask("/api/jolokia", body=read).json["value"] == {"MemoryLimit": 5000, "ProducerFlowControl": True}
    assert write(bean, "QueueSize", 1)["error_type"] == "javax.management.AttributeNotFoundException"
    assert write(bean, "MemoryLimit", 1, Origin="http://evil.example")["status"] == 403
    lines = [
        json.loads(line.partition("entrepot.audit: ")[2])
        for line in console.log().splitlines()
        if '"action": "write"' in line
    ]
    (line,) = [one for one in lines if one["operation"] == "ProducerFlowControl"]
    assert (line["value"], line["status"], line["result"], line["mbean"]) == ("True", 200, "False", bean)
    (refused,) = [one for one in lines if one["operation"] == "QueueSize"]
    assert refused["status"] == 404


def test_limits_are_written_by_who_may_manage_and_by_no_page_of_others(tmp_path: Path) -> None:
    users = "user boss ops plain:manager-secret\nuser app shop plain:app-secret\nallow ops all >\nallow shop send >\n"
    (tmp_path / "users.conf").write_text(users)
    made = Console(tmp_path, "--users", str(tmp_path / "users.conf"))
    path = f"/api/jolokia/write/{BROKER}/MemoryLimit/70000000"

    def basic(name: str) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(name.encode()).decode()}

    try:
        boss, app = basic("boss:manager-secret"), basic("app:app-secret")
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        login = made.ask("/login", body=urlencode({"user": "boss", "password": "manager-secret"}), headers=form)
        cookie = {"Cookie": login.headers["set-cookie"].partition(";")[0]}
        assert made.ask(path, headers=app).json["status"] == 403
        assert made.ask(path, headers=cookie).json["status"] == 403, "a link on any page would do it"
        image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        assert made.ask(path, headers={**boss, **image}).status == 403, "a browser sends names and passwords unasked"
        before = made.ask(f"/api/jolokia/read/{BROKER}/MemoryLimit", headers=boss).json["value"]
        assert before != 70_000_000
        assert made.ask(path, headers=boss).json["value"] == before
        assert made.ask(path, headers=boss).json["value"] == 70_000_000
    finally:
        made.stop()


def test_every_deed_on_a_page_says_first_how_much_it_is_about(console: Console) -> None:
    console.do("send", "/queue/deeds", given="1\n2\n3\n")
    page = console.ask("/queue?name=deeds").text
    (token, *_) = re.findall(r'name="token" value="([^"]+)"', page)
    first = unquote(re.findall(r'href="/message\?[^"]*id=([^"&]+)', page)[0])

    def act(action: str, **fields: str) -> Answer:
        form = {"token": token, "broker": "here", "action": action, **fields}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return console.ask("/act", method="POST", body=urlencode(form), headers=headers)

    def queued(name: str) -> int:
        return int(console.ask(f"/api/jolokia/read/{QUEUE}{name}/QueueSize").json["value"])

    def lead(answer: Answer) -> str:
        assert answer.status == 200, answer.text
        return re.findall(r'<p class="lead">(.*?)</p>', answer.text)[0]

    one = {"queue": "deeds", "id": first}
    assert lead(act("remove-one", **one)) == "One message is deleted from deeds."
    assert lead(act("move-one", **one, target="deeds.too")) == "One message goes from deeds to deeds.too."
    assert lead(act("retry-one", **one)) == "One message of deeds is sent back to where it died."
    assert queued("deeds") == 3
    assert act("remove-one", **one, sure="1").headers["location"].endswith("said=done")
    assert queued("deeds") == 2
    assert act("remove-one", **one).status == 400  # it is gone: there is nothing to ask about
    assert act("move-one", queue="deeds", id=first).status == 400

    console.do("send", "/queue/deeds", "-H", "AMQ_SCHEDULED_DELAY=3600000", given="later\n")
    (number,) = re.findall(r'name="id" value="([^"]+)"', console.ask("/schedule").text)
    assert lead(act("cancel", id=number)).startswith("One message does not go to queue://deeds at 2")
    assert number in console.ask("/schedule").text
    assert act("cancel", id=number, sure="1").headers["location"].endswith("said=cancelled")

    where = urlsplit(console.stomp)
    with socket.create_connection((str(where.hostname), int(where.port or 0)), 30) as reader:
        reader.sendall(
            b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/deeds\nack:client\n\n\0"
        )
        rows = until(
            lambda: [row for row in console.ask("/connections").text.split("<tr>") if ">stomp" in row.lower()],
            lambda found: len(found) == 2 and '<td class="n">2</td>' in found[1],
        )
        (identity,) = re.findall(r'name="id" value="([^"]+)"', rows[0])
        told = "2 messages that they have not acknowledged come again."
        assert lead(act("close", id=identity)) == f"1 readers end, and {told}"
        assert console.ask(f"/api/jolokia/read/{QUEUE}deeds/ConsumerCount").json["value"] == 1
        assert act("close", id=identity, sure="1").headers["location"].endswith("said=closed")
        while reader.recv(65536):
            pass


def test_a_broker_starts_a_console_and_ends_it_even_when_it_is_killed(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{probe.getsockname()[1]}"
    listen = ("--ephemeral", "--name", "one", "--listen", "auto://127.0.0.1:0", "--console", place)
    broker = Process(tmp_path, "broker", "run", *listen)
    try:
        until(lambda: answers(place), bool)
        with urlopen(f"http://{place}/health/ready", timeout=20) as answer:
            assert json.load(answer) == {"ready": True, "brokers": {"one": "ready"}}
    finally:
        broker.process.kill()
        broker.process.wait()
    until(lambda: answers(place), lambda there: not there)


def test_a_console_that_dies_is_started_again_and_the_log_says_so(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{probe.getsockname()[1]}"
    listen = ("--ephemeral", "--name", "one", "--listen", "auto://127.0.0.1:0", "--console", place)
    broker = Process(tmp_path, "broker", "run", *listen)
    try:
        until(lambda: answers(place), bool)
        (child,) = _children(broker.process.pid)
        os.kill(child, signal.SIGKILL)
        until(lambda: _children(broker.process.pid), lambda now: now and now != [child])
        until(lambda: answers(place), bool)
        log = (tmp_path / "broker.log").read_text()
        assert "WARNING LOG-6001 entrepot.console: the console ended with -9" in log
    finally:
        broker.stop()
    until(lambda: answers(place), lambda there: not there)


def _children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--console", "127.0.0.1:²"), "is not HOST:PORT"),
        (("--console", "127.0.0.1:0", "--listen", "stomp://127.0.0.1:0"), "--console asks the broker in OpenWire"),
    ],
)
def test_a_console_that_cannot_be_is_refused_before_a_broker_serves(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    command = [sys.executable, "-m", "entrepot", "run", "--data", "data", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert told in done.stderr
    assert "listening on" not in done.stderr
    assert not (tmp_path / "data").exists()


def answers(place: str) -> bool:
    host, _, port = place.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def test_the_page_of_connections_tells_who_sends_and_who_does_not_acknowledge(console: Console) -> None:
    async def look() -> str:
        async with connect(console.tcp) as connection, connection.session() as session:
            where = "queue://kept"
            async with session.producer(where) as producer, session.consumer(where) as consumer:
                await producer.send("one")
                assert await consumer.receive(30) is not None
                return await asyncio.to_thread(lambda: console.ask("/connections").text)

    shown = asyncio.run(look())
    connections, consumers, producers = re.findall("<tbody>(.*?)</tbody>", shown, re.DOTALL)
    assert "OPENWIRE" in connections.upper()
    assert "queue?broker=here&amp;name=kept" in consumers
    assert ">kept<" in producers
    assert "No acknowledgement for" in shown
