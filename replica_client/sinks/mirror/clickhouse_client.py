"""A client for ClickHouse's HTTP interface: statements, queries and inserts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec

from replica_client.errors import SinkError
from replica_client.schema.kinds import Rules, rules
from replica_client.schema.model import ColumnModel, TableModel, column_type
from replica_client.sinks.bounded_http import BoundedTransport, trusting
from replica_client.sinks.mirror.stored_values import INTEGER_LIMIT, ClickhouseOptions

# Columns of a mirror in ClickHouse; their types are in :data:`~replica_client.schema.kinds.TARGETS`.
#
# Bytes and geometries are a String of the bytes, a geometry as MySQL stores it. TIMESTAMP is in UTC.
# Columns that are not of the primary key are Nullable. ClickHouse stores no zero dates and no invalid
# dates, and its releases differ in the range of years: such a value is an error, or NULL if the
# options say so.


VERSION: Final = "_replica_client_version"
DELETED: Final = "_replica_client_deleted"
ROW: Final = "_replica_client_row"
NUMBER: Final = "_replica_client_number"

_NULL: Final = "\\N"
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\b": "\\b", "\f": "\\f"}
)
# Bytes as text of ASCII only.
_BYTES: Final = {code: f"\\x{code:02X}" for code in (*range(32), 92, *range(127, 256))}


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def key_columns(model: TableModel) -> list[str]:
    """Return the names of the columns that identify a table's rows."""
    return [name for name, _ in model.primary_key] or [ROW, NUMBER]


def column_list(model: TableModel) -> str:
    """Return the column list of CREATE TABLE.

    ``SELECT *`` leaves out the mirror's own columns.
    """
    key = {name for name, _ in model.primary_key}
    columns = []
    for column in model.columns:
        kind = column_type("clickhouse", column)
        columns.append(
            f"{quoted(column.name)} {kind if column.name in key else f'Nullable({kind})'}"
        )
    own = {VERSION: "UInt64", DELETED: "UInt8"}
    if not key:
        own |= {ROW: "UInt128", NUMBER: "UInt64"}
    columns += [f"{name} {kind} MATERIALIZED 0" for name, kind in own.items()]
    return ", ".join(columns)


def key_types(model: TableModel) -> list[str]:
    """Return the types of the columns of :func:`key_columns`."""
    types = {column.name: column_type("clickhouse", column) for column in model.columns}
    return [types[name] for name, _ in model.primary_key] or ["UInt128", "UInt64"]


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values, for :func:`value_decoder`."""
    return _SHOWN[column.kind].format(name=name, scale=column.scale)


_SHOWN: Final = rules(
    "the ClickHouse mirror's expressions",
    {
        "integer year bit time string enum set json vector address": "{name}",
        "real": "tuple(toString({name}), 1)",
        "decimal": "toDecimalString({name}, {scale})",
        "date datetime timestamp": "toString({name})",
        "bytes spatial": "tuple(hex({name}))",
    },
)


def value_decoder(kind: str) -> Callable[[Any], Any] | None:
    """Return the function that converts a JSON value to the mirrors' form; None if not needed."""
    if kind.startswith("Tuple("):
        return _bytes if kind.count(",") == 0 else _real
    if "Int64" in kind:
        return _whole
    return int if "Int128" in kind else None


def _bytes(value: list[str | None]) -> bytes | None:
    return None if value[0] is None else bytes.fromhex(value[0])


def _real(value: list[Any]) -> float | None:
    return None if value[0] is None else float(value[0])


def _whole(value: int | str) -> int | str:
    number = int(value)
    return number if number < INTEGER_LIMIT else str(number)


def texts(column: ColumnModel, values: Sequence[Any]) -> list[str]:
    """Return values as TabSeparated fields."""
    write = _TEXTS[column.kind]
    return [_NULL if value is None else write(value) for value in values]


def _escaped(value: str) -> str:
    return value.translate(_ESCAPES)


_TEXTS: Final[Rules[Callable[[Any], str]]] = rules(
    "the ClickHouse mirror's values",
    {
        "integer year bit decimal date time datetime timestamp": str,
        "real": repr,
        "string enum set json vector address": _escaped,
        "bytes spatial": lambda value: bytes(value).decode("latin-1").translate(_BYTES),
    },
)

UNKNOWN_TABLE: Final = 60
_CODE: Final = re.compile(r"Code: (\d+)")
_NAME: Final = re.compile(r"\(([A-Z][A-Z0-9_]+)\)")
# Time-outs, too many queries, the network, memory, disk, parts, an insert with unknown outcome,
# cancelled, locks.
_MAY_PASS: Final = frozenset(
    (159, 160, 202, 209, 210, 236, 241, 242, 243, 252, 279, 319, 394, 425, 439, 473, 745)
)
# Inserted rows must be visible when the answer comes, and a NULL where none is allowed must be an
# error.
INSERTING: Final = (
    "async_insert = 0, insert_allow_materialized_columns = 1, optimize_on_insert = 0, "
    "input_format_null_as_default = 0, input_format_allow_errors_num = 0"
)


class ClickhouseError(Exception):
    """ClickHouse refused a request, or could not be reached.

    Args:
        text: the server's message, without values of rows.
        code: ClickHouse's error number; 0 for none.
        passing: whether a later attempt may succeed.
    """

    def __init__(self, text: str, code: int = 0, *, passing: bool = False) -> None:
        super().__init__(text)
        self.code, self.passing = code, passing or code in _MAY_PASS


class ClickhouseClient:
    """A connection whose queries have ids with a common prefix.

    Args:
        options: what the user chose.
        session: prefix of its query ids.
    """

    def __init__(self, options: ClickhouseOptions, session: str) -> None:
        verify = trusting(options.ca, "sink clickhouse: ca") if options.ca else True
        headers = {"X-ClickHouse-User": options.user, "X-ClickHouse-Key": options.password}
        transport = BoundedTransport(seconds=options.timeout, verify=verify)
        self._http = httpx.Client(headers=headers, transport=transport)
        self._transport = transport
        self._url = options.url
        self._session, self._numbers = session, count()

    def abort(self) -> None:
        """Make the running query and all later ones fail; called from another thread."""
        self._transport.abort()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def execute(self, sql: str) -> None:
        """Run a statement.

        Raises:
            ClickhouseError: it is refused.
        """
        self._post({}, sql.encode())

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows, in the form in which mirrors receive values.

        Raises:
            ClickhouseError: it is refused.
        """
        body = self._post({}, f"{sql} FORMAT JSONCompactEachRowWithNamesAndTypes".encode())
        lines = iter(body.splitlines())
        next(lines, None)
        decoders = [value_decoder(name) for name in msgspec.json.decode(next(lines, b"[]"))]
        for line in lines:
            values = msgspec.json.decode(line)
            yield tuple(
                value if decode is None or value is None else decode(value)
                for value, decode in zip(values, decoders, strict=True)
            )

    def insert(self, table: str, columns: Sequence[str], lines: Iterable[str]) -> None:
        """Add rows to a table.

        Args:
            table: as SQL.
            columns: their names.
            lines: the rows as TabSeparated.

        Raises:
            ClickhouseError: the rows are refused; the message contains no values.
            SinkError: a text cannot be written as UTF-8.
        """
        names = ", ".join(map(quoted, columns))
        sql = f"INSERT INTO {table} ({names}) SETTINGS {INSERTING} FORMAT TabSeparated"
        try:
            body = "".join(lines).encode()
        except UnicodeEncodeError:
            raise SinkError(f"{table}: a text cannot be written as UTF-8") from None
        self._post({"query": sql}, body, values=True)

    def _post(self, parameters: dict[str, str], body: bytes, *, values: bool = False) -> bytes:
        # Without the first option, an error after the first rows would be mixed into the rows.
        own = {"wait_end_of_query": "1", "query_id": f"{self._session}{next(self._numbers)}"}
        try:
            answer = self._http.post(self._url, params={**own, **parameters}, content=body)
        except httpx.TransportError as error:
            raise ClickhouseError(
                f"{type(error).__name__}: {error}"[:300].rstrip(": "), passing=True
            ) from error
        if answer.status_code == 200:
            content: bytes = answer.content
            return content
        text = " ".join(answer.text.split())
        found = _CODE.match(text)
        code = int(found[1][:9]) if found else 0
        if values or not found:
            # The text may contain values.
            names = _NAME.findall(text) if found else []
            text = f"answer {answer.status_code}, code {code} {names[-1] if names else ''}".rstrip()
        raise ClickhouseError(text[:500], code, passing=not code and answer.status_code >= 500)


def where_of(options: ClickhouseOptions) -> str:
    """Return the server, for messages."""
    parts = urlsplit(options.url)
    return f"ClickHouse at {parts.hostname}" + (f":{parts.port}" if parts.port else "")
