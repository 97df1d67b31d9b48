"""`Broker.queues` on a broker that runs, with a disk and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot import Broker
from entrepot.base.errors import InvalidDestination, InvalidOption
from entrepot.model.address import parse_one
from shell.test_node import client


@pytest.mark.parametrize("disk", [True, False])
def test_what_an_operator_does_can_be_done_from_within(run, tmp_path: Path, disk: bool) -> None:
    data = tmp_path / "data" if disk else None

    async def main() -> None:
        async with Broker(data=data) as broker:
            queues = broker.queues
            assert queues.list() == []
            queues.create("orders")
            queues.pause("/queue/orders")
            sender = await client(broker)
            for number in range(1200):
                await sender.say("SEND", "x", destination="/queue/orders", persistent="true", n=str(number).zfill(4))
            await sender.call("SEND", "last", destination="/queue/orders", persistent="true", n="1200")
            view = queues.show("orders")
            assert (view.messages, view.paused, view.durable) == (1201, True, True)
            assert await queues.copy("orders", "copies", most=700) == 700
            assert await queues.move("orders", "elsewhere", selector="n = '1200'") == 1
            queues.resume("orders")
            assert not queues.show("orders").paused
            assert await queues.purge("orders", selector="n LIKE '00%'") == 100
            assert await queues.purge("orders", most=100) == 100
            assert queues.show("orders").messages == 1000
            with pytest.raises(InvalidDestination, match="holds"):
                await queues.delete("orders", if_empty=True)
            assert await queues.delete("orders") == 1000
            assert [view.name for view in queues.list()] == ["copies", "elsewhere"]
            assert [view.name for view in queues.list("copi*")] == []
            core = broker.node.broker
            first = core.ids.identity_of(core.browse(parse_one("copies"), None).next(1)[0])
            assert await queues.remove("copies", first) is True
            assert await queues.remove("copies", first) is False
            await sender.call("SUBSCRIBE", destination="/queue/empty", id="1")
            assert [view.queue for view in queues.consumers()] == ["empty"]
            with pytest.raises(InvalidDestination, match="consumers"):
                await queues.delete("empty", if_unused=True)
            sender.writer.write(b"SEND\ndestination:/queue/later\nAMQ_SCHEDULED_DELAY:3600000\n\n\0")
            await sender.call("SEND", destination="/queue/other")
            (late,) = queues.scheduled()
            assert queues.cancel(late.number) is True
            assert queues.cancel(late.number) is False
            with pytest.raises(InvalidDestination):
                await queues.retry()
        with pytest.raises(InvalidOption):
            Broker().queues.list()
        if disk:
            async with Broker(data=data) as broker:
                counts = {view.name: view.messages for view in broker.queues.list()}
                assert {name: count for name, count in counts.items() if count} == {"copies": 699, "elsewhere": 1}

    run(main)
