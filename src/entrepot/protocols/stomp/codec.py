"""STOMP frames: octets in, spans out; and the octets that go out. [C]

`Reader` walks a chunk once. Of a frame it finds where command, headers and body are, and recognises the headers that
nearly every frame has by comparing octets in place; nothing is sliced, decoded or put in a dict on that path. Headers
that need thought go to ``special``.

What a SEND leaves behind is its *tail*: header lines that a consumer is to see, the empty line, the body and the NUL,
as they came. A delivery writes its own first lines and then the tail, so the body is never copied but by the socket.

Lengths are checked before anything is kept: a peer can make this process hold one frame of its connector's size, and
never more. An incomplete frame is looked at again only where it grew, and only when what came may end a line or the
body: a peer that sends single octets costs no more than one that sends chunks, and gets the same answers.
What is wrong is raised as MalformedFrame or LimitExceeded, which the session turns into an ERROR frame.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le
from mypy_extensions import i64

from entrepot.base.errors import LimitExceeded, MalformedFrame
from entrepot.base.trace_context import said_at
from entrepot.protocols.stomp.commands import ACK, COMMANDS, CONNECT, LARGE, NEED_MORE, SEND, SUBSCRIBE, UNSUBSCRIBE
from entrepot.protocols.stomp.escapes import V10, V12, decode_headers
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.passing import CONSUMED, READ_AND_PASSED

HEADER_LINES_FULL: Final = 16  # all headers together: as many lines of full length

UNSIZED_OCTETS_MAX: Final = 100 * 1024 * 1024  # of a body that ends at its NUL: nobody announced it
OTHER_OCTETS_MAX: Final = 1024 * 1024  # of the body of any other frame than SEND; none needs one

START: Final = 0  # what an incomplete frame lacks: its command line
HEADERS: Final = 1  # header lines, from ``line_at`` on
BODY: Final = 2  # octets of the body, or its NUL

SEEN_PERSISTENT: Final = 1  # headers that this frame has: the first of these counts
CONTEXT_AT: Final = 1  # from this bit on: what a W3C context says, as `said_at` has it; 0 for none

NUL: Final = 0
LF: Final = 10
CR: Final = 13
COLON: Final = 58
BACKSLASH: Final = 92


class Reader:
    """Finds the frames in what one peer sends. After `next` returned a command the spans below are its own.

    ``data`` is the chunk that all spans point into; it is replaced by the next `feed`.
    """

    def __init__(self, options: StompOptions) -> None:
        self.options: StompOptions = options
        self.large_octets: i64 = options.large_octets
        self.unsized_max: i64 = min(options.frame_octets_max, UNSIZED_OCTETS_MAX)
        self.version: i64 = V10
        self.connected: bool = False
        self.staging: bool = False  # this peer stages: "stage" of a SEND is no property of the application
        self.data: bytes = b""
        self.at: i64 = 0
        self.later: BytesWriter | None = None  # chunks of an incomplete frame that cannot have ended anything yet
        self.stage: i64 = START  # how far the frame at ``at`` is known
        self.line_at: i64 = 0  # HEADERS: where the first header line begins that is not complete
        self.count: i64 = 0  # HEADERS: how many are
        self.body_seen: i64 = 0  # BODY without content-length: no NUL is before this
        self.missing: i64 = 0  # BODY with one: octets from ``at`` on that make the frame complete
        self.command: i64 = 0
        self.headers_at: i64 = 0
        self.headers_end: i64 = 0  # of the last header's line end; the empty line begins here
        self.body_at: i64 = 0
        self.body_end: i64 = 0
        self.destination_at: i64 = 0
        self.destination_end: i64 = 0
        self.receipt_at: i64 = 0
        self.receipt_end: i64 = 0
        self.id_at: i64 = 0  # ACK and NACK: the header "id" of 1.2
        self.id_end: i64 = 0
        self.message_id_at: i64 = 0  # and "message-id" of 1.0 and 1.1
        self.message_id_end: i64 = 0
        self.subscription_at: i64 = 0
        self.subscription_end: i64 = 0
        self.persistent: bool = False
        self.seen: i64 = 0  # which of SEEN_...
        self.escaped: bool = False  # the headers hold a backslash, or a CR that STOMP 1.2 would escape
        self.returns: bool = False  # a header line ends in CR LF
        self.length: i64 = -1  # of content-length
        self.special: dict[bytes, bytes] | None = None
        self.kept_at: i64 = 0  # where the header lines that pass begin, when they are one piece
        self.pieces: list[bytes] | None = None
        self.large_left: i64 = 0  # octets of a large body that have not come yet, its NUL included
        self.endless: bool = (
            False  # of a large body that ends at its NUL: ``large_left`` only says that it has not come
        )
        self.large_seen: i64 = 0  # octets of it that have come
        self.pressed: bool = False  # there is no room to hold much: a body of a transaction, too, is LARGE

    def feed(self, data: bytes) -> None:
        """Add a chunk. Call `next` until it says NEED_MORE, then feed again."""
        rest: i64 = len(self.data) - self.at
        if rest <= 0:
            self.data = data
            self.at = 0
            return
        later = self.later
        if later is None:
            later = BytesWriter()
            self.later = later
        later.write(data)
        if self._may_go_on(data, rest + len(later)):
            self._join(later.getvalue())
            self.later = None

    def _may_go_on(self, data: bytes, held: i64) -> bool:
        """Return whether ``data``, the newest of ``held`` octets, can have ended a line or the body, or is too much."""
        if self.stage == BODY:
            if self.missing > 0:
                return held >= self.missing
            size = held - (self.body_at - self.at)
            if size > self.unsized_max or (size >= self.large_octets and self._spills()):
                return True
            return data.find(b"\0") >= 0 or (size > OTHER_OCTETS_MAX and self.command != SEND)
        if data.find(b"\n") >= 0 or data.find(b"\0") >= 0:
            return True
        if self.stage == HEADERS:
            return held - (self.line_at - self.at) > self.options.line_octets_max
        return held > self.options.command_octets_max

    def _join(self, later: bytes) -> None:
        """Put ``later`` behind what is held; what is known of the frame moves with it."""
        by = self.at
        self.data = self.data[by:] + later
        self.at = 0
        if by == 0 or self.stage == START:
            return
        self.headers_at -= by
        self.headers_end -= by
        self.kept_at -= by
        self.line_at -= by
        self.body_at -= by
        self.body_seen -= by
        if self.destination_end:
            self.destination_at -= by
            self.destination_end -= by
        if self.receipt_end:
            self.receipt_at -= by
            self.receipt_end -= by
        if self.id_end:
            self.id_at -= by
            self.id_end -= by
        if self.message_id_end:
            self.message_id_at -= by
            self.message_id_end -= by
        if self.subscription_end:
            self.subscription_at -= by
            self.subscription_end -= by

    def has_more(self) -> bool:
        """Return whether `next` has not seen all that came."""
        return self.at < len(self.data) and self.later is None and self.stage == START

    def waiting(self) -> i64:
        """Return how many octets of an incomplete frame are held."""
        held: i64 = len(self.data) - self.at
        later = self.later
        return held if later is None else held + len(later)

    def next(self) -> i64:
        """Return the command of the next whole frame, or NEED_MORE. Raises MalformedFrame, LimitExceeded."""
        if self.later is not None:
            return NEED_MORE
        data = self.data
        end: i64 = len(data)
        stage = self.stage
        if stage == START:
            at = self.at
            while at < end and (data[at] == LF or data[at] == CR):  # heart-beats, and line ends between frames
                at += 1
            if at >= end:
                self.data = b""  # an idle connection keeps no chunk
                self.at = 0
                return NEED_MORE
            self.at = at
            line = _line_end(data, at, end)
            if (end if line < 0 else line) - at > self.options.command_octets_max:
                raise LimitExceeded(f"a command line is longer than {self.options.command_octets_max} octets")
            if line < 0:
                return NEED_MORE
            self.command = self._command(data, at, line)
            self._begin_headers(line + 1)
            if not self._headers(data, line + 1, end):
                return NEED_MORE
        elif stage == HEADERS and not self._headers(data, self.line_at, end):
            return NEED_MORE
        self.stage = START
        return self._body(data, end)

    def _command(self, data: bytes, at: i64, line: i64) -> i64:
        if line - at == 4 and data[at] == 83 and data[at + 1] == 69 and data[at + 2] == 78 and data[at + 3] == 68:
            return SEND
        if line - at == 3 and data[at] == 65 and data[at + 1] == 67 and data[at + 2] == 75:
            return ACK
        if data[line - 1] == CR and (self.version == V12 or not self.connected):
            line -= 1
        word = data[at:line]
        command = COMMANDS.get(word)
        if command is not None:
            return command
        if word.startswith(b"SUB"):
            return SUBSCRIBE
        if word.startswith(b"UNSUB"):
            return UNSUBSCRIBE
        raise MalformedFrame(
            f"unknown command {word[:40]!r}", remedy="a STOMP client speaks here; is this another protocol's client?"
        )

    def _begin_headers(self, start: i64) -> None:
        """Forget the frame before; the headers of the next begin at ``start``."""
        self.headers_at = start
        self.kept_at = start
        self.destination_end = 0
        self.receipt_end = 0
        self.id_end = 0
        self.message_id_end = 0
        self.subscription_end = 0
        self.persistent = False
        self.seen = 0
        self.escaped = False
        self.returns = False
        self.length = -1
        self.special = None
        self.pieces = None
        self.count = 0

    def _headers(self, data: bytes, at: i64, end: i64) -> bool:
        """Walk the header lines from ``at`` on; False when the empty line has not come yet."""
        sending = self.command == SEND
        strips = self.version == V12 or not self.connected
        line_max = self.options.line_octets_max
        count = self.count
        while True:
            colon: i64 = -1
            i = at
            escaped = False
            returned = False
            while i < end:
                octet = data[i]
                if octet <= COLON:
                    if octet == LF:
                        break
                    if octet == COLON:
                        if colon < 0:
                            colon = i
                    elif octet == CR:
                        returned = True
                    elif octet == NUL:  # some consumers would take what follows for another frame
                        raise MalformedFrame(f"the header line {data[at : min(i, at + 80)]!r} holds a NUL")
                elif octet == BACKSLASH:
                    escaped = True
                i += 1
            if i - at > line_max:
                raise LimitExceeded(f"a header line is longer than {line_max} octets")
            if i - self.headers_at > line_max * HEADER_LINES_FULL:
                raise LimitExceeded(f"the headers of a frame are longer than {line_max * HEADER_LINES_FULL} octets")
            if i >= end:
                self.stage = HEADERS
                self.line_at = at
                self.count = count
                return False
            stop = i
            if returned:
                stop = self._returned(data, stop, strips)
            if stop == at:
                self._end_headers(at, i + 1)
                return True
            if colon < 0:
                raise MalformedFrame(f"the header line {data[at : min(stop, at + 80)]!r} has no colon")
            count += 1
            if count > self.options.headers_max:
                raise LimitExceeded(f"a frame has more than {self.options.headers_max} headers")
            if escaped:
                self.escaped = True
            self._header(data, at, colon, stop, i + 1, sending)
            at = i + 1

    def _returned(self, data: bytes, stop: i64, strips: bool) -> i64:
        """Return where the header line ends that holds a CR and ends before ``stop``."""
        if strips and data[stop - 1] == CR:
            self.returns = True
            return stop - 1
        if self.connected:
            self.escaped = True  # part of the header here; STOMP 1.2 must write it as an escape
        return stop

    def _end_headers(self, at: i64, body_at: i64) -> None:
        """The empty line begins at ``at``, the body at ``body_at``."""
        self.headers_end = at
        self.body_at = body_at
        self.body_seen = body_at
        if self.command == CONNECT and not self.connected:
            self.escaped = False  # CONNECT and CONNECTED are never escaped (STOMP 1.2, Value Encoding)

    def _header(self, data: bytes, at: i64, colon: i64, stop: i64, following: i64, sending: bool) -> None:
        """Look at one header: remember it if it matters, and cut it from the tail if it does not pass on."""
        length = colon - at
        first = data[at]
        value = colon + 1
        if length == 14 and first == 99 and _same(data, at, b"content-length"):
            if self.length < 0:
                self.length = _decimal(data, value, stop)
                return  # it passes on; a second one is cut, or some consumer would believe that
        elif length == 11 and first == 100 and _same(data, at, b"destination"):
            if self.destination_end == 0:
                self.destination_at = value
                self.destination_end = stop
        elif length == 7 and first == 114 and _same(data, at, b"receipt"):
            if self.receipt_end == 0:
                self.receipt_at = value
                self.receipt_end = stop
        elif length == 10 and first == 112 and _same(data, at, b"persistent"):
            if not self.seen & SEEN_PERSISTENT:
                self.seen |= SEEN_PERSISTENT
                self.persistent = _is_true(data, value, stop)
        elif not sending:
            self._ack_header(data, at, length, value, stop)
            return
        elif self._passes(data, at, colon, stop):
            return
        if at == self.kept_at:  # of the first lines nothing passes yet: there is nothing to cut from
            self.kept_at = following
        else:
            self._cut(data, at, following)

    def _passes(self, data: bytes, at: i64, colon: i64, stop: i64) -> bool:
        """Return whether a header of a SEND that is none of the common ones passes on; note it if it is read here."""
        length = colon - at
        if self.staging and length == 5 and _same(data, at, b"stage"):
            self._note(b"stage", data[colon + 1 : stop])
            return False
        if length == 11 and data[at] == 116 and _same(data, at, b"traceparent"):
            if not self.seen >> CONTEXT_AT:  # of a repeated one the first counts
                self.seen |= said_at(data, colon + 1) << CONTEXT_AT
            return True
        if not _may_be_special(data[at], length):
            return True
        name = data[at:colon]
        if name in CONSUMED:
            self._note(name, data[colon + 1 : stop])
            return False
        if name not in READ_AND_PASSED:
            return True
        value = data[colon + 1 : stop]
        self._note(name, value)
        return name != b"reply-to" or not value.startswith(b"/temp-")

    def _cut(self, data: bytes, at: i64, following: i64) -> None:
        """Leave the header line from ``at`` to ``following`` out of the tail, which has lines before it."""
        pieces = self.pieces
        if pieces is None:
            pieces = []
            self.pieces = pieces
        pieces.append(data[self.kept_at : at])
        self.kept_at = following

    def _ack_header(self, data: bytes, at: i64, length: i64, value: i64, stop: i64) -> None:
        if length == 2 and _same(data, at, b"id"):
            if self.id_end == 0:
                self.id_at = value
                self.id_end = stop
        elif length == 10 and _same(data, at, b"message-id"):
            if self.message_id_end == 0:
                self.message_id_at = value
                self.message_id_end = stop
        elif length == 12 and _same(data, at, b"subscription"):
            if self.subscription_end == 0:
                self.subscription_at = value
                self.subscription_end = stop
        elif length == 11 and _same(data, at, b"transaction"):
            self._note(b"transaction", data[value:stop])
        elif length == 7 and _same(data, at, b"requeue"):
            self._note(b"requeue", data[value:stop])

    def _note(self, name: bytes, value: bytes) -> None:
        special = self.special
        if special is None:
            special = {}
            self.special = special
        if name not in special:  # of a repeated header the first counts (STOMP 1.2, Repeated Header Entries)
            special[name] = value

    def _body(self, data: bytes, end: i64) -> i64:
        """Find the end of the body; move on behind its NUL."""
        start = self.body_at
        if self.length >= 0:
            if self.length > self.options.frame_octets_max:
                raise LimitExceeded(
                    f"a body of {self.length} octets is announced; the connector takes {self.options.frame_octets_max}",
                    remedy="raise wireFormat.maxFrameSize of the connector, or send smaller messages",
                )
            if self.command != SEND and self.length > OTHER_OCTETS_MAX:
                raise LimitExceeded(f"the body of a frame that needs none is longer than {OTHER_OCTETS_MAX} octets")
            if self.command == SEND and self.length >= self.large_octets:
                self.large_left = self.length + 1
                self.body_end = start
                self.at = start
                return LARGE
            stop = start + self.length
            if stop >= end:
                self.stage = BODY
                self.missing = stop + 1 - self.at
                return NEED_MORE
            if data[stop] != NUL:
                raise MalformedFrame(f"the body does not end with NUL after its content-length of {self.length} octets")
        else:
            stop = data.find(b"\0", self.body_seen)
            size = (end if stop < 0 else stop) - start
            if size >= self.large_octets and self._spills():
                self.endless = True
                self.large_seen = 0
                self.large_left = 1
                self.body_end = start
                self.at = start
                return LARGE
            if size > self.unsized_max:
                raise self._endless()
            if size > OTHER_OCTETS_MAX and self.command != SEND:
                raise LimitExceeded(f"the body of a frame that needs none is longer than {OTHER_OCTETS_MAX} octets")
            if stop < 0:
                self.stage = BODY
                self.missing = 0
                self.body_seen = end
                return NEED_MORE
        self.body_end = stop
        self.at = stop + 1
        return self.command

    def _spills(self) -> bool:
        """Return whether a body whose end is not known goes to disk when it is large.

        One of a transaction is held, since what is on disk cannot be part of it, as long as there is room for that.
        """
        if self.command != SEND:
            return False
        special = self.special
        return self.pressed or special is None or b"transaction" not in special

    def _endless(self) -> LimitExceeded:
        return LimitExceeded(
            f"a body without content-length is longer than {self.unsized_max} octets", remedy="send a content-length"
        )

    def large_piece(self) -> bytes:
        """Return what has come of a large body since the last call; ``large_left`` is 0 when it is complete."""
        if self.endless:
            return self._endless_piece()
        left = self.large_left
        piece = self.data[self.at : self.at + left]
        self.at += len(piece)
        self.large_left = left - len(piece)
        if self.large_left == 0:
            if piece[-1] != 0:
                raise MalformedFrame(f"the body does not end with NUL after its content-length of {self.length} octets")
            piece = piece[:-1]
        return piece

    def _endless_piece(self) -> bytes:
        stop: i64 = self.data.find(b"\0", self.at)
        behind: i64 = len(self.data) if stop < 0 else stop
        piece = self.data[self.at : behind]
        self.large_seen += len(piece)
        if self.large_seen > self.unsized_max:
            raise self._endless()
        self.at = behind
        if stop >= 0:
            self.at = behind + 1
            self.large_left = 0
            self.endless = False
        return piece

    def tail(self) -> bytes:
        """Return what a consumer gets of this SEND: header lines that pass, empty line, body, NUL."""
        if self.returns:
            return self._normal_tail()
        last = self.data[self.kept_at : self.body_end + 1]
        pieces = self.pieces
        if pieces is None:
            return last
        pieces.append(last)
        return b"".join(pieces)

    def head(self) -> bytes:
        """Return the tail of a LARGE frame without its body."""
        kept = self.data[self.kept_at : self.headers_end]
        pieces = self.pieces
        if pieces is not None:
            pieces.append(kept)
            kept = b"".join(pieces)
        if self.returns:
            kept = kept.replace(b"\r\n", b"\n")
        return kept + b"\n"

    def _normal_tail(self) -> bytes:
        kept = self.data[self.kept_at : self.headers_end]
        pieces = self.pieces
        if pieces is not None:
            pieces.append(kept)
            kept = b"".join(pieces)
        return kept.replace(b"\r\n", b"\n") + b"\n" + self.data[self.body_at : self.body_end + 1]

    def headers(self) -> dict[str, str]:
        """Return all headers of the frame, unescaped: for commands where convenience matters more than speed."""
        lines = self.data[self.headers_at : self.headers_end]
        return decode_headers(lines, self.version if self.connected else V10, self.returns)

    def destination(self) -> bytes:
        """Return the destination as written, b"" when there is none."""
        return self.data[self.destination_at : self.destination_end] if self.destination_end else b""

    def receipt(self) -> bytes:
        """Return the receipt id as written, b"" when none is wanted: it goes back as it came, still escaped."""
        return self.data[self.receipt_at : self.receipt_end] if self.receipt_end else b""


def write_decimal(writer: BytesWriter, number: i64) -> None:
    """Append ``number`` (not negative) in decimal digits."""
    if number >= 10:
        write_decimal(writer, number // 10)
    writer.append(48 + int(number % 10))


def read_decimal(data: bytes, start: i64, stop: i64) -> i64:
    """Return the decimal number in ``data[start:stop]``, -1 when it is none or too long to be one of ours."""
    if stop <= start or stop - start > 18:
        return -1
    number: i64 = 0
    i = start
    while i < stop:
        digit = data[i] - 48
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
        i += 1
    return number


def _decimal(data: bytes, start: i64, stop: i64) -> i64:
    while start < stop and data[start] == 32:  # "content-length: 5": not in the grammar, but common
        start += 1
    while stop > start and data[stop - 1] == 32:
        stop -= 1
    number = read_decimal(data, start, stop)
    if number < 0:
        raise MalformedFrame(f"content-length is {data[start : min(stop, start + 40)]!r}, not a number of octets")
    return number


def _line_end(data: bytes, at: i64, end: i64) -> i64:
    while at < end:
        if data[at] == LF:
            return at
        at += 1
    return -1


def _is_true(data: bytes, at: i64, stop: i64) -> bool:
    return stop - at == 4 and _same(data, at, b"true")


def _same(data: bytes, at: i64, word: bytes) -> bool:
    """Return whether ``word``, of at most 16 octets, is at ``at``. From 8 octets on it is two numbers that overlap."""
    length: i64 = len(word)
    if len(data) - at < length:
        return False
    if length >= 8:
        last = length - 8
        if read_i64_le(data, at) != read_i64_le(word, 0):
            return False
        return read_i64_le(data, at + last) == read_i64_le(word, last)
    i: i64 = 0
    while i < length:
        if data[at + i] != word[i]:
            return False
        i += 1
    return True


def _may_be_special(first: i64, length: i64) -> bool:
    """Return whether a header of this first octet and length can be one that the broker reads."""
    if first == 74 or first == 65 or first == 95:  # J A _
        return length >= 10
    if first == 116 or first == 112 or first == 101 or first == 109:  # t p e m
        return 7 <= length <= 11
    if first == 114 or first == 115 or first == 100:  # r s d
        return length >= 8
    return first == 97 and length == 3  # ack
