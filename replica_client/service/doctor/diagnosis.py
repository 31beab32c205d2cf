"""All findings about a source."""

from __future__ import annotations

from replica_client.errors import ReplicaClientError, TransportError
from replica_client.protocol.position import Position
from replica_client.service.doctor.finding import Finding, Severity
from replica_client.service.doctor.settings import settings
from replica_client.service.doctor.source_facts import SourceFacts, gather_facts
from replica_client.service.doctor.standing import (
    Sample,
    privileges,
    retention,
    seen,
    server_ids,
    take_sample,
)
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.url import parse_url


async def diagnose(
    source: str | ConnectOptions,
    *,
    server_id: int | None = None,
    position: Position | None = None,
) -> list[Finding]:
    """Look at everything that following a source depends on.

    Two connections: one for SQL, one for a short dump of the newest file. What a missing privilege
    hides is a finding that says so.

    Args:
        source: URL, or how to connect.
        server_id: the one that we would use; None: a random one.
        position: where we would go on.

    Raises:
        ConnectError: no connection, or no login.
        ServerError: the login was refused.
        TransportError: the connection was lost.
    """
    options = parse_url(source) if isinstance(source, str) else source
    async with await SourceConnection.open(options) as connection:
        facts = await gather_facts(connection)
    sample, trial = await _try_dump(options, facts)
    findings = list(settings(facts))
    if facts.is_on("log_bin"):
        findings += privileges(facts, trial)
        findings += [] if sample is None else seen(sample)
        findings.append(server_ids(facts, server_id))
        findings += retention(facts, position)
    return findings


def can_be_followed(findings: list[Finding]) -> bool:
    """Return whether no finding is a problem."""
    return all(finding.severity is not Severity.PROBLEM for finding in findings)


async def _try_dump(
    options: ConnectOptions, facts: SourceFacts
) -> tuple[Sample | None, ReplicaClientError | None]:
    if not facts.is_on("log_bin"):
        return None, None
    newest = str(facts.files.rows[-1][0]) if facts.files.rows else ""
    try:
        sample = await take_sample(options, newest)
    except TransportError:
        raise
    except ReplicaClientError as error:
        return None, error
    return sample, None
