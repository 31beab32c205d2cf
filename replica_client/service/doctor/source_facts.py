"""The facts that a source shows to this account, and those that it refuses to show."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from replica_client.errors import ServerError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ErrorCode
from replica_client.protocol.wire.server_errors import UNKNOWABLE_ERRORS
from replica_client.schema.names import mysql_name
from replica_client.stream.live.source_start import grants_select
from replica_client.stream.transport import server_statements
from replica_client.stream.transport.connect_options import ConnectOptions, parse_hosts
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.server_statements import ServerInfo

_SYSTEM = "('mysql', 'sys', 'information_schema', 'performance_schema')"
_VARIABLES = (
    "binlog_checksum",
    "binlog_encryption",
    "binlog_expire_logs_auto_purge",
    "binlog_expire_logs_seconds",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_storage_engine",
    "binlog_transaction_compression",
    "character_set_server",
    "encrypt_binlog",
    "expire_logs_days",
    "gtid_mode",
    "gtid_strict_mode",
    "log_bin",
    "log_bin_compress",
    "log_replica_updates",
    "log_slave_updates",
    "max_binlog_total_size",
    "server_id",
    "sync_binlog",
)
# TABLE_CONSTRAINTS is empty for an account that has SELECT alone (MariaDB).
_WITHOUT_KEY = f"""
SELECT t.TABLE_SCHEMA, t.TABLE_NAME FROM information_schema.TABLES t
LEFT JOIN information_schema.STATISTICS s ON s.TABLE_SCHEMA = t.TABLE_SCHEMA
AND s.TABLE_NAME = t.TABLE_NAME AND s.INDEX_NAME = 'PRIMARY' AND s.SEQ_IN_INDEX = 1
WHERE t.TABLE_TYPE = 'BASE TABLE' AND t.TABLE_SCHEMA NOT IN {_SYSTEM} AND s.TABLE_NAME IS NULL
ORDER BY 1, 2
"""
_TABLES = f"""
SELECT COUNT(*) FROM information_schema.TABLES
WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN {_SYSTEM}
"""
_CHARSETS = f"""
SELECT CHARACTER_SET_NAME, COUNT(*) FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA NOT IN {_SYSTEM} AND CHARACTER_SET_NAME IS NOT NULL
GROUP BY CHARACTER_SET_NAME ORDER BY CHARACTER_SET_NAME
"""
# ROW START and ROW END of a system-versioned table are always logged.
_GENERATED = f"""
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA NOT IN {_SYSTEM} AND EXTRA LIKE '%GENERATED%' AND GENERATION_EXPRESSION NOT LIKE 'ROW %'
ORDER BY 1, 2, ORDINAL_POSITION
"""

_REFUSALS = UNKNOWABLE_ERRORS | {
    ErrorCode.ER_NO_BINARY_LOGGING,
    ErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE,
}
"""Errors that are noted. After any other the source is not judged: nothing is known."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a statement, or why there are none.

    Attributes:
        rows: of the result.
        refusal: the server's text when it refused, else empty.
    """

    rows: Sequence[tuple[Any, ...]] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Everything that was asked.

    Attributes:
        server: version, flavor, ids, TLS.
        variables: global variables by name, as text; those that the server does not have are missing.
        files: SHOW BINARY LOGS.
        status: SHOW BINARY LOG STATUS.
        replicas: SHOW REPLICAS.
        purged: GTIDs that are gone; MariaDB: GTID position at the start of the oldest file.
        tables: how many tables this account sees.
        keyless: schema and name of tables without primary key.
        charsets: character sets of columns, with the number of columns.
        clock_skew: seconds that the source's clock is ahead of ours.
        clock_error: how far that may be wrong.
        address: where it is.
        is_local: on this machine.
        needs_tls: the login would fail without a server that has our account in its cache.
        user: that we logged in as.
        unlogged: schema, table and name of generated columns that the server no longer logs (MariaDB 11.8.9).
        granted: SHOW GRANTS.
        account: what the server takes it for, as its statements name it: `` `repl`@`%` ``.
    """

    server: ServerInfo
    variables: dict[str, str]
    files: Answer
    status: Answer
    replicas: Answer
    purged: str
    tables: Answer
    keyless: Answer
    charsets: Answer
    clock_skew: float
    clock_error: float
    address: str = ""
    is_local: bool = False
    needs_tls: bool = False
    user: str = ""
    account: str = ""
    unlogged: Answer = Answer()
    granted: Answer = Answer()

    @property
    def may_select(self) -> bool:
        """Whether this account sees tables, or has a privilege by which it would see them."""
        if self.tables.rows and int(self.tables.rows[0][0]):
            return True
        return grants_select(self.granted.rows)

    def variable(self, name: str) -> str:
        """Return a variable in upper case; empty when the server has none of that name."""
        return self.variables.get(name, "").upper()

    def is_on(self, name: str) -> bool:
        """Return whether a variable is switched on."""
        return self.variable(name) in ("ON", "1", "TRUE", "YES")


async def gather_facts(connection: SourceConnection) -> SourceFacts:
    """Return the facts of a source, and note the queries that it refuses.

    Raises:
        TransportError: the connection failed.
        ProtocolError: an answer is not one.
    """
    options = connection.options
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    listed = await _ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    variables = {str(row[0]).lower(): str(row[1]) for row in listed.rows}
    skew, error = await _clock(connection)
    files = await _ask(connection, "SHOW BINARY LOGS")
    try:
        purged = await connection.gtid_purged() if files.rows else ""
    except ServerError as refusal:
        if refusal.errno not in _REFUSALS:
            raise
        purged = ""
    unlogged = Answer()
    # 11.8.6 logs them, and 10.11.19 does.
    if connection.server.is_mariadb and connection.server.version > (11, 8, 6):
        unlogged = await _ask(connection, _GENERATED)
    return SourceFacts(
        server=connection.server,
        variables=variables,
        files=files,
        status=await _ask(connection, server_statements.binlog_status(connection.server)),
        replicas=await _ask(connection, server_statements.replicas(connection.server)),
        purged=purged,
        tables=await _ask(connection, _TABLES),
        keyless=await _ask(connection, _WITHOUT_KEY),
        charsets=await _ask(connection, _CHARSETS),
        clock_skew=skew,
        clock_error=error,
        address=options.address,
        is_local=options.is_local,
        needs_tls=_needs_tls(options, connection.server),
        user=options.user,
        account=_account(await _ask(connection, "SELECT CURRENT_USER()")),
        unlogged=unlogged,
        granted=await _ask(connection, "SHOW GRANTS"),
    )


def _account(answer: Answer) -> str:
    """``user@host`` as a statement names it; empty where the server does not give it."""
    if not answer.rows:
        return ""
    user, _, host = str(answer.rows[0][0]).rpartition("@")
    return f"{mysql_name(user)}@{mysql_name(host)}" if user and host else ""


def _needs_tls(options: ConnectOptions, server: ServerInfo) -> bool:
    """Return whether only the server's cache of passwords lets a login without TLS succeed."""
    trusted = options.unix_socket or options.server_public_key or options.allow_public_key_retrieval
    return not server.tls and not trusted and server.auth_plugin == "caching_sha2_password"


async def _ask(connection: SourceConnection, sql: str) -> Answer:
    try:
        return Answer(await connection.query(sql))
    except ServerError as error:
        if error.errno not in _REFUSALS:
            raise
        return Answer(refusal=error.message)


async def _clock(connection: SourceConnection) -> tuple[float, float]:
    """Return the source's clock minus ours and the error, the best of three measurements."""
    best = (0.0, float("inf"))
    for _ in range(3):
        before = time.time()
        [(theirs,)] = await connection.query("SELECT UNIX_TIMESTAMP(NOW(6))")
        after = time.time()
        error = (after - before) / 2
        if error < best[1]:
            best = (float(theirs) - (before + after) / 2, error)
    return best


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
