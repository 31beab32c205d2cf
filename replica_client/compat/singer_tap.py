"""``tap-replica-client``: a Singer tap of a server's tables; the extra ``singer``.

Each table is a stream with the key properties of its primary key: a first copy, then changes. A row that is gone
has its key and ``_sdc_deleted_at``. A copy begins with ACTIVATE_VERSION: a target drops what it had of the table
before. DECIMALs and JSON documents are strings, what is binary is base64.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, ClassVar

from singer_sdk import Stream, Tap, typing as th

from replica_client._version import __version__
from replica_client.compat.table_sync import CopiedRows, TableSync
from replica_client.rows.selection import Selection, exact_pattern
from replica_client.schema.model import ColumnModel, TableModel, column_type
from replica_client.schema.names import check_names
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transport.connect_options import parse_hosts
from replica_client.stream.transport.connection import SourceConnection

_STATE = "replica_client"
_DELETED = "_sdc_deleted_at"
_FORMATS = {
    "application/json": "contentMediaType",
    "base64": "contentEncoding",
    "date": "format",
    "date-time": "format",
    "singer.decimal": "format",
}


class TableStream(Stream):
    """The rows of one table.

    Args:
        tap: whose it is.
        table: as it is defined now.
    """

    forced_replication_method = "LOG_BASED"

    def __init__(self, tap: Tap, table: TableModel) -> None:
        self._pattern = exact_pattern(table.database, table.name)
        key = [name for name, _ in table.primary_key]
        columns = {
            column.name: _schema(column, nullable=column.name not in key)
            for column in table.columns
            if not column.hidden
        }
        check_names(
            "singer",
            f"{table.database}.{table.name}",
            columns,
            "Singer's targets add",
            "exclude the table",
        )
        columns[_DELETED] = {"type": ["string", "null"], "format": "date-time"}
        name = f"{table.database}-{table.name}"
        super().__init__(tap, {"type": "object", "properties": columns}, name)
        self.primary_keys = key

    def _record(self, row: dict[str, Any]) -> dict[str, Any]:
        return {name: _plain(value) for name, value in row.items()}

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        """Yield the new rows as they come."""
        bookmark = self.get_context_state(context)
        state: dict[str, Any] = dict(bookmark.get(_STATE, {}))
        self._stream_version = state.get("version")
        sync = TableSync(
            self.config["url"],
            [self._pattern],
            None,
            state,
            locking=self.config.get("locking", "never"),
        )
        for item in sync.run():
            if isinstance(item, CopiedRows):
                if not item.rows:
                    self._stream_version = state["version"] = time.time_ns() // 1_000_000
                    self._write_activate_version_message(self._stream_version)
                for row in item.rows:
                    yield self._record(row)
            elif item.deleted:
                gone = dict.fromkeys(self.schema["properties"])
                yield {**gone, **self._record(item.values), _DELETED: datetime.now(UTC).isoformat()}
            else:
                yield self._record(item.values)
        # Only now: what came before counts as a whole.
        bookmark[_STATE] = state
        self.state_manager.is_flushed = False


class ReplicaClientTap(Tap):
    """A tap of a MySQL or MariaDB server."""

    name = "tap-replica-client"
    package_name = "replica-client"
    plugin_version = __version__
    config_jsonschema: ClassVar[dict[str, Any]] = th.PropertiesList(
        th.Property(
            "url",
            th.StringType,
            required=True,
            secret=True,
            description="mysql://user:password@host:port/, or mariadb://",
        ),
        th.Property(
            "tables",
            th.ArrayType(th.StringType),
            description="Patterns database.table of the wanted tables; all but the server's own.",
        ),
        th.Property(
            "exclude", th.ArrayType(th.StringType), description="Patterns of unwanted tables."
        ),
        th.Property(
            "locking",
            th.StringType,
            allowed_values=["never", "brief"],
            description="brief: a copy takes a read lock for a moment, for a MySQL without GTIDs.",
        ),
    ).to_dict()

    def discover_streams(self) -> Sequence[Stream]:
        """Return a stream for each selected table with a primary key."""
        selection = Selection(self.config.get("tables"), self.config.get("exclude"))
        found = []
        for table in asyncio.run(_definitions(self.config["url"])):
            if not selection.wants(table.database, table.name):
                continue
            if table.primary_key:
                found.append(TableStream(self, table))
            else:
                self.logger.warning(
                    "%s.%s has no primary key and is left out", table.database, table.name
                )
        return found


async def _definitions(url: str) -> list[TableModel]:
    async with await SourceConnection.open(parse_hosts(url)[0]) as connection:
        return list((await read_definitions(connection)).values())


def _schema(column: ColumnModel, *, nullable: bool) -> dict[str, Any]:
    json_type, _, form = column_type("singer", column).partition(" ")
    found: dict[str, Any] = {"type": json_type}
    if form in _FORMATS:
        found[_FORMATS[form]] = form
    elif form:
        found["items"] = {"type": form.removeprefix("of ")}
    if nullable:
        found["type"] = [found["type"], "null"]
    return found


def _plain(value: Any) -> Any:
    """Return a value that JSON has."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        # A date-time has a zone (RFC 3339). DATETIME has none: taps of SQL databases write UTC, and targets expect it.
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return value


def main() -> None:
    """Run the command ``tap-replica-client``."""
    ReplicaClientTap.cli()
