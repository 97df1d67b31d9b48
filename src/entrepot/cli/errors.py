"""Errors for people: what happened, why, what to do next; and the exit code that a script sees.

0: done. 1: understood but it failed. 2: what was asked for cannot be meant, or configured, so.
"""

from __future__ import annotations

import errno
import os
import ssl
import sys
from typing import IO, Any, Final

import click

from entrepot.base.errors import (
    EntrepotError,
    Fault,
    Inexpressible,
    InvalidDestination,
    InvalidOption,
    InvalidSelector,
    InvalidURI,
    OperatorError,
)

_MISUSES: Final = (InvalidOption, InvalidURI, InvalidDestination, InvalidSelector, Inexpressible)

_REMEDIES: Final = {
    errno.EACCES: "run it as a user who may, or change the permissions",
    errno.EPERM: "run it as a user who may, or change the permissions",
    errno.ENOENT: "check the name",
    errno.ENOSPC: "make room on that disk and try again; nothing that was confirmed is lost",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
}


class Failure(click.ClickException):
    """A failure that ends the command, worded for people. Click shows it and exits with ``exit_code``."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "", code: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy
        self.code = code

    def show(self, file: IO[Any] | None = None) -> None:
        """Write two lines to standard error: what happened, and what to do."""
        file = file or sys.stderr
        code = f" [{self.code}]" if self.code else ""
        click.echo(f"{click.style('entrepot:', fg='red', bold=True)} {self.message}{code}", file=file)
        if self.remedy:
            click.echo(f"  → {self.remedy}", file=file)


class Misuse(Failure):
    """What was asked for cannot be meant so."""

    exit_code = 2


def explain(error: Exception) -> Failure | None:
    """Return how to tell a person about ``error``; None for what is our own bug and should show its traceback."""
    if isinstance(error, Fault):
        return None
    if isinstance(error, EntrepotError):
        where = ""
        if isinstance(error, OperatorError) and error.file:
            where = f"{error.file}:{error.line}: " if error.line else f"{error.file}: "
        kind = Misuse if isinstance(error, _MISUSES) else Failure
        return kind(where + error.message, remedy=error.remedy, code=error.code)
    if isinstance(error, OSError):
        return Failure(describe_os_error(error), remedy=_REMEDIES.get(error.errno or 0, ""))
    return None


def describe_os_error(error: OSError) -> str:
    """Return what the system says, without numbers and brackets."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError) and not error.errno:
        return "it took too long"
    # The loops word a refused connection in their own ways; the system's words are shorter.
    text = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    name = f": {error.filename}" if isinstance(error.filename, str) else ""
    return f"{text}{name}"
