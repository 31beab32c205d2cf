"""The SQL that a served library understands, and its variables.

Everything is bounded: a statement by its characters, a list by its entries, functions by their depth. Parsing is
linear in the text, so that a long statement can be parsed in a thread.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Final

from replica_client.errors import ServerError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.wire.resultset import Value
from replica_client.server.served_library import BinlogLibrary

MAX_STATEMENT_SIZE: Final = 1 << 20
"""Characters of a statement; sets of GTIDs are the longest part."""

MAX_COLUMNS: Final = 4096
"""Columns of a SELECT, and assignments of a SET; a server's own limit."""

MAX_ARGUMENTS: Final = 16
MAX_DEPTH: Final = 16
"""Functions inside functions."""

_MAX_DIGITS: Final = 30
_MAX_NAME: Final = 256
"""Characters of a column's name."""

# Linear in the text's length: an unterminated comment extends to the end.
_COMMENT = re.compile(
    r"/\*.*?(?:\*/|\Z)|^[^\S\n]*--\s[^\n]*|^[^\S\n]*#[^\n]*", re.DOTALL | re.MULTILINE
)
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
      | (?P<system>@@(?:(?:global|session|local|persist|persist_only)\.)?`?\w+`?)
      | (?P<user>@`?\w+`?)
      | (?P<word>`?[A-Za-z_]\w*`?(?:\.\w+){0,3})
      | (?P<sign>:=|[(),=*;])
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_SET_IGNORED = re.compile(
    r"SET\s+(NAMES|CHARACTER|TRANSACTION|SESSION TRANSACTION)\b", re.IGNORECASE
)
_ANY: Final = ("%", True)
_SCOPES: Final = ("GLOBAL", "PERSIST", "PERSIST_ONLY")


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Value


@dataclass(frozen=True, slots=True)
class SystemVariable:
    """``@@name``."""

    name: str


@dataclass(frozen=True, slots=True)
class UserVariable:
    """``@name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments."""

    name: str
    arguments: tuple[Expression, ...]


Expression = Literal | SystemVariable | UserVariable | Call


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT without tables: the name and the expression of each column."""

    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Assignments:
    """A SET: the new values of user variables; session variables are left out."""

    values: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Other:
    """Any other statement, without comments, and its words in upper case."""

    text: str
    words: str


Statement = Select | Assignments | Other


def bare(sql: str) -> str:
    """Return a statement without comments and without the semicolon at its end."""
    return _COMMENT.sub(" ", sql).strip().rstrip(";").strip()


def parse(text: str) -> Statement:
    """Parse a bare statement.

    Raises:
        ServerError: the statement is not understood.
    """
    word = text[:6].upper()
    if word == "SELECT":
        return _select(text)
    if word[:3] == "SET" and text[3:4].isspace():
        return _assignments(text)
    return Other(text, normal(text))


def _select(text: str) -> Select:
    tokens = _Tokens(text, 6)
    columns: list[tuple[str, Expression]] = []
    while True:
        start = tokens.offset
        value = tokens.expression()
        name = text[start : tokens.offset].strip()
        if tokens.take_word("AS"):
            name = tokens.next()[1].strip("`'\"")
        columns.append((name[:_MAX_NAME], value))
        if len(columns) > MAX_COLUMNS:
            raise ServerError(1117, "HY000", "Too many columns")
        if not tokens.take(","):
            break
    if tokens.take_word("LIMIT"):
        tokens.next()
    if not tokens.at_end:
        raise not_understood(text)
    return Select(tuple(columns))


def _assignments(text: str) -> Assignments:
    if _SET_IGNORED.match(text):
        return Assignments(())
    tokens = _Tokens(text, 3)
    values: list[tuple[str, Expression]] = []
    count = 0
    while True:
        for scope in _SCOPES:
            if tokens.take_word(scope):
                raise _no_global()
        tokens.take_word("SESSION") or tokens.take_word("LOCAL")
        kind, name = tokens.next()
        if kind == "system" and name[2:].partition(".")[0].upper() in _SCOPES:
            raise _no_global()
        if not (tokens.take("=") or tokens.take(":=")):
            raise not_understood(text)
        value = tokens.expression()
        if kind == "user":
            values.append((name[1:].strip("`").lower(), value))
        count += 1
        if count > MAX_COLUMNS:
            raise ServerError(1064, "42000", f"more than {MAX_COLUMNS} variables in one SET")
        if not tokens.take(","):
            break
    if not tokens.at_end:
        raise not_understood(text)
    return Assignments(tuple(values))


def _no_global() -> ServerError:
    return ServerError(
        1227, "42000", "Access denied: this server of binlog files has no variables to set globally"
    )


class _Tokens:
    """A cursor over the tokens of a statement."""

    def __init__(self, text: str, offset: int) -> None:
        self.text = text
        self.offset = offset
        self._ahead: re.Match[str] | None = None

    @property
    def at_end(self) -> bool:
        return not self.text[self.offset :].strip()

    def _peek(self) -> re.Match[str] | None:
        if self._ahead is None:
            self._ahead = _TOKEN.match(self.text, self.offset)
        return self._ahead

    def _pass(self, match: re.Match[str]) -> None:
        self.offset, self._ahead = match.end(), None

    def next(self) -> tuple[str, str]:
        match = self._peek()
        if match is None or match.lastgroup is None:
            raise not_understood(self.text)
        self._pass(match)
        return match.lastgroup, match[match.lastgroup]

    def take(self, sign: str) -> bool:
        match = self._peek()
        if match is None or match["sign"] != sign:
            return False
        self._pass(match)
        return True

    def take_word(self, word: str) -> bool:
        match = self._peek()
        if match is None or (match["word"] or "").upper() != word:
            return False
        self._pass(match)
        return True

    def expression(self, depth: int = 0) -> Expression:
        kind, token = self.next()
        if kind == "text":
            return Literal(unquote(token))
        if kind == "number":
            return Literal(token if "." in token or len(token) > _MAX_DIGITS else int(token))
        if kind == "system":
            return SystemVariable(token[2:].rpartition(".")[2].strip("`").lower())
        if kind == "user":
            return UserVariable(token[1:].strip("`").lower())
        if kind == "word" and depth < MAX_DEPTH and self.take("("):
            return Call(token.upper(), self._arguments(depth + 1))
        if kind == "word" and token.upper() in ("NULL", "DEFAULT"):
            return Literal(None)
        if kind == "word":
            return Literal(token)
        raise not_understood(self.text)

    def _arguments(self, depth: int) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self.take(")"):
            found.append(self.expression(depth))
            if len(found) > MAX_ARGUMENTS:
                raise ServerError(1582, "42000", "Incorrect parameter count")
            self.take(",")
        return tuple(found)


def unquote(text: str) -> str:
    """Return the value of a quoted SQL text."""
    body = text[1:-1].replace(text[0] * 2, text[0])
    return re.sub(r"\\(.)", r"\1", body)


class LikePattern:
    """A pattern of SQL's LIKE: ``%`` is any text, ``_`` one character, a backslash quotes them.

    The cost of a comparison is at most the square of the text's length, however long the pattern is.
    """

    def __init__(self, pattern: str) -> None:
        self._parts: list[tuple[str, bool]] = []
        escaped = False
        for sign in pattern:
            if sign == "\\" and not escaped:
                escaped = True
                continue
            part = (sign, not escaped and sign in "%_")
            if part != _ANY or self._parts[-1:] != [_ANY]:
                self._parts.append(part)
            escaped = False
        self._shortest = sum(part != _ANY for part in self._parts)

    def matches(self, text: str) -> bool:
        """Return whether a text matches."""
        parts = self._parts
        if len(text) < self._shortest:
            return False
        at = part = 0
        star, resume = -1, 0
        while at < len(text):
            sign, special = parts[part] if part < len(parts) else ("", False)
            if special and sign == "%":
                star, resume = part, at
                part += 1
            elif (special and sign == "_") or (not special and sign == text[at]):
                at += 1
                part += 1
            elif star >= 0:
                resume += 1
                part, at = star + 1, resume
            else:
                return False
        return all(one == _ANY for one in parts[part:])


def normal(sql: str) -> str:
    """Return a statement in upper case with single blanks, for comparisons."""
    return " ".join(sql.split()).upper().rstrip(";").strip()


def not_understood(text: str) -> ServerError:
    """Return the error for a statement that this server does not know."""
    return ServerError(
        1064,
        "42000",
        f"this server of binlog files does not understand this statement: {text[:80]!r}",
    )


SESSION_VARIABLES: Final[Mapping[str, Value]] = {
    "autocommit": 1,
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_results": "utf8mb4",
    "collation_connection": "utf8mb4_general_ci",
}
"""Variables of every session; setting them has no effect."""

PLAYED_VARIABLES: Final[Mapping[str, Value]] = {
    "auto_increment_increment": 1,
    "sql_mode": "",
    "time_zone": "+00:00",
    "transaction_isolation": "REPEATABLE-READ",
    "tx_isolation": "REPEATABLE-READ",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "binlog_row_value_options": "",
    "binlog_transaction_compression": 0,
    "character_set_server": "utf8mb4",
    "collation_server": "utf8mb4_general_ci",
    "lower_case_table_names": None,  # files do not say
    "system_time_zone": "UTC",
    "performance_schema": 0,
    "read_only": 0,
    "expire_logs_days": 0,
    "binlog_expire_logs_seconds": 0,
    "gtid_domain_id": 0,
    "gtid_strict_mode": 0,
}
"""Variables of a testing source, which is no real server."""


def own_variables(
    library: BinlogLibrary,
    *,
    port: int,
    server_uuid: str,
    comment: str,
    semi_sync: bool = False,
    idle_timeout: float | None = None,
    write_timeout: float | None = None,
    command_size: int = 1 << 30,
) -> dict[str, Value]:
    """Return the variables of the server and its files, by name in lower case."""
    flavor, version = library.flavor, library.server_version
    last = library.files[-1]
    wait = int(idle_timeout or 28800)
    values: dict[str, Value] = {
        "version": version,
        "version_comment": comment + (" (MariaDB)" if flavor is ServerFlavor.MARIADB else ""),
        "version_compile_os": "Linux",
        "hostname": socket.gethostname(),
        "server_id": library.server_id,
        "port": port,
        "log_bin": "ON",
        "log_slave_updates": "ON",
        "binlog_checksum": "CRC32" if last.format.checksum_size else "NONE",
        "max_allowed_packet": max(
            command_size, 1 << 30
        ),  # the largest event that a dump may contain
        "net_write_timeout": int(write_timeout or 60),
        "net_read_timeout": 30,
        "net_buffer_length": 16384,
        "wait_timeout": wait,
        "interactive_timeout": wait,
        "init_connect": "",
        "license": "",
    }
    executed = str(library.executed()).replace("\n", "")
    if flavor is ServerFlavor.MARIADB:
        values |= {
            "gtid_binlog_pos": executed,
            "gtid_binlog_state": executed,
            "gtid_current_pos": executed,
            "gtid_slave_pos": "",
            "rpl_semi_sync_master_enabled": "ON" if semi_sync else "OFF",
        }
    else:
        values |= {
            "server_uuid": server_uuid,
            "log_replica_updates": "ON",
            "gtid_mode": "ON" if library.has_gtids else "OFF",
            "gtid_executed": executed,
            "gtid_owned": "",
            "gtid_purged": str(library.purged()).replace("\n", ""),
            "enforce_gtid_consistency": "ON" if library.has_gtids else "OFF",
        }
        if semi_sync:
            values["rpl_semi_sync_source_enabled"] = "ON"
    return values
