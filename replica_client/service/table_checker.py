"""Comparison of a sink's table with its source."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from replica_client.errors import BinlogDecodeError, ConfigError
from replica_client.options import Option, Surface, options_on
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.constants.event_types import EventType
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder, is_partial
from replica_client.rows.json_values import ByDecoder
from replica_client.rows.special_values import ABSENT
from replica_client.schema.history import LogPosition, SchemaChange
from replica_client.service.configuration import bytes_of
from replica_client.service.external_values import override
from replica_client.sinks.registry import plain_error
from replica_client.storage.toml_file import KeyPath, TomlFile, nearest
from replica_client.stream.tables.net_changes import TableName
from replica_client.stream.transactions.transaction import Transaction

_Table = TypeVar("_Table", bound=msgspec.Struct)


class TableChecker:
    """A checker of the tables of one file.

    Args:
        file: with the overrides of the environment.
    """

    def __init__(self, file: TomlFile) -> None:
        self.file = file

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
    ) -> Self:
        """Read a file and apply the overrides of the environment.

        Args:
            path: the file.
            environment: variables to use instead of the process's.

        Raises:
            ConfigError: the file is not TOML; the message begins with file and line.
            OSError: the file cannot be read.
        """
        file = TomlFile(Path(path).absolute())
        override(file.document, os.environ if environment is None else environment)
        return cls(file)

    def wrong(self, path: KeyPath, what: str) -> ConfigError:
        """Return the error for a key."""
        where = self.file.where(path)
        key = ".".join(str(part) for part in path if isinstance(part, str))
        return ConfigError(f"{where}: {key}: {what}" if key else f"{where}: {what}")

    def size(self, path: KeyPath, value: int | str) -> None:
        """Refuse a value that is no size."""
        try:
            bytes_of(str(path[-1]), value)
        except ConfigError as error:
            raise self.wrong(path, str(error).partition(": ")[2]) from None

    def distinct(self, paths: list[KeyPath], names: list[str]) -> None:
        """Refuse duplicate names."""
        for at, name in enumerate(names):
            if name in names[:at]:
                raise self.wrong(
                    (*paths[at], "name"), f"{name!r} is there twice; give each its own"
                )

    def table(
        self, path: KeyPath, values: Any, kind: type[_Table], surface: Surface | None = None
    ) -> _Table:
        """Convert a table to a struct; refuse unknown keys and wrong types.

        Args:
            path: of the table.
            values: its keys and values.
            kind: the struct.
            surface: the surface whose declared options are keys, too; the struct's ``options`` gets them.
        """
        if not isinstance(values, dict):
            raise self.wrong(path, "this is a table: write it in brackets")
        declared = options_on(surface) if surface else {}
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        self.known(
            path,
            values,
            [*(name for name in names if not (surface and name == "options")), *declared],
        )
        own = {key: value for key, value in values.items() if key not in declared}
        if surface:
            own["options"] = {
                option.name: self._value(path, option, surface, values.get(key, option.default))
                for key, option in declared.items()
            }
        try:
            return msgspec.convert(own, kind)
        except msgspec.ValidationError as error:
            inside, text = plain_error(error, kind)
            raise self.wrong((*path, *inside), text) from None

    def _value(self, path: KeyPath, option: Option, surface: Surface, value: Any) -> Any:
        try:
            return None if value is None else option.read(value, surface)
        except ConfigError as error:
            raise self.wrong((*path, option.surfaces[surface]), str(error)) from None

    def known(self, path: KeyPath, values: Mapping[str, Any], names: Iterable[str]) -> None:
        """Refuse unknown keys."""
        for key in values:
            if key not in names:
                raise self.wrong((*path, key), f"no such key; {nearest(key, names)}")


Key = tuple[Any, ...]


class ChangedKeys:
    """Changes that the stream delivers for a table: its DDL, and its rows after :meth:`begin`.

    Args:
        table: the table's name in the stream.
    """

    def __init__(self, table: TableName) -> None:
        self._table = table
        self._key: Sequence[str] | None = None
        self._begun = False
        self._keys: dict[Key, LogPosition] = {}
        self._partial: dict[Key, LogPosition] = {}
        self._unknown: LogPosition | None = None
        self._altered: LogPosition | None = None

    def begin(self, key: Sequence[str] | None) -> None:
        """Begin to collect rows: a chunk is read from now on.

        Args:
            key: columns that identify a row; None: there are none.
        """
        self._key, self._begun = key, True

    def see(self, transaction: Transaction) -> None:
        """Record the changes of a delivered transaction, or of a part of one."""
        start = LogPosition.of(transaction.start.file, transaction.start.offset)
        for rows in transaction.rows:
            if self._begun and (rows.shape.database, rows.shape.table) == self._table:
                self._see_rows(rows, start)
        for change in transaction.schema_changes:
            if self._is_about(change):
                self._altered = start
        if any(loss.table in ("", self._table[1]) for loss in transaction.losses):
            self._unknown = start

    def altered(self, since: LogPosition) -> bool:
        """Return whether DDL at or after ``since`` altered or dropped the table."""
        return self._altered is not None and self._altered >= since

    def changed(self, low: LogPosition) -> Container[Key]:
        """Return the keys of rows changed by transactions that begin at or after ``low``."""
        return {key for key, at in self._keys.items() if at >= low}

    def is_unknown(self, low: LogPosition, keys: Iterable[Key]) -> bool:
        """Return whether the stream may lack the full image of some of these rows since ``low``."""
        if self._unknown is not None and self._unknown >= low:
            return True
        return bool(self._partial) and any(
            at is not None and at >= low for at in map(self._partial.get, keys)
        )

    def _is_about(self, change: SchemaChange) -> bool:
        named = {(change.database, change.table), change.name_after}
        return self._table in named or (not change.table and change.database == self._table[0])

    def _see_rows(self, rows: RowsOfEvent, start: LogPosition) -> None:
        names = rows.decoder.column_names
        if self._key is None or not set(self._key) <= set(names):
            self._unknown = start
            return
        indexes = [names.index(name) for name in self._key]
        # JSON documents may come as differences.
        in_part = rows.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT
        try:
            for change in rows:
                before, after = change.before, change.after
                old = None if before is None else tuple(before[at] for at in indexes)
                if old is not None:
                    self._keys[old] = start
                if after is None:
                    continue
                new = tuple(after[at] for at in indexes)
                if old is not None:
                    new = tuple(
                        one if two is ABSENT else two for one, two in zip(old, new, strict=True)
                    )
                self._keys[new] = start
                if in_part or any(value is ABSENT for value in after):
                    self._partial[new] = start
                else:
                    self._partial.pop(new, None)
        except BinlogDecodeError:
            # The sink reports this error.
            self._unknown = start


# Type codes of rows events with compressed images or pre-GA layout -> codes of plain ones.
_PLAIN: Final = {code: code + 3 for code in range(20, 23)} | {
    code: 23 + at for at, code in enumerate(range(166, 169))
}
_PLAIN_V2: Final = {code: 30 + at for at, code in enumerate(range(169, 172))}


class RowCounter:
    """A counter that skips over rows, which is many times faster than decoding them."""

    def __init__(self) -> None:
        self._skippers = ByDecoder(lambda rows: _skipper(rows.decoder))

    def count(self, rows: RowsOfEvent) -> int:
        """Return the number of rows in an event.

        Raises:
            BinlogDecodeError: its images do not match its table.
        """
        return rows.count(self._skippers.of(rows))


def without(rows: RowsOfEvent, left_out: Iterable[int]) -> Iterator[RowsOfEvent]:
    """Yield the rows of an event except those at some indexes; the others keep their indexes."""
    event, skipper = rows.event, _skipper(rows.decoder)
    body = event.body
    images = rows.decoder.images_of(body)
    code = _PLAIN.get(body.type_code, _PLAIN_V2.get(body.type_code, body.type_code))
    body = body if code == body.type_code else replace(body, type_code=code)
    header = replace(event.header, type_code=code)
    total = len(_pairs(skipper, event))
    first = rows.first_row
    for index in sorted(left_out):
        if first < index < total:
            head = images[: _end_of(skipper, replace(event, body=body), images, index)]
            part = replace(event, header=header, body=replace(body, rows=head))
            yield rows.__replace__(event=part, first_row=first)
        first = max(first, index + 1)
    if first < total:
        yield rows.__replace__(first_row=first)


def _skipper(decoder: RowImageDecoder) -> RowImageDecoder:
    return RowImageDecoder(decoder.shape, decoder.options, columns=())


def _pairs(skipper: RowImageDecoder, event: BinlogEvent) -> list[object]:
    return list(skipper.iter_event(event))


def _end_of(skipper: RowImageDecoder, event: BinlogEvent, images: bytes, count: int) -> int:
    """Return where the first ``count`` rows end, found by bisection."""
    low, high = 0, len(images)
    while low < high:
        middle = (low + high) // 2
        if _holds(skipper, event, images[:middle], count):
            high = middle
        else:
            low = middle + 1
    return low


def _holds(skipper: RowImageDecoder, event: BinlogEvent, piece: bytes, count: int) -> bool:
    body = event.body
    rows = skipper.iter_rows(
        body.kind, body.columns_before, body.columns_after, piece, is_partial(body)
    )
    try:
        return sum(1 for _ in islice(rows, count)) == count
    except BinlogDecodeError:
        return False
