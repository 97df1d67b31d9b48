"""Clients that others wrote, against the real process: paho-mqtt, mosquitto_pub and _rr; mqtt.js, stomp.js and rhea.

The features of `mqtt_features.py` must give the same lines here as on Mosquitto.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import npm
import pytest
from classic import free_port
from mqtt_features import Peer, transcript
from ours import Entrepot, listens

from promises import never
from shell.certificates import PASSWORD, Certificates

HOST = "127.0.0.1"
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
VERSIONS = [4, 5]
SCRIPT = """
import mqtt from 'mqtt'; import {Client} from '@stomp/stompjs'; import WebSocket from 'ws';
Object.assign(global, {WebSocket});
const url = process.argv[2], came = [];
const c = await mqtt.connectAsync(url, {protocolVersion: 5, clientId: 'js'});
c.on('message', (topic, payload, packet) => came.push(`${topic} ${payload.length} q${packet.qos}`));
await c.subscribeAsync('js/#', {qos: 2});
for (const qos of [0, 1, 2]) await c.publishAsync('js/' + qos, 'x'.repeat(10 ** (2 * qos + 1)), {qos});
while (came.length < 3) await new Promise(ok => setTimeout(ok, 20));
console.log(came.sort().join(' | '));
await c.endAsync();
const s = new Client({brokerURL: url, reconnectDelay: 0});
await new Promise((ok, no) => { s.onConnect = ok; s.onWebSocketError = no; s.onStompError = no; s.activate(); });
const got = new Promise(ok => s.subscribe('/topic/st', message => ok(message.body)));
s.publish({destination: '/topic/st', body: 'gr\\u00fc\\u00df'});
console.log(await got, s.connectedVersion);
await s.deactivate();
"""
SCRIPT_SAYS = ["js/0 10 q0 | js/1 1000 q1 | js/2 100000 q2", "gr\u00fc\u00df 1.2"]
RHEA_SAYS = "1000 | 3 | 3 | 300000"
RHEA = """
import rhea from 'rhea'; import WebSocket from 'ws';
const [url, port] = process.argv.slice(2);
async function talk(name, details) {
  const container = rhea.create_container({id: name}), came = [];
  const link = container.connect({...details(container), reconnect: false});
  await new Promise((ok, no) => { link.on('connection_open', ok); link.on('disconnected', no); });
  const reader = link.open_receiver({source: name, credit_window: 2, autoaccept: false});
  const all = new Promise(ok => reader.on('message', at => {
    at.delivery.accept();
    came.push(String(at.message.body).length);
    if (came.length === 4) ok();
  }));
  const sender = link.open_sender(name), settled = [];
  await new Promise(ok => sender.once('sendable', ok));
  const answers = new Promise(ok => sender.on('accepted', () => { if (settled.push(1) === 4) ok(); }));
  for (const body of ['one', 'two', 'x'.repeat(1000), 'y'.repeat(300000)]) sender.send({body, durable: true});
  await Promise.all([all, answers]);
  const gone = new Promise(ok => link.on('connection_close', ok));
  link.close();
  await gone;
  console.log(name, came.sort().join(' | '));
}
await talk('tcp', () => ({host: '127.0.0.1', port, username: 'me'}));
await talk('ws', container => ({
  connection_details: container.websocket_connect(WebSocket)(url, ['amqp'], {}), username: 'me',
}));
"""


class MqttBroker(Entrepot):
    """One broker that listens for MQTT and for WebSocket, too."""

    def __init__(self, home: Path) -> None:
        self.mqtt, self.ws, self.wss, self.amqp = (free_port() for _ in range(4))
        certificates = Certificates(home)
        self.authority = certificates.authority
        shown = {"wss": f"?keyStorePath={certificates.store}&keyStorePassword={PASSWORD.decode()}"}
        places = ((scheme, f"{HOST}:{port}{shown.get(scheme, '')}") for scheme, port in self.ports().items())
        super().__init__(home, arguments=tuple(f"--listen={scheme}://{place}" for scheme, place in places))

    def ports(self) -> dict[str, int]:
        return {"mqtt": self.mqtt, "ws": self.ws, "wss": self.wss, "amqp": self.amqp}

    def up(self) -> MqttBroker:
        self.start().await_ready()
        for port in self.ports().values():
            listens(HOST, port)
        return self


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttBroker]:
    made = MqttBroker(tmp_path_factory.mktemp("mqtt")).up()
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="module")
def mosquitto() -> Iterator[int]:
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    port = free_port()
    process = subprocess.Popen([MOSQUITTO, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        listens(HOST, port)
        yield port
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_feature_is_as_in_mosquitto(broker: MqttBroker, mosquitto: int, version: int) -> None:
    here = transcript(broker.mqtt, version)
    assert here == transcript(mosquitto, version)
    assert len(here) > 40


@pytest.mark.skipif(shutil.which("mosquitto_rr") is None, reason="mosquitto-clients are not installed")
def test_the_commands_of_mosquitto(broker: MqttBroker) -> None:
    port = ["-h", HOST, "-p", str(broker.mqtt)]
    reader = subprocess.Popen(
        ["mosquitto_sub", *port, "-V", "mqttv5", "-t", "cmd/#", "-q", "2", "-C", "3", "-W", "20", "-F", "%t %q %r %p"],
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(1)
    for qos in "012":
        subprocess.run(["mosquitto_pub", *port, "-t", f"cmd/{qos}", "-m", f"m{qos}", "-q", qos], check=True, timeout=20)
    assert sorted(reader.communicate(timeout=30)[0].splitlines()) == ["cmd/0 0 0 m0", "cmd/1 1 0 m1", "cmd/2 2 0 m2"]
    answering = Peer(broker.mqtt, "answers", 5)
    answering.client.on_message = lambda client, data, message: client.publish(
        message.properties.ResponseTopic, b"answer to " + message.payload
    )
    answering.subscribe("ask", 1)
    asked = ["mosquitto_rr", *port, "-V", "mqttv5", "-t", "ask", "-e", "answer/here", "-m", "me", "-W", "10"]
    found = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    answering.leave()
    assert found.stdout.strip() == "answer to me"


def test_nothing_confirmed_is_lost_and_nothing_of_qos_2_doubled_by_kill_9(tmp_path: Path) -> None:
    broker = MqttBroker(tmp_path).up()
    try:
        reader = Peer(broker.mqtt, "kill-r", 4, clean=False)
        reader.client.reconnect_delay_set(1, 1)
        reader.subscribe("kill/#", 2)
        writer = Peer(broker.mqtt, "kill-w", 4, clean=False)
        writer.client.reconnect_delay_set(1, 1)
        confirmed: dict[int, None] = {}
        writer.client.on_publish = lambda client, data, number, *rest: confirmed.setdefault(number)

        def send() -> None:
            for number in range(400):
                writer.client.publish(f"kill/{number}", str(number), 1 + number % 2)
                time.sleep(0.004)

        sending = threading.Thread(target=send)
        sending.start()
        for away in (0, 1.5):
            time.sleep(0.5)
            broker.kill()
            time.sleep(away)  # longer than the clients wait: they find nobody, and try again
            broker.up()
        sending.join()
        until = time.monotonic() + 40
        while len(confirmed) < 400 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(confirmed) == 400
        came = [line.split()[0] for line in reader.came(400)]
        assert {f"kill/{number}" for number in range(400)} <= set(came)
        twice = [topic for topic in came if came.count(topic) > 1]
        with never():
            assert all(int(topic.rpartition("/")[2]) % 2 == 0 for topic in twice), twice  # those of QoS 1 may
        writer.leave()
        reader.leave()
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where node finds the clients."""
    home = tmp_path_factory.mktemp("node")
    try:
        npm.link(home, "mqtt@5", "@stomp/stompjs@7", "ws@8", "rhea@3")
    except npm.Unavailable as why:
        pytest.skip(str(why))
    return home


def run_script(home: Path, text: str, *arguments: str, trust: Path | None = None) -> list[str]:
    (home / "talk.mjs").write_text(text)
    command = ["node", "talk.mjs", *arguments]
    env = None if trust is None else {**os.environ, "NODE_EXTRA_CA_CERTS": str(trust)}
    found = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=30, check=False, env=env)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout.splitlines()


def test_mqtt_js_and_stomp_js_over_web_socket(broker: MqttBroker, scripts: Path) -> None:
    assert run_script(scripts, SCRIPT, f"ws://{HOST}:{broker.ws}/") == SCRIPT_SAYS


def test_all_three_over_web_socket_with_tls(broker: MqttBroker, scripts: Path) -> None:
    place, trust = f"wss://{HOST}:{broker.wss}/", broker.authority
    assert run_script(scripts, SCRIPT, place, trust=trust) == SCRIPT_SAYS
    assert run_script(scripts, RHEA, place, str(broker.amqp), trust=trust)[1:] == [f"ws {RHEA_SAYS}"]
    with pytest.raises(AssertionError, match=r"UNABLE_TO_VERIFY|unable to verify|self-signed"):
        run_script(scripts, SCRIPT, place)  # whom it does not know it does not talk to


def test_rhea_over_tcp_and_over_web_socket(broker: MqttBroker, scripts: Path) -> None:
    """Bodies of one frame, and of several."""
    said = run_script(scripts, RHEA, f"ws://{HOST}:{broker.ws}/", str(broker.amqp))
    assert said == [f"tcp {RHEA_SAYS}", f"ws {RHEA_SAYS}"]
