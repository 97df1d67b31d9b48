"""The vote of an Artemis that looks for a host of its backup: its body is not that of other votes."""

from __future__ import annotations

from entrepot.protocols.artemis.codec import Decoder
from entrepot.protocols.artemis.packets import QuorumVote, QuorumVoteReply
from entrepot.protocols.artemis.reception import REQUEST_BACKUP
from entrepot.protocols.artemis.schema import REQUEST_BACKUP as TABLED


def frame(number: int, body: bytes) -> bytes:
    rest = bytes([number]) + (3).to_bytes(8, "big") + body
    return len(rest).to_bytes(4, "big") + rest


def named(handler: str) -> bytes:
    text = handler.encode("utf-16-le")
    return len(text).to_bytes(4, "big") + text


def read(octets: bytes) -> object:
    decoder = Decoder(preface=False)
    decoder.speak(136)
    (packet,) = decoder.feed(octets)
    return packet


def test_who_asks_says_nothing_and_is_told_who_could() -> None:
    asked = read(frame(0xFE, named(REQUEST_BACKUP) + b"\xff\xff\xff\xff\x00\x00"))
    assert isinstance(asked, QuorumVote)
    assert (asked.handler, asked.backups, asked.host, asked.available) == (TABLED, -1, None, False)
    answer = read(frame(0xFD, named(REQUEST_BACKUP) + b"\x00\x00\x00\x02\x01\x00\x00\x00\x01\x00n\x01"))
    assert isinstance(answer, QuorumVoteReply)
    assert (answer.backups, answer.host, answer.available) == (2, "n", True)


def test_a_vote_on_who_is_primary_is_read_as_before() -> None:
    asked = read(frame(0xFE, named("PrimaryFailoverQuorumVote") + b"\x01\x00\x00\x00\x01\x00n\x00"))
    assert isinstance(asked, QuorumVote)
    assert (asked.vote, asked.node, asked.connector) == (True, "n", None)
