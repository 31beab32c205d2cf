"""Offsets that Debezium saved: Kafka Connect's file of offsets, its REST answer, or records of its topic.

The file is a Java object: a HashMap of byte arrays, JSON in both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from replica_client.errors import ConfigError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.service.migration.migrated import (
    Keys,
    Migrated,
    list_of,
    names_of,
    read_bounded,
)

_MAGIC: Final = b"\xac\xed\x00\x05"
_HASH_MAP: Final = b"java.util.HashMap"
_BYTES: Final = b"[B"
_OBJECT, _CLASS, _REFERENCE, _ARRAY = 0x73, 0x72, 0x71, 0x75
_BLOCK, _END, _NULL = 0x77, 0x78, 0x70
_MAX_ENTRIES: Final = 100_000


@dataclass(frozen=True, slots=True)
class SavedOffset:
    """The position of another tool.

    Attributes:
        start: a value for ``start`` of a source.
        remarks: notes for the user about it.
    """

    start: str
    remarks: tuple[str, ...] = ()


def read_offset(path: Path, server: str) -> SavedOffset:
    """Read the offset of a connector from a file.

    Args:
        path: the file.
        server: ``topic.prefix`` of the connector; chooses among several offsets.

    Raises:
        ConfigError: the file has no such offset, or several.
        OSError: the file cannot be read.
    """
    data = read_bounded(path)
    try:
        if data.startswith(_MAGIC):
            found = list(_from_map(data))
        else:
            found = list(_from_text(data.decode("utf-8-sig")))
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{path}: these are not offsets of Kafka Connect") from None
    by_server = {name: offset for name, offset in found if offset is not None}
    if len(by_server) > 1:
        by_server = {name: one for name, one in by_server.items() if name == server}
    if len(by_server) != 1:
        names = ", ".join(sorted(name for name, _ in found)) or "none"
        raise ConfigError(f"{path}: there is no offset of the server {server!r}, only of {names}")
    (offset,) = by_server.values()
    try:
        return _meaning(offset)
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"{path}: the offset has no file and pos of a binlog") from None


def _meaning(offset: Mapping[str, Any]) -> SavedOffset:
    remarks = []
    snapshot = str(offset.get("snapshot") or "false").lower()
    if snapshot not in ("false", "last"):
        remarks.append("Debezium was in its snapshot: take snapshot = true, and remove start.")
    if int(offset.get("event") or 0) or int(offset.get("row") or 0):
        remarks.append("Debezium was inside a transaction: its rows come again.")
    gtids = str(offset.get("gtids") or "").replace("\n", "")
    if gtids:
        kind = GtidSet if ":" in gtids else MariadbGtidSet
        kind.parse(gtids)
        return SavedOffset(gtids, tuple(remarks))
    file, at = str(offset["file"]), int(offset["pos"])
    if not file or at < 0 or ":" in file:
        raise ValueError
    return SavedOffset(f"{file}:{at}", tuple(remarks))


def _from_text(text: str) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield offsets by server from JSON, or from lines of key and value, the last one valid."""
    try:
        found = json.loads(text)
    except ValueError:
        for line in text.splitlines():
            if line.strip():
                key, _, value = line.partition("\t")
                yield _server(json.loads(key)), _offset(value.strip())
        return
    if isinstance(found, Mapping) and isinstance(found.get("offsets"), list):
        for one in found["offsets"]:
            yield str(one["partition"].get("server", "")), _offset(json.dumps(one["offset"]))
        return
    if not isinstance(found, Mapping):
        raise TypeError
    yield "", found


def _offset(text: str) -> Mapping[str, Any] | None:
    """Parse an offset; None if it was removed."""
    found = json.loads(text) if text else None
    if found is not None and not isinstance(found, Mapping):
        raise TypeError
    return found


def _server(key: Any) -> str:
    if isinstance(key, list) and len(key) == 2:
        key = key[1]
    if isinstance(key, Mapping) and isinstance(key.get("payload"), list):
        key = key["payload"][1]
    if not isinstance(key, Mapping):
        raise TypeError
    return str(key.get("server", ""))


def _from_map(data: bytes) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    reader = _JavaReader(data)
    for key, value in reader.entries():
        if key is not None:
            text = "" if value is None else value.decode()
            yield _server(json.loads(key)), _offset(text)


class _JavaReader:
    """A reader of a serialized ``HashMap<byte[], byte[]>``, and nothing else."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, len(_MAGIC)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ValueError
        part = self._data[self._at : end]
        self._at = end
        return part

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _wanted(self, code: int) -> None:
        if self._number(1) != code:
            raise ValueError

    def _class(self, name: bytes) -> None:
        """Read a class description, or the reference to an earlier one."""
        code = self._number(1)
        if code == _REFERENCE:
            self._take(4)
            return
        if code != _CLASS or self._take(self._number(2)) != name:
            raise ValueError
        self._take(9)  # its version and flags
        for _ in range(self._number(2)):
            self._take(1)
            self._take(self._number(2))
        self._wanted(_END)
        if self._number(1) != _NULL:
            raise ValueError

    def entries(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield the keys and values."""
        self._wanted(_OBJECT)
        self._class(_HASH_MAP)
        self._take(8)  # load factor, threshold
        self._wanted(_BLOCK)
        if self._number(1) != 8:
            raise ValueError
        self._take(4)
        count = self._number(4)
        if count > _MAX_ENTRIES:
            raise ValueError
        for _ in range(count):
            yield self._array(), self._array()

    def _array(self) -> bytes | None:
        code = self._number(1)
        if code == _NULL:
            return None
        if code != _ARRAY:
            raise ValueError
        self._class(_BYTES)
        return self._take(self._number(4))


TRANSFORMS: Final = "write it as [[source.transform]], or do it in the consumer"
_HASH: Final = re.compile(r"column\.mask\.hash(\.v2)?\.[^.]+\.with\.salt\..*", re.DOTALL)
_PART: Final = re.compile(r"column\.(?:mask\.with|truncate\.to)\.[0-9]+\.chars")


def take_columns(made: Migrated, keys: Keys) -> None:
    """Convert excluded, masked and truncated columns to a transform for each table.

    A hash of Debezium has no counterpart with the same values: its columns are dropped.
    """
    found: dict[str, dict[str, Any]] = {}
    included: dict[str, list[str]] = {}
    for key in list(keys.left()):
        mask = re.fullmatch(r"column\.mask\.with\.([0-9]{1,4})\.chars", key)
        cut = re.fullmatch(r"column\.truncate\.to\.([0-9]{1,4})\.chars", key)
        is_included = key == "column.include.list"
        hashed = _HASH.fullmatch(key) or (key.startswith("column.mask") and not mask)
        if not (key == "column.exclude.list" or is_included or mask or cut or hashed):
            if _PART.fullmatch(key):
                keys.give_up(key, "a number of characters up to 9999")
                made.unprotected.append(key)
            continue
        for expression in list_of(keys.take(key)):
            names_found = names_of(expression, 3)
            if names_found is None:
                # The key of a hash has its salt.
                shown = "column.mask.hash" if hashed else key
                keys.give_up(
                    shown, "a regular expression in it has no pattern: [[source.transform]]"
                )
                made.unprotected.append(shown)
            for names in names_found or ():
                table = ".".join(names[:2])
                if is_included:
                    included.setdefault(table, []).append(names[2])
                    continue
                rules = found.setdefault(table, {})
                if mask:
                    rules.setdefault("mask", {})[names[2]] = "*" * int(mask[1])
                elif cut:
                    rules.setdefault("truncate", {})[names[2]] = int(cut[1])
                else:
                    rules.setdefault("drop", []).append(names[2])
        if hashed:
            made.remarks.append(
                "Columns that Debezium hashes are dropped: hash of a [[source.transform]] gives other values."
            )
    for table, columns in included.items():
        found.setdefault(table, {})["keep"] = columns
    for table, rules in found.items():
        made.transforms.append({"tables": [table], "keep": ["*"], **rules})
    if any("keep" not in rules for rules in found.values()):
        made.remarks.append(
            'Transforms let through what they do not name (keep = ["*"]), as Debezium does.'
        )
    if included:
        made.remarks.append(
            "Debezium leaves out tables that column.include.list does not name; here they are whole."
        )


_HARMLESS: Final = frozenset(
    (
        *(
            "ExtractNewRecordState",
            "ByLogicalTableRouter",
            "RegexRouter",
            "TimestampRouter",
            "HeaderToValue",
        ),
        *(
            "ExtractChangedRecordState",
            "PartitionRouting",
            "TimezoneConverter",
            "InsertHeader",
            "InsertField",
        ),
        *(
            "TimestampConverter",
            "Cast",
            "HoistField",
            "SetSchemaMetadata",
            "ValueToKey",
            "ExtractField",
            "Flatten",
        ),
        *("SchemaChangeEventFilter", "DropHeaders", "HeaderFrom", "VectorToJsonConverter"),
    )
)
"""Transforms that hide no value: they rename, route, convert or add."""


def take_transform(made: Migrated, keys: Keys, start: str, kind: str) -> None:
    """Drop the fields that a transform hides; read nothing if it may hide others."""
    name = kind.rpartition(".")[2].removesuffix("$Value").removesuffix("$Key")
    fields = list_of(keys.take(start + "fields", start + "exclude", start + "blacklist"))
    has_predicate = bool(keys.take(start + "predicate"))
    if name in ("MaskField", "ReplaceField") and fields and not has_predicate:
        # Fields of a row are columns once another transform took the row out of its envelope.
        columns = [one.rpartition(".")[2] for one in fields]
        made.drop(dict.fromkeys(made.source.get("tables", ["*.*"]), columns))
        made.remarks.append(f"{name}: its fields are dropped.")
        return
    keys.give_up(start + "type", TRANSFORMS)
    renames = name == "ReplaceField" and not (
        start + "include" in keys or start + "whitelist" in keys
    )
    if name not in _HARMLESS and not renames:
        made.unprotected.append(start + "type")
