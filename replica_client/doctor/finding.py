"""The findings of the doctor."""

from __future__ import annotations

from enum import StrEnum

from replica_client.codec.quick_dataclass import dataclass


class Severity(StrEnum):
    """The severity of a finding.

    ``problem``: the source cannot be followed, or not with these settings; ``warning``: it can, and
    something may go wrong or be missing; ``note``: good to know; ``ok``.
    """

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: its name, the same in every release.
        severity: see :class:`Severity`.
        text: what was found, in one line.
        remedy: what to do, in one line; empty when there is nothing to do.
        statements: SQL for the source that does it, where SQL can.
        settings: lines for the group ``[mysqld]`` of the source's configuration file, where it keeps
            what was done only with them.
    """

    check: str
    severity: Severity
    text: str
    remedy: str = ""
    statements: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


def ok(check: str, text: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(check, Severity.OK, text)


def note(
    check: str,
    text: str,
    remedy: str = "",
    statements: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
) -> Finding:
    """Good to know."""
    return Finding(check, Severity.NOTE, text, remedy, statements, settings)


def warning(
    check: str,
    text: str,
    remedy: str,
    statements: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
) -> Finding:
    """Something may go wrong, or be missing."""
    return Finding(check, Severity.WARNING, text, remedy, statements, settings)


def problem(
    check: str,
    text: str,
    remedy: str,
    statements: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
) -> Finding:
    """Return a finding because of which the source cannot be followed."""
    return Finding(check, Severity.PROBLEM, text, remedy, statements, settings)
