"""Findings of doctor, and their remedies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.service.doctor.source_facts import SourceFacts
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.url import parse_hosts


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


def grants(facts: SourceFacts, privilege: str) -> tuple[str, ...]:
    """Return the statement that grants our account a privilege; none where the account's name is not known."""
    return (f"GRANT {privilege} ON *.* TO {facts.account}",) if facts.account else ()


def to_copy(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield lines to copy that fix the findings; none where nothing can be copied.

    First come statements for an administrator of the source, then the lines of its configuration
    file. Recommendations of notes are in comments.
    """
    wanted = [finding for finding in findings if finding.severity is not Severity.OK]
    statements = list(_lines(wanted, [one.statements for one in wanted], "-- ", ";"))
    settings = list(_lines(wanted, [one.settings for one in wanted], "# ", ""))
    if statements:
        yield "-- On the source, as an administrator:"
        yield from statements
    if settings:
        yield "# In the source's my.cnf, read at its next start:"
        yield "[mysqld]"
        yield from settings


def _lines(
    findings: Iterable[Finding], listed: Iterable[tuple[str, ...]], comment: str, end: str
) -> Iterator[str]:
    # A line that a note recommends and a problem needs is no comment.
    needed: dict[str, bool] = {}
    for finding, lines in zip(findings, listed, strict=True):
        for line in lines:
            needed[line] = needed.get(line, False) or finding.severity is not Severity.NOTE
    for line, is_needed in needed.items():
        yield f"{'' if is_needed else comment}{line}{end}"


_DATABASES = """
SELECT DISTINCT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'
AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1
"""


async def visible_databases(url: str) -> list[str]:
    """Return the names of the databases with tables that the account may see, without the server's own.

    Raises:
        ServerError: the server refuses.
        TransportError: the connection failed.
    """
    async with await SourceConnection.open(parse_hosts(url)[0]) as connection:
        return [str(name) for (name,) in await connection.query(_DATABASES)]
