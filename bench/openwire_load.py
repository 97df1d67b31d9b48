"""This project's Python client as a load, in a process of its own. Started by `openwire_rows.py`.

    python openwire_load.py bursts URL QUEUE --seconds S    prints JSON
    python openwire_load.py failover URL QUEUE              prints "works ADDRESS" for each line on standard input

``bursts``: 20,000 texts of 1 KiB, non-persistent, are sent without waiting, the last one with the broker's
confirmation, which tells that it has taken them all; then they are received with AUTO acknowledgement. Both are timed,
apart, again and again until each has taken S seconds. Every text carries its number: each must come, once and in
order, or it exits with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from time import perf_counter

import entrepot
from entrepot.base.compiled import is_compiled
from entrepot.client.consumer import Consumer
from entrepot.client.producer import Producer

BURST = 20_000  # as the loads over STOMP: nobody measures the paging of a growing backlog
LENGTH = 1024
DIGITS = 10
FILLER = "x" * (LENGTH - DIGITS)
PATIENCE_S = 30.0
QUIET_S = 0.2  # in which a message that was not sent would have come


class Wrong(Exception):
    """The broker or the client failed the load."""


async def bursts(url: str, queue: str, seconds: float) -> dict[str, object]:
    """Send and receive in turn until each took ``seconds``."""
    sending = receiving = 0.0
    count = 0
    async with (
        entrepot.connect(url) as connection,
        connection.session() as session,
        session.producer(queue) as producer,
    ):
        producer.persistent = False
        while min(sending, receiving) < seconds:
            start = perf_counter()
            await send(producer, count)
            sending += perf_counter() - start
            async with session.consumer(queue) as consumer:
                start = perf_counter()
                await receive(consumer, count)
                receiving += perf_counter() - start
                if await consumer.receive(QUIET_S) is not None:
                    raise Wrong("more came than was sent")
            count += BURST
    return {
        "sent_per_second": count / sending,
        "received_per_second": count / receiving,
        "sending_s": sending,
        "receiving_s": receiving,
        "total_sent": count,
        "total_received": count,
        "compiled": is_compiled(),
    }


async def send(producer: Producer, first: int) -> None:
    """Send one burst; returns when the broker has it."""
    for number in range(first, first + BURST - 1):
        await producer.send(f"{number:010d}{FILLER}")
    await producer.send(f"{first + BURST - 1:010d}{FILLER}", wait=True)


async def receive(consumer: Consumer, first: int) -> None:
    """Receive one burst, and look at each."""
    number = first
    async with asyncio.timeout(PATIENCE_S):
        async for message in consumer:
            text = message.body
            if not isinstance(text, str) or len(text) != LENGTH or int(text[:DIGITS]) != number:
                raise Wrong(f"not number {number} but {text!r:.20}")
            number += 1
            if number == first + BURST:
                return


async def failover(url: str, queue: str) -> None:
    """Send with confirmation and receive, whenever asked."""
    loop = asyncio.get_running_loop()
    async with (
        entrepot.connect(url) as connection,
        connection.session() as session,
        session.producer(queue) as producer,
        session.consumer(queue) as consumer,
    ):
        number = 0
        while await loop.run_in_executor(None, sys.stdin.readline):
            number += 1
            await producer.send(f"round {number}", persistent=True)
            while (message := await consumer.receive(PATIENCE_S)) is not None:
                if message.body == f"round {number}":
                    break
            else:
                raise Wrong("no message came")
            print("works", connection.broker, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bursts", "failover"])
    parser.add_argument("url")
    parser.add_argument("queue")
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    try:
        if given.what == "bursts":
            print(json.dumps(asyncio.run(bursts(given.url, given.queue, given.seconds))))
        else:
            asyncio.run(failover(given.url, given.queue))
    except (Wrong, TimeoutError, entrepot.EntrepotError) as problem:
        print(f"FAILED: {type(problem).__name__}: {problem}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
