"""A client for ClickHouse's HTTP interface: statements, queries and inserts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec

from replica_client.errors import SinkError
from replica_client.sinks.bounded_http import BoundedTransport, trusting
from replica_client.sinks.mirror.clickhouse_types import quoted, value_decoder
from replica_client.sinks.mirror.mirror_options import ClickhouseOptions

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
