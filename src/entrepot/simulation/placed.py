"""Readers by lease that look into the files of the broker themselves, where the form ``located`` tells them."""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.protocols.stomp.client import Message
from entrepot.protocols.stomp.columns import fields_of
from entrepot.protocols.stomp.entry import Entry
from entrepot.protocols.stomp.located import FORM, Locations
from entrepot.protocols.stomp.recorded_rows import message_in
from entrepot.simulation.disk import SimulatedDisk

__all__ = ["FORM", "found_at", "is_safe"]


def is_safe(disk: SimulatedDisk, told: Message) -> bool:
    """Return whether a crash would leave everything that ``told`` tells the places of where it is."""
    places = Locations(told.body)
    medium = disk.medium
    for row in range(int(places.count)):
        name = places.files[int(places.file(row))].path
        low = int(places.offset(row))
        high = low + int(places.length(row))
        if name in medium.view and medium.durable.get(name, b"")[low:high] != medium.view[name][low:high]:
            return False
    return True


def found_at(disk: SimulatedDisk, told: Message) -> Iterator[tuple[int, dict[str, str], bytes]]:
    """Yield position, headers and body of what ``told`` tells the places of, up to the first that is not to be had."""
    places = Locations(told.body)
    entry = Entry(told.headers["prefix"].encode(), told.headers["kind"].encode())
    first = int(told.headers["position"])
    for row in range(int(places.count)):
        content = disk.medium.view.get(places.files[int(places.file(row))].path)
        start = int(places.offset(row))
        data = b"" if content is None else bytes(content[start : start + int(places.length(row))])
        if not entry.of_record(data, 0, len(data), places.number(row)):
            message = message_in(data, 0, len(data))
            if message is None:
                return
            message.number = int(places.number(row))
            entry.of_message(message)
        headers = {name.decode(): value.decode() for name, value in fields_of(entry.lines).items()}
        headers["message-id"] = entry.identity.whole().decode()
        headers["timestamp"] = str(int(entry.timestamp))
        yield first + row, headers, entry.body()
