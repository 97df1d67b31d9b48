"""What a recovery reads of the heads of messages, where a checksum is right and what it covers makes no sense."""

from __future__ import annotations

import base64
import zlib

import pytest

from entrepot.base.errors import CorruptJournal
from fuzz.fuzz_journal import fuzz

NO_TEXT = (  # a message with its body in a file of its own, whose address is no UTF-8
    "c-obaO$x#=5QS&**Je?rTUT=rH(sUEAY!4CV4$~mn#LL=8y_Sj@6F^Jg5ZUKO~^~79kZk16QNX4lbQYKd?>BUPcN(8PwG043&fo%"
    "5>sSm^B49QDv7SvZ`gx5(~6M~x5Qz3InabGYLFc`nN)fko}rj-m4#jw--0RX)OTXO_K8e1-J_%2%c+piwZ(H9(Aqb*^Am&"
)


def test_the_head_of_a_large_message_that_is_no_text_is_damage() -> None:
    with pytest.raises(CorruptJournal, match="cannot be read"):
        fuzz(zlib.decompress(base64.b85decode(NO_TEXT)))
