"""The codes and words that our log gives beside its own are those of the real brokers: read in their jars."""

from __future__ import annotations

import glob
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import artemis
import classic
import maven
import pytest

from entrepot.base.audit_codes import DEEDS
from entrepot.base.known_codes import KNOWN

WIDTHS = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
"""Of an entry of the constant pool, by its tag (JVMS 4.4)."""
UTF8 = 1
LONG, DOUBLE = 5, 6


def texts(octets: bytes) -> Iterator[str]:
    """Yield the strings of a class file."""
    count, at, index = int.from_bytes(octets[8:10], "big"), 10, 1
    while index < count:
        tag = octets[at]
        if tag == UTF8:
            length = int.from_bytes(octets[at + 1 : at + 3], "big")
            yield octets[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            at += WIDTHS[tag]
        index += 2 if tag in {LONG, DOUBLE} else 1


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What Artemis says, by its codes."""
    try:
        place = maven.jars(*artemis.ARTIFACTS)
    except maven.Unavailable as why:
        pytest.skip(f"Artemis: {why}")
    found: dict[str, str] = {}
    for jar in place.glob("artemis-*.jar"):
        with zipfile.ZipFile(jar) as packed:
            for name in packed.namelist():
                if name.endswith(("_impl.class", "_bundle.class")):
                    fits = (re.match(r"(AMQ\d{6}): (.*)", text, re.DOTALL) for text in texts(packed.read(name)))
                    found.update({match[1]: match[2] for match in fits if match is not None})
    assert len(found) > 1000  # the loggers were found
    return found


def test_artemis_has_each_code_and_says_that_with_it(said: dict[str, str]) -> None:
    for row in KNOWN:
        for code in row.artemis.split():
            assert code in said, row
        if row.artemis:
            assert said[row.artemis.split()[0]].startswith(row.says), row


def test_artemis_audit_log_has_each_code_of_ours(said: dict[str, str]) -> None:
    for deed in DEEDS:
        codes = f"{deed.doing} {deed.done} {deed.failed}".split()
        assert all(code in said for code in codes), deed
        assert said[codes[0]].startswith(deed.says), deed


def test_classic_says_it_in_that_class() -> None:
    reason = classic.unavailable("")
    if reason:
        pytest.skip(f"Classic: {reason}")
    wanted = {row.classic.partition(": ")[0] for row in KNOWN if row.classic}
    found: dict[str, str] = {}
    for jar in sorted({Path(each) for pattern in classic.JARS for each in glob.glob(pattern)}):
        if not jar.exists():  # a link of Debian's to what is not installed
            continue
        with zipfile.ZipFile(jar) as packed:
            for name in packed.namelist():
                owner = name.rpartition("/")[2].removesuffix(".class")
                if owner in wanted and name.startswith("org/apache/activemq/"):
                    found[owner] = found.get(owner, "") + "\n".join(texts(packed.read(name)))
    for row in KNOWN:
        owner, _, words = row.classic.partition(": ")
        assert not owner or words in found.get(owner, ""), row
