"""What only entrepot knows, in a file of either family: its last word counts, rules add up, an error has its line."""

from __future__ import annotations

from pathlib import Path

from entrepot.config.findings import Findings, Severity
from entrepot.config.instructions import own_settings
from entrepot.config.model import OwnSettings
from entrepot.config.sources import Sources
from entrepot.config.xml import parse


def said(text: str, folder: Path) -> tuple[OwnSettings, Sources]:
    sources = Sources(Findings(), defines={"where": "ams"})
    sources.file = str(folder / "broker.xml")
    return own_settings(parse(text.encode(), sources.file), sources), sources


def test_they_are_taken_together_and_those_of_others_are_passed_over(tmp_path: Path) -> None:
    text = (
        "<?entrepot zone='${where}' client-zone='a=10.0.0.0/8'?><x><?entrepot client-zone='b=user:c*'?><?php no?></x>"
    )
    found, sources = said(text, tmp_path)
    assert (found.zone, found.client_zones, found.reports) == ("ams", ("a=10.0.0.0/8", "b=user:c*"), "")
    assert not list(sources.findings)


def test_a_directory_begins_where_the_file_is_and_is_noted_while_it_is_not_there(tmp_path: Path) -> None:
    found, sources = said("<?entrepot reports='r'?><x/>", tmp_path)
    (note,) = list(sources.findings)
    assert (found.reports, note.severity, note.line) == (str(tmp_path / "r"), Severity.NOTE, 1)
    (tmp_path / "r").mkdir()
    assert not list(said("<?entrepot reports='r'?><x/>", tmp_path)[1].findings)


def test_a_mistake_is_an_error_with_its_line(tmp_path: Path) -> None:
    _, sources = said("<x>\n<?entrepot colour='red'?></x>", tmp_path)
    (error,) = sources.findings.errors
    assert (error.line, "it has no 'colour'" in error.what) == (2, True)
