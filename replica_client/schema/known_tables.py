"""Versions of tables by name; those of a checkpoint are read when they are asked for.

A source can have tens of thousands of tables of which a run sees a few. Of the others the records of the
checkpoint (:mod:`~replica_client.schema.history_records`) tell only what they list by name.
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
    """Where the versions of tables stand that are not read yet."""

    @property
    def position(self) -> LogPosition:
        """No version begins behind it."""
        ...

    def body(self) -> dict[str, dict[str, Any]]:
        """The versions as JSON, by database and table.

        Raises:
            SchemaError: they are damaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unread:
    """The versions of a table that are not read yet.

    Attributes:
        record: where they stand.
        absent: whether the newest says that the table is gone.
        long: whether there may be more than are kept.
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

    # What the base has of the following two raises and catches an error for each table that is new.

    @overload
    def get(self, name: TableName, default: None = None, /) -> list[Version] | None: ...

    @overload
    def get(self, name: TableName, default: _Default, /) -> list[Version] | _Default: ...

    def get(self, name: TableName, default: Any = None, /) -> Any:
        """The versions of a table, or the default where it is not known."""
        return self[name] if name in self._found else default

    def setdefault(self, name: TableName, default: list[Version], /) -> list[Version]:
        """The versions of a table, which are these where it is not known."""
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
        """Let the versions of a table stand where they are until they are asked for."""
        self._found[name] = unread

    def discard(self, name: TableName) -> None:
        """Forget a table, if it is known."""
        self._found.pop(name, None)

    def is_absent(self, name: TableName) -> bool:
        """Whether a table is gone, by its newest version."""
        found = self._found[name]
        if isinstance(found, Unread):
            return found.absent
        return isinstance(found[-1].state, Absent)

    def is_longer(self, name: TableName, count: int) -> bool:
        """Whether a table may have more versions than so many."""
        found = self._found[name]
        return found.long if isinstance(found, Unread) else len(found) > count

    def changed_since(self, limit: LogPosition) -> list[TableName]:
        """The tables with a version that begins at a position or behind it."""
        return [
            name
            for name, found in list(self._found.items())
            if not (isinstance(found, Unread) and found.record.position < limit)
            and self[name][-1].since >= limit
        ]

    def copy(self) -> KnownTables:
        """One that changes by itself."""
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
