"""A lease that voters keep: the register of `ha/register.py` over connections, a thread for each voter.

URI::

    quorum:(a:7790,b:7790,c:7790)?secret-file=FILE

Options: ``secret-file``; ``name`` of the register where several stores share the voters (default ``entrepot``);
``trust-store`` (a PEM file: TLS to the voters, whose certificates it signs), ``verify-host`` (true).

A connection to a voter is closed by this process in one way only, by a reset. So a voter that sees an end in order
knows that the process has ended, and the successor need not wait for its lease: `voting.Ends`.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from entrepot.base.errors import EntrepotError, InvalidOption, InvalidURI, MalformedFrame
from entrepot.ha.lease import LeaseOptions
from entrepot.ha.reform import go_on_without, reform
from entrepot.ha.register import Ask, Course, Found, Outcome, Proposer, Unknown
from entrepot.ha.votes import Answer, Kind, Request, dump_request, load_answer
from entrepot.io.register import NAME, Register
from entrepot.io.secret_file import read_secret
from entrepot.io.vote_wire import (
    FRAME_MAX,
    HELLO_MAX,
    Seal,
    Wire,
    client_hello,
    read_hello,
    why_refused,
)
from entrepot.io.voting import place_of

if TYPE_CHECKING:
    import ssl

SCHEME: Final = "quorum"
PORT: Final = 7790
GRACE: Final = 0.02  # s for those who are not needed
DIAL_AGAIN: Final = 0.2  # s between two attempts to connect, while somebody asks
ADMIT_EVERY: Final = 5.0  # s between two attempts to have a voter admitted that lost its store
ADMIT_WITHIN: Final = 5.0
OPTIONS: Final = ("secret-file", "name", "trust-store", "verify-host", "timeout")

log: Final = logging.getLogger("entrepot.ha")


class Place:
    """What a URI says. ``timeout``: s for one question, 0 for what the lease allows."""

    def __init__(self, uri: str) -> None:
        """Raises InvalidURI, InvalidOption."""
        parts = urlsplit(uri)
        text = parts.path.strip()
        if parts.scheme != SCHEME or not text.startswith("(") or not text.endswith(")"):
            raise InvalidURI(f"{uri!r} names no voters", remedy="write it like quorum:(a:7790,b:7790,c:7790)")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = [each for each in options if each not in OPTIONS]
        if unknown:
            raise InvalidURI(f"a quorum has no option {unknown[0]!r}", remedy=f"it has {', '.join(OPTIONS)}")
        self.addresses: Final = tuple(_address(each) for each in text[1:-1].split(",") if each.strip())
        self.name: Final = options.get("name", NAME)
        self.secret: Final = read_secret(options.get("secret-file", ""))
        self.trust: Final = options.get("trust-store", "")
        self.verify: Final = options.get("verify-host", "true") != "false"
        try:
            self.timeout: Final = float(options.get("timeout", "0"))
        except ValueError:
            raise InvalidURI(f"the timeout of {uri!r} is no number", remedy="give it in seconds") from None

    def wrap(self) -> Callable[[socket.socket, str], socket.socket] | None:
        """Return what puts TLS around a connection, None without TLS. Raises InvalidOption."""
        if not self.trust:
            return None
        from entrepot.io.tls import TlsOptions, client_context  # noqa: PLC0415 - half a megabyte

        context: ssl.SSLContext = client_context(TlsOptions(trust=self.trust, verify_host=self.verify))
        return lambda connection, host: context.wrap_socket(connection, server_hostname=host)


class Heard(NamedTuple):
    """What a link reports: ``answer`` None where there is none."""

    address: str
    course: int
    tag: int
    answer: Answer | None
    why: str = ""


class Link:
    """The connection to one voter, and the thread that has it."""

    def __init__(self, address: str, place: Place, instance: str, told: SimpleQueue[Heard], patience: float) -> None:
        self.address: Final = address
        self.why = ""  # there is no answer, as far as known
        self.current = -1  # the course that is under way: questions of others are not sent any more
        self._place: Final = place
        self._instance: Final = instance
        self._told: Final = told
        self._patience: Final = patience
        self._wrap: Final = place.wrap()
        self._asked: Final[SimpleQueue[tuple[int, Ask] | None]] = SimpleQueue()
        self._wire: Wire | None = None
        self._seal: Seal | None = None
        self._dialled = 0.0
        threading.Thread(target=self._run, name="entrepot-vote", daemon=True).start()

    def ask(self, course: int, ask: Ask) -> None:
        """Ask, and tell the answer; not waited for."""
        self._asked.put((course, ask))

    def close(self) -> None:
        """Hang up when the question that is under way is over."""
        self._asked.put(None)

    def _run(self) -> None:
        while (item := self._asked.get()) is not None:
            course, ask = item
            if course != self.current:
                continue
            try:
                answer = self._answer(ask)
                self.why = ""
            except (OSError, EntrepotError, ValueError) as error:
                self._hang_up()
                self.why = getattr(error, "message", "") or str(error) or type(error).__name__
                self._told.put(Heard(self.address, course, ask.tag, None, self.why))
                continue
            self._told.put(Heard(self.address, course, ask.tag, answer))
        self._hang_up()

    def _answer(self, ask: Ask) -> Answer:
        deadline = time.monotonic() + self._patience
        wire = self._wire or self._dial(deadline)
        seal = self._seal
        assert seal is not None
        wire.send(seal.seal(dump_request(ask.request)), deadline)
        frame = wire.receive(FRAME_MAX, deadline)
        if frame is None:
            raise ConnectionResetError("the voter has hung up")
        body = seal.open(frame)
        if body is None:
            raise MalformedFrame(why_refused(frame) or "its secret is another one, or a frame was changed on its way")
        return load_answer(body)

    def _dial(self, deadline: float) -> Wire:
        pause = self._dialled + DIAL_AGAIN - time.monotonic()
        if pause > 0:
            raise ConnectionRefusedError(self.why or "it was asked a moment ago")
        self._dialled = time.monotonic()
        host, port = place_of(self.address)
        connection = socket.create_connection((host, port), max(0.05, deadline - time.monotonic()))
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._wrap is not None:
                connection = self._wrap(connection, host)
            wire = Wire(connection)
            mine = client_hello(self._place.name, self._instance, connection)
            wire.send(mine, deadline)
            theirs = wire.receive(HELLO_MAX, deadline)
            if theirs is None:
                raise ConnectionResetError("the voter has hung up")
            read_hello(theirs)
        except BaseException:
            Wire(connection).close(abruptly=True)
            raise
        self._wire = wire
        self._seal = Seal(self._place.secret, mine, theirs, client=True)
        return wire

    def _hang_up(self) -> None:
        """By a reset: an end in order would tell the voter that this process has ended."""
        if self._wire is not None:
            self._wire.close(abruptly=True)
        self._wire = self._seal = None


class Caller:
    """Carries out courses over links; one thread at a time."""

    def __init__(self, place: Place, instance: str, patience: float) -> None:
        """``instance``: "" for one whose end is of no interest. ``patience``: s that a voter has for one answer."""
        self.proposer: Final = Proposer(os.urandom(8).hex(), place.addresses)
        self._place: Final = place
        self._instance: Final = instance
        self._patience: Final = patience
        self._links: Final[dict[str, Link]] = {}
        self._told: Final[SimpleQueue[Heard]] = SimpleQueue()
        self._courses = 0

    def carry_out(self, course: Course, within: float) -> Found:
        """Return what ``course`` came to. Raises OSError where that is not known, OperatorError as its steps do."""
        self._courses += 1
        number = self._courses
        until = time.monotonic() + within
        self._send(number, course.begin())
        while course.outcome is None:
            now = time.monotonic()
            if now >= until:
                raise TimeoutError(f"the voters do not answer: {course.complaint()}{self._reasons()}")
            if course.pausing:
                time.sleep(min(until - now, random.uniform(0.001, 0.04)))
                self._send(number, course.again())
                continue
            try:
                heard = self._told.get(timeout=min(until - now, GRACE if course.lapses else until - now))
            except Empty:
                self._send(number, course.lapse())
                continue
            if heard.course == number:
                self._send(number, _hear(course, heard))
        return _found(course.outcome)

    def survey(self, within: float) -> dict[str, Answer | str]:
        """Return what each voter says of itself, or why it says nothing."""
        self._courses += 1
        addresses = self.proposer.addresses
        self._send(self._courses, [Ask(each, 0, Request(Kind.HELLO)) for each in addresses])
        found: dict[str, Answer | str] = {}
        until = time.monotonic() + within
        while len(found) < len(addresses) and time.monotonic() < until:
            with suppress(Empty):
                heard = self._told.get(timeout=max(0.0, until - time.monotonic()))
                found[heard.address] = heard.why if heard.answer is None else heard.answer
        return {each: found.get(each, "no answer") for each in addresses}

    def _send(self, number: int, asks: list[Ask]) -> None:
        for ask in asks:
            link = self._links.get(ask.address)
            if link is None:
                link = Link(ask.address, self._place, self._instance, self._told, self._patience)
                self._links[ask.address] = link
            link.current = number
            link.ask(number, ask)

    def _reasons(self) -> str:
        reasons = [f"{link.address}: {link.why}" for link in self._links.values() if link.why]
        return f" ({'; '.join(reasons)})" if reasons else ""

    def close(self) -> None:
        """Hang up."""
        for link in self._links.values():
            link.close()
        self._links.clear()


class QuorumRegister(Register):
    """The record of a lease, kept by voters."""

    def __init__(self, uri: str, options: LeaseOptions, instance: str = "") -> None:
        """``instance``: of the process, as in its record. Raises InvalidURI, InvalidOption."""
        self._place: Final = Place(uri)
        self._within: Final = self._place.timeout or max(0.1, options.renew_every / 1e9)
        self._caller: Final = Caller(self._place, instance, self._within)
        self._about = ""
        self._gone = ""
        self._admitting = False
        self._admit_at = 0.0
        self._told = ""
        if len(self._place.addresses) == 2:
            log.warning(
                "two voters: while one of them is away nobody can become master, nor stay it; a third one on any "
                "machine (entrepot witness) mends that"
            )

    def read(self) -> tuple[bytes, int]:
        """Return the record that a majority has. Raises OSError, InvalidOption."""
        about = self._about
        found = self._caller.carry_out(self._caller.proposer.read(about), self._within)
        self._gone = about if found.gone else ""
        self._admit()
        return found.octets, found.version

    def swap(self, version: int, octets: bytes) -> int:
        """Have a majority take ``octets``. Raises OSError where nobody can tell whether it has."""
        found = self._caller.carry_out(self._caller.proposer.swap(version, octets), self._within)
        self._admit()
        return found.version

    def ended(self, instance: str) -> bool:
        """Say whether a majority of the voters saw the process ``instance`` end, when it was read last."""
        self._about = instance
        return bool(instance) and self._gone == instance

    def close(self) -> None:
        """Hang up."""
        self._caller.close()

    def _admit(self) -> None:
        """A voter that lost its store is there again, and is told so: by a thread of its own, which may take long."""
        proposer = self._caller.proposer
        due = time.monotonic() >= self._admit_at
        if not proposer.strangers or self._admitting or not due or proposer.roster is None:
            return
        self._admitting = True
        wanted, who = proposer.roster.addresses(), ", ".join(proposer.strangers)
        threading.Thread(target=self._have_admitted, args=(wanted, who), name="entrepot-admit", daemon=True).start()

    def _have_admitted(self, wanted: tuple[str, ...], who: str) -> None:
        caller = Caller(self._place, "", ADMIT_WITHIN / 2)
        try:
            caller.carry_out(reform(caller.proposer, wanted), ADMIT_WITHIN)
            log.warning("the voter %s had lost its store; all others are there, so it votes again", who)
            self._told = ""
        except (OSError, EntrepotError) as error:
            why = getattr(error, "message", "") or str(error)
            if why != self._told:
                self._told = why
                log.warning("the voter %s lost its store, or has another, and does not count: %s", who, why)
        finally:
            caller.close()
            self._admit_at = time.monotonic() + ADMIT_EVERY
            self._admitting = False


def change_voters(uri: str, wanted: tuple[str, ...], within: float) -> tuple[str, ...]:
    """Have ``wanted`` vote instead of those in ``uri``; return who votes then. Raises OperatorError, OSError."""
    return _reformed(uri, within, lambda proposer: reform(proposer, tuple(_address(each) for each in wanted)))


def promote_voters(uri: str, lost: tuple[str, ...], within: float) -> tuple[str, ...]:
    """Have the voters of ``uri`` go on without those that are ``lost`` for good, on the word of an operator.

    Return who votes then. Raises OperatorError, OSError.
    """
    return _reformed(uri, within, lambda proposer: go_on_without(proposer, tuple(_address(each) for each in lost)))


def ask_voters(uri: str, within: float) -> dict[str, Answer | str]:
    """Return what each voter of ``uri`` answers, or why it does not. Raises InvalidURI, InvalidOption."""
    place = Place(uri)
    caller = Caller(place, "", within)
    try:
        return caller.survey(within)
    finally:
        caller.close()


def _reformed(uri: str, within: float, course: Callable[[Proposer], Course]) -> tuple[str, ...]:
    caller = Caller(Place(uri), "", within / 2)
    try:
        caller.carry_out(course(caller.proposer), within)
        roster = caller.proposer.roster
        return () if roster is None else roster.addresses()
    finally:
        caller.close()


def _hear(course: Course, heard: Heard) -> list[Ask]:
    if heard.answer is None:
        return course.failed(heard.address, heard.tag)
    return course.answered(heard.address, heard.tag, heard.answer)


def _found(outcome: Outcome) -> Found:
    if isinstance(outcome, Unknown):
        raise ConnectionAbortedError(f"whether the lock was changed is not known: {outcome.why}")
    return outcome


def _address(text: str) -> str:
    """Return HOST:PORT. Raises InvalidURI."""
    text = text.strip()
    if ":" not in text.rpartition("]")[2]:
        text = f"{text}:{PORT}"
    try:
        place_of(text)
    except InvalidOption as error:
        raise InvalidURI(error.message, remedy=error.remedy) from error
    return text
