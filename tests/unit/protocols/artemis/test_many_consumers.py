"""A session with very many consumers of one queue."""

from __future__ import annotations

from time import process_time

from entrepot.protocols.artemis.packets import CloseConsumer, CreateConsumer, FlowToken, Packet, Receive

from .wired import Client, Hub

MANY = 8_000
SECONDS_MAX = 8.0  # of the processor, plain Python; each opening and closing looked at all others once, and it took 40
CHUNK = 64 * 1024


def told(client: Client, packets: list[Packet]) -> None:
    """Send ``packets`` as a socket brings them."""
    octets = bytearray()
    for packet in packets:
        packet.channel = 10
        octets += client.encoder.encode(packet)
    for at in range(0, len(octets), CHUNK):
        client.octets(bytes(octets[at : at + CHUNK]))
    client.came.clear()


def test_opening_and_closing_does_not_grow_with_their_number() -> None:
    hub = Hub()
    hub.options.consumers_max = MANY
    client = Client(hub)
    client.open()
    client.make("q")
    began = process_time()
    told(client, [CreateConsumer(consumer=number, queue="q", require_response=True) for number in range(MANY)])
    told(client, [FlowToken(consumer=number, credits=1 << 20) for number in range(MANY)])
    client.send("q", "a")
    client.send("q", "b")
    assert [packet.consumer for packet in client.take(Receive)] == [0, 1], "each gets one in turn"
    told(client, [CloseConsumer(consumer=number) for number in range(MANY - 1)])
    assert process_time() - began < SECONDS_MAX
    client.came.clear()
    client.send("q", "c")
    assert MANY - 1 in [packet.consumer for packet in client.take(Receive)], "who is left gets what the others had, too"
