"""Records of a schema history, and schema changes.

A checkpoint is saved often, and a history of thousands of tables changes by one table at a time.
Its state is a tuple of texts that grows at its end, so a store writes only the new texts. A record
holds all versions of some tables and databases, and replaces what earlier records say of them. When
more than a third of the records' content is outdated, the oldest records are dropped, and a new
record holds their current content. The cost of a change does not depend on the number of tables.

A record is JSON::

    {"record": 1, "place": "binlog.000003:1472", "lower_case_table_names": false, "temporary": [],
     "databases": {"shop": [{"since": …, "charset": "utf8mb4", "complete": true}]},
     "tables": {"shop": {"orders": [{"since": …, "origin": "ddl", "table": {…}}], "old": null}}}

A record with ``"defaults": true`` has the defaults and comments of columns.

In a long record the versions are compressed, in base64. So that versions are only unpacked when
needed, the record lists its tables: existing ones (``tables``), dropped ones (``absent``), those no
longer known (``forgotten``), and those with many versions (``long``)::

    {"record": 2, …, "tables": {"shop": ["orders"]}, "absent": {"shop": ["gone"]}, "forgotten": {"shop": ["old"]},
     "long": {}, "packed": "…"}

Earlier releases compressed long records as a whole.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from replica_client.errors import SchemaError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.catalog import Absent, TableChange, Unverified
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.known_tables import (
    KnownTables,
    LogPosition,
    Unread,
    Version,
    databases_json,
    databases_of_json,
)
from replica_client.schema.model import DatabaseModel, TableModel

Databases = list[tuple[LogPosition, DatabaseModel]]
Key = TableName | tuple[str]
"""Database and table, or database alone."""

MAX_STATE_SIZE: Final = 1 << 30
"""The most bytes of an unpacked history."""

_VERSION: Final = 1
_VERSION_LISTED: Final = 2
_RECORD_KEYS: Final = 64
_RECORD_SIZE: Final = 64 << 10
_PACKED_SIZE: Final = 2048
_SPARE_KEYS: Final = 256
_MANY_VERSIONS: Final = 10
_DEFAULTS: Final = "defaults"

_Names = dict[str, list[str]]
"""Tables by database."""


class HistoryRecords:
    """The records of one history; each record is written once.

    Args:
        tables: versions by table.
        databases: versions by database.
        defaults: whether new records have the defaults and comments of columns.

    Attributes:
        defaults: see above.
        has_defaults: whether any record may have defaults and comments.
    """

    def __init__(
        self,
        tables: Mapping[TableName, list[Version]],
        databases: Mapping[str, Databases],
        *,
        defaults: bool = False,
    ) -> None:
        self._tables, self._databases = tables, databases
        self.defaults = self.has_defaults = defaults
        self._texts: deque[str] = deque()
        self._keys: deque[list[Key]] = deque()
        self._first = 0
        self._weight = 0
        # Number of the last record that has a key.
        self._latest: dict[Key, int] = {}
        # Versions with their JSON, of tables with several: all but the newest stay the same.
        self._written: dict[TableName, list[tuple[Version, str]]] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """All records, the oldest first."""
        return tuple(self._texts)

    def add(self, changed: Iterable[Key], head: Mapping[str, Any]) -> None:
        """Write the changed tables and databases into new records.

        Args:
            changed: the keys whose versions changed.
            head: the other members of the record.
        """
        if self.defaults:
            head = {**head, _DEFAULTS: True}
        keys = dict.fromkeys(changed)
        # Keys in several records are outdated in all but the last: drop the oldest records.
        live = len(self._tables) + len(self._databases)
        most = live + live // 2 + _SPARE_KEYS
        while self._texts and self._weight + len(keys) > most:
            self._drop_first(keys)
        waiting = list(keys)
        for start in range(0, max(1, len(waiting)), _RECORD_KEYS):
            self._write(waiting[start : start + _RECORD_KEYS], head)

    def _drop_first(self, keys: dict[Key, None]) -> None:
        self._texts.popleft()
        written = self._keys.popleft()
        self._weight -= max(1, len(written))
        for key in written:
            if self._latest.get(key) == self._first:
                del self._latest[key]
                if self._is_there(key):
                    keys[key] = None
        self._first += 1

    def _is_there(self, key: Key) -> bool:
        return (key[0] in self._databases) if len(key) == 1 else (key in self._tables)

    def _write(self, keys: list[Key], head: Mapping[str, Any]) -> None:
        databases: dict[str, Any] = {}
        tables: dict[str, list[str]] = {}
        size = 0
        for at, key in enumerate(keys):
            if len(key) == 1:
                models = self._databases.get(key[0])
                databases[key[0]] = None if models is None else databases_json(models)
                continue
            text = self._versions_text(key)
            tables.setdefault(key[0], []).append(f"{json.dumps(key[1])}:{text}")
            size += len(text)
            if size > _RECORD_SIZE and at + 1 < len(keys):
                self._write(keys[: at + 1], head)
                self._write(keys[at + 1 :], head)
                return
        inner = ",".join(f"{json.dumps(name)}:{{{','.join(one)}}}" for name, one in tables.items())
        said: dict[str, Any] = {"record": _VERSION, **head, "databases": databases}
        if size > _PACKED_SIZE:
            said["record"] = _VERSION_LISTED
            names = ("tables", "absent", "forgotten", "long")
            said |= zip(names, self._lists(keys), strict=True)
            self._append(_compact({**said, "packed": _deflated(f"{{{inner}}}")}), keys)
        else:
            self._append(f'{_compact(said)[:-1]},"tables":{{{inner}}}}}', keys)

    def _lists(self, keys: Iterable[Key]) -> list[_Names]:
        """Sort tables into existing, absent, forgotten, and those with many versions."""
        lists: tuple[_Names, ...] = {}, {}, {}, {}
        for key in keys:
            if len(key) == 1:
                continue
            versions = self._tables.get(key)
            if versions is None:
                lists[2].setdefault(key[0], []).append(key[1])
                continue
            absent = versions[-1].state is None or isinstance(versions[-1].state, Absent)
            lists[absent].setdefault(key[0], []).append(key[1])
            if len(versions) >= _MANY_VERSIONS:
                lists[3].setdefault(key[0], []).append(key[1])
        return list(lists)

    def _versions_text(self, name: TableName) -> str:
        versions = self._tables.get(name)
        if versions is None:
            self._written.pop(name, None)
            return "null"
        known = self._written.get(name, ())
        texts = []
        for version in versions:
            text = next((text for one, text in known if one is version), None)
            if text is None:
                text = version.json_text(defaults=self.defaults)
            texts.append((version, text))
        if len(texts) > 1:
            self._written[name] = texts
        else:
            self._written.pop(name, None)
        return f"[{','.join(text for _, text in texts)}]"

    def _append(self, text: str, keys: list[Key]) -> None:
        number = self._first + len(self._texts)
        self._texts.append(text)
        self._keys.append(keys)
        self._weight += max(1, len(keys))
        self._latest.update(dict.fromkeys(keys, number))

    def read(self, texts: Iterable[object]) -> list[ReadRecord]:
        """Take over the records of a checkpoint.

        Returns:
            the parsed records, the oldest first.

        Raises:
            SchemaError: the records are damaged.
        """
        found, left = [], MAX_STATE_SIZE
        for text in texts:
            if not isinstance(text, str):
                raise SchemaError("a checkpoint's schema history is not text")
            record = ReadRecord(text, left)
            left -= record.size
            self.has_defaults |= bool(record.head.get(_DEFAULTS))
            self._append(text, record.keys)
            found.append(record)
        return found


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


class ReadRecord:
    """A record of a checkpoint.

    Args:
        text: of the record.
        most: the most bytes that it may have when it is unpacked.

    Attributes:
        head: the members other than tables and databases.
        databases: versions by database; None for forgotten ones.
        position: all versions begin at or before this position.
        size: bytes that it has, or may have.

    Raises:
        SchemaError: the record is damaged.
    """

    def __init__(self, text: str, most: int) -> None:
        data = _unpacked(text, most)
        value = json.loads(data)
        if not isinstance(value, dict) or value.get("record") not in (_VERSION, _VERSION_LISTED):
            raise SchemaError("a checkpoint's schema history is damaged, or of a later release")
        self.size = len(data)
        self.databases = {
            str(name): None if models is None else databases_of_json(models)
            for name, models in value.pop("databases").items()
        }
        tables = value.pop("tables")
        self._packed: str | None = value.pop("packed", None)
        self._body: dict[str, dict[str, Any]] = {}
        if value["record"] == _VERSION:
            self._body = tables
            listed = _listed(tables)
        else:
            listed = [tables, *(value.pop(name) for name in ("absent", "forgotten", "long"))]
        self._there, self._absent, self._forgotten, self._long = map(_names, listed)
        self.head: dict[str, Any] = value
        self.position = LogPosition.parse(value["place"])

    @property
    def keys(self) -> list[Key]:
        """The tables and databases in the record."""
        databases: list[Key] = [(name,) for name in self.databases]
        return [*self._there, *self._absent, *self._forgotten, *databases]

    def add_to(self, known: KnownTables) -> None:
        """Add the record's tables to the known tables, replacing earlier records."""
        long = set(self._long)
        for names, absent in ((self._there, False), (self._absent, True)):
            short = Unread(self, absent, False)
            for name in names:
                known.add_unread(name, short if name not in long else Unread(self, absent, True))
        for name in self._forgotten:
            known.discard(name)

    def body(self) -> dict[str, dict[str, Any]]:
        if self._packed is None:
            return self._body
        try:
            found: dict[str, dict[str, Any]] = json.loads(_inflated(self._packed, MAX_STATE_SIZE))
        except (ValueError, zlib.error, RecursionError) as error:
            raise SchemaError(f"a checkpoint's schema history is damaged: {error}") from error
        return found


def _names(listed: _Names) -> list[TableName]:
    return [(database, name) for database, names in listed.items() for name in names]


def _listed(tables: Mapping[str, Mapping[str, Any]]) -> list[_Names]:
    """Sort tables into existing, absent, forgotten, and those with many versions, from JSON."""
    lists: tuple[_Names, ...] = {}, {}, {}, {}
    for database, members in tables.items():
        for name, versions in members.items():
            if not versions:
                lists[2].setdefault(database, []).append(name)
                continue
            newest = versions[-1]
            there = "table" in newest or "unverified" in newest
            lists[0 if there else 1].setdefault(database, []).append(name)
            if len(versions) >= _MANY_VERSIONS:
                lists[3].setdefault(database, []).append(name)
    return list(lists)


def _unpacked(text: str, most: int) -> str | bytes:
    return text if text.startswith("{") else _inflated(text, most)


def _deflated(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode("ascii"), 3)).decode("ascii")


def _inflated(text: str, most: int) -> bytes:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(text, validate=True), max(1, most))
    if not unpacker.eof:
        raise SchemaError("a checkpoint's schema history is cut, or too long")
    return data


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A change to a table or database by a statement.

    There is one object for each selected table that the statement names; a swap by RENAME gives
    three. Statements that change no table's shape and no rows (CREATE INDEX, views, routines,
    OPTIMIZE …) give none. Changes come in binlog order: in ``Transaction.schema_changes`` and
    ``Transaction.items``, and from ``changes(notices=True)`` and ``batches(notices=True)``, for
    files and live sources. The attributes and kinds are stable.

    Attributes:
        kind: ``create_table``, ``alter_table``, ``rename_table``, ``drop_table``,
            ``truncate_table``, ``create_database``, ``alter_database``, ``drop_database`` or
            ``not_understood``.
        database: of the table, before a rename.
        table: the name before a rename; ``""`` for a change of a database.
        before: the definition before; None if there was none, or it is not known.
        after: the definition now, under the new name; None if the table was dropped, or its
            definition is not known.
        understood: False if :attr:`after` must be verified before rows of the table are read.
        statement: the statement's text.
        file: binlog file of the statement.
        position: offset of the statement in the file.
        event_index: index of the statement's event in the transaction.
        context: of its session; None where it is not known.
        server_id: of the server that ran the statement.
        merged: whether a transform merges several tables, of which this is one.
        new_name: database and table from now on if the name changes, also if the definition is not
            known; else None.

    Examples:
        >>> items = rc.open_binlog("shop-bin.000001").changes(notices=True)
        >>> made = [item for item in items if isinstance(item, rc.SchemaChange)]
        >>> [(one.kind, one.table) for one in made[:2]]
        [('create_database', ''), ('create_table', 'customers')]
    """

    kind: str
    database: str
    table: str
    before: TableModel | None
    after: TableModel | None
    understood: bool
    statement: str
    file: str = ""
    position: int = 0
    event_index: int = 0
    context: StatementContext | None = None
    server_id: int = 0
    merged: bool = False
    new_name: tuple[str, str] | None = None

    @property
    def name_after(self) -> tuple[str, str]:
        """Database and table after the statement."""
        if self.new_name is not None:
            return self.new_name
        if self.after is not None:
            return self.after.database, self.after.name
        return self.database, self.table


def schema_change(
    change: TableChange,
    statement: str,
    file: str,
    position: int,
    event_index: int,
    context: StatementContext | None = None,
    server_id: int = 0,
) -> SchemaChange:
    """Return a catalog's change in the form for consumers."""
    return SchemaChange(
        change.kind,
        *change.table,
        change.before if isinstance(change.before, TableModel) else None,
        change.after if isinstance(change.after, TableModel) else None,
        change.kind != "not_understood"
        and (not isinstance(change.after, Unverified))
        and (change.after is not None or not change.table[1]),
        statement,
        file,
        position,
        event_index,
        context,
        server_id,
        new_name=change.new_name,
    )
