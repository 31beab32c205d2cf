"""A schema history as records: what changed since the last record is one more.

A checkpoint is saved often, and a history of thousands of tables changes by one table at a time. Its state is
a tuple of texts that grows at its end: a store writes only the new ones. A record holds all versions of some
tables and databases; what a later record says of a table counts. When more than a third of what the records
say is outdated, the oldest are left out, and what still counted of them stands in a new one: the work of a
change stays the same however many tables there are.

A record is JSON; a long one is compressed, in base64::

    {"record": 1, "place": "binlog.000003:1472", "lower_case_table_names": false, "temporary": [],
     "databases": {"shop": [{"since": …, "charset": "utf8mb4", "complete": true}]},
     "tables": {"shop": {"orders": [{"since": …, "origin": "ddl", "table": {…}}], "old": null}}}
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from replica_client.errors import SchemaError
from replica_client.schema.ddl.changes import TableName
from replica_client.schema.model import DatabaseModel
from replica_client.schema.versions import Place, Version, databases_json, databases_of_json

Databases = list[tuple[Place, DatabaseModel]]
Key = TableName | tuple[str]
"""A table, or a database."""

MAX_STATE_SIZE: Final = 1 << 30
"""Bytes that a history may have when it is unpacked."""

_VERSION: Final = 1
_RECORD_KEYS: Final = 64
_RECORD_SIZE: Final = 64 << 10
_PACKED_SIZE: Final = 2048
_SPARE_KEYS: Final = 256


class HistoryRecords:
    """The records of one history; each is written once.

    Args:
        tables: versions by table, of the history.
        databases: versions by database, of the history.
    """

    def __init__(
        self, tables: Mapping[TableName, list[Version]], databases: Mapping[str, Databases]
    ) -> None:
        self._tables, self._databases = tables, databases
        self._texts: deque[str] = deque()
        self._keys: deque[list[Key]] = deque()
        self._first = 0
        self._weight = 0
        # Number of the record in which a key stands last.
        self._latest: dict[Key, int] = {}
        # Versions of tables that have several; all but the newest were written before.
        self._written: dict[TableName, list[tuple[Version, str]]] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """All records, the oldest first."""
        return tuple(self._texts)

    def add(self, changed: Iterable[Key], head: Mapping[str, Any]) -> None:
        """Write what changed.

        Args:
            changed: tables and databases whose versions are others now, or gone.
            head: what a record says beside them.
        """
        keys = dict.fromkeys(changed)
        # What keys say twice is outdated; each record that is left out here was paid for by as many changes.
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
        begin = json.dumps(
            {"record": _VERSION, **head, "databases": databases}, separators=(",", ":")
        )
        inner = ",".join(f"{json.dumps(name)}:{{{','.join(one)}}}" for name, one in tables.items())
        self._append(_packed(f'{begin[:-1]},"tables":{{{inner}}}}}'), keys)

    def _versions_text(self, name: TableName) -> str:
        versions = self._tables.get(name)
        if versions is None:
            self._written.pop(name, None)
            return "null"
        known = self._written.get(name, ())
        texts = []
        for version in versions:
            text = next((text for one, text in known if one is version), None)
            texts.append((version, version.json_text() if text is None else text))
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

    def read(self, texts: Iterable[object]) -> list[dict[str, Any]]:
        """Take over records of a checkpoint.

        Returns:
            What each says, the oldest first; ``databases`` and ``tables`` by name, in the history's types.

        Raises:
            SchemaError: they are damaged.
        """
        found, left = [], MAX_STATE_SIZE
        for text in texts:
            if not isinstance(text, str):
                raise SchemaError("a checkpoint's schema history is not text")
            data = _unpacked(text, left)
            left -= len(data)
            record = _read_record(json.loads(data))
            self._append(text, [*record["tables"], *((name,) for name in record["databases"])])
            found.append(record)
        return found


def _read_record(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.get("record") != _VERSION:
        raise SchemaError("a checkpoint's schema history is damaged, or of a later release")
    databases = {
        str(name): None if models is None else databases_of_json(models)
        for name, models in value["databases"].items()
    }
    tables = {
        (database, name): None
        if versions is None
        else [Version.from_json(database, name, one) for one in versions]
        for database, members in value["tables"].items()
        for name, versions in members.items()
    }
    return {**value, "databases": databases, "tables": tables}


def _packed(text: str) -> str:
    if len(text) <= _PACKED_SIZE:
        return text
    return base64.b64encode(zlib.compress(text.encode("ascii"), 3)).decode("ascii")


def _unpacked(text: str, most: int) -> str | bytes:
    if text.startswith("{"):
        return text
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(text, validate=True), max(1, most))
    if not unpacker.eof:
        raise SchemaError("a checkpoint's schema history is cut, or too long")
    return data
