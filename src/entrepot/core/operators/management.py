"""Management by messages, as Artemis has it (artemis.md 7.2): a request is a message, so is its answer.

A message to `ADDRESS` is not queued. Its properties name a resource and an attribute or an operation, its body is a
JSON array of arguments. The answer goes to its reply-to: a JSON array with the result, and whether it succeeded. What
a request changed is on disk when the answer goes out.

No limit of a queue holds here: an operator must be heard when a broker is full. What bounds it: at most
`REQUESTS_MAX` requests are under way, a request holds `BODY_OCTETS_MAX` at most, and of all that is under way one
bounded step is done in a turn, each request in its turn.

Of several processes that are one broker, the one that is asked asks all, for the same user, and each looks at his
rights (`management/processes.py`). Who asks at the socket of one process, or says `ALONE`, asks that one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from entrepot.base.errors import AccessDenied, EntrepotError, LimitExceeded, Refused
from entrepot.base.reasons import TOO_MANY_REQUESTS, Reason
from entrepot.core.broker import BrokerCore
from entrepot.core.events import announcing
from entrepot.core.events.facts import Place
from entrepot.core.operators.census import Census, Question
from entrepot.core.operators.rbac import VIEWS, Guard
from entrepot.core.operators.said import ANSWER_LANGUAGE, Said
from entrepot.core.operators.service import TurnedService
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.security.access import MANAGEMENT
from entrepot.core.security.directory import Subject
from entrepot.journal.log import Waiter
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import Message

if TYPE_CHECKING:
    from entrepot.core.operators.control import Control, Work

ADDRESS: Final = MANAGEMENT
RESOURCE: Final = "_AMQ_ResourceName"
ATTRIBUTE: Final = "_AMQ_Attribute"
OPERATION: Final = "_AMQ_OperationName"
SUCCEEDED: Final = "_AMQ_OperationSucceeded"
CODE: Final = "entrepot_code"  # of the error, when it did not succeed
REMEDY: Final = "entrepot_remedy"  # what to do about it
ALONE: Final = "entrepot_alone"  # said by who asks this process, and not all that are one broker
MISSING: Final = "entrepot_missing"  # which of those are left out of an answer, and why

REQUESTS_MAX: Final = 1_000
ANSWERS_A_TURN: Final = 20  # some 20 us each, where they are short
ANSWER_OCTETS_A_TURN: Final = 256 * 1024  # to write so much takes a millisecond; one answer may be longer
BODY_OCTETS_MAX: Final = 256 * 1024  # arguments: a selector, some names

Told = Callable[[object, EntrepotError | None], None]
"""Takes the outcome of a request, or why there is none; within a turn."""

Scalar: TypeAlias = str | int | float | bool | None
Argument: TypeAlias = Scalar | dict[str, Scalar] | list[str]  # what one may be: headers of a message are an object


class _Request:
    """One request under way. ``failure`` is why it could not even be read, or was refused.

    ``reply_to``: where the answer goes. ``asker``: the connection that asks. ``told``: takes the outcome or the failure
    instead of a message, where another process of this broker asks; it asks this one alone.
    """

    def __init__(self, question: Question, told: Told | None = None) -> None:
        self.question = question
        self.told = told
        self.reply_to = ""
        self.correlation_id = ""
        self.asker = ""
        self.alone = told is not None
        self.work: Work | None = None
        self.outcome: object = None
        self.failure: EntrepotError | None = None

    @property
    def missing(self) -> str:
        """Which processes are left out of the outcome, and why; "" for none."""
        return str(getattr(self.work, "missing", ""))


class _Stored(Waiter):
    """Answers once the disk has what the request changed, in a turn of the broker's own."""

    def __init__(self, management: Management, request: _Request) -> None:
        self.management = management
        self.request = request

    def stored(self, token: bytes) -> None:
        self.management.finished(self.request)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        self.request.failure = error
        self.management.finished(self.request)


class _Resting(Alarm):
    """Looks again at a request after a while."""

    def __init__(self, due: int, management: Management, request: _Request) -> None:
        super().__init__(due)
        self.management = management
        self.request = request

    def ring(self, now: int) -> None:
        self.management.rested(self.request)


class Management(TurnedService):
    """The service at `ADDRESS`. ``open`` is what was begun, ``ready`` what only has to be answered."""

    def __init__(self, broker: BrokerCore, census: Census | None = None) -> None:
        super().__init__(broker)
        self.census = Census() if census is None else census
        self.open: deque[_Request] = deque()
        self.ready: deque[_Request] = deque()
        self.storing = 0
        self.resting = 0  # requests whose work others do
        self.guard: Guard | None = None  # asks for rights on each operation

    def take(self, message: Message, routing: int) -> None:
        """Note a request; it is worked on from the next turn on."""
        asker, busy = str(message.origin), self._is_busy()
        values: list[Any] = []
        failure: EntrepotError | None = None
        try:
            values = [] if busy else _arguments(message)
        except EntrepotError as error:
            failure = error
        names = [_text(message, name) for name in (RESOURCE, ATTRIBUTE, OPERATION)]
        request = _Request(Question(names[0], names[1], names[2], values, self._subjects(asker)))
        request.failure = failure
        request.reply_to = _text(message, "JMSReplyTo")
        request.correlation_id = _text(message, "JMSCorrelationID") or self.broker.ids.identity_of(message)
        request.asker = asker
        request.alone = _text(message, ALONE).lower() == "true"
        if busy:
            if len(self.ready) >= 2 * REQUESTS_MAX:  # even to refuse costs something
                announcing.dropped(self.broker.hub, Place("", ADDRESS, ANYCAST), message, "", Reason(TOO_MANY_REQUESTS))
                return
            self._refuse(request)
        else:
            self.open.append(request)
        self.ask_turn()

    def ask(self, question: Question, told: Told) -> None:
        """Note what another process of this broker was asked, by ``question.subjects``; ``told`` hears the outcome."""
        request = _Request(question, told)
        if self._is_busy():
            self._refuse(request)
        else:
            self.open.append(request)
        self.ask_turn()

    def _is_busy(self) -> bool:
        return len(self.open) + len(self.ready) + self.storing + self.resting >= REQUESTS_MAX

    def _refuse(self, request: _Request) -> None:
        request.failure = Refused(f"{REQUESTS_MAX} requests are under way", remedy="wait for their answers")
        self.ready.append(request)

    def _subjects(self, asker: str) -> list[Subject]:
        """Return for whom a connection asks, where that is needed even if it leaves before its request is looked at."""
        told = self.census.together is not None and self.broker.access.guarded
        return self.census.subjects(asker) if told or self.guard is not None else []

    def turn(self) -> None:
        """Answer some of what is ready, and do one step of one request."""
        try:
            octets = 0
            for _ in range(min(len(self.ready), ANSWERS_A_TURN)):
                octets += self._answer(self.ready.popleft())
                if octets >= ANSWER_OCTETS_A_TURN:
                    break
            if self.open:
                self._work(self.open.popleft())
        finally:  # should one request show a bug of ours, the others are still served
            if self.open or self.ready:
                self.ask_turn()

    def _work(self, request: _Request) -> None:
        if self._step(request):
            self.storing += 1
            self.broker.journal.confirm(_Stored(self, request), b"")
        elif (when_done := getattr(request.work, "when_done", None)) is not None:
            self.resting += 1
            when_done(lambda: self.rested(request))
        elif pause := int(getattr(request.work, "pause", 0)):
            self.resting += 1
            self.broker.timetable.add(_Resting(int(self.broker.now) + pause, self, request))
        else:
            self.open.append(request)

    def rested(self, request: _Request) -> None:
        """Look again at work that others do; within a turn."""
        self.resting -= 1
        self.open.append(request)
        self.ask_turn()

    def finished(self, request: _Request) -> None:
        """Answer ``request`` soon: its changes are on disk, or it is known that they are not."""
        self.storing -= 1
        self.ready.append(request)
        self.ask_turn()

    def _step(self, request: _Request) -> bool:
        """Begin ``request``, or go on with it; return whether it is done."""
        if request.failure is not None:
            return True
        try:
            if request.work is None:
                outcome = self._begin(request)
                if not hasattr(outcome, "step"):
                    request.outcome = outcome
                    return True
                request.work = outcome  # type: ignore[assignment]
            assert request.work is not None
            if not request.work.step():
                return False
            request.outcome = request.work.result()
        except EntrepotError as error:
            request.failure = _worded(request, error)
        return True

    def _begin(self, request: _Request) -> object:
        question = request.question
        if not question.attribute and not question.operation:
            raise Refused("the request names nothing to do", remedy=f"set {OPERATION} or {ATTRIBUTE}")
        together = self.census.together
        if together is not None and not request.alone:
            work = together.ask(request.asker, question)
            if work is not None:
                return work
        if request.told is not None:
            self._check(question.subjects)
        if not question.operation:
            return self._attribute(question)
        found = self._control(question)
        if self.guard is not None:
            self.guard.check(question.subjects, question.resource, question.method or question.operation)
        return found.call(question.operation, question.values, lambda: self._askers(request))

    def _check(self, subjects: list[Subject]) -> None:
        """Raise AccessDenied unless all of ``subjects`` may manage; of a message that is seen when it is sent."""
        access = self.broker.access
        for subject in subjects:
            access.send(subject, [Destination(ADDRESS, ANYCAST)])
        if access.guarded and not subjects:
            raise AccessDenied("nobody is known who asks", remedy="keep the connection until the answer")

    def _askers(self, request: _Request) -> list[Subject]:
        return request.question.subjects if request.told is not None else self.census.subjects(request.asker)

    def _control(self, question: Question) -> Control:
        """Return what is asked; what answers is loaded with the first question: most brokers are never asked."""
        from entrepot.core.operators.controls import control  # noqa: PLC0415

        return control(self.broker, self.census, question.resource)

    def _attribute(self, question: Question) -> object:
        name = question.attribute
        found = self._control(question).get(name)
        if self.guard is not None:
            verb = "is" if isinstance(found, bool) else "get"
            self.guard.check(question.subjects, question.resource, verb + name[:1].upper() + name[1:])
        return found

    def _answer(self, request: _Request) -> int:
        """Tell who asked; return how many octets that was."""
        failure = request.failure
        if request.told is not None:
            request.told(request.outcome, failure)
        if not request.reply_to:
            return 0
        properties: dict[str, bool | str] = {SUCCEEDED: failure is None}
        if failure is None:
            body = msgspec.json.encode([request.outcome])
            if request.missing:
                properties[MISSING] = request.missing
        else:
            body = msgspec.json.encode([failure.message])
            properties[CODE] = failure.code
            if failure.remedy:
                properties[REMEDY] = failure.remedy
        raw = msgspec.json.encode(Said(body.decode(), properties, request.correlation_id))
        try:
            self._send(request.reply_to, raw)
        except EntrepotError as error:
            announcing.unrouted(self.broker.hub, None, request.reply_to, error)
        return len(raw)

    def _send(self, reply_to: str, raw: bytes) -> None:
        broker = self.broker
        destination = names.parse_one(reply_to)
        if destination.name in broker.addresses.services:
            raise Refused(f"{reply_to!r} is no place for answers", remedy="use a queue of your own")
        if destination.name.startswith(f"{ADDRESS}.") and destination.name not in broker.table.addresses:
            raise Refused(f"{reply_to!r} is gone: who asked has left")  # made anew, nobody would ever read it
        target = broker.target([destination])
        message = Message(ANSWER_LANGUAGE, target.name, raw)
        message.timestamp = broker.wall
        granted = broker.flow.granted
        broker.flow.granted = True  # full or not
        try:
            broker.send(message, target)
        finally:
            broker.flow.granted = granted


def install(
    broker: BrokerCore, census: Census | None = None, address: str = ADDRESS, *, prefix: str = "", views: str = VIEWS
) -> Management:
    """Let ``broker`` be managed by messages to ``address`` from now on, and to `ADDRESS`, which our own tools know.

    ``prefix``: of the addresses whose rights single operations take, "" for none; ``views``: as `Guard` has it.
    """
    management = Management(broker, census)
    if prefix:
        management.guard = Guard(broker, prefix, views)
    for each in dict.fromkeys((ADDRESS, address)):
        broker.addresses.offer(each, management)
    broker.access.management = address
    return management


def _worded(request: _Request, error: EntrepotError) -> EntrepotError:
    """Return ``error`` as it is told: of an attribute what is wrong in the words of Artemis, and why as the remedy."""
    name = request.question.attribute
    if not name or request.question.operation or request.told is not None:
        return error
    told = f"Problem while retrieving attribute {name}"
    return Refused(told, remedy=error.message + (f"; {error.remedy}" if error.remedy else ""))


def _text(message: Message, name: str) -> str:
    """Return a header or property; what cannot be read is not there."""
    try:
        value = message.fact(name)
    except EntrepotError:
        return ""
    return "" if value is None else str(value)


def _arguments(message: Message) -> list[Any]:
    """Return the JSON array in the body; an empty body is an empty one. Raises Refused, LimitExceeded, PeerError."""
    rare = message.rare
    if len(message.raw) > BODY_OCTETS_MAX or (rare is not None and rare.large_id):
        raise LimitExceeded(f"the request is longer than {BODY_OCTETS_MAX} octets")
    body = message.common().body
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    if text is None or (isinstance(text, str) and not text.strip()):
        return []
    try:
        if isinstance(text, str):
            return list(msgspec.json.decode(text, type=list[Argument]))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    raise Refused("the body is not a JSON array of plain values", remedy='write them like ["orders", 10, true, null]')
