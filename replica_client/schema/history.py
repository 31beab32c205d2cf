"""Table definitions by binlog position.

A history holds the versions of each table's definition, and the position where each version begins.
The newest version is the current one. A history starts empty, from ``information_schema``, or from
an export; DDL statements update it.

JSON::

    {"format": "replica-client-schema", "version": 1, "place": "binlog.000003:1472",
     "databases": {"shop": {"charset": "utf8mb4", "complete": true}},
     "tables": {"shop": {"orders": [{"since": "binlog.000003:157", "origin": "ddl",
                                     "table": {"columns": [{"name": "id", "kind": "int"}, …]}}]}}}
"""

# Over 500 lines: versions, pruning and the saved form share state; records, versions and changes
# have their own modules.

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self, TypeAlias

from replica_client.errors import SchemaError, SourceChangedError
from replica_client.schema.catalog import ABSENT, Absent, TableChange, TableState, Unverified, apply
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import (
    CreateLike,
    CreateSequence,
    CreateTable,
    Meaning,
    TableName,
)
from replica_client.schema.history_records import (
    MAX_STATE_SIZE,
    Databases,
    HistoryRecords,
    Key,
    SchemaChange,
    schema_change,
)
from replica_client.schema.known_tables import (
    CaseDoubts,
    KnownTables,
    LogPosition,
    Origin,
    Spellings,
    Version,
    databases_json,
    databases_of_json,
)
from replica_client.schema.model import DatabaseModel, TableModel
from replica_client.schema.names import casefold_meaning, casefold_name, casefold_table

STATE_KEY: Final = "schema_history"
"""Name of a checkpoint's state that holds a history."""

KEPT_VERSIONS: Final = 20
"""Number of versions of a table kept from before the acknowledged position."""

KEPT_GONE: Final = 1000
"""Number of dropped tables to remember, in databases of which not all tables are known."""

_MOST_REPORTED = 1000
_FORMAT: Final = "replica-client-schema"
_VERSION: Final = 1

TemporaryTables: TypeAlias = frozenset[tuple[int, str, str]]
"""Temporary tables: the session's thread, database and name of each."""

START: Final = LogPosition("", 0, 0, "")
"""The position before all others."""


class SchemaHistory:
    """The versions of table definitions, by binlog position.

    Attributes:
        position: the history includes all statements before this position.
        revision: increased by every change.
        lower_case_names: whether names in another letter case mean the same table
            (``lower_case_table_names`` is not 0); None where that is not known: then a statement
            on ``Orders`` leaves ``orders`` unverified, and the other way round.

    Examples:
        >>> reader = rc.open_binlog("shop-bin.000001")
        >>> for change in reader.changes():
        ...     pass
        >>> reader.history.tables()
        [('shop', 'customers'), ('shop', 'orders'), ('shop', 'products')]
    """

    def __init__(self, *, lower_case_names: bool | None = None) -> None:
        self._tables = KnownTables()
        self._databases: dict[str, Databases] = {}
        self._temporary: set[tuple[int, str, str]] = set()
        # The history as records for a checkpoint, and the keys changed since; None: all changed.
        self._records: HistoryRecords | None = None
        self._parts: tuple[tuple[str, ...], object] = (), None
        self._changed: set[Key] | None = None
        # The tables that prune() must check.
        self._prunable: set[TableName] = set()
        self._moved_databases: set[str] = set()
        self._gone: dict[TableName, None] = {}
        self.position = START
        self.revision = 0
        self.lower_case_names = lower_case_names
        self._origin: Origin = "ddl"
        self._spellings = Spellings()
        self._reported: dict[str, None] = {}
        self._state: tuple[int, str] | None = None

    # The members of the Catalog protocol.

    def table(self, name: TableName) -> TableState | None:
        """Return the current state of a table; None if nothing is known."""
        versions = self._tables.get(self._casefolded(name))
        return versions[-1].state if versions else None

    def set_table(self, name: TableName, state: TableState | None) -> None:
        """Set a table's state from :attr:`position` on."""
        key = self._casefolded(name)
        versions = self._tables.setdefault(key, [])
        if self.lower_case_names is None:
            self._spellings.add(name)
        origin = "not_understood" if isinstance(state, Unverified) else self._origin
        version = Version(self.position, state, origin)
        if versions and versions[-1].since == self.position:
            versions[-1] = version
        else:
            versions.append(version)
        if len(versions) > KEPT_VERSIONS or isinstance(state, Absent):
            self._prunable.add(key)
        self._change(key)

    def database(self, name: str) -> DatabaseModel:
        """Return the current definition of a database."""
        versions = self._databases.get(self._casefold(name))
        return versions[-1][1] if versions else DatabaseModel()

    def set_database(self, name: str, model: DatabaseModel) -> None:
        """Set a database's definition from :attr:`position` on."""
        key = self._casefold(name)
        versions = self._databases.setdefault(key, [])
        if model.complete and versions and not versions[-1][1].complete:
            self._prunable.update(one for one in self._tables if one[0] == key)
        if versions and versions[-1][0] == self.position:
            versions.pop()
        versions.append((self.position, model))
        if len(versions) > 1:
            self._moved_databases.add(key)
        self._change((key,))

    def _change(self, *keys: Key) -> None:
        """Record that the state of these keys changed; without keys, that everything changed."""
        self.revision += 1
        if not keys:
            self._changed = None
        elif self._changed is not None:
            self._changed.update(keys)

    def known_tables(self, database: str | None = None) -> list[TableName]:
        """Return the tables, of a database or of all, that exist or may exist."""
        wanted = None if database is None else self._casefold(database)
        return [
            name
            for name in self._tables
            if (wanted is None or name[0] == wanted) and not self._tables.is_absent(name)
        ]

    def databases(self) -> list[str]:
        """Return the known databases."""
        return sorted(self._databases)

    def _casefold(self, name: str) -> str:
        return casefold_name(name) if self.lower_case_names else name

    def _casefolded(self, name: TableName) -> TableName:
        return casefold_table(name) if self.lower_case_names else name

    def casefold_names(self, lower_case_names: bool) -> None:
        """Set whether the server ignores the letter case of names.

        Raises:
            SourceChangedError: it does now, did not before, and a known name has capital letters.
        """
        known, self.lower_case_names = self.lower_case_names, lower_case_names
        if known is lower_case_names or not lower_case_names:
            return
        capital = [table for table in self.known_tables() if casefold_table(table) != table]
        if capital and known is False:
            self.lower_case_names = known
            raise SourceChangedError(
                "the source now has lower_case_table_names other than 0, and had 0 before: "
                f"{'.'.join(capital[0])} is now sent as {'.'.join(casefold_table(capital[0]))}, which may be "
                "another table; set it to 0, or start over with a new position"
            )
        self._refold()

    def _refold(self) -> None:
        """Move all tables to lower-case names; tables with several spellings become unverified."""
        tables, self._tables = self._tables, KnownTables()
        for name, versions in tables.items():
            key = casefold_table(name)
            if key in self._tables:
                last = max(versions[-1].since, self._tables[key][-1].since)
                reason = "it is known in several letter cases"
                self._tables[key] = [Version(last, Unverified(reason), "not_understood")]
            else:
                self._tables[key] = [
                    replace(one, state=one.state.renamed(*key))
                    if isinstance(one.state, TableModel)
                    else one
                    for one in versions
                ]
        databases, self._databases = self._databases, {}
        for database, models in databases.items():
            casefolded = casefold_name(database)
            twice = casefolded in self._databases
            self._databases[casefolded] = [(models[-1][0], DatabaseModel())] if twice else models
        self._temporary = {
            (thread, *casefold_table((db, name))) for thread, db, name in self._temporary
        }
        self._change()
        self._look_through()

    # Statements and positions.

    def run(
        self, text: str, context: StatementContext, file: str = "", offset: int = 0
    ) -> list[TableChange]:
        """Apply a statement of the binlog.

        Args:
            text: the statement.
            context: of its session.
            file: binlog file of the statement.
            offset: the statement's offset in that file.

        Returns:
            the changes.
        """
        return self.apply(read_statement(text, context), context, file, offset)

    def apply(
        self, meaning: Meaning, context: StatementContext, file: str = "", offset: int = 0
    ) -> list[TableChange]:
        """Apply a parsed statement; see :meth:`run`."""
        before = self.revision
        position, self.position = self.position, LogPosition.of(file, offset)
        if self.lower_case_names:
            meaning = casefold_meaning(meaning)
        elif self.lower_case_names is None:
            self.lower_case_names = self._tells_case(meaning, context)
        doubts = None
        if self.lower_case_names is None:
            doubts = CaseDoubts(self, self._spellings, self._temporary, context.thread_id)
            meaning = doubts.certain_part(meaning)
        changes = apply(self, meaning, context, self._temporary, self._in_other_case)
        if doubts is not None:
            changes += doubts.spread(meaning)
        is_temporary = getattr(meaning, "temporary", False)
        if self.revision == before and not changes and not is_temporary:
            self.position = position
        return changes

    def _in_other_case(self, name: TableName) -> bool:
        """Return whether a known table may have this name in another letter case."""
        return self.lower_case_names is None and any(
            not isinstance(self.table(one), Absent) for one in self._spellings.others(name)
        )

    def _tells_case(self, meaning: Meaning, context: StatementContext) -> bool | None:
        """Return False if a statement proves that letter case distinguishes tables, else None."""
        made = isinstance(meaning, (CreateTable, CreateLike, CreateSequence))
        if not made or context.error_code:
            return None
        assert isinstance(meaning, (CreateTable, CreateLike, CreateSequence))
        if meaning.if_not_exists or meaning.or_replace or meaning.temporary:
            return None
        others = self._spellings.others(meaning.table)
        return False if any(isinstance(self.table(one), TableModel) for one in others) else None

    def adopt(self, model: TableModel, origin: Origin = "information_schema") -> None:
        """Set a table's definition, which is verified for :attr:`position`."""
        self._origin = origin
        name = self._casefolded((model.database, model.name))
        self.set_table(name, model.renamed(*name))
        self._origin = "ddl"

    def is_temporary(self, thread_id: int, name: TableName) -> bool:
        """Return whether a name is that of a temporary table in a session."""
        return (thread_id, *self._casefolded(name)) in self._temporary

    @property
    def temporary_tables(self) -> TemporaryTables:
        """The temporary tables of all sessions."""
        return frozenset(self._temporary)

    @temporary_tables.setter
    def temporary_tables(self, tables: TemporaryTables) -> None:
        self._temporary = set(tables)
        self.revision += 1

    def hide(self, thread_id: int, name: TableName) -> None:
        """Record a session's temporary table, which hides another table of the same name."""
        self._temporary.add((thread_id, *self._casefolded(name)))
        self.revision += 1

    def forget_temporary(self) -> None:
        """Forget all temporary tables: they do not survive a restart of the server."""
        if self._temporary:
            self._temporary.clear()
            self.revision += 1

    def versions(self, name: TableName) -> tuple[Version, ...]:
        """Return all versions of a table, the oldest first."""
        return tuple(self._tables.get(self._casefolded(name), ()))

    def tables(self) -> list[TableName]:
        """Return all tables that have versions, including dropped ones."""
        return sorted(self._tables)

    def rewind(self, file: str, offset: int) -> None:
        """Forget what begins at or after a position, to read on from there."""
        limit = LogPosition.of(file, offset)
        changed: list[Key] = []
        for name in self._tables.changed_since(limit):
            changed.append(name)
            kept = [version for version in self._tables[name] if version.since < limit]
            if kept:
                self._tables[name] = kept
            else:
                del self._tables[name]
        for database, models in list(self._databases.items()):
            if models[-1][0] < limit:
                continue
            changed.append((database,))
            left = [(since, model) for since, model in models if since < limit]
            if left:
                self._databases[database] = left
            else:
                del self._databases[database]
        self.position = min(self.position, limit)
        self.revision += 1
        if changed:
            self._change(*changed)
            self._look_through()

    def roll_back(self, file: str, offset: int) -> None:
        """Forget the changes of a transaction that began at a position and was rolled back.

        Tables that it dropped stay dropped: MariaDB logs the DROP of a failed CREATE OR REPLACE …
        SELECT in this way.
        """
        limit = LogPosition.of(file, offset)
        dropped = [
            (name, self._tables[name][-1].since)
            for name in self._tables.changed_since(limit)
            if self._tables.is_absent(name)
        ]
        self.rewind(file, offset)
        for name, since in dropped:
            self.position = since
            self.set_table(name, ABSENT)

    def forget_positions(self) -> None:
        """Set all current states as known from the start, as another server's binlog follows."""
        self.forget_temporary()
        for name in self._tables:
            self._tables[name] = [replace(self._tables[name][-1], since=START)]
        self._databases = {
            name: [(START, models[-1][1])] for name, models in self._databases.items()
        }
        self.position = START
        self._change()
        self._look_through()

    def moved(self, position: LogPosition) -> SchemaHistory:
        """Return a history with only the current states, known from another position on."""
        other = SchemaHistory(lower_case_names=self.lower_case_names)
        other.position = position
        for name in self._databases:
            other.set_database(name, self.database(name))
        for table, versions in self._tables.items():
            other._tables[table] = [Version(position, versions[-1].state, versions[-1].origin)]
            other._spellings.add(table)
        other._look_through()
        return other

    def prune(self, file: str, offset: int, keep: int = KEPT_VERSIONS) -> None:
        """Keep `keep` versions of each table from before a position, and all later versions."""
        limit = LogPosition.of(file, offset)
        for name in tuple(self._prunable if keep >= KEPT_VERSIONS else self._tables):
            versions = self._tables.get(name)
            if versions is None:
                self._prunable.discard(name)
                continue
            current = sum(version.since < limit for version in versions) - 1
            if current >= keep:
                del versions[: current - keep + 1]
                current = keep - 1
                self._mark(name)
            absent = isinstance(versions[-1].state, Absent)
            if current == len(versions) - 1 and absent and self.database(name[0]).complete:
                del self._tables[name]
                self._mark(name)
            elif len(versions) <= KEPT_VERSIONS and not (
                absent and self.database(name[0]).complete
            ):
                self._prunable.discard(name)
                if absent and current == len(versions) - 1:
                    self._gone[name] = None
        while len(self._gone) > KEPT_GONE:
            # Forgetting the table loses knowledge, but is never wrong.
            name = next(iter(self._gone))
            del self._gone[name]
            if isinstance(self.table(name), Absent) and self._tables[name][-1].since < limit:
                del self._tables[name]
                self._mark(name)
        for database in tuple(self._moved_databases):
            models = self._databases.get(database, [])
            current = sum(since < limit for since, _ in models) - 1
            if current > 0:
                del models[:current]
                self._mark((database,))
            if len(models) <= 1:
                self._moved_databases.discard(database)

    def _mark(self, key: Key) -> None:
        """Record that a checkpoint must write a key again, although its current state is equal."""
        if self._changed is not None:
            self._changed.add(key)

    def _look_through(self) -> None:
        """Find the tables that :meth:`prune` must check."""
        self._prunable = {
            name
            for name in self._tables
            if self._tables.is_longer(name, KEPT_VERSIONS) or self._tables.is_absent(name)
        }
        self._moved_databases = {
            name for name, models in self._databases.items() if len(models) > 1
        }

    def copy(self) -> SchemaHistory:
        """Return an independent copy."""
        other = SchemaHistory(lower_case_names=self.lower_case_names)
        other._tables = self._tables.copy()
        other._databases = {name: list(models) for name, models in self._databases.items()}
        other._temporary = set(self._temporary)
        other._spellings = self._spellings.copy()
        other._reported = self._reported
        other.position = self.position
        other._look_through()
        return other

    def is_new(self, text: str) -> bool:
        """Record a text as reported; return whether it was not reported yet.

        Copies share the record, which has a limit: beyond it the oldest text counts as new again.
        """
        if text in self._reported:
            return False
        while len(self._reported) >= _MOST_REPORTED:
            del self._reported[next(iter(self._reported))]
        self._reported[text] = None
        return True

    # Saving and loading.

    def to_json(self) -> dict[str, Any]:
        """Return the whole history as JSON."""
        tables: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for (database, name), versions in sorted(self._tables.items()):
            tables.setdefault(database, {})[name] = [one.to_json() for one in versions]
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "place": str(self.position),
            "lower_case_table_names": self.lower_case_names,
            "databases": {
                name: databases_json(models) for name, models in sorted(self._databases.items())
            },
            "tables": tables,
            "temporary": sorted(self._temporary),
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the history that :meth:`to_json` saved.

        Raises:
            SchemaError: the value is not a valid history.
        """
        if not isinstance(value, Mapping) or value.get("format") != _FORMAT:
            raise SchemaError("it is not a schema history")
        if value.get("version") != _VERSION:
            raise SchemaError(
                f"schema history of version {value.get('version')!r}; this release reads {_VERSION}"
            )
        try:
            return cls._read(value)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"a damaged schema history: {error!r}"[:200]) from error

    @classmethod
    def _read(cls, value: Mapping[str, Any]) -> Self:
        casefolds = value.get("lower_case_table_names", value.get("lower_case_names") or None)
        self = cls(lower_case_names=None if casefolds is None else bool(casefolds))
        for database, models in value["databases"].items():
            self._databases[database] = databases_of_json(models)
        for database, tables in value["tables"].items():
            for name, versions in tables.items():
                self._spellings.add((database, name))
                self._tables[database, name] = [
                    Version.from_json(database, name, one) for one in versions
                ]
        for thread, database, name in value.get("temporary", ()):
            self._temporary.add((int(thread), str(database), str(name)))
        self.position = LogPosition.parse(value["place"])
        self._look_through()
        return self

    def to_state(self) -> str:
        """Return the history as a short text for a checkpoint; cached until the next change."""
        if self._state is None or self._state[0] != self.revision:
            data = json.dumps(self.to_json(), separators=(",", ":")).encode("ascii")
            self._state = (self.revision, base64.b64encode(zlib.compress(data)).decode("ascii"))
        return self._state[1]

    def to_parts(self, *, defaults: bool = False) -> tuple[str, ...]:
        """Return the history as texts, for a checkpoint that is saved often.

        A change appends to the tuple, and sometimes removes from its beginning; the other texts
        stay the same. The cost depends on the change, not on the number of tables.

        Args:
            defaults: include the defaults and comments of columns. Without them, those of a loaded
                checkpoint are left out too: then everything is written again.
        """
        head = {
            "lower_case_table_names": self.lower_case_names,
            "temporary": sorted(self._temporary),
        }
        records = self._records
        if records is None or self._changed is None or (records.has_defaults and not defaults):
            self._records = HistoryRecords(self._tables, self._databases, defaults=defaults)
            self._changed = {*self._tables, *((name,) for name in self._databases)}
        elif not self._changed and self._parts[1] == head:
            return self._parts[0]
        else:
            records.defaults = defaults
            records.has_defaults |= defaults
        assert self._records is not None
        self._records.add(self._changed, {"place": str(self.position), **head})
        self._changed = set()
        self._parts = self._records.texts, head
        return self._parts[0]

    @classmethod
    def from_state(cls, state: object) -> Self:
        """Return the history that :meth:`to_state` or :meth:`to_parts` saved.

        Raises:
            SchemaError: the state is not a valid history.
        """
        try:
            if isinstance(state, (list, tuple)):
                return cls._of_records(state)
            if not isinstance(state, str):
                raise SchemaError("a checkpoint's schema history is not text")
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(base64.b64decode(state, validate=True), MAX_STATE_SIZE)
            if not unpacker.eof:
                raise SchemaError("a checkpoint's schema history is cut, or too long")
            return cls.from_json(json.loads(data))
        except (ValueError, zlib.error, RecursionError) as error:
            raise SchemaError(f"a checkpoint's schema history is damaged: {error}") from error

    @classmethod
    def _of_records(cls, texts: Sequence[object]) -> Self:
        self = cls()
        records = self._records = HistoryRecords(self._tables, self._databases)
        head: dict[str, Any] = {}
        try:
            for record in records.read(texts):
                record.add_to(self._tables)
                for name, models in record.databases.items():
                    if models is None:
                        self._databases.pop(name, None)
                    else:
                        self._databases[name] = models
                head = record.head
            casefolds = head.get("lower_case_table_names")
            self.lower_case_names = None if casefolds is None else bool(casefolds)
            for thread, database, name in head.get("temporary", ()):
                self._temporary.add((int(thread), str(database), str(name)))
            if head:
                self.position = LogPosition.parse(head["place"])
        except (AttributeError, KeyError, TypeError) as error:
            raise SchemaError(f"a damaged schema history: {error!r}"[:200]) from error
        if self.lower_case_names is None:
            for table in self._tables:
                self._spellings.add(table)
        self._changed = set()
        known = {key: head.get(key) for key in ("lower_case_table_names", "temporary")}
        self._parts = records.texts, {**known, "temporary": sorted(self._temporary)}
        self._look_through()
        return self


__all__ = [
    "START",
    "STATE_KEY",
    "LogPosition",
    "Origin",
    "SchemaChange",
    "SchemaHistory",
    "Version",
    "schema_change",
]
