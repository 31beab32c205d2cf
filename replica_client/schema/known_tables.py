"""Versions of tables by name; a checkpoint's versions are parsed on demand.

A source can have tens of thousands of tables, and a run sees few of them. Of the others, only the
names are read from the records of the checkpoint (:mod:`~replica_client.schema.history_records`).
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, Protocol, TypeVar, overload

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import SchemaError
from replica_client.schema.catalog import Absent
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.versions import LogPosition, Version

_Default = TypeVar("_Default")


class Record(Protocol):
    """A record that holds versions of tables that are not parsed yet."""

    @property
    def position(self) -> LogPosition:
        """All versions begin at or before this position."""
        ...

    def body(self) -> dict[str, dict[str, Any]]:
        """Return the versions as JSON, by database and table.

        Raises:
            SchemaError: the record is damaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unread:
    """A table's versions that are not parsed yet.

    Attributes:
        record: the record that holds them.
        absent: whether the newest version says that the table was dropped.
        long: whether there may be more versions than are kept.
    """

    record: Record
    absent: bool
    long: bool


class KnownTables(MutableMapping[TableName, list[Version]]):
    """Versions by table, the oldest first."""

    def __init__(self) -> None:
        self._found: dict[TableName, list[Version] | Unread] = {}
        self._recent: tuple[Record, dict[str, dict[str, Any]]] | None = None

    def __getitem__(self, name: TableName) -> list[Version]:
        found = self._found[name]
        if isinstance(found, Unread):
            found = self._found[name] = self._read(name, found.record)
        return found

    # The base class raises and catches an error for each new table in these two methods.

    @overload
    def get(self, name: TableName, default: None = None, /) -> list[Version] | None: ...

    @overload
    def get(self, name: TableName, default: _Default, /) -> list[Version] | _Default: ...

    def get(self, name: TableName, default: Any = None, /) -> Any:
        """Return the versions of a table, or the default for an unknown table."""
        return self[name] if name in self._found else default

    def setdefault(self, name: TableName, default: list[Version], /) -> list[Version]:
        """Return the versions of a table; set them to the default for an unknown table."""
        if name not in self._found:
            self._found[name] = default
        return self[name]

    def __setitem__(self, name: TableName, versions: list[Version]) -> None:
        self._found[name] = versions

    def __delitem__(self, name: TableName) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def add_unread(self, name: TableName, unread: Unread) -> None:
        """Set a table's versions to ones that are parsed on demand."""
        self._found[name] = unread

    def discard(self, name: TableName) -> None:
        """Forget a table, if it is known."""
        self._found.pop(name, None)

    def is_absent(self, name: TableName) -> bool:
        """Return whether the newest version of a table says that it was dropped."""
        found = self._found[name]
        if isinstance(found, Unread):
            return found.absent
        return isinstance(found[-1].state, Absent)

    def is_longer(self, name: TableName, count: int) -> bool:
        """Return whether a table may have more than `count` versions."""
        found = self._found[name]
        return found.long if isinstance(found, Unread) else len(found) > count

    def changed_since(self, limit: LogPosition) -> list[TableName]:
        """Return the tables with a version that begins at or after a position."""
        return [
            name
            for name, found in list(self._found.items())
            if not (isinstance(found, Unread) and found.record.position < limit)
            and self[name][-1].since >= limit
        ]

    def copy(self) -> KnownTables:
        """Return an independent copy."""
        other = KnownTables()
        other._found = {
            name: found if isinstance(found, Unread) else list(found)
            for name, found in self._found.items()
        }
        return other

    def _read(self, name: TableName, record: Record) -> list[Version]:
        if self._recent is None or self._recent[0] is not record:
            self._recent = record, record.body()
        database, table = name
        try:
            versions = [
                Version.from_json(database, table, one) for one in self._recent[1][database][table]
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SchemaError(
                f"a damaged schema history: {database}.{table}: {error!r}"[:200]
            ) from error
        if not versions:
            raise SchemaError(f"a damaged schema history: {database}.{table} has no version")
        return versions
