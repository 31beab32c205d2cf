"""Tables that a reader knows, also while the server's name case is unknown.

A source can have tens of thousands of tables, and a run sees few of them. Of the others, only the
names are read from the records of the checkpoint (:mod:`~replica_client.schema.history_records`).

Binlog files do not contain ``lower_case_table_names``. If it was not 0, a statement on ``Orders``
is one on ``orders``; so the state of one is no longer certain after a statement on the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, overload

from replica_client.errors import SchemaError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import file_order
from replica_client.schema.catalog import (
    ABSENT,
    Absent,
    Catalog,
    TableChange,
    TableState,
    Unverified,
)
from replica_client.schema.ddl.steps import (
    CreateLike,
    CreateSequence,
    CreateTable,
    DropTables,
    Meaning,
    NotUnderstood,
    TableName,
    TruncateTable,
    tables_touched,
)
from replica_client.schema.model import DatabaseModel, TableModel
from replica_client.schema.names import casefold_name, casefold_table

Origin = Literal["ddl", "information_schema", "import", "not_understood"]


class LogPosition(NamedTuple):
    """A position in the binlog; ordered by the file (:func:`file_order`), then by offset."""

    base: str
    number: int
    offset: int
    file: str

    @classmethod
    def of(cls, file: str, offset: int) -> LogPosition:
        """Return the position of an offset in a file."""
        return cls(*file_order(file), offset, file)

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """Return the position in a text ``file:offset``.

        Raises:
            SchemaError: the text is not a position.
        """
        file, _, offset = text.rpartition(":")
        if not offset.isdecimal() or not offset.isascii() or len(offset) > 20:
            raise SchemaError(f"not a place in a binlog: {text[:80]!r}")
        return cls.of(file, int(offset))

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Version:
    """A table's definition from a position on.

    Attributes:
        since: the position of the statement that made this version.
        state: the definition.
        origin: its source.
    """

    since: LogPosition
    state: TableState | None
    origin: Origin = "ddl"

    def to_json(self) -> dict[str, Any]:
        """Return the version as JSON, without the table's name."""
        found: dict[str, Any] = {"since": str(self.since), "origin": self.origin}
        if isinstance(self.state, TableModel):
            found["table"] = self.state.to_json()
        elif isinstance(self.state, Unverified):
            found["unverified"] = self.state.reason
        return found

    def json_text(self, *, defaults: bool = False) -> str:
        """Return :meth:`to_json` as compact text; the texts of columns are cached.

        Args:
            defaults: include the defaults and comments of columns.
        """
        if not isinstance(self.state, TableModel):
            return json.dumps(self.to_json(), separators=(",", ":"))
        head = json.dumps({"since": str(self.since), "origin": self.origin}, separators=(",", ":"))
        return f'{head[:-1]},"table":{self.state.json_text(defaults=defaults)}}}'

    @classmethod
    def from_json(cls, database: str, name: str, value: Mapping[str, Any]) -> Version:
        """Return the version that :meth:`to_json` saved.

        Raises:
            SchemaError: the value is not a valid version.
        """
        state: TableState = ABSENT
        if "table" in value:
            state = TableModel.from_json(database, name, value["table"])
        elif "unverified" in value:
            state = Unverified(str(value["unverified"]))
        return cls(LogPosition.parse(value["since"]), state, value.get("origin", "ddl"))


def databases_json(models: list[tuple[LogPosition, DatabaseModel]]) -> list[dict[str, Any]]:
    """Return the versions of a database as JSON."""
    return [
        {
            "since": str(since),
            "charset": model.charset,
            "complete": model.complete,
            **{
                name: value
                for name in ("changed_by", "last_charset")
                if (value := getattr(model, name)) is not None
            },
        }
        for since, model in models
    ]


def databases_of_json(value: Any) -> list[tuple[LogPosition, DatabaseModel]]:
    """Return the versions of a database that :func:`databases_json` saved."""
    return [
        (
            LogPosition.parse(one["since"]),
            DatabaseModel(
                one.get("charset"),
                bool(one.get("complete")),
                None if one.get("changed_by") is None else int(one["changed_by"]),
                one.get("last_charset"),
            ),
        )
        for one in value
    ]


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


_REASON: Final = "a statement names it in another letter case, and it is not known whether lower_case_table_names is 0"


class Spellings:
    """The letter cases in which each table name was seen."""

    def __init__(self) -> None:
        self._names: dict[TableName, set[TableName]] = {}

    def add(self, name: TableName) -> None:
        """Record a name."""
        self._names.setdefault(casefold_table(name), set()).add(name)

    def others(self, name: TableName) -> list[TableName]:
        """Return the known spellings of a name, except the name itself."""
        seen = self._names.get(casefold_table(name))
        return [] if seen is None or seen == {name} else sorted(seen - {name})

    def copy(self) -> Spellings:
        """Return an independent copy."""
        other = Spellings()
        other._names = {key: set(names) for key, names in self._names.items()}
        return other


class CaseDoubts:
    """The effect of one statement where letter case is ambiguous.

    Args:
        catalog: the state before the statement.
        spellings: of the names in the catalog.
        temporary: temporary tables by thread.
        thread_id: of the statement.
    """

    def __init__(
        self,
        catalog: Catalog,
        spellings: Spellings,
        temporary: set[tuple[int, str, str]],
        thread_id: int,
    ) -> None:
        self._catalog = catalog
        self._spellings = spellings
        self._temporary = temporary
        self._thread_id = thread_id

    def certain_part(self, meaning: Meaning) -> Meaning:
        """Return the part of a statement that does not depend on letter case."""
        tables = _tables(meaning)
        if self._forget_temporary(tables):
            is_temporary = isinstance(meaning, DropTables) and meaning.temporary
            return meaning if is_temporary else NotUnderstood(_REASON, tables)
        if isinstance(meaning, (CreateTable, CreateLike, CreateSequence)):
            if not meaning.if_not_exists or meaning.or_replace or meaning.temporary:
                return meaning
            others = map(self._catalog.table, self._spellings.others(meaning.table))
            if any(not isinstance(state, Absent) for state in others):
                return NotUnderstood(_REASON, (meaning.table,))
        return meaning

    def _forget_temporary(self, tables: tuple[TableName, ...]) -> bool:
        """Forget temporary tables that the statement may mean in another case; return if any."""
        if not self._temporary:
            return False
        casefolded = {
            casefold_table(one) for one in tables if (self._thread_id, *one) not in self._temporary
        }
        meant = {
            (thread, database, name)
            for thread, database, name in self._temporary
            if thread == self._thread_id and casefold_table((database, name)) in casefolded
        }
        self._temporary -= meant
        return bool(meant)

    def spread(self, meaning: Meaning) -> list[TableChange]:
        """Make the other spellings of the statement's names unverified; return the changes."""
        named = _tables(meaning)
        found = [
            self._doubt(other, keeps_shape=isinstance(meaning, TruncateTable))
            for table in named
            for other in self._spellings.others(table)
            if other not in named
        ]
        for database in tables_touched(meaning)[1]:
            found += self._doubt_databases(database)
        return found

    def _doubt_databases(self, database: str) -> Iterator[TableChange]:
        casefolded = casefold_name(database)
        for table in self._catalog.known_tables():
            if table[0] != database and casefold_name(table[0]) == casefolded:
                yield self._doubt(table)
                self._catalog.set_database(table[0], DatabaseModel())
        for other in self._catalog.databases():
            if other != database and casefold_name(other) == casefolded:
                self._catalog.set_database(other, DatabaseModel())

    def _doubt(self, table: TableName, *, keeps_shape: bool = False) -> TableChange:
        before = self._catalog.table(table)
        after: TableState | None = before
        if not keeps_shape and before is not None and not isinstance(before, Unverified):
            after = Unverified(_REASON, before if isinstance(before, TableModel) else None)
            self._catalog.set_table(table, after)
        return TableChange("not_understood", table, before, after)


def _tables(meaning: Meaning) -> tuple[TableName, ...]:
    """Return the tables that a statement names, without its own temporary tables."""
    if isinstance(meaning, TruncateTable):
        return (meaning.table,)
    if isinstance(meaning, DropTables):
        return meaning.tables
    return tables_touched(meaning)[0]
