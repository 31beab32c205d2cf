"""Statements and configuration lines to copy for the findings of the doctor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replica_client.doctor.finding import Finding, Severity
from replica_client.doctor.source_facts import SourceFacts


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
