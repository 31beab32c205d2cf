"""The account's privileges and the source's state, and the whole diagnosis."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

from replica_client.errors import (
    AccessDeniedError,
    BinlogDecodeError,
    ReplicaClientError,
    TransportError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType, event_type_name
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.service.doctor.settings import settings
from replica_client.service.doctor.source_facts import (
    Finding,
    Severity,
    SourceFacts,
    gather_facts,
    grants,
    note,
    ok,
    problem,
    warning,
)
from replica_client.stream.live.live_schema import list_tables
from replica_client.stream.transactions.query_text import changes_rows
from replica_client.stream.transport.connect_options import ConnectOptions, parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.driver_dump import open_dump
from replica_client.stream.transport.dump import DumpRequest

_DAY = 86400


def privileges(
    facts: SourceFacts,
    trial: ReplicaClientError | None,
    position: Position | None = None,
    unseen: Sequence[str] = (),
) -> Iterator[Finding]:
    """Yield findings about the privileges of the account.

    Args:
        facts: of the source.
        trial: the error of a short dump, None when it worked.
        position: where we would go on.
        unseen: patterns of wanted tables that match none that the account sees.
    """
    who = f"the account {facts.user!r}"
    if isinstance(trial, AccessDeniedError):
        yield problem(
            "replication_slave",
            f"{who} may not read the binlog: {trial.message}",
            f"GRANT REPLICATION SLAVE ON *.* TO {facts.user}",
            grants(facts, "REPLICATION SLAVE"),
        )
    elif trial is not None:
        yield problem("replication_slave", f"a dump fails: {trial}", "see the other findings")
    else:
        yield ok("replication_slave", f"{who} can read the binlog: tried")
    if not facts.is_on("log_bin"):
        return
    yield _select(facts, who, unseen)
    name = "BINLOG MONITOR" if _has_binlog_monitor(facts) else "REPLICATION CLIENT"
    if facts.files.refusal:
        find = problem if position is None else warning
        yield find(
            "replication_client",
            f"{who} may not ask where the binlog ends: {facts.files.refusal}",
            f"GRANT {name} ON *.* TO {facts.user}; without it only a saved position can be started from",
            grants(facts, name),
        )
    else:
        yield ok("replication_client", f"{who} can ask where the binlog is")


def _select(facts: SourceFacts, who: str, unseen: Sequence[str]) -> Finding:
    if facts.may_select and not unseen:
        return ok("select", f"{who} can read table definitions")
    if unseen:
        who = f"{who} sees no table {', '.join(unseen)}"
    else:
        who = f"{who} sees no table"
    remedy = f"GRANT SELECT ON *.* TO {facts.user}, or on the tables to follow"
    if facts.variable("binlog_row_metadata") == "FULL":
        return note(
            "select",
            f"{who}: what the binlog leaves out cannot be asked, and no table can be copied",
            remedy,
            grants(facts, "SELECT"),
        )
    return problem(
        "select",
        f"{who}, and the binlog has no column names: following ends at the first row",
        f"{remedy}{' (or create the table)' if facts.may_select else ''}; or SET GLOBAL binlog_row_metadata = FULL",
        grants(facts, "SELECT"),
    )


def _has_binlog_monitor(facts: SourceFacts) -> bool:
    return facts.server.is_mariadb and facts.server.version >= (10, 5, 2)


def server_ids(facts: SourceFacts, server_id: int | None) -> Finding:
    """Return the finding whether another server has our id."""
    ours = "ours is a random one of 32 bits" if server_id is None else f"ours is {server_id}"
    if server_id is not None and server_id == facts.server.server_id:
        return problem(
            "server_id", f"{server_id} is the source's own server id", "choose another server_id"
        )
    if facts.replicas.refusal:
        return note(
            "server_id",
            f"{ours}; the replicas of the source cannot be listed: {facts.replicas.refusal}",
            _list_remedy(facts),
            grants(facts, _listing_privilege(facts)),
        )
    others = {str(row[0]): str(row[1] or "") for row in facts.replicas.rows}
    if server_id is not None and str(server_id) in others:
        host = others[str(server_id)]
        return problem(
            "server_id",
            f"a replica{f' at {host}' if host else ''} has server id {server_id}, too: the two would "
            "end each other's connections for ever",
            "choose another server_id",
        )
    listed = f" ({', '.join(others)})" if others else ""
    count = len(others)
    return ok(
        "server_id",
        f"{ours}; the source has {count} other {'replica' if count == 1 else 'replicas'}{listed}",
    )


def _listing_privilege(facts: SourceFacts) -> str:
    return "REPLICATION MASTER ADMIN" if _has_binlog_monitor(facts) else "REPLICATION SLAVE"


def _list_remedy(facts: SourceFacts) -> str:
    privilege = f"GRANT {_listing_privilege(facts)} ON *.* TO {facts.user}"
    if _has_binlog_monitor(facts):
        return f"{privilege}, or run this as an administrator"
    return privilege


def retention(facts: SourceFacts, position: Position | None) -> Iterator[Finding]:
    """Yield findings about how long the source keeps its files, and whether it has the changes after a position."""
    if not facts.is_on("log_bin"):
        return
    yield _kept(facts)
    if position is not None:
        yield _reachable(facts, position)


def _kept(facts: SourceFacts) -> Finding:
    seconds = float(facts.variables.get("binlog_expire_logs_seconds") or 0)
    if not seconds:
        seconds = _DAY * float(facts.variables.get("expire_logs_days") or 0)
    if facts.variable("binlog_expire_logs_auto_purge") == "OFF":
        seconds = 0
    limit = facts.variables.get("max_binlog_total_size") or "0"
    sizes = [int(row[1]) for row in facts.files.rows]
    count = f"{len(sizes)} {'file' if len(sizes) == 1 else 'files'}"
    there = f"; {count}, {_size(sum(sizes))}" if sizes else ""
    if limit != "0":
        return warning(
            "retention",
            f"files are removed when they exceed {_size(int(limit))} together{there}",
            "raise max_binlog_total_size above what is written while we may be down",
        )
    if not seconds:
        return note(
            "retention",
            f"files are kept for ever{there}",
            f"watch the source's disk, or set {_expiry(facts, 30)}",
        )
    text = f"files are kept for {_duration(seconds)}{there}"
    if seconds < _DAY:
        return warning(
            "retention",
            f"{text}: a replica that is down for longer must start over",
            f"SET GLOBAL {_expiry(facts, 7)} (a week)",
        )
    return ok("retention", text)


def _expiry(facts: SourceFacts, days: int) -> str:
    if "binlog_expire_logs_seconds" in facts.variables:
        return f"binlog_expire_logs_seconds = {days * _DAY}"
    return f"expire_logs_days = {days}"


def _reachable(facts: SourceFacts, position: Position) -> Finding:
    lost = gone(facts, position)
    if lost:
        return problem(
            "position",
            f"the position {position} needs what the source no longer has: {lost}",
            "take a new snapshot, or use another source that still has it",
        )
    if facts.files.refusal:
        return note(
            "position",
            f"whether the source has what follows {position} is not known: {facts.files.refusal}",
            f"GRANT REPLICATION CLIENT ON *.* TO {facts.user} (MariaDB: BINLOG MONITOR)",
        )
    listed = {str(row[0]): int(row[1]) for row in facts.files.rows}
    if position.file not in listed:
        return ok("position", f"the source has what follows {position}")
    names = list(listed)
    behind = sum(listed[name] for name in names[names.index(position.file) :]) - position.offset
    return ok("position", f"the source has what follows {position}: {_size(behind)} to be read")


def gone(facts: SourceFacts, position: Position) -> str:
    """Return what is missing, empty when nothing is known to be."""
    gtid_set = position.gtid_set
    mode = facts.variable("gtid_mode")
    if isinstance(gtid_set, GtidSet) and not facts.server.is_mariadb and mode == "ON":
        missing = GtidSet.parse(facts.purged) - gtid_set
        return f"transactions {missing} were purged" if missing else ""
    if isinstance(gtid_set, MariadbGtidSet) and facts.server.is_mariadb and gtid_set:
        late = [
            gtid
            for gtid in MariadbGtidSet.parse(facts.purged).positions()
            if gtid_set.reached(gtid.domain_id) < gtid.sequence
        ]
        return (
            f"it is after {', '.join(map(str, late))}, where the oldest file begins" if late else ""
        )
    if gtid_set is not None and not position.file:
        return "its GTIDs are not those of this server"
    listed = {str(row[0]): int(row[1]) for row in facts.files.rows}
    if not listed:
        return ""
    if position.file not in listed:
        return f"file {position.file}; the oldest is {next(iter(listed))}"
    if position.offset > listed[position.file]:
        return f"{position.file} has {listed[position.file]} bytes: was the source reset?"
    return ""


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _duration(seconds: float) -> str:
    for unit, size in (("days", _DAY), ("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} seconds"


MAX_SIZE: Final = 16 << 20
MAX_SECONDS: Final = 3.0
_DECODED: Final = (int(EventType.QUERY_EVENT), int(EventType.QUERY_COMPRESSED_EVENT))
_MARKED: Final = {
    EventType.TRANSACTION_PAYLOAD_EVENT: "compressed transactions",
    EventType.PARTIAL_UPDATE_ROWS_EVENT: "partial JSON updates",
    EventType.QUERY_COMPRESSED_EVENT: "compressed statements",
    EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: "compressed rows",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: "compressed rows",
    EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: "compressed rows",
    EventType.WRITE_ROWS_COMPRESSED_EVENT: "compressed rows",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT: "compressed rows",
    EventType.DELETE_ROWS_COMPRESSED_EVENT: "compressed rows",
    EventType.START_ENCRYPTION_EVENT: "an encrypted file",
    EventType.INCIDENT_EVENT: "incidents",
}


@dataclass(slots=True)
class Sample:
    """Counts of a part of the newest file.

    Attributes:
        size: bytes read.
        events: by type code.
        statements: changes of rows that were logged as text.
        first_statement: the first of them.
        fault: an event that could not be read.
    """

    size: int = 0
    events: Counter[int] = field(default_factory=Counter)
    statements: int = 0
    first_statement: str = ""
    fault: str = ""


async def take_sample(options: ConnectOptions, file: str) -> Sample:
    """Read the start of a file.

    Raises:
        ServerError: the source refuses, for want of a privilege or otherwise.
        TransportError: the connection failed.
        ProtocolError: the source sent data that the protocol forbids.
    """
    sample = Sample()
    decoder = BinlogDecoder()
    deadline = asyncio.get_running_loop().time() + MAX_SECONDS
    # Never the server id that the user gave: it may be in use, and a dump would end the other one.
    async with await open_dump(options, DumpRequest(file, non_block=True)) as dump:
        async for data in dump:
            _count(sample, decoder, data)
            if sample.size >= MAX_SIZE or asyncio.get_running_loop().time() >= deadline:
                break
    return sample


def _count(sample: Sample, decoder: BinlogDecoder, data: bytes) -> None:
    sample.size += len(data)
    try:
        header = decoder.peek_header(data)
        code = header.type_code
        if not header.is_artificial:
            sample.events[code] += 1
        if code == EventType.FORMAT_DESCRIPTION_EVENT:
            decoder.decode(data, 4)
        elif code in _DECODED:
            query = decoder.decode(data, 0).body.query
            if changes_rows(query):
                sample.statements += 1
                sample.first_statement = sample.first_statement or _short(query)
    except BinlogDecodeError as error:
        sample.fault = sample.fault or str(error)


def _short(query: bytes) -> str:
    text = " ".join(query[:200].decode("utf-8", "replace").split())
    return text if len(text) <= 60 else text[:60] + "…"


def seen(sample: Sample) -> Iterator[Finding]:
    """Return findings about a sample."""
    names = sorted({name for code, name in _MARKED.items() if sample.events[code]})
    unknown = sorted(code for code in sample.events if event_type_name(code).startswith("UNKNOWN_"))
    count = sum(sample.events.values())
    where = f"the newest file's first {count} {'event' if count == 1 else 'events'}"
    if sample.fault or unknown:
        what = sample.fault or f"events of unknown type {', '.join(map(str, unknown))}"
        yield problem(
            "events", f"{where}: {what}", "run replica-client events on the source's file"
        )
    elif names:
        yield note("events", f"{where} hold {', '.join(names)}")
    else:
        yield ok("events", f"{where}: nothing out of the ordinary")
    if sample.statements:
        yield warning(
            "statements",
            f"{where} hold {sample.statements} changes logged as text, which are not rows "
            f"({sample.first_statement})",
            "have every session use binlog_format = ROW, and start after these statements",
        )


async def diagnose(
    source: str | ConnectOptions,
    *,
    server_id: int | None = None,
    position: Position | None = None,
    tables: Sequence[str] = (),
) -> list[Finding]:
    """Look at everything that following a source depends on.

    Two connections: one for SQL, one for a short dump of the newest file. What a missing privilege
    hides is a finding that says so.

    Args:
        source: URL, or how to connect.
        server_id: the one that we would use; None: a random one.
        position: where we would go on.
        tables: patterns of the wanted tables; none: all.

    Raises:
        ConfigError: a pattern is wrong.
        ConnectError: no connection, or no login.
        ServerError: the login was refused.
        TransportError: the connection was lost.
    """
    options = parse_url(source) if isinstance(source, str) else source
    selection = Selection(tables or None)
    async with await SourceConnection.open(options) as connection:
        facts = await gather_facts(connection)
        selection = selection.for_server(connection.server.casefolds_names)
        for name in await list_tables(connection) if tables else ():
            selection.wants(*name)
    sample, trial = await _try_dump(options, facts)
    findings = list(settings(facts))
    if facts.is_on("log_bin"):
        findings += privileges(facts, trial, position, selection.unmatched())
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
