"""The small part of SQL that a server of binlog files answers: the queries of replicas and tools.

An unknown query is an error, never an empty answer that could be taken for the source's.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, Protocol

from replica_client.errors import GtidFormatError, ServerError
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.wire.resultset import Value
from replica_client.server.budget import SessionBudget, Worker
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.show_events import COLUMNS, show_binlog_events
from replica_client.server.sql_grammar import (
    MAX_STATEMENT_SIZE,
    SESSION_VARIABLES,
    Assignments,
    Call,
    Expression,
    LikePattern,
    Literal,
    Other,
    Select,
    Statement,
    SystemVariable,
    UserVariable,
    bare,
    normal,
    not_understood,
    parse,
    unquote,
)
from replica_client.stream.transport.server_statements import parse_version

Rows = tuple[Sequence[str], Sequence[Sequence[Value]]]
"""Column names and rows."""

RowStream = tuple[Sequence[str], AsyncGenerator[list[tuple[Value, ...]], None]]
"""Column names, and rows in pieces that are made while they are sent."""

MAX_ANSWER_SIZE: Final = 4 << 20
"""Bytes of the values of one SELECT."""

_MAX_SHOW_SIZE: Final = 4096
_LONG_STATEMENT: Final = 8192
"""Characters from which on a statement is parsed in a thread."""

_LONG_SET: Final = 2048
"""Characters from which on sets of GTIDs are compared in a thread."""

_MAX_VARIABLES: Final = 100
_MAX_NAME: Final = 64
_MAX_VALUE: Final = 256 << 10
_SHOW_VARIABLES = re.compile(
    r"SHOW\s+(?:GLOBAL\s+|SESSION\s+|LOCAL\s+)?(?P<what>VARIABLES|STATUS)"
    r"(?:\s+LIKE\s+(?P<like>\S+)|\s+WHERE\s+(?P<where>.*))?$",
    re.IGNORECASE | re.DOTALL,
)
_KILL = re.compile(r"KILL\s+(?:CONNECTION\s+)?([0-9]{1,20})$", re.IGNORECASE)
_PURGE = re.compile(
    r"PURGE\s+(?:BINARY|MASTER)\s+LOGS\s+(?:TO\s+(?P<to>'[^']{1,255}'|\"[^\"]{1,255}\")"
    r"|BEFORE\s+(?P<before>'[^']{1,40}'|\"[^\"]{1,40}\"))$",
    re.IGNORECASE,
)
_WORDS: Final = frozenset(
    (
        *("gtid_mode", "enforce_gtid_consistency", "event_scheduler", "delay_key_write"),
        *("session_track_gtids", "session_track_transaction_info", "wsrep_osu_method"),
        *("innodb_fast_shutdown", "tls_version", "have_openssl", "query_cache_type"),
    )
)
"""Variables whose ON and OFF are words, also in SELECT."""

# One that is not closed ends with the text: what was looked at once is not looked at again.
_LITERAL = re.compile(r"'((?:[^'\\]|''|\\.)*+)(?:'|\\?$)", re.DOTALL)
_NO_DATABASES: Final = (
    "this server serves binlog files and has no databases: ask the source, or one of its replicas"
)
_NO_TABLE_WORDS: Final = frozenset(
    ("TABLES", "FULL", "CREATE", "COLUMNS", "FIELDS", "INDEX", "KEYS", "TRIGGERS", "EVENTS", "TABLE")
)  # fmt: skip


class SqlServer(Protocol):
    """The parts of a server that statements use."""

    library: BinlogLibrary
    answers: Mapping[str, Rows]
    worker: Worker

    def variables(self) -> Mapping[str, Value]:
        """Return the variables of the server and its files, by name in lower case."""

    async def source_variables(self) -> Mapping[str, Value] | None:
        """Return the source's variables; None until the source was asked."""

    def replicas(self) -> list[tuple[Value, ...]]:
        """Return the rows of SHOW REPLICAS."""

    def processes(self, user: str) -> list[tuple[Value, ...]]:
        """Return the rows of SHOW PROCESSLIST that a user may see."""

    def status(self) -> Mapping[str, Value]:
        """Return the rows of SHOW STATUS."""

    def replica_status(self) -> Mapping[str, Value] | None:
        """Return the row of SHOW REPLICA STATUS; None for a server that is no replica."""

    def kill(self, connection_id: int, user: str) -> None:
        """End a connection that a user may end."""

    async def purge(self, user: str, *, to: str, before: str) -> None:
        """Remove the files before a file, or before a time."""


@dataclass(slots=True)
class SqlSession:
    """The SQL side of one connection.

    Attributes:
        server: answers the statements.
        connection_id: of this connection.
        user: the account that logged in.
        budget: of the session.
        user_variables: values of SET @….
    """

    server: SqlServer
    connection_id: int
    user: str
    budget: SessionBudget
    user_variables: dict[str, Value]
    _answered: int = 0

    async def execute(self, sql: str) -> Rows | RowStream | None:
        """Run a statement; return its rows, or None for an OK.

        Raises:
            ServerError: the statement is not understood, or its answer is too large.
        """
        if len(sql) > MAX_STATEMENT_SIZE:
            raise ServerError(
                1153, "08S01", f"the statement has more than {MAX_STATEMENT_SIZE} characters"
            )
        found: Statement | Rows
        if len(sql) >= _LONG_STATEMENT:
            found = await self.server.worker.run(self.budget, self._read, sql)
        else:
            found = self._read(sql)
        if isinstance(found, Select):
            return await self._select(found)
        if isinstance(found, Assignments):
            for name, value in found.values:
                self._keep(name, await self._value(value))
            return None
        if isinstance(found, Other):
            return await self._other(found)
        return found

    def _read(self, sql: str) -> Statement | Rows:
        text = bare(sql)
        known = self.server.answers.get(normal(text))
        return parse(text) if known is None else known

    async def _other(self, statement: Other) -> Rows | RowStream | None:
        text, words = statement.text, statement.words
        word = words.partition(" ")[0]
        if word == "SHOW" and len(text) <= _MAX_SHOW_SIZE:
            return await self._show(text, words)
        if word in ("BEGIN", "START", "COMMIT", "ROLLBACK", "DO", ""):
            return None
        if word == "USE":
            raise no_database(text[3:])
        if match := _KILL.match(text):
            self.server.kill(int(match[1]), self.user)
            return None
        if match := _PURGE.match(text):
            await self.server.purge(
                self.user, to=unquote(match["to"] or "''"), before=unquote(match["before"] or "''")
            )
            return None
        raise not_understood(text)

    # SHOW

    async def _show(self, text: str, words: str) -> Rows | RowStream:
        library = self.server.library
        version = parse_version(library.server_version)
        if words in ("SHOW BINARY LOGS", "SHOW MASTER LOGS"):
            rows: list[tuple[Value, ...]] = [(file.name, file.size) for file in library.files]
            if library.flavor is ServerFlavor.MARIADB or version < (8, 0, 14):
                return ("Log_name", "File_size"), rows
            return ("Log_name", "File_size", "Encrypted"), [(*row, "No") for row in rows]
        if words in ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS", "SHOW BINLOG STATUS"):
            last = library.files[-1]
            names = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"]
            row: list[Value] = [last.name, last.size, "", ""]
            if library.flavor is ServerFlavor.MYSQL:
                names.append("Executed_Gtid_Set")
                row.append(str(library.executed()))
            return names, [row]
        if words in ("SHOW REPLICAS", "SHOW SLAVE HOSTS", "SHOW REPLICA HOSTS"):
            return self._replicas()
        if words in ("SHOW PROCESSLIST", "SHOW FULL PROCESSLIST"):
            names = ["Id", "User", "Host", "db", "Command", "Time", "State", "Info"]
            return names, self.server.processes(self.user)
        if words.startswith("SHOW GRANTS"):
            grant = f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{self.user}'@'%'"
            return (f"Grants for {self.user}@%",), [(grant,)]
        if words in ("SHOW WARNINGS", "SHOW ERRORS"):
            return ("Level", "Code", "Message"), []
        if words in ("SHOW SLAVE STATUS", "SHOW REPLICA STATUS", "SHOW ALL SLAVES STATUS"):
            return self._replica_status(old="REPLICA" not in words)
        if words in ("SHOW DATABASES", "SHOW SCHEMAS"):
            raise ServerError(1235, "42000", _NO_DATABASES)
        events = await show_binlog_events(library, text, self.budget)
        if events is not None:
            return COLUMNS, events
        if match := _SHOW_VARIABLES.match(text):
            return ("Variable_name", "Value"), await self._show_variables(match)
        if words.split(" ", 2)[1] in _NO_TABLE_WORDS:
            raise ServerError(1235, "42000", _NO_DATABASES)
        raise not_understood(text)

    def _replicas(self) -> Rows:
        """Return the replicas, with the column names of the source's version and flavor."""
        rows, library = self.server.replicas(), self.server.library
        if library.flavor is ServerFlavor.MARIADB:
            return ("Server_id", "Host", "Port", "Master_id"), [row[:4] for row in rows]
        if parse_version(library.server_version) < (8, 0, 22):
            return ("Server_id", "Host", "Port", "Master_id", "Slave_UUID"), rows
        return ("Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"), rows

    def _replica_status(self, *, old: bool) -> Rows:
        status = self.server.replica_status()
        if status is None:
            return ("Slave_IO_State",), []
        names = [
            name.replace("Source_", "Master_")
            .replace("Replica_", "Slave_")
            .replace("_Source", "_Master")
            if old
            else name
            for name in status
        ]
        return names, [list(status.values())]

    async def _show_variables(self, match: re.Match[str]) -> list[tuple[Value, ...]]:
        pattern: str | None = None
        if match["like"]:
            quoted = match["like"][0] in "'\""
            pattern = unquote(match["like"]) if quoted else match["like"]
            pattern = pattern.lower()
        wanted: set[str] | None = None
        if match["where"]:
            wanted = {text.lower() for text in _LITERAL.findall(match["where"])}
        if match["what"].upper() == "STATUS":
            found = self.server.status()
            by_lower = {name.lower(): name for name in found}
            lowered: Mapping[str, Value] = {name: found[by_lower[name]] for name in by_lower}
        else:
            own = {**SESSION_VARIABLES, **self.server.variables()}
            by_lower = {}
            if pattern is not None and not set(pattern) & set("%_\\"):
                wanted, pattern = {pattern}, None
            if wanted is not None and wanted <= own.keys():
                lowered = own
            else:
                lowered = {**(await self._source_variables()), **own}
        if pattern is not None:
            like, names = LikePattern(pattern), []
            for name in lowered:
                await self.budget.pace()
                if like.matches(name):
                    names.append(name)
        elif wanted is not None:
            names = [name for name in lowered if name in wanted]
        else:
            names = list(lowered)
        return [
            (by_lower.get(name, name), str(lowered[name]))
            for name in sorted(names)
            if lowered[name] is not None
        ]

    async def _source_variables(self) -> Mapping[str, Value]:
        found = await self.server.source_variables()
        if found is None:
            raise ServerError(
                1105, "HY000", "the source's variables are not known: it could not be asked yet"
            )
        return found

    # SELECT and SET

    async def _select(self, statement: Select) -> Rows:
        row: list[Value] = []
        self._answered = 0
        for _, expression in statement.columns:
            value = await self._value(expression)
            self._answered += len(value) if isinstance(value, str | bytes) else 8
            if self._answered > MAX_ANSWER_SIZE:
                raise ServerError(
                    1301, "HY000", f"the answer has more than {MAX_ANSWER_SIZE} bytes"
                )
            row.append(value)
        return [name for name, _ in statement.columns], [row]

    def _keep(self, name: str, value: Value) -> None:
        variables = self.user_variables
        full = name not in variables and len(variables) >= _MAX_VARIABLES
        if full or len(name) > _MAX_NAME or (isinstance(value, str) and len(value) > _MAX_VALUE):
            raise ServerError(1041, "HY000", "the user variables are too many, or too large")
        self.budget.release(_size_of(variables.get(name)))
        variables.pop(name, None)
        self.budget.hold(_size_of(value))
        variables[name] = value

    async def _value(self, expression: Expression) -> Value:
        await self.budget.pace()
        if isinstance(expression, Literal):
            return expression.value
        if isinstance(expression, SystemVariable):
            return await self._system(expression.name)
        if isinstance(expression, UserVariable):
            return self.user_variables.get(expression.name)
        return await self._function(expression)

    async def _system(self, name: str) -> Value:
        for variables in (self.server.variables(), SESSION_VARIABLES):
            if name in variables:
                return variables[name]
        found = await self.server.source_variables()
        if found is not None and name in found:
            return selected(name, found[name])
        if name == "lower_case_table_names":
            return None  # only the source can know
        why = "" if found is not None else "; the source could not be asked yet"
        raise ServerError(1193, "HY000", f"Unknown system variable '{name[:_MAX_NAME]}'{why}")

    async def _function(self, call: Call) -> Value:
        name = call.name
        arguments = [await self._value(one) for one in call.arguments]
        if name == "VERSION":
            return self.server.library.server_version
        if name == "CONNECTION_ID":
            return self.connection_id
        if name in ("USER", "CURRENT_USER", "SESSION_USER"):
            return f"{self.user}@localhost"
        if name in ("DATABASE", "SCHEMA"):
            return None
        if name == "UNIX_TIMESTAMP":
            return int(time.time())
        if name in ("NOW", "UTC_TIMESTAMP", "CURRENT_TIMESTAMP"):
            return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        if name == "BINLOG_GTID_POS" and len(arguments) == 2:
            return await self._gtid_position(str(arguments[0]), arguments[1])
        if name in ("GTID_SUBTRACT", "GTID_SUBSET") and len(arguments) == 2:
            if sum(map(_size_of, arguments)) >= _LONG_SET:
                return await self.server.worker.run(self.budget, _compare_gtids, name, arguments)
            return _compare_gtids(name, arguments)
        raise ServerError(1305, "42000", f"FUNCTION {name[:_MAX_NAME]} does not exist")

    async def _gtid_position(self, name: str, position: Value) -> Value:
        file = self.server.library.find(name)
        if file is None or not isinstance(position, int):
            return None
        if position < FIRST_EVENT or position > file.size:
            return None
        async with file.present():
            executed = await file.transactions.executed_at(position)
        return executed.slave_connect_state() if isinstance(executed, MariadbGtidSet) else None


def no_database(name: str) -> ServerError:
    """Return the error for a client that chooses a database."""
    found = name.strip().strip("`")[:_MAX_NAME]
    return ServerError(1049, "42000", f"Unknown database '{found}': {_NO_DATABASES}")


def selected(name: str, shown: Value) -> Value:
    """Return the value that SELECT gives for a variable, from its text in SHOW VARIABLES."""
    if not isinstance(shown, str):
        return shown
    if shown.isascii() and shown.isdigit() and len(shown) < 20:
        return int(shown)
    if shown in ("ON", "OFF") and name not in _WORDS:
        return int(shown == "ON")
    return shown


def _size_of(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


def _compare_gtids(name: str, arguments: Sequence[Value]) -> Value:
    if None in arguments:
        return None
    try:
        left, right = (GtidSet.parse(str(text)) for text in arguments)
    except GtidFormatError as error:
        raise ServerError(1772, "HY000", f"Malformed GTID set specification: {error}") from None
    return str(left - right).replace("\n", "") if name == "GTID_SUBTRACT" else int(left <= right)
