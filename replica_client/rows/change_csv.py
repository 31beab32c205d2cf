"""Row changes of one table as CSV (RFC 4180).

The columns are those of record batches (``_change_type`` and so on, then the table's own), without
``_lossless``: texts lose nothing. An update is two lines, ``update_preimage`` and ``update_postimage``.

A cell is the value's JSON text (:mod:`replica_client.rows.json_values`), strings without their quotes. SQL
NULL is an empty cell, the empty string is ``""``; the columns that a row image left out are empty, too, and
``_absent`` names them, as a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from replica_client.binlog.values.json_binary import JsonDocument
from replica_client.errors import ConfigError
from replica_client.rows.absent import ABSENT
from replica_client.rows.json_values import value_to_json
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.schema.reserved_names import check_names

CHANGE_COLUMNS = (
    *("_change_type", "_commit_timestamp", "_commit_version", "_gtid", "_file", "_offset"),
    *("_event_index", "_row_index", "_absent"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUOTED = frozenset('",\r\n')


class CsvLines:
    """A writer of CSV lines, the heading first."""

    def __init__(self) -> None:
        self._table: tuple[str, str] | None = None
        self._columns: tuple[str, ...] = ()

    def lines(self, change: Change, commit_version: str, commit_timestamp_us: int) -> Iterator[str]:
        """Yield the lines of a change, without line ends.

        Raises:
            ConfigError: the change is of another table, or the table's columns changed.
            ColumnDecodeError: the bytes of a JSON document are malformed.
        """
        row = change.after if change.before is None else change.before
        if row is None:
            return
        if self._table != (change.database, change.table) or self._columns != row.columns:
            yield self._heading(change, row.columns)
        moment = _EPOCH + timedelta(microseconds=commit_timestamp_us)
        common = (
            *(f"{moment:%Y-%m-%d %H:%M:%S.%f}", commit_version, change.gtid, change.file),
            *(str(change.offset), str(change.event_index), str(change.row_index)),
        )
        if change.before is None or change.after is None:
            yield _line(change.kind, common, row)
        else:
            yield _line("update_preimage", common, change.before)
            yield _line("update_postimage", common, change.after)

    def _heading(self, change: Change, columns: tuple[str, ...]) -> str:
        table = (change.database, change.table)
        where = f"file {change.file}, position {change.offset}"
        if self._table not in (None, table):
            raise ConfigError(
                f"{where}: CSV holds one table, {'.'.join(self._table or ())}, and here is"
                f" {'.'.join(table)}; choose one with --table, or take --json"
            )
        if self._table is not None:
            raise ConfigError(
                f"{where}: the columns of {'.'.join(table)} changed; go on in another file: with"
                " --position-file the next run begins there"
            )
        check_names("batches", ".".join(table), columns, "the change columns have", "take --json")
        self._table, self._columns = table, columns
        return ",".join(map(csv_cell, (*CHANGE_COLUMNS, *columns)))


def _line(kind: str, common: tuple[str, ...], row: Row) -> str:
    absent = [name for name, value in zip(row.columns, row, strict=True) if value is ABSENT]
    left_out = json.dumps(absent, ensure_ascii=False) if absent else None
    return ",".join((kind, *map(csv_cell, (*common, left_out)), *map(_value, row)))


def _value(value: Any) -> str:
    if value is None or value is ABSENT:
        return ""
    text = value_to_json(value)
    # A JSON document that is a string keeps its quotes, to differ from a number or a literal.
    is_text = text[0] == '"' and not isinstance(value, JsonDocument)
    return csv_cell(json.loads(text) if is_text else text)


def csv_cell(text: str | None) -> str:
    """Return a text as a CSV cell: nothing for NULL, quotes for the empty text."""
    if text is None:
        return ""
    if text and _QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'
