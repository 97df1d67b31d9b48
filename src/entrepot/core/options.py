"""What one broker is started with. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.environment import MIB
from entrepot.core.arrival import Stamps


class BrokerOptions:
    """What one broker is started with. Octets unless the name says otherwise."""

    def __init__(self, name: str = "localhost", memory_limit: i64 = 512 * MIB) -> None:
        self.name: str = name
        self.memory_limit: i64 = memory_limit
        self.messages_max: i64 = -1  # that memory takes, of all queues together; -1: any number
        self.wildcards: bool = True  # an address with wildcards in its name has what is sent to all that it matches
        self.version: str = "0.1.0"
        self.separator: str = ""  # what clients may write for the dots in names; "": nothing
        self.stamps: Stamps | None = None  # what all that is sent here gets
        self.refuses_durables: bool = False  # rejectDurableConsumers: nobody subscribes durably
        self.scheduler: bool = True  # False: a message that asks for a delay is delivered at once (schedulerSupport)
