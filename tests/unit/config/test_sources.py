from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidConfiguration
from entrepot.config.findings import Findings, Severity
from entrepot.config.sources import Sources


def sources(**given: object) -> Sources:
    return Sources(Findings(), **given)  # type: ignore[arg-type]


def test_the_command_line_wins_then_the_environment_then_property_files(tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    file.write_text("a=file\nb=file\nc=file\n")
    made = sources(defines={"a": "line"}, environment={"a": "world", "b": "world"})
    made.load(f"file:{file}", 1, "p")
    assert made.fill("${a} ${b} ${c} ${d:default} ${e:}") == "line world file default "


def test_values_may_hold_placeholders_and_names_too() -> None:
    made = sources(defines={"where": "eu", "host.eu": "h-${zone}", "zone": "1"})
    assert made.fill("tcp://${host.${where}}:1") == "tcp://h-1:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${nobody}", "nobody says what"),
        ("${a", "never closed"),
        ("${loop}", "circle"),
        ("#{systemProperties['x']}", "expressions of Spring"),
        ("ENC(abc)", "encrypted"),
        ("${bomb}", "too long"),
    ],
)
def test_what_cannot_be_filled_in_is_refused(text: str, message: str) -> None:
    made = sources(defines={"loop": "${pool}", "pool": "${loop}", "bomb": "${b}" * 10, "b": "x" * 10_000})
    with pytest.raises(InvalidConfiguration, match=message):
        made.fill(text)


def test_values_that_refer_to_many_others_cost_no_more_than_their_text() -> None:
    made = sources(defines={f"v{n}": f"${{v{n + 1}}}" * 50 for n in range(12)} | {"v12": ""})
    assert made.fill("${v0}") == ""  # fifty to the twelfth, if each were looked up every time


def test_the_directories_follow_the_file_and_each_guess_is_said_once(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "a.xml").write_text("<a/>")
    made = sources()
    assert made.open(conf / "a.xml") == b"<a/>"
    assert made.fill("${activemq.conf} ${activemq.base} ${activemq.data}") == f"{conf} {tmp_path} {tmp_path / 'data'}"
    made.fill("${activemq.data}")
    assert [finding.what.split()[0] for finding in made.findings] == ["activemq.conf", "activemq.base", "activemq.data"]
    assert all(finding.severity is Severity.NOTE for finding in made.findings)


def test_the_directories_of_the_environment_win_and_others_follow_the_base(tmp_path: Path) -> None:
    made = sources(environment={"ACTIVEMQ_BASE": "/srv/mq", "ACTIVEMQ_DATA": "/var/mq"})
    made.place(tmp_path / "a.xml")
    assert made.fill("${activemq.base} ${activemq.conf} ${activemq.data}") == "/srv/mq /srv/mq/conf /var/mq"
    defined = sources(environment={"ACTIVEMQ_DATA": "/var/mq"}, defines={"activemq.data": "/mnt"})
    defined.place(tmp_path / "a.xml")
    assert defined.fill("${activemq.data}") == "/mnt"


def test_a_file_that_is_not_there_is_an_error_unless_it_is_optional(tmp_path: Path) -> None:
    made = sources()
    made.load(str(tmp_path / "none"), 7, "beans/bean", optional=True)
    assert len(made.findings) == 0
    made.load(str(tmp_path / "none"), 7, "beans/bean")
    made.load("http://example.org/x.properties", 8, "beans/bean")
    made.load("classpath:x.properties", 9, "beans/bean")
    assert [(finding.line, finding.severity) for finding in made.findings] == [(n, Severity.ERROR) for n in (7, 8, 9)]
    with pytest.raises(InvalidConfiguration):
        made.open(tmp_path / "none.xml")


def test_latin_1_and_utf_8_property_files(tmp_path: Path) -> None:
    made = sources()
    for name, text in (("a", "a=ü".encode()), ("b", "b=ü".encode("latin-1"))):
        (tmp_path / name).write_bytes(text)
        made.load(str(tmp_path / name), 1, "")
    assert made.fill("${a}${b}") == "üü"


def test_secrets_are_masked_wherever_they_turn_up() -> None:
    findings = Findings()
    made = Sources(findings, environment={"DB_PASSWORD": "from-world"}, defines={"x": "shown"})
    findings.add(Severity.NOTE, "f", 1, "p", "before: hunter22")
    made.give("a.password", "hunter22")
    made.fill("${my.secret:in-default}")
    findings.add(Severity.NOTE, "f", 1, "p", "hunter22 from-world in-default shown", "use hunter22")
    assert [finding.what for finding in findings] == ["before: ****", "**** **** **** shown"]
    assert findings.all[1].remedy == "use ****"


def test_encrypted_values_are_decrypted_where_somebody_can_and_are_secrets_then() -> None:
    findings = Findings()
    made = Sources(findings, decrypt=lambda text: text[::-1])
    made.give("a", "ENC(terces)")
    assert made.fill("${a}") == "secret"
    findings.add(Severity.NOTE, "", 0, "", "it is secret")
    assert findings.all[0].what == "it is ****"

    def refuse(text: str) -> str:
        raise ValueError("no")

    with pytest.raises(InvalidConfiguration, match="cannot be decrypted"):
        Sources(findings, decrypt=refuse).fill("ENC(x)")


@given(st.text(alphabet="${}:ab", max_size=30), st.dictionaries(st.sampled_from("ab"), st.text("${}ab:", max_size=9)))
def test_any_text_is_filled_in_or_refused(text: str, defines: dict[str, str]) -> None:
    with suppress(InvalidConfiguration):
        sources(defines=defines).fill(text)
