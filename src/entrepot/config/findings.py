"""What reading a configuration brought to light: each finding says where, what, and what to do about it.

Nothing in a file is dropped silently (classic.md 8.6): it is obeyed, or there is a finding. Secrets never appear: what
the sources name as one is masked in every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from msgspec import Struct

MASK: Final = "****"
SECRET_NAME: Final = re.compile(r"password|passphrase|passwd|secret|credential", re.IGNORECASE)
SECRET_LENGTH_MIN: Final = 3  # masking every "a" of a message would tell more than it hides


class Severity(IntEnum):
    """How much it matters. NOTE: no effect here, nothing is lost. WARNING: it behaves otherwise. ERROR: no start."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


class Finding(Struct, frozen=True):
    """One of them. ``path``: the element or attribute, like ``broker/plugins/loggingBrokerPlugin/@logAll``."""

    severity: Severity
    file: str
    line: int
    path: str
    what: str
    remedy: str = ""

    def describe(self) -> str:
        """Return it on one line."""
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        remedy = f" → {self.remedy}" if self.remedy else ""
        path = f"{self.path}: " if self.path else ""
        return f"{place}{self.severity.name.lower()}: {path}{self.what}{remedy}"


class Findings:
    """The findings of one reading, in the order in which they were made."""

    def __init__(self) -> None:
        self.all: list[Finding] = []
        self._secrets: dict[str, None] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def hide(self, secret: str) -> None:
        """Mask ``secret`` in every finding, those made before too."""
        if len(secret) < SECRET_LENGTH_MIN or secret in self._secrets:
            return
        self._secrets[secret] = None
        self.all = [self._masked(finding) for finding in self.all]

    def masked(self, text: str) -> str:
        """Return ``text`` without the secrets that are known by now."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text

    def add(self, severity: Severity, file: str, line: int, path: str, what: str, remedy: str = "") -> None:
        """Take note of one."""
        self.all.append(self._masked(Finding(severity, file, line, path, what, remedy)))

    def _masked(self, finding: Finding) -> Finding:
        return Finding(
            finding.severity,
            finding.file,
            finding.line,
            finding.path,
            self.masked(finding.what),
            self.masked(finding.remedy),
        )

    def of(self, severity: Severity) -> list[Finding]:
        """Return those of one severity."""
        return [finding for finding in self.all if finding.severity is severity]

    @property
    def errors(self) -> list[Finding]:
        """Return what forbids a start."""
        return self.of(Severity.ERROR)

    def sorted(self) -> list[Finding]:
        """Return all by file and line, the worse first on one line."""
        return sorted(self.all, key=lambda finding: (finding.file, finding.line, -finding.severity))

    def strict(self) -> Findings:
        """Return the same with every warning as an error."""
        stricter = Findings()
        stricter._secrets = self._secrets
        for finding in self.all:
            severity = Severity.ERROR if finding.severity is Severity.WARNING else finding.severity
            stricter.all.append(
                Finding(severity, finding.file, finding.line, finding.path, finding.what, finding.remedy)
            )
        return stricter
