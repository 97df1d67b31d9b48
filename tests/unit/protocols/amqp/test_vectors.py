"""What proton-j's encoder wrote is read to the values it had, and written back to what is read the same.

The program that writes the file is tests/interop/java/amqp/Vectors.java; tests/interop/test_amqp_client.py runs it
again and compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from librt.strings import BytesWriter

from entrepot.base.primitive import plain
from entrepot.protocols.amqp import performatives
from entrepot.protocols.amqp.performatives import Composite, Unknown, composite_of
from entrepot.protocols.amqp.primitives import Described, Exact, Source
from entrepot.protocols.amqp.schema import COMPOSITES, Kind
from entrepot.protocols.amqp.writing import Target, write_value

from .described import described

FILE: Final = Path(__file__).parents[3] / "vectors" / "amqp-proton-j-0.34.1.tsv"
LINES: Final = [line.split("\t") for line in FILE.read_text().splitlines()]
TYPES: Final = [(name, bytes.fromhex(octets), says) for name, octets, says in LINES if name[0].islower()]
LISTS: Final = [(name, bytes.fromhex(octets), says) for name, octets, says in LINES if name[0].isupper()]
NAMES: Final = {name: getattr(performatives, name) for name in dir(performatives)}


def composite(name: str, says: str) -> Composite:
    made: Composite = eval(f"{name}({says})", dict(NAMES))
    return made


@pytest.mark.parametrize(("name", "octets", "says"), TYPES)
def test_every_type_is_read_as_java_had_it(name: str, octets: bytes, says: str) -> None:
    wanted = eval(says, {"Exact": Exact, "Described": Described})
    source = Source(octets, 0, len(octets))
    assert source.value() == wanted
    assert source.at == len(octets)
    assert plain(Source(octets, 0, len(octets)).value(True)) == wanted
    skipped = Source(octets, 0, len(octets))
    skipped.skip()
    assert skipped.at == len(octets)


@pytest.mark.parametrize(("name", "octets", "says"), TYPES)
def test_what_is_read_is_written_so_that_it_is_read_the_same(name: str, octets: bytes, says: str) -> None:
    for typed in (False, True):
        out = BytesWriter()
        value = Source(octets, 0, len(octets)).value(typed)
        write_value(out, value)
        again = out.getvalue()
        assert plain(Source(again, 0, len(again)).value(typed)) == plain(value)


@pytest.mark.parametrize(("name", "octets", "says"), LISTS)
def test_every_performative_is_read_and_written(name: str, octets: bytes, says: str) -> None:
    wanted = composite(name, says)
    source = Source(octets, 0, len(octets))
    found = composite_of(source)
    assert source.at == len(octets)
    assert described(found) == described(wanted)
    target = Target()
    wanted.write(target)
    again = target.out.getvalue()
    assert described(composite_of(Source(again, 0, len(again)))) == described(wanted)


def test_every_entry_of_the_table_has_a_vector() -> None:
    assert {each.name for each in COMPOSITES} - {"Error"} - {name for name, _, _ in LISTS} == {
        "Source",
        "Target",
        "Coordinator",
    }


def test_what_is_not_in_the_table_is_read_as_it_is() -> None:
    out = BytesWriter()
    write_value(out, Described("x:y", [1]))
    octets = out.getvalue()
    found = composite_of(Source(octets, 0, len(octets)))
    assert isinstance(found, Unknown)
    assert found.value == Described("x:y", [1])


def test_kinds_of_the_table_are_all_used() -> None:
    assert {field.kind for each in COMPOSITES for field in each.fields} == set(Kind)
