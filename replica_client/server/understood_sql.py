"""The small part of SQL that a server of binlog files understands: the statements that replicas send."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import GtidFormatError, ServerError
from replica_client.gtid import GtidSet, MariadbGtidSet
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.show_events import COLUMNS, show_binlog_events
from replica_client.server.variables import system_variables
from replica_client.transport.server_info import parse_version
from replica_client.wire.resultset import Value

Rows = tuple[Sequence[str], Sequence[Sequence[Value]]]
"""Column names and rows."""

MAX_STATEMENT_SIZE: Final = 1 << 20
"""Characters of a statement; sets of GTIDs are the longest part."""

_MAX_SHOW_SIZE: Final = 4096
_MAX_DEPTH: Final = 16
"""Functions inside functions."""

_MAX_DIGITS: Final = 30
_MAX_VARIABLES: Final = 100
_MAX_NAME: Final = 64
_MAX_VALUE: Final = 256 << 10
# Linear in the text, whatever it holds: a comment that does not end reaches to the end.
_COMMENT = re.compile(
    r"/\*.*?(?:\*/|\Z)|^[^\S\n]*--\s[^\n]*|^[^\S\n]*#[^\n]*", re.DOTALL | re.MULTILINE
)
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
      | (?P<system>@@(?:(?:global|session|local)\.)?`?\w+`?)
      | (?P<user>@`?\w+`?)
      | (?P<word>`?[A-Za-z_]\w*`?(?:\.\w+)*)
      | (?P<sign>:=|[(),=*;])
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_SHOW_VARIABLES = re.compile(
    r"SHOW\s+(?:GLOBAL\s+|SESSION\s+)?(?P<what>VARIABLES|STATUS)"
    r"(?:\s+LIKE\s+(?P<like>\S+)|\s+WHERE\s+(?P<where>.*))?$",
    re.IGNORECASE | re.DOTALL,
)
_KILL = re.compile(r"KILL\s+(?:CONNECTION\s+|QUERY\s+)?([0-9]{1,20})$", re.IGNORECASE)
_LITERAL = re.compile(r"'((?:[^'\\]|''|\\.)*)'")


def unquote(text: str) -> str:
    """The value of a quoted SQL text."""
    body = text[1:-1].replace(text[0] * 2, text[0])
    return re.sub(r"\\(.)", r"\1", body)


def is_like(text: str, pattern: str) -> bool:
    """SQL's LIKE: ``%`` is any text, ``_`` one character; a backslash takes their meaning from them.

    Its cost is at most the product of both lengths, whatever the pattern.
    """
    parts: list[tuple[str, bool]] = []
    escaped = False
    for sign in pattern:
        if sign == "\\" and not escaped:
            escaped = True
            continue
        parts.append((sign, not escaped and sign in "%_"))
        escaped = False
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
    return all(one == ("%", True) for one in parts[part:])


@dataclass(slots=True)
class SqlSession:
    """The SQL side of one connection.

    Attributes:
        library: the files served.
        connection_id: of this connection.
        port: of the source.
        server_uuid: of the source.
        user: who logged in.
        answers: statements (case and blanks do not matter) with rows of the test's own.
        replicas: rows of SHOW REPLICAS.
        kill: ends another connection, for a user.
        semi_sync: the source is a semi-synchronous one.
        comment: the server's ``version_comment``.
        user_variables: what SET @… left.
    """

    library: BinlogLibrary
    connection_id: int
    port: int
    server_uuid: str
    user: str
    answers: Mapping[str, Rows]
    replicas: Callable[[], list[tuple[Value, ...]]]
    kill: Callable[[int, str], None]
    semi_sync: bool = False
    comment: str = "replica_client"
    user_variables: dict[str, Value] = field(default_factory=dict)
    _variables: tuple[object, dict[str, Value]] | None = None

    async def execute(self, sql: str) -> Rows | None:
        """Run a statement: rows, or None for an OK.

        Raises:
            ServerError: it is not understood, as a server would say it.
        """
        if len(sql) > MAX_STATEMENT_SIZE:
            raise ServerError(
                1153, "08S01", f"the statement has more than {MAX_STATEMENT_SIZE} characters"
            )
        text = _COMMENT.sub(" ", sql).strip().rstrip(";").strip()
        known = self.answers.get(normal(text))
        if known is not None:
            return known
        upper = normal(text)
        word = upper.partition(" ")[0]
        if word == "SELECT":
            return await self._select(text)
        if word == "SET":
            await self._set(text)
            return None
        if word == "SHOW" and len(text) <= _MAX_SHOW_SIZE:
            return await self._show(text, upper)
        if word in ("BEGIN", "START", "COMMIT", "ROLLBACK", "USE", "FLUSH", "DO", ""):
            return None
        if match := _KILL.match(text):
            self.kill(int(match[1]), self.user)
            return None
        raise _not_understood(text)

    def variables(self) -> dict[str, Value]:
        """System variables by lower-case name."""
        files = self.library.files
        state = (files[0].name, files[-1].name, files[-1].size, self.library.gtid_mode)
        if self._variables is None or self._variables[0] != state:
            values = system_variables(
                self.library,
                port=self.port,
                server_uuid=self.server_uuid,
                comment=self.comment,
                semi_sync=self.semi_sync,
            )
            self._variables = state, values
        return self._variables[1]

    # SHOW

    async def _show(self, text: str, upper: str) -> Rows:
        library = self.library
        if upper in ("SHOW BINARY LOGS", "SHOW MASTER LOGS"):
            rows: list[tuple[Value, ...]] = [(file.name, file.size) for file in library.files]
            old = parse_version(library.server_version) < (8, 0, 14)
            if library.flavor is ServerFlavor.MARIADB or old:
                return ("Log_name", "File_size"), rows
            return ("Log_name", "File_size", "Encrypted"), [(*row, "No") for row in rows]
        if upper in ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS", "SHOW BINLOG STATUS"):
            last = library.files[-1]
            names = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"]
            row: list[Value] = [last.name, last.size, "", ""]
            if library.flavor is ServerFlavor.MYSQL:
                names.append("Executed_Gtid_Set")
                row.append(str(library.executed()))
            return names, [row]
        if upper in ("SHOW REPLICAS", "SHOW SLAVE HOSTS", "SHOW REPLICA HOSTS"):
            return self._replicas()
        if upper.startswith("SHOW GRANTS"):
            grant = f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{self.user}'@'%'"
            return (f"Grants for {self.user}@%",), [(grant,)]
        if upper in ("SHOW WARNINGS", "SHOW ERRORS"):
            return ("Level", "Code", "Message"), []
        if upper in ("SHOW SLAVE STATUS", "SHOW REPLICA STATUS"):
            return ("Slave_IO_State",), []
        if upper in ("SHOW DATABASES", "SHOW SCHEMAS"):
            return ("Database",), [("information_schema",)]  # it has no tables of its own
        events = await show_binlog_events(library, text)
        if events is not None:
            return COLUMNS, events
        if match := _SHOW_VARIABLES.match(text):
            return ("Variable_name", "Value"), self._show_variables(match)
        raise _not_understood(text)

    def _replicas(self) -> Rows:
        """Under the column names of the source's version; MariaDB has no UUIDs."""
        rows = self.replicas()
        if self.library.flavor is ServerFlavor.MARIADB:
            return ("Server_id", "Host", "Port", "Master_id"), [row[:4] for row in rows]
        if parse_version(self.library.server_version) < (8, 0, 22):
            return ("Server_id", "Host", "Port", "Master_id", "Slave_UUID"), rows
        return ("Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"), rows

    def _show_variables(self, match: re.Match[str]) -> list[tuple[Value, ...]]:
        if match["what"].upper() == "STATUS":
            return []
        variables = self.variables()
        if match["like"]:
            literal = unquote(match["like"]) if match["like"][0] in "'\"" else match["like"]
            names = [name for name in variables if is_like(name, literal.lower())]
        elif match["where"]:
            wanted = {text.lower() for text in _LITERAL.findall(match["where"])}
            names = [name for name in variables if name in wanted]
        else:
            names = sorted(variables)
        return [(name, str(variables[name])) for name in names]

    # SELECT and SET

    async def _select(self, text: str) -> Rows:
        tokens = _Tokens(text, text.upper().index("SELECT") + 6)
        names: list[str] = []
        row: list[Value] = []
        while True:
            start = tokens.offset
            row.append(await self._value(tokens))
            name = text[start : tokens.offset].strip()
            if tokens.take_word("AS"):
                name = tokens.next()[1].strip("`'\"")
            names.append(name)
            if not tokens.take(","):
                break
        if tokens.take_word("LIMIT"):
            tokens.next()
        if not tokens.at_end:
            raise _not_understood(text)
        return names, [row]

    async def _set(self, text: str) -> None:
        if re.match(r"SET\s+(NAMES|CHARACTER|TRANSACTION|SESSION TRANSACTION)\b", text, re.I):
            return
        tokens = _Tokens(text, 3)
        while True:
            for scope in ("GLOBAL", "SESSION", "LOCAL"):
                tokens.take_word(scope)
            kind, name = tokens.next()
            if not (tokens.take("=") or tokens.take(":=")):
                raise _not_understood(text)
            value = await self._value(tokens)
            if kind == "user":
                self._keep(name[1:].strip("`").lower(), value)
            if not tokens.take(","):
                break
        if not tokens.at_end:
            raise _not_understood(text)

    def _keep(self, name: str, value: Value) -> None:
        variables = self.user_variables
        full = name not in variables and len(variables) >= _MAX_VARIABLES
        if full or len(name) > _MAX_NAME or (isinstance(value, str) and len(value) > _MAX_VALUE):
            raise ServerError(1041, "HY000", "the user variables are too many, or too large")
        variables[name] = value

    async def _value(self, tokens: _Tokens, depth: int = 0) -> Value:
        kind, token = tokens.next()
        if kind == "text":
            return unquote(token)
        if kind == "number":
            return token if "." in token or len(token) > _MAX_DIGITS else int(token)
        if kind == "system":
            return self._system(token[2:].rpartition(".")[2].strip("`").lower())
        if kind == "user":
            return self.user_variables.get(token[1:].strip("`").lower())
        if kind == "word" and depth < _MAX_DEPTH and tokens.take("("):
            arguments: list[Value] = []
            while not tokens.take(")"):
                arguments.append(await self._value(tokens, depth + 1))
                tokens.take(",")
            return await self._function(token.upper(), arguments)
        if kind == "word" and token.upper() in ("NULL", "DEFAULT"):
            return None
        if kind == "word":
            return token
        raise _not_understood(tokens.text)

    def _system(self, name: str) -> Value:
        variables = self.variables()
        if name not in variables:
            raise ServerError(1193, "HY000", f"Unknown system variable '{name}'")
        return variables[name]

    async def _function(self, name: str, arguments: Sequence[Value]) -> Value:
        if name == "VERSION":
            return self.library.server_version
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
            return _compare_gtids(name, arguments)
        raise ServerError(1305, "42000", f"FUNCTION {name} does not exist")

    async def _gtid_position(self, name: str, position: Value) -> Value:
        file = self.library.find(name)
        if file is None or not isinstance(position, int):
            return None
        if position < FIRST_EVENT or position > file.size:
            return None
        async with file.present():
            executed = await file.transactions.executed_at(position)
        return executed.slave_connect_state() if isinstance(executed, MariadbGtidSet) else None


def _compare_gtids(name: str, arguments: Sequence[Value]) -> Value:
    if None in arguments:
        return None
    try:
        left, right = (GtidSet.parse(str(text)) for text in arguments)
    except GtidFormatError as error:
        raise ServerError(1772, "HY000", f"Malformed GTID set specification: {error}") from None
    return str(left - right).replace("\n", "") if name == "GTID_SUBTRACT" else int(left <= right)


class _Tokens:
    """A cursor over the tokens of a statement."""

    def __init__(self, text: str, offset: int) -> None:
        self.text = text
        self.offset = offset

    @property
    def at_end(self) -> bool:
        return not self.text[self.offset :].strip()

    def next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.offset)
        if match is None or match.lastgroup is None:
            raise _not_understood(self.text)
        self.offset = match.end()
        return match.lastgroup, match[match.lastgroup]

    def take(self, sign: str) -> bool:
        match = _TOKEN.match(self.text, self.offset)
        if match is None or match["sign"] != sign:
            return False
        self.offset = match.end()
        return True

    def take_word(self, word: str) -> bool:
        match = _TOKEN.match(self.text, self.offset)
        if match is None or (match["word"] or "").upper() != word:
            return False
        self.offset = match.end()
        return True


def normal(sql: str) -> str:
    """A statement in upper case with single blanks, to compare it."""
    return " ".join(sql.split()).upper().rstrip(";").strip()


def _not_understood(text: str) -> ServerError:
    return ServerError(
        1064,
        "42000",
        f"this server of binlog files does not understand this statement: {text[:80]!r}",
    )
