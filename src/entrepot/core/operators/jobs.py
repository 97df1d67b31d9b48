"""The scheduler's management by messages, as clients of ActiveMQ do it (classic.md 4.13).

A message to `ADDRESS` whose `ACTION` is BROWSE gets a copy of each message that waits for its time, sent to its
reply-to; REMOVE forgets the one whose ``scheduledJobId`` it names, REMOVEALL all of them; BROWSE and REMOVEALL those
between two times, if it gives both. Jobs are known by the id of the message that asked for them.

What waits is on disk, and may be a lot: a request is done in steps, other work has its turn between them. What fits
into one step is done before the request is answered, so that a confirmed removal is on disk.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.base.reasons import TOO_MANY_REQUESTS, Reason
from entrepot.core.broker import BrokerCore
from entrepot.core.events import announcing
from entrepot.core.events.facts import Place
from entrepot.core.operators.service import TurnedService
from entrepot.core.scheduling.timed import SCHEDULED_JOB, SCHEDULED_LEFT, SCHEDULED_TARGET
from entrepot.model import address as names
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message

ADDRESS: Final = "ActiveMQ.Scheduler.Management"
ACTION: Final = "AMQ_SCHEDULER_ACTION"
BEGIN: Final = "ACTION_START_TIME"
END: Final = "ACTION_END_TIME"
BROWSE: Final = "BROWSE"
REMOVE: Final = "REMOVE"
REMOVE_ALL: Final = "REMOVEALL"

STEP: Final = 200  # messages that one turn reads from disk for all requests together: some ms
REQUESTS_MAX: Final = 1_000  # that wait; more are dropped, and that is told
LATEST: Final = 1 << 62


class _Request:
    """What was asked for. ``numbers``: what is still to be looked at; ``last``: the newest when it
    came; ``high``: the newest of those that it knows.
    """

    def __init__(self, message: Message, broker: BrokerCore) -> None:
        self.action = _text(message, ACTION)
        self.reply_to = _text(message, "JMSReplyTo")
        self.job = _text(message, SCHEDULED_JOB)
        begin, end = _number(message, BEGIN), _number(message, END)
        limited = begin is not None and end is not None
        self.begin = begin if limited and begin is not None else 0
        self.end = end if limited and end is not None else LATEST
        self.numbers: deque[int] = deque(sorted(broker.scheduled.schedules))
        self.last = self.high = max(self.numbers, default=0)
        self.done = False

    @property
    def means_something(self) -> bool:
        """Return whether there is anything to do."""
        if self.action == BROWSE:
            return self.reply_to != ""
        return self.action == REMOVE_ALL or (self.action == REMOVE and self.job != "")


class Jobs(TurnedService):
    """The service at `ADDRESS`."""

    def __init__(self, broker: BrokerCore) -> None:
        super().__init__(broker)
        self._requests: deque[_Request] = deque()

    def take(self, message: Message, routing: int) -> None:
        """Do what ``message`` asks for, or begin with it; what cannot be understood does nothing, as in Classic."""
        request = _Request(message, self.broker)
        if not request.means_something:
            self._dropped("it asks for nothing: AMQ_SCHEDULER_ACTION is BROWSE with a reply-to, REMOVE or REMOVEALL")
        elif len(self._requests) >= REQUESTS_MAX:
            self._dropped(f"{REQUESTS_MAX} requests wait already")
        else:
            self._requests.append(request)
            if not self.has_turn:
                self.turn()

    def turn(self) -> None:
        """Go on with the oldest request."""
        left = STEP
        while self._requests and left > 0:
            request = self._requests[0]
            left -= self._work(request, left)
            if request.done:
                self._requests.popleft()
        if self._requests:
            self.ask_turn()

    def _dropped(self, why: str) -> None:
        reason = Reason(TOO_MANY_REQUESTS, why)
        announcing.dropped(self.broker.hub, Place("", ADDRESS, ANYCAST), None, "", reason)

    def _work(self, request: _Request, most: int) -> int:
        """Look at up to ``most`` messages; return how many, at least one."""
        looks = 0
        while request.numbers and looks < most and not request.done:
            looks += 1
            number = request.numbers.popleft()
            if number in self.broker.scheduled.schedules:
                self._look(request, number)
        if not request.numbers and not request.done:
            self._look_again(request)
        return max(looks, 1)

    def _look_again(self, request: _Request) -> None:
        """What went out meanwhile and will go out again has a new number: it is the same job."""
        fresh = [number for number in self.broker.scheduled.schedules if number > request.high]
        request.done = not fresh or request.action == BROWSE
        request.numbers.extend(fresh)
        request.high = max(fresh, default=request.high)

    def _look(self, request: _Request, number: int) -> None:
        broker = self.broker
        kept = broker.scheduled.schedules[number]
        try:
            message = broker.journal.reading.load(number) if kept is None else kept
        except EntrepotError as error:
            self._dropped(f"message {number} cannot be read: {error}")
            return
        rare = message.need_rare()
        if number > request.last and SCHEDULED_LEFT not in rare.annotations:
            return
        if request.action == REMOVE:
            if broker.ids.identity_of(message) == request.job:
                broker.scheduled.cancel(number)
                request.done = True
        elif request.begin <= int(rare.deliver_at) <= request.end:
            if request.action == BROWSE:
                self._show(message, request.reply_to)
            else:
                broker.scheduled.cancel(number)

    def _show(self, message: Message, reply_to: str) -> None:
        """Send a copy, as Classic makes it: the message with its schedule, and the id of its job."""
        broker = self.broker
        granted = broker.flow.granted
        broker.flow.granted = True  # full or not
        try:
            place = names.parse_one(reply_to)
            if broker.addresses.service_at(place.name) is not None:
                return  # a broker that asks itself would never end
            target = broker.target([place])
            shown = message.twin(target.name)
            rare = shown.need_rare()
            rare.annotations[SCHEDULED_JOB] = broker.ids.identity_of(message)
            # a client must not take it for the message
            rare.identity = f"{broker.ids.node.message_prefix}{broker.ids.next_number()}"
            rare.duplicate_id = b""
            rare.annotations.pop(SCHEDULED_TARGET, None)
            rare.annotations.pop(SCHEDULED_LEFT, None)
            rare.deliver_at = 0
            shown.durable = False
            broker.send(shown, target)
        except EntrepotError as error:
            announcing.unrouted(broker.hub, None, reply_to, error)
        finally:
            broker.flow.granted = granted


def _text(message: Message, name: str) -> str:
    try:
        value = message.fact(name)
    except EntrepotError:
        return ""
    return "" if value is None else str(value)


def _number(message: Message, name: str) -> int | None:
    try:
        return int(_text(message, name).strip())
    except ValueError:
        return None
