from __future__ import annotations

from entrepot.config.findings import Finding, Findings, Severity


def test_a_finding_says_where_what_and_what_to_do() -> None:
    finding = Finding(Severity.WARNING, "a.xml", 7, "broker/@x", "it is so", "do this")
    assert finding.describe() == "a.xml:7: warning: broker/@x: it is so → do this"
    assert Finding(Severity.NOTE, "", 0, "", "just this").describe() == "note: just this"


def test_findings_are_told_by_line_and_the_worse_first() -> None:
    findings = Findings()
    for severity, line in ((Severity.NOTE, 3), (Severity.NOTE, 1), (Severity.ERROR, 3)):
        findings.add(severity, "f", line, "", f"{severity.name}{line}")
    assert [finding.what for finding in findings.sorted()] == ["NOTE1", "ERROR3", "NOTE3"]
    assert [finding.what for finding in findings.errors] == ["ERROR3"]


def test_strict_makes_errors_of_warnings_and_leaves_notes() -> None:
    findings = Findings()
    findings.add(Severity.WARNING, "f", 1, "", "w")
    findings.add(Severity.NOTE, "f", 2, "", "n")
    assert [finding.severity for finding in findings.strict()] == [Severity.ERROR, Severity.NOTE]
    assert [finding.severity for finding in findings] == [Severity.WARNING, Severity.NOTE]


def test_short_secrets_are_not_masked_because_that_would_tell_them() -> None:
    findings = Findings()
    findings.hide("a")
    findings.hide("longer-still")
    findings.hide("longer")
    assert findings.masked("a longer longer-still") == "a **** ****"
