"""Which queues get what is published to virtual topics, for who looks at a broker (classic.md 4.8)."""

from __future__ import annotations

from typing import Any, Final

from entrepot.core.addressing.virtual import virtual_source
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.control import DESCRIBED_MOST
from entrepot.core.operators.overlook import Overlook
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST


class VirtualQueues(Overlook):
    """The rules of a broker, and `DESCRIBED_MOST` of the queues that they fill; ``count``: how many there are."""

    def __init__(self, broker: BrokerCore) -> None:
        super().__init__(broker)
        self.count = 0
        self.rows: Final[list[dict[str, Any]]] = []

    def step(self) -> bool:
        """Look at some queues."""
        some = self.look()
        for queue in some:
            if queue.routing == ANYCAST and not queue.temporary:
                self._look_at(queue)
        return not some

    def result(self) -> object:
        """Return them."""
        table = self.broker.table
        rules = [
            {"name": one.name, "prefix": one.prefix, "postfix": one.postfix, "selective": bool(one.selective)}
            for one in table.virtual_topics
        ]
        return {"rules": rules, "mirror": table.mirror_prefix, "count": self.count, "rows": self.rows}

    def _look_at(self, queue: Queue) -> None:
        for rule in self.broker.table.virtual_topics:
            topic = virtual_source(rule, queue.name)
            if not topic:
                continue
            self.count += 1
            if len(self.rows) < DESCRIBED_MOST:
                self.rows.append(
                    {
                        "topic": topic,
                        "queue": queue.name,
                        "rule": f"{rule.prefix}{rule.name}{rule.postfix}",
                        "selective": bool(rule.selective),
                        "messages": int(queue.count),
                        "consumers": int(queue.roster.readers()),
                    }
                )
