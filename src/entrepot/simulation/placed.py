"""Readers by lease that look into the files of the broker themselves, where the form ``located`` tells them."""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.protocols.stomp.client import Message
from entrepot.protocols.stomp.columns import fields_of
from entrepot.protocols.stomp.located import FORM, Locations
from entrepot.protocols.stomp.recorded import MessageIds, PlainRecord
from entrepot.simulation.disk import SimulatedDisk

__all__ = ["FORM", "found_at"]


def found_at(disk: SimulatedDisk, told: Message) -> Iterator[tuple[int, dict[str, str], bytes]]:
    """Yield position, headers and body of what ``told`` tells the places of, up to the first that is not to be had."""
    places = Locations(told.body)
    record = PlainRecord()
    identity = MessageIds(told.headers["prefix"].encode())
    first = int(told.headers["position"])
    for row in range(int(places.count)):
        content = disk.medium.view.get(places.files[int(places.file(row))].path)
        start = int(places.offset(row))
        data = b"" if content is None else bytes(content[start : start + int(places.length(row))])
        if not record.look(data, 0, len(data)):
            return
        identity.write(places.number(row))
        headers = {name.decode(): value.decode() for name, value in fields_of(record.lines).items()}
        headers["message-id"] = (identity.head + identity.last).decode()
        headers["timestamp"] = str(int(record.timestamp))
        yield first + row, headers, record.body
